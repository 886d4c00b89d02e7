//! Loading meets a guest for the first time. It holds up nobody either.

use std::time::{Duration, Instant};

use capmaas::policy::Choice;

use super::super::guest::Guest;
use super::super::questions::{component, naming};
use super::answers::hostile;

/// A guest that is looked at before it is compiled is refused even where nobody can compile it.
async fn refused_uncompiled(bytes: Vec<u8>) -> String {
    use capmaas::policy::{Choices, Compiler, Policies};
    let choices = Choices { dns_naming: component(bytes), ..Choices::default() };
    let nobody = Compiler::Child("/nonexistent/capmaas".into());
    let engine = super::super::questions::engine();
    format!("{:#}", Policies::load(engine, choices, nobody).await.err().unwrap())
}

#[tokio::test]
async fn what_can_be_no_policy_is_refused_without_compiling_it() {
    let imports = r#"(import "acme:things/clock@1.0.0" (instance (export "now" (func))))"#;
    let foreign = Guest { imports: imports.into(), ..Guest::default() };
    let other = Guest { interface: "0.2.0", ..Guest::default() };
    let rows = [
        (wat::parse_str("(module)").unwrap(), "not a component"),
        (wat::parse_str("(component)").unwrap(), "does not export what"),
        (capmaas::policy::embedded::ALLOCATION.to_vec(), "does not export what"),
        (foreign.wasm(), "acme:things/clock@1.0.0"),
        (other.wasm(), "0.2.0"),
        (b"\0asm\x0d\0\x01\0garbage".to_vec(), "it does not compile"),
    ];
    for (bytes, words) in rows {
        let text = refused_uncompiled(bytes).await;
        assert!(text.contains(words), "{words}: {text}");
    }
    let text = refused_uncompiled(Guest::default().wasm()).await;
    assert!(text.contains("cannot start the compiler"), "it was the turn of the compiler: {text}");
}

#[tokio::test]
async fn an_import_deep_inside_is_none_of_the_component() {
    // A nested component imports something and is never instantiated.
    let imports = r#"(component (import "acme:things/clock@1.0.0" (instance)))"#;
    let guest = Guest { imports: imports.into(), ..Guest::default() };
    naming(component(guest.wasm())).await.unwrap();
}

/// One thread for everything: whoever blocks it stops the clock.
#[tokio::test]
async fn a_guest_that_hangs_while_it_is_loaded_holds_up_nobody() {
    let spin = "(loop $again (br $again))";
    let in_start = Guest { start: spin.into(), ..Guest::default() };
    let check_config = format!("{spin} unreachable");
    let in_check_config = Guest { check_config, ..Guest::default() };
    for (guest, words) in [(in_start, "describe"), (in_check_config, "check-config")] {
        let loading = naming(component(guest.wasm()));
        tokio::pin!(loading);
        let mut longest = Duration::ZERO;
        let error = loop {
            let before = Instant::now();
            let outcome = tokio::select! {
                biased;
                outcome = &mut loading => Some(outcome),
                () = tokio::time::sleep(Duration::from_millis(1)) => None,
            };
            longest = longest.max(before.elapsed());
            if let Some(outcome) = outcome {
                break outcome.err().expect("it must not load");
            }
        };
        let text = format!("{error:#}");
        assert!(text.contains(words) && text.contains("did not answer within 250 ms"), "{text}");
        println!("{words}: others waited {} ms at most", longest.as_millis());
        assert!(longest < Duration::from_millis(250), "{words}: others waited {longest:?}");
    }
}

#[tokio::test]
async fn issues_of_a_configuration_are_told_in_a_few_lines() {
    let config = Some("\"flood-issues\"".to_owned());
    let error = naming(Choice { config, ..hostile("") }).await.err().unwrap();
    let text = format!("{error:#}");
    assert!(
        text.contains("does not accept its configuration: /") && text.contains("[2Jyyy"),
        "{text:.200}"
    );
    assert!(text.len() < 3_000 && !text.contains('\u{1b}'), "{} bytes", text.len());
}

#[tokio::test]
async fn a_name_as_long_as_an_answer_may_be_is_no_name() {
    // Where the description says how long the name is.
    let start = "(i32.store (i32.const 68) (i32.const 60000))".into();
    let guest = Guest { start, ..Guest::default() };
    let text = format!("{:#}", naming(component(guest.wasm())).await.err().unwrap());
    assert!(text.contains("describe() must give a name"), "{text}");
    assert!(text.len() < 1_000, "{} bytes", text.len());
}

/// A schema is a program too, and is somebody else's.
#[tokio::test]
async fn a_schema_that_never_ends_ends_in_a_process_of_its_own() {
    let circle = r##"{"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}"##;
    let itself = r##"{"allOf": [{"$ref": "#"}]}"##;
    let elsewhere = r#"{"$ref": "https://registry.example.com/schema.json"}"#;
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    let wrong = r#"{"type": "a kind of thing"}"#;
    let config = |text: &str| Some(text.to_owned());
    for schema in [elsewhere, deep.as_str(), wrong] {
        let guest = Guest { schema: schema.into(), ..Guest::default() };
        let text = format!("{:#}", naming(component(guest.wasm())).await.err().expect("refused"));
        assert!(text.contains("schema"), "{schema:.60}: {text}");
    }
    // One that refers to itself says nothing, or is refused; either way it ends, and not with us.
    for schema in [circle, itself] {
        let guest = Guest { schema: schema.into(), ..Guest::default() };
        let choice = Choice { config: config(r#"{"a": 1}"#), ..component(guest.wasm()) };
        drop(naming(choice).await);
    }
    // A pattern that would take for ever is given up as well, whatever it is then said to be.
    let pattern = r#"{"properties": {"a": {"type": "string", "pattern": "^(a+)+\\1$"}}}"#;
    let guest = Guest { schema: pattern.into(), ..Guest::default() };
    let config = config(&format!(r#"{{"a": "{}b"}}"#, "a".repeat(60)));
    assert!(naming(Choice { config, ..component(guest.wasm()) }).await.is_err());
}

#[tokio::test]
async fn a_configuration_is_held_against_the_schema_first() {
    let schema = r#"{"type": "object", "properties": {"n": {"type": "integer", "maximum": 3}}}"#;
    let guest = Guest { schema: schema.into(), ..Guest::default() };
    let with = |config: &str| Choice { config: Some(config.into()), ..component(guest.wasm()) };
    naming(with(r#"{"n": 3}"#)).await.unwrap();
    let text = format!("{:#}", naming(with(r#"{"n": 4}"#)).await.err().unwrap());
    assert!(text.contains("it does not accept its configuration: /n: 4 is greater"), "{text}");
}
