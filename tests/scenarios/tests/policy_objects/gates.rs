//! What does not pass a gate is told on the object, in words that its author understands, and displaces nothing.

use anyhow::{Result, ensure};
use scenarios::{Machine, Stage, component};

use super::decided;
use crate::support::stage;

/// The gate that refuses this component, and its words; the revision before stays in use.
async fn refused(stage: &Stage<'_>, wasm: &[u8], gate: &str, reason: &str) -> Result<String> {
    let good = stage.policy_ready("p").await?.current.expect("a revision");
    stage.component_in_config_map("p", wasm)?;
    let why = stage.policy_reason("p", gate, reason).await?;
    let status = stage.policies().get("p").await?.status.unwrap_or_default();
    ensure!(status.current.as_ref() == Some(&good), "the last good one stays: {status:?}");
    let ready = stage.policy_reason("p", "Ready", reason).await?;
    ensure!(ready.contains("the last good revision"), "{ready}");
    stage.component_in_config_map("p", &component("allocation-default")?)?;
    stage.policy_ready("p").await?;
    Ok(why)
}

fn wat(text: &str) -> Result<Vec<u8>> {
    Ok(wat::parse_str(text)?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_gate_says_what_is_wrong_and_the_last_good_revision_stays() -> Result<()> {
    let stage = stage("policy-gates").await?;
    stage.enforced("p", "Allocation", &component("allocation-default")?, "")?;
    let (verified, words) = ("Verified", "ComponentRefused");
    let why = refused(&stage, b"#!/bin/sh\n", verified, words).await?;
    ensure!(why.contains("it is not WebAssembly"), "{why}");
    let why = refused(&stage, &wat("(module)")?, verified, words).await?;
    ensure!(why.contains("wasm-tools component new"), "{why}");
    let imports = r#"(component (import "acme:things/clock@1.0.0" (instance)))"#;
    let why = refused(&stage, &wat(imports)?, verified, words).await?;
    ensure!(why.contains("acme:things/clock@1.0.0"), "a missing import is named: {why}");
    let newer = r#"(component (import "capmaas:policy/host@0.9.0" (instance)))"#;
    let why = refused(&stage, &wat(newer)?, verified, words).await?;
    ensure!(why.contains("0.9.0") && why.contains("0.1.0"), "both versions are named: {why}");
    let why = refused(&stage, &component("dns-naming-default")?, verified, words).await?;
    ensure!(why.contains("capmaas:policy/allocation@0.1.0"), "{why}");
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configuration_is_checked_against_the_policys_own_schema() -> Result<()> {
    let stage = stage("policy-settings").await?;
    let config = |json: &str| format!(", config: {json}");
    let wasm = component("failure-handling-default")?;
    stage.enforced("p", "FailureHandling", &wasm, &config("{maxReplacement: 3}"))?;
    stage.policy_says("p", "ConfigValid", &["'maxReplacement' was unexpected"]).await?;
    stage.enforced("p", "FailureHandling", &wasm, &config("{maxReplacements: three}"))?;
    stage.policy_says("p", "ConfigValid", &["/maxReplacements", "three"]).await?;
    stage.enforced("p", "FailureHandling", &wasm, &config("{maxReplacements: 3}"))?;
    stage.policy_ready("p").await?;
    let loads = stage.metric(&["capmaas_policy_loads_total", "config-invalid"]).await?;
    ensure!(loads >= 2.0, "{loads}");
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_found_is_named_and_found_once_it_is_there() -> Result<()> {
    let stage = stage("policy-missing").await?;
    stage.policy("p", "kind: Allocation, mode: Enforce, source: {configMap: {name: absent}}")?;
    let why = stage.policy_reason("p", "Resolved", "SourceUnavailable").await?;
    ensure!(why.contains("there is no ConfigMap policy-missing/absent"), "{why}");
    stage.policy("f", "kind: Allocation, mode: Enforce, source: {file: {path: x.wasm}}")?;
    let why = stage.policy_reason("f", "Resolved", "SourceUnavailable").await?;
    ensure!(why.contains("--policy-dir"), "{why}");
    stage.cluster("c", "", ", policies: {allocation: [p]}")?;
    stage.machine("c", &Machine::worker("w"))?;
    let why = stage.reason("w", "MachineDeployed", "AllocationPolicyFailed").await?;
    ensure!(why.contains("policy-missing/p") && why.contains("absent"), "{why}");
    stage.component_in_config_map("absent", &component("allocation-default")?)?;
    stage.policy_ready("p").await?;
    stage.provisioned("w").await?;
    decided(&stage, "w", "allocation").await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_server_refuses_what_can_never_be_right() -> Result<()> {
    let stage = stage("policy-schema").await?;
    let bad = [
        ("kind: Allocation, source: {}", "exactly one of file, configMap and oci"),
        ("kind: Allocation, source: {file: {path: a}, configMap: {name: b}}", "exactly one of"),
        (
            "kind: Allocation, mode: Enforce, source: {oci: {image: r.example/p}}",
            "digest is needed",
        ),
        ("kind: FailureHandling, onFailure: Fail, source: {file: {path: a}}", "only be UseDefault"),
        ("kind: Allocation, source: {file: {path: a, digest: 'sha256:12'}}", "digest"),
        ("kind: Allocation, source: {file: {path: a}}, limits: {memory: 5GB}", "memory"),
        ("kind: Scheduling, source: {file: {path: a}}", "Scheduling"),
    ];
    for (spec, words) in bad {
        let error = format!("{:#}", stage.policy("p", spec).expect_err("it must be refused"));
        ensure!(error.contains(words), "{spec}: {error}");
    }
    stage.policy("p", "kind: Allocation, source: {file: {path: a}}")?;
    let error = stage.policy("p", "kind: DnsNaming, source: {file: {path: a}}").unwrap_err();
    ensure!(format!("{error:#}").contains("kind is immutable"), "{error:#}");
    let mode = stage.policies().get("p").await?.spec.mode;
    ensure!(mode == capmaas_api::PolicyMode::Shadow, "nobody obeys a policy by accident");
    stage.strike().await
}
