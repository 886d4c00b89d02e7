//! The committed CustomResourceDefinitions are what the types say.

use std::path::Path;

#[test]
fn the_committed_definitions_are_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crds");
    for (name, text) in capmaas_api::custom_resource_definitions_yaml() {
        let committed = std::fs::read_to_string(folder.join(&name)).unwrap_or_default();
        assert!(committed == text, "crds/{name} has drifted from the types: run `make crds`");
    }
    let files = std::fs::read_dir(&folder).expect("crds/ exists").count();
    let readme = usize::from(folder.join("README.md").exists());
    assert_eq!(files - readme, capmaas_api::custom_resource_definitions_yaml().len());
}

#[test]
fn the_chart_ships_the_same_definitions() {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/capmaas/crds");
    let target = std::fs::read_link(chart).expect("charts/capmaas/crds is a link");
    assert_eq!(target, Path::new("../../crds"));
}

/// `kubectl apply` keeps what was applied in an annotation, and annotations hold 256 KiB.
#[test]
fn b135_every_definition_is_small_enough_for_kubectl_apply() {
    for (name, text) in capmaas_api::custom_resource_definitions_yaml() {
        assert!(text.len() < 200 << 10, "{name} has {} bytes", text.len());
    }
}
