//! Compile bombs: small files that take long to compile, and more memory than there is.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use capmaas::policy::{Choices, Compiler, Engine, Policies};

use super::super::guest::{Guest, section, unsigned};
use super::super::questions::{compiler, component, engine, name};

/// A component that passes for a policy, and a module with one function of this body.
fn bomb(locals: u32, body: &[u8]) -> Vec<u8> {
    let mut function = vec![1];
    function.extend(unsigned(locals));
    function.push(0x7f);
    function.extend(body);
    function.push(0x0b);
    let mut code = vec![1];
    code.extend(unsigned(u32::try_from(function.len()).unwrap()));
    code.extend(function);
    let mut module = b"\0asm\x01\0\0\0".to_vec();
    // One function type, i32 to i32; one function of it.
    module.extend(section(1, &[1, 0x60, 1, 0x7f, 1, 0x7f]));
    module.extend(section(3, &[1, 0]));
    module.extend(section(10, &code));
    let mut wasm = Guest::default().wasm();
    wasm.extend(section(1, &module));
    wasm
}

/// Half a megabyte: thirty thousand blocks that each may end early, over a thousand variables.
fn slow() -> Vec<u8> {
    const LOCALS: u32 = 1000;
    let mut body = Vec::new();
    for n in 0..30_000 {
        let (one, other) = (unsigned(1 + n % LOCALS), unsigned(1 + (n * 7 + 3) % LOCALS));
        body.extend([0x02, 0x40, 0x20]);
        body.extend(&one);
        body.extend([0x0d, 0x00, 0x20]);
        body.extend(&other);
        body.push(0x20);
        body.extend(&one);
        body.extend([0x6a, 0x21]);
        body.extend(&other);
        body.push(0x0b);
    }
    body.extend([0x20, 0x01]);
    bomb(LOCALS, &body)
}

/// Four megabytes: one sum of more than a million terms.
fn large() -> Vec<u8> {
    let mut body = vec![0x20, 0x00];
    for _ in 0..1_300_000 {
        body.extend([0x20, 0x00, 0x6a]);
    }
    bomb(1, &body)
}

/// What comes of loading it, while a healthy policy of the same engine is asked again and again.
async fn gone_off(wasm: Vec<u8>, compiler_of_bomb: Compiler) -> String {
    let engine = Engine::new().unwrap();
    let healthy = Policies::load(engine.clone(), Choices::default(), compiler()).await.unwrap();
    let (size, start) = (wasm.len() >> 10, Instant::now());
    let choices = Choices { dns_naming: component(wasm), ..Choices::default() };
    let loading = Policies::load(engine, choices, compiler_of_bomb);
    tokio::pin!(loading);
    let mut answers = 0;
    let error = loop {
        tokio::select! {
            outcome = &mut loading => break outcome.err().expect("it must not load"),
            () = tokio::time::sleep(Duration::from_millis(20)) => {}
        }
        name(&healthy).await;
        answers += 1;
    };
    println!(
        "measured: {size} KiB, ended after {:.1} s; {answers} healthy calls meanwhile",
        start.elapsed().as_secs_f32()
    );
    assert!(answers > 0);
    let text = format!("{error:#}");
    assert!(text.starts_with("dns-naming policy guest.wasm cannot be loaded: "), "{text}");
    assert!(text.contains("compiling went over its limits ("), "{text}");
    text
}

#[tokio::test]
async fn a_component_that_takes_too_much_memory_to_compile_is_refused() {
    let text = gone_off(large(), compiler()).await;
    // SIGABRT: it could not get more.
    assert!(text.contains("768 MiB of memory") && text.ends_with("signal 6"), "{text}");
}

/// A script in the compiler's place.
fn script(folder: &Path, text: &str) -> Compiler {
    let script = folder.join("capmaas");
    std::fs::write(&script, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    Compiler::Child(script)
}

/// The limit of a minute is too long to wait for; a shorter one that a process starts with stays.
fn hurried(folder: &Path) -> Compiler {
    let program = env!("CARGO_BIN_EXE_capmaas");
    script(folder, &format!("ulimit -t 3\nexec {program} \"$@\""))
}

#[tokio::test]
async fn a_compiled_form_beyond_all_measure_is_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let endless = script(folder.path(), "exec cat /dev/zero");
    let choices = Choices { dns_naming: component(Guest::default().wasm()), ..Choices::default() };
    let error = Policies::load(engine(), choices, endless).await.err().unwrap();
    let text = format!("{error:#}");
    assert!(text.contains("its compiled form is larger than 128 MiB"), "{text}");
}

#[tokio::test]
async fn a_component_that_takes_too_long_to_compile_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = gone_off(slow(), hurried(folder.path())).await;
    assert!(text.contains("60 s of CPU"), "{text}");
}

#[tokio::test]
#[ignore = "takes a minute of CPU, or two of wall clock"]
async fn half_a_megabyte_that_compiles_for_minutes_is_refused() {
    gone_off(slow(), compiler()).await;
}
