//! A policy that cannot be used is refused at start, in words that say what to do.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use scenarios::controller_binary;

use crate::support::PolicyFolder;

/// What the controller says when it does not start with these flags. It needs neither Kubernetes
/// nor MAAS to find out.
fn refused_at_start(flags: &[String]) -> Result<String> {
    let output = Command::new(controller_binary()?)
        .args(["--health-addr=127.0.0.1:0", "--log=info"])
        .args(flags)
        .env_clear()
        .env("KUBECONFIG", "/nonexistent")
        .env("MAAS_ENDPOINT", "http://127.0.0.1:1/MAAS")
        .env("MAAS_API_KEY", "a:b:c")
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.code() == Some(1), "it started: {said}");
    ensure!(!said.contains("panicked"), "{said}");
    let last = said.lines().last().unwrap_or_default().to_owned();
    ensure!(last.starts_with("capmaas: "), "the last line says why: {said}");
    Ok(last)
}

/// The same with one file as allocation policy.
fn refused_component(bytes: &[u8]) -> Result<String> {
    let folder = PolicyFolder::new()?.file("bad.wasm", bytes)?;
    let mut flags = folder.flags();
    flags.push("--policy=allocation=bad.wasm".into());
    let said = refused_at_start(&flags)?;
    ensure!(said.contains("allocation policy bad.wasm cannot be loaded"), "{said}");
    Ok(said)
}

fn wasm(text: &str) -> Result<Vec<u8>> {
    Ok(wat::parse_str(text)?)
}

#[test]
fn a_configuration_that_the_policy_does_not_accept_is_refused() -> Result<()> {
    let bad = [
        (r#"{"maxReplacement": 3}"#, "maxReplacement"),
        (r#"{"maxReplacements": "three"}"#, "three"),
        ("{", "not JSON"),
    ];
    for (json, word) in bad {
        let folder = PolicyFolder::new()?.config("failure-handling", json)?;
        let said = refused_at_start(&folder.flags())?;
        ensure!(said.contains("failure-handling policy") && said.contains(word), "{said}");
    }
    Ok(())
}

#[test]
fn a_core_module_is_refused_with_how_to_make_a_component_of_it() -> Result<()> {
    let said = refused_component(&wasm("(module)")?)?;
    ensure!(
        said.contains("not a component") && said.contains("wasm-tools component new"),
        "{said}"
    );
    Ok(())
}

#[test]
fn what_is_not_webassembly_is_refused() -> Result<()> {
    for bytes in [&b"#!/bin/sh\n"[..], &b""[..]] {
        let said = refused_component(bytes)?;
        ensure!(said.contains("it is not WebAssembly"), "{said}");
    }
    Ok(())
}

#[test]
fn a_damaged_component_is_refused() -> Result<()> {
    let mut bytes = std::fs::read(crate::support::dist().join("allocation-default.wasm"))?;
    bytes.truncate(bytes.len() / 2);
    refused_component(&bytes)?;
    Ok(())
}

#[test]
fn wasi_is_refused_with_how_to_build_without_it() -> Result<()> {
    let text = r#"(component (import "wasi:clocks/wall-clock@0.2.0" (instance)))"#;
    let said = refused_component(&wasm(text)?)?;
    ensure!(said.contains("wasi:clocks") && said.contains("policies get no WASI"), "{said}");
    ensure!(said.contains("wasm32-unknown-unknown") && said.contains("--stub-wasi"), "{said}");
    Ok(())
}

#[test]
fn any_other_import_is_refused() -> Result<()> {
    let text = r#"(component (import "evil:corp/exfiltrate@1.0.0" (instance)))"#;
    let said = refused_component(&wasm(text)?)?;
    ensure!(said.contains("evil:corp/exfiltrate"), "{said}");
    ensure!(said.contains("may import capmaas:policy/host alone"), "{said}");
    Ok(())
}

#[test]
fn another_version_of_the_interface_is_refused_with_both_versions() -> Result<()> {
    let text = r#"(component (import "capmaas:policy/host@0.9.0" (instance)))"#;
    let said = refused_component(&wasm(text)?)?;
    ensure!(said.contains("\"0.9.0\"") && said.contains("0.1.0"), "{said}");
    Ok(())
}

#[test]
fn a_component_without_the_exports_is_refused() -> Result<()> {
    let said = refused_component(&wasm("(component)")?)?;
    ensure!(said.contains("does not export what a policy of kind allocation exports"), "{said}");
    Ok(())
}

#[test]
fn a_policy_of_another_kind_is_refused() -> Result<()> {
    let folder = PolicyFolder::new()?.policy("allocation", "dns-naming-default")?;
    let said = refused_at_start(&folder.flags())?;
    ensure!(said.contains("does not export what"), "{said}");
    Ok(())
}

#[test]
fn a_file_outside_the_policy_folder_is_refused() -> Result<()> {
    let outside = PolicyFolder::new()?.policy("allocation", "allocation-default")?;
    let component = outside.path().join("allocation-default.wasm");
    let folder = PolicyFolder::new()?;
    std::os::unix::fs::symlink(&component, folder.path().join("link.wasm"))?;
    let up = Path::new("..").join(component.strip_prefix("/")?);
    let names = [component.display().to_string(), up.display().to_string(), "link.wasm".into()];
    for name in names {
        let mut flags = folder.flags();
        flags.push(format!("--policy=allocation={name}"));
        let said = refused_at_start(&flags)?;
        ensure!(said.contains("read from below --policy-dir only"), "{said}");
    }
    Ok(())
}

#[test]
fn flags_that_make_no_sense_are_refused_with_what_would() -> Result<()> {
    let folder = PolicyFolder::new()?.policy("allocation", "allocation-default")?;
    let dir = folder.flags()[0].clone();
    let bad = [
        (vec!["--policy=allocation=x.wasm".to_owned()], "--policy-dir"),
        (vec![dir.clone(), "--policy=scheduling=x.wasm".into()], "allocation, dns-naming"),
        (vec![dir.clone(), "--policy=allocation".into()], "KIND=FILE"),
        (vec![dir, "--policy=allocation=missing.wasm".into()], "missing.wasm"),
        (vec!["--policy-dir=/nonexistent".into(), "--policy=allocation=x".into()], "/nonexistent"),
    ];
    for (flags, word) in bad {
        let said = refused_at_start(&flags)?;
        ensure!(said.contains(word), "{flags:?}: {said}");
    }
    Ok(())
}
