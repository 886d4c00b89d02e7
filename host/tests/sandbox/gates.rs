//! A component that is no fit policy is refused at load, with its kind, its file and the remedy.

use std::path::PathBuf;

use capmaas::policy::{Choice, Choices, Compiler, Policies, embedded};
use sha2::{Digest, Sha256};

use super::guest::{Guest, at};
use super::questions::{FILE, component, engine, name, naming};

/// Why this is refused as a DNS-naming policy.
async fn refusal_of(choice: Choice) -> String {
    let error = naming(choice).await.err().expect("it must not load");
    let text = format!("{error:#}");
    assert!(text.starts_with(&format!("dns-naming policy {FILE} cannot be loaded: ")), "{text}");
    text
}

async fn refusal(bytes: Vec<u8>) -> String {
    refusal_of(component(bytes)).await
}

#[tokio::test]
async fn a_well_behaved_guest_passes_and_is_known_by_name_and_digest() {
    let wasm = Guest::default().wasm();
    let digest: String = Sha256::digest(&wasm).iter().map(|b| format!("{b:02x}")).collect();
    let policies = naming(component(wasm)).await.unwrap();
    let id = policies.loaded()[1].id();
    assert_eq!(id.name, "guest 1.0.0");
    assert_eq!(id.digest, format!("sha256:{digest}"));
    assert_eq!(name(&policies).await.unwrap().label, "a1b2c3", "it answers with the suffix");
}

#[tokio::test]
async fn what_is_no_webassembly_is_refused() {
    for bytes in [&b""[..], b"#!/bin/sh\n", b"\0asm"] {
        let text = refusal(bytes.to_vec()).await;
        assert!(text.contains("not WebAssembly") || text.contains("core WebAssembly"), "{text}");
    }
}

#[tokio::test]
async fn a_core_module_is_refused_with_the_way_to_a_component() {
    let text = refusal(wat::parse_str("(module)").unwrap()).await;
    assert!(text.contains("core WebAssembly module, not a component"), "{text}");
    assert!(text.contains("wasm-tools component new"), "{text}");
}

#[tokio::test]
async fn a_file_beyond_all_measure_is_refused() {
    let mut bytes = Guest::default().wasm();
    bytes.resize((32 << 20) + 1, 0);
    let text = refusal(bytes).await;
    assert!(text.contains("larger than 32 MiB"), "{text}");
}

#[tokio::test]
async fn a_component_that_does_not_compile_is_refused() {
    let mut bytes = Guest::default().wasm();
    bytes.truncate(bytes.len() / 2);
    let text = refusal(bytes).await;
    assert!(text.contains("it does not compile: "), "{text}");
    let text = refusal(b"\0asm\x0d\0\x01\0garbage".to_vec()).await;
    assert!(text.contains("it does not compile: "), "{text}");
}

#[tokio::test]
async fn a_compiler_that_is_not_there_is_told() {
    let choices = Choices { dns_naming: component(Guest::default().wasm()), ..Choices::default() };
    let nowhere = Compiler::Child(PathBuf::from("/nonexistent/capmaas"));
    let error = Policies::load(engine(), choices, nowhere).await.err().unwrap();
    let text = format!("{error:#}");
    assert!(text.contains(FILE) && text.contains("cannot start the compiler"), "{text}");
}

#[tokio::test]
async fn a_foreign_import_is_refused_by_name() {
    let imports = r#"(import "acme:things/clock@1.0.0" (instance (export "now" (func))))"#;
    let guest = Guest { imports: imports.into(), ..Guest::default() };
    let text = refusal(guest.wasm()).await;
    assert!(text.contains("acme:things/clock@1.0.0"), "{text}");
    assert!(text.contains("capmaas:policy/host alone"), "{text}");
}

#[tokio::test]
async fn wasi_is_refused_with_the_way_to_do_without() {
    let imports = r#"(import "wasi:cli/environment@0.2.3" (instance))"#;
    let guest = Guest { imports: imports.into(), ..Guest::default() };
    let text = refusal(guest.wasm()).await;
    for word in ["wasi:cli/environment", "wasm32-unknown-unknown", "--stub-wasi", "disableFeatures"]
    {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[tokio::test]
async fn another_interface_version_is_refused_with_both_versions() {
    let guest = Guest { interface: "0.2.0", ..Guest::default() };
    let text = refusal(guest.wasm()).await;
    assert!(text.contains("0.2.0") && text.contains("0.1.0"), "{text}");
}

#[tokio::test]
async fn a_policy_of_another_kind_is_refused() {
    let text = refusal(embedded::ALLOCATION.to_vec()).await;
    assert!(text.contains("it does not export what"), "{text}");
    let text = refusal(wat::parse_str("(component)").unwrap()).await;
    assert!(text.contains("it does not export what"), "{text}");
}

#[tokio::test]
async fn a_function_of_another_type_is_refused() {
    let guest = Guest { answer: "(result (option string) (error $refusal))", ..Guest::default() };
    let text = refusal(guest.wasm()).await;
    assert!(text.contains("expected `record` found `string`"), "{text}");
}

#[tokio::test]
async fn more_memory_than_a_policy_may_have_is_refused() {
    // 128 MiB is what the engine could give but a policy does not get; 320 MiB it could not.
    for pages in [2048, 5120] {
        let text = refusal(Guest { pages, ..Guest::default() }.wasm()).await;
        assert!(text.contains("memory"), "{pages}: {text}");
        assert!(!text.contains("disagree"), "{pages}: {text}");
    }
}

#[tokio::test]
async fn an_endless_loop_in_the_start_function_is_refused() {
    let guest = Guest { start: "(loop $again (br $again))".into(), ..Guest::default() };
    let text = refusal(guest.wasm()).await;
    assert!(text.contains("describe: it did not answer within"), "{text}");
}

#[tokio::test]
async fn a_trap_in_the_start_function_is_refused() {
    let guest = Guest { start: "unreachable".into(), ..Guest::default() };
    let text = refusal(guest.wasm()).await;
    assert!(text.contains("describe: ") && text.contains("unreachable"), "{text}");
}

#[tokio::test]
async fn a_policy_must_have_a_name() {
    for odd in ["", "two words"] {
        let text = refusal(Guest { name: odd, ..Guest::default() }.wasm()).await;
        assert!(text.contains("describe() must give a name"), "{text}");
    }
}

#[tokio::test]
async fn a_configuration_that_the_policy_does_not_accept_is_refused_with_its_words() {
    // One issue: where (three characters of the text) and what (all of it).
    let (issue, answer, text) = (at::FREE, at::ANSWER, at::TEXT);
    let check_config = format!(
        "(i32.store (i32.const {answer}) (i32.const 1))
         (i32.store offset=4 (i32.const {answer}) (i32.const {issue}))
         (i32.store offset=8 (i32.const {answer}) (i32.const 1))
         (i32.store (i32.const {issue}) (i32.const {text}))
         (i32.store offset=4 (i32.const {issue}) (i32.const 3))
         (i32.store offset=8 (i32.const {issue}) (i32.const {text}))
         (i32.store offset=12 (i32.const {issue}) (i32.const 16))
         (i32.const {answer})"
    );
    let guest = Guest { check_config, ..Guest::default() };
    let text = refusal(guest.wasm()).await;
    assert!(text.contains("does not accept its configuration: six: sixteen-bytes-ok"), "{text}");
}

#[tokio::test]
async fn a_policy_that_fails_over_its_configuration_is_refused() {
    let guest = Guest { check_config: "unreachable".into(), ..Guest::default() };
    let text = refusal(guest.wasm()).await;
    assert!(text.contains("check-config: "), "{text}");
}

#[tokio::test]
async fn a_configuration_that_is_no_json_is_refused() {
    let config = Some("zones: [a]".to_owned());
    let choice = Choice { config, ..component(Guest::default().wasm()) };
    let text = refusal_of(choice).await;
    assert!(text.contains("its configuration is not JSON"), "{text}");
}

#[tokio::test]
async fn every_question_carries_the_configuration() {
    let echo = super::guest::named(
        "(i32.load offset=32 (local.get 0))",
        "(i32.load offset=36 (local.get 0))",
    );
    let wasm = super::guest::proposing(echo).wasm();
    // A number is JSON, and a label.
    let config = Some("12345".to_owned());
    let policies = naming(Choice { config, ..component(wasm.clone()) }).await.unwrap();
    assert_eq!(name(&policies).await.unwrap().label, "12345");
    let policies = naming(component(wasm)).await.unwrap();
    let refused = super::questions::refused(&policies).await;
    assert!(refused.message.contains(r#"label "{}""#), "none is an empty one: {refused:?}");
}

#[tokio::test]
async fn a_built_in_policy_is_named_as_such() {
    let config = Some(r#"{"maxReplacements": "many"}"#.to_owned());
    let failure_handling = Choice { component: None, config };
    let choices = Choices { failure_handling, ..Choices::default() };
    let compiler = super::questions::compiler();
    let error = Policies::load(engine(), choices, compiler).await.err().unwrap();
    let text = format!("{error:#}");
    assert!(text.starts_with("failure-handling policy the built-in component"), "{text}");
    assert!(text.contains("does not accept its configuration"), "{text}");
}
