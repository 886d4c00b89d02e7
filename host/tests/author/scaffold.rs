//! What `capmaas policy new` makes builds, and passes its golden case, as it is.

use std::path::Path;
use std::process::Command;

use super::{capmaas, complains, root, says, text};

const KINDS: [&str; 3] = ["allocation", "dns-naming", "failure-handling"];

/// Follows the next command at each step.
fn begins(lang: &str, kind: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let name = format!("my-{kind}");
    let said = says(&[
        "policy",
        "new",
        &name,
        "--kind",
        kind,
        "--lang",
        lang,
        "--dir",
        text(folder.path()),
    ]);
    assert!(said.contains("&& ./build.sh"), "it says what is next: {said}");
    let policy = folder.path().join(&name);
    let built = build(&policy, lang);
    assert!(built.contains(&format!("next: capmaas policy check {name}.wasm")), "{built}");
    let component = policy.join(format!("{name}.wasm"));
    let said = says(&["policy", "check", text(&component)]);
    assert!(said.contains(&format!("{name} 0.1.0")) && said.contains("policy run"), "{said}");
    let cases = policy.join("cases");
    let said = says(&["policy", "run", text(&component), "--case", text(&cases)]);
    assert!(said.contains("1 cases passed"), "{said}");
    let yaml = std::fs::read_to_string(policy.join("policy.yaml")).expect("a MaasPolicy");
    let object: serde_json::Value = serde_yaml_ng::from_str(&yaml).expect("YAML");
    assert_eq!(object["metadata"]["name"], name.as_str());
    serde_json::from_value::<capmaas_api::MaasPolicy>(object).expect("a MaasPolicy");
}

fn build(policy: &Path, lang: &str) -> String {
    let mut build = Command::new("./build.sh");
    build.current_dir(policy);
    if lang == "rust" {
        // The libraries are compiled once for all.
        let target = std::env::var_os("CAPMAAS_PLUGINS_TARGET_DIR")
            .map_or_else(|| root().join("plugins/target"), Into::into);
        build.env("CARGO_TARGET_DIR", target.join("scaffold"));
    }
    let output = build.output().expect("the script starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{error}");
    said
}

#[test]
fn a_policy_in_rust_begins_well() {
    KINDS.iter().for_each(|kind| begins("rust", kind));
}

#[test]
fn a_policy_in_python_begins_well() {
    KINDS.iter().for_each(|kind| begins("python", kind));
}

#[test]
fn a_policy_in_javascript_begins_well() {
    KINDS.iter().for_each(|kind| begins("js", kind));
}

#[test]
fn a_name_that_cannot_be_one_is_refused_and_nothing_is_overwritten() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = text(folder.path());
    for name in ["Mine", "-x", "a_b", "x-", "ä", &"x".repeat(64)] {
        let output = capmaas(&["policy", "new", "--kind", "allocation", "--dir", dir, "--", name]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("1-63 of a-z"), "{name}: {said}");
    }
    let args = ["policy", "new", "mine", "--kind", "dns-naming", "--dir", dir];
    says(&args);
    assert!(complains(&args).contains("is there already"));
}
