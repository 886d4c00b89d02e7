//! Inspect, check, run, bench, replay: what they say, to people and to programs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{built, complains, root, says, text};

fn json_of(args: &[&str]) -> Value {
    serde_json::from_str(&says(&[args, &["--output", "json"]].concat())).expect("JSON")
}

fn file(folder: &Path, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, content).expect("it is written");
    path
}

#[test]
fn inspect_shows_what_a_component_is_and_needs() {
    let component = built("allocation-zone-spread");
    let shown = json_of(&["policy", "inspect", text(&component)]);
    assert_eq!(shown["policy"]["kind"], "allocation");
    assert_eq!(shown["policy"]["interface"], "capmaas:policy@0.1.0");
    assert!(shown["digest"].as_str().unwrap().starts_with("sha256:"));
    let said = says(&["policy", "inspect", text(&component)]);
    assert!(said.contains("setting    workers: "), "{said}");
    assert!(said.contains("imports    capmaas:policy/host@0.1.0: allowed"), "{said}");
    // One that is refused is shown all the same, with the reason beside the import.
    let folder = tempfile::tempdir().unwrap();
    let wasi = r#"(component (import "wasi:clocks/wall-clock@0.2.0" (instance)))"#;
    let wasi = file(folder.path(), "wasi.wasm", wat::parse_str(wasi).unwrap());
    let said = complains(&["policy", "inspect", text(&wasi)]);
    assert!(said.contains("wasi:clocks/wall-clock@0.2.0: REFUSED"), "{said}");
    assert!(said.contains("--stub-wasi"), "it says how to build it: {said}");
}

#[test]
fn check_names_the_gate_and_the_field() {
    let folder = tempfile::tempdir().unwrap();
    let component = built("allocation-zone-spread");
    let good = file(folder.path(), "good.yaml", "workers: true\n");
    let said = says(&["policy", "check", text(&component), "--config", text(&good)]);
    assert!(said.contains("passes every gate") && said.contains("next: "), "{said}");
    let bad = file(folder.path(), "bad.json", r#"{"workers": "all"}"#);
    let said = complains(&["policy", "check", text(&component), "--config", text(&bad)]);
    assert!(said.contains("gate ConfigValid") && said.contains("/workers"), "{said}");
    let module = file(folder.path(), "module.wasm", wat::parse_str("(module)").unwrap());
    let said = complains(&["policy", "check", text(&module), "--output", "json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["passed"], &said["gate"]), (&json!(false), &json!("Verified")));
}

#[test]
fn run_shows_what_differs_and_writes_down_what_is_right_from_now_on() {
    let folder = tempfile::tempdir().unwrap();
    let component = built("dns-naming-default");
    let question = json!({ "name": {
        "context": { "cluster": "blue" }, "suffix": "a1b2c3", "defaultDomain": "maas", "allowedDomains": ["maas"],
    } });
    let wrong = json!({ "description": "d", "question": question, "answer": { "named": null } });
    let case = file(folder.path(), "case.json", wrong.to_string());
    let args = ["policy", "run", text(&component), "--case", text(&case)];
    let said = complains(&args);
    assert!(said.contains("FAILED  case") && said.contains("blue-a1b2c3"), "{said}");
    assert!(said.contains("--update"), "it says what is next: {said}");
    let said = says(&[&args[..], &["--update"]].concat());
    assert!(said.contains("updated case"), "{said}");
    assert!(says(&args).contains("1 cases passed"));
    let misspelt = json!({ "description": "d", "question": { "name": { "sufix": "x" } } });
    let case = file(folder.path(), "case.json", misspelt.to_string());
    let said = complains(&["policy", "run", text(&component), "--case", text(&case)]);
    assert!(said.contains("question/name/sufix is unknown"), "{said}");
}

#[test]
fn bench_measures_and_holds_a_budget() {
    let component = built("dns-naming-default");
    let cases = root().join("plugins/dns-naming-default/cases");
    let args = ["policy", "bench", text(&component), "--case", text(&cases), "--seconds", "0.1"];
    let measured = json_of(&args);
    let cases = measured["cases"].as_array().unwrap();
    assert!(cases.iter().all(|c| c["calls"].as_u64() > Some(1)), "{measured}");
    assert!(cases.iter().all(|c| c["memoryBytes"].as_u64() > Some(0)), "{measured}");
    let said = complains(&[&args[..], &["--budget", "0.000001"]].concat());
    assert!(said.contains("over the budget"), "{said}");
}

/// A decision log, made of transcripts as they are kept in the tests of the deciding crate.
fn log(folder: &Path, stories: &[&str]) -> PathBuf {
    let mut lines = String::new();
    for story in stories {
        let path = root().join(format!("host/core/tests/transcripts/{story}.json"));
        let document: Value =
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        for mut line in document["reconciles"].as_array().unwrap().clone() {
            line["at"] = json!(1_795_996_800);
            writeln!(lines, "{line}").unwrap();
        }
    }
    file(folder, "decisions.jsonl", lines)
}

#[test]
fn replay_shows_what_another_component_would_have_decided() {
    let folder = tempfile::tempdir().unwrap();
    let log = log(folder.path(), &["two-policies-rank-in-turn", "a-failed-deployment-is-replaced"]);
    let other = built("refuse-allocation");
    let told = json_of(&["policy", "replay", text(&log), text(&other)]);
    assert_eq!(told["asked"], told["different"], "{told}");
    let first = &told["decisions"][0];
    assert_eq!(first["object"], "MaasMachine team/blue-0");
    assert_eq!((&first["policy"], &first["question"]), (&json!("team/quiet"), &json!("shortlist")));
    assert_eq!(first["after"]["refused"]["category"], "failed", "{first}");
    let said = says(&["policy", "replay", text(&log), text(&other), "--policy", "team/quiet"]);
    assert!(said.contains("2 of 2 answers would have been different"), "{said}");
    assert!(said.contains("BEFORE") && said.contains("team/quiet"), "{said}");
    // The very component that decided: nothing differs.
    let failing = built("failure-handling-default");
    let told = json_of(&["policy", "replay", text(&log), text(&failing), "--all"]);
    assert!(told["asked"].as_u64() > Some(0), "{told}");
    let broken = file(folder.path(), "broken.jsonl", "{\"at\": 1\n");
    let said = complains(&["policy", "replay", text(&broken), text(&failing)]);
    assert!(said.contains("broken.jsonl, line 1"), "{said}");
}

#[test]
fn shells_complete_what_there_is() {
    for shell in ["bash", "zsh", "fish"] {
        let script = says(&["completions", shell]);
        assert!(script.contains("replay") && script.contains("capmaas"), "{shell}");
    }
}
