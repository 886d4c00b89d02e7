//! Every policy that comes with the project answers its golden cases.

use std::path::{Path, PathBuf};

use super::{built, root, says, text};

/// Runs all cases of a folder; returns how many there were.
fn all_pass(component: &Path, cases: &Path) -> usize {
    let said = says(&["policy", "run", text(component), "--case", text(cases), "--output", "json"]);
    let outcomes: Vec<serde_json::Value> = serde_json::from_str(&said).expect("JSON");
    assert!(outcomes.iter().all(|o| o["passed"] == true), "{said}");
    outcomes.len()
}

/// Folders below this one that have golden cases.
fn with_cases(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(folder)).expect("the folder is there");
    let folders = entries.map(|e| e.expect("an entry").path());
    folders.filter(|f| f.join("cases").is_dir()).collect()
}

fn all_of(folder: &str, at_least: usize) {
    let policies = with_cases(folder);
    assert!(policies.len() >= at_least, "{policies:?}");
    for policy in policies {
        let name = policy.file_name().expect("a name").to_str().expect("UTF-8");
        assert!(all_pass(&built(name), &policy.join("cases")) >= 2, "{name} has few cases");
    }
}

#[test]
fn the_policies_in_rust_answer_their_cases() {
    all_of("plugins", 9);
}

#[test]
fn the_policies_in_python_answer_their_cases() {
    all_of("plugins/python", 3);
}

#[test]
fn the_policies_in_javascript_answer_their_cases() {
    all_of("plugins/javascript", 1);
}

/// Built once, against interface 0.1.0, and never again: whoever did that must be served by every release.
#[test]
fn components_built_against_interface_0_1_0_answer_as_they_always_did() {
    let fixture = root().join("tests/guests/interface-0.1.0");
    for (kind, at_least) in [("allocation", 16), ("dns-naming", 9), ("failure-handling", 13)] {
        let component = fixture.join(format!("{kind}.wasm"));
        assert!(all_pass(&component, &fixture.join("cases").join(kind)) >= at_least);
    }
}
