//! What is pushed and pulled, by us and by oras.

use std::collections::BTreeMap;
use std::path::Path;

use capmaas::policy::oci::{Category, Digest, pull, push, resolve};
use control_plane::Registry;
use serde_json::Value;

use super::common::{at, is_policy, none, open_registry, plain, policy, reference, refused};

const STANDARD: &str = "application/wasm";
const OLDER: &str = "application/vnd.wasm.content.layer.v1+wasm";

/// Pushes the policy with oras, and returns the digest of its manifest.
fn oras_push(registry: &Registry, name: &str, options: &[&str], layers: &[&str]) -> Digest {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("policy.wasm"), policy()).unwrap();
    std::fs::write(folder.path().join("config.json"), "{}").unwrap();
    std::fs::write(folder.path().join("second.wasm"), "2").unwrap();
    let target = format!("{}/{name}", registry.host());
    let mut arguments = vec!["push", &target];
    arguments.extend(options);
    arguments.extend(layers);
    registry.oras(folder.path(), &arguments).unwrap();
    let manifest = registry.oras(folder.path(), &["manifest", "fetch", &target]).unwrap();
    Digest::of(manifest.as_bytes())
}

#[tokio::test]
async fn what_we_push_we_pull_by_tag_and_by_digest() {
    let registry = open_registry();
    let tagged = at(&registry, "team/policy:1.0");
    let digest = push(&tagged, &plain(), policy(), &none()).await.unwrap();
    assert_eq!(resolve(&tagged, &plain()).await.unwrap(), digest);
    for reference in
        [&tagged, &tagged.at(digest.clone()), &at(&registry, "team/policy").at(digest.clone())]
    {
        is_policy(&pull(reference, &plain(), None).await.unwrap(), &digest);
    }
    // Nobody has asked what else there is.
    let requests = registry.requests().unwrap();
    assert!(requests.len() > 8, "{requests:?}");
    assert!(
        !requests.iter().any(|r| r.contains("/tags/") || r.contains("_catalog")),
        "{requests:?}"
    );
}

#[tokio::test]
async fn the_same_policy_is_the_same_artifact_wherever_it_is_pushed() {
    let (one, two) = (open_registry(), open_registry());
    let annotations =
        BTreeMap::from([("org.opencontainers.image.version".to_owned(), "1.0".to_owned())]);
    let first = push(&at(&one, "a/b:1"), &plain(), policy(), &annotations).await.unwrap();
    let again = push(&at(&one, "a/b:1"), &plain(), policy(), &annotations).await.unwrap();
    let other = push(&at(&two, "c:2"), &plain(), policy(), &annotations).await.unwrap();
    assert_eq!([&again, &other], [&first, &first]);
    assert_ne!(push(&at(&one, "a/b:1"), &plain(), policy(), &none()).await.unwrap(), first);
    // What is there already is not uploaded again.
    let uploads = one
        .requests()
        .unwrap()
        .iter()
        .filter(|r| r.contains("\"PUT") && r.contains("/uploads/"))
        .count();
    assert_eq!(uploads, 2, "the component and its config");
}

#[tokio::test]
async fn a_digest_alone_can_be_pushed_to_and_another_one_not() {
    let registry = open_registry();
    let digest = push(&at(&registry, "a:1"), &plain(), policy(), &none()).await.unwrap();
    let pinned = at(&registry, "b").at(digest.clone());
    assert_eq!(push(&pinned, &plain(), policy(), &none()).await.unwrap(), digest);
    is_policy(&pull(&pinned, &plain(), None).await.unwrap(), &digest);
    let other = at(&registry, "b").at(Digest::of(b"other"));
    refused(push(&other, &plain(), policy(), &none()).await, Category::BadReference);
}

#[tokio::test]
async fn oras_reads_what_we_push() {
    let registry = open_registry();
    let digest = push(&at(&registry, "team/policy:1"), &plain(), policy(), &none()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let target = format!("{}/team/policy:1", registry.host());
    let manifest = registry.oras(folder.path(), &["manifest", "fetch", &target]).unwrap();
    assert_eq!(Digest::of(manifest.as_bytes()), digest);
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    assert_eq!(manifest["config"]["mediaType"], "application/vnd.wasm.config.v0+json");
    assert_eq!(manifest["layers"][0]["mediaType"], STANDARD);
    let config = registry.oras(folder.path(), &["manifest", "fetch-config", &target]).unwrap();
    let config: Value = serde_json::from_str(&config).unwrap();
    assert_eq!((&config["architecture"], &config["os"]), (&"wasm".into(), &"wasip2".into()));
    assert_eq!(config["layerDigests"][0], Digest::of(&policy()).to_string());
    registry.oras(folder.path(), &["pull", &format!("{target}@{digest}")]).unwrap();
    assert!(std::fs::read(folder.path().join("policy.wasm")).unwrap() == policy());
}

#[tokio::test]
async fn we_pull_what_oras_pushes_in_the_standard_and_in_the_older_layout() {
    let registry = open_registry();
    for (name, options, layer) in [
        (
            "standard:1",
            &["--config", "config.json:application/vnd.wasm.config.v0+json"][..],
            STANDARD,
        ),
        ("older:1", &["--config", "config.json:application/vnd.wasm.config.v1+json"], OLDER),
        ("bare:1", &[], STANDARD),
        ("typed:1", &["--artifact-type", "application/vnd.example"], OLDER),
        ("v1.0:1", &["--image-spec", "v1.0"], OLDER),
    ] {
        let digest = oras_push(&registry, name, options, &[&format!("policy.wasm:{layer}")]);
        is_policy(&pull(&at(&registry, name), &plain(), None).await.unwrap(), &digest);
    }
}

#[tokio::test]
async fn artifacts_that_are_no_policy_are_refused_with_words() {
    let registry = open_registry();
    let wasm = format!("policy.wasm:{STANDARD}");
    oras_push(&registry, "p:image", &[], &["policy.wasm:application/vnd.oci.image.layer.v1.tar"]);
    oras_push(&registry, "p:two", &[], &[&wasm, &format!("second.wasm:{STANDARD}")]);
    oras_push(&registry, "p:one", &[], &[&wasm]);
    let index = format!("{}/p:index", registry.host());
    registry.oras(Path::new("/"), &["manifest", "index", "create", &index, "one"]).unwrap();
    for (tag, words) in
        [("image", "layer.v1.tar"), ("two", "2 layers"), ("index", "list of manifests")]
    {
        let reference = at(&registry, &format!("p:{tag}"));
        let error = refused(pull(&reference, &plain(), None).await, Category::BadArtifact);
        assert!(error.message().contains(words), "{error}");
        refused(resolve(&reference, &plain()).await, Category::BadArtifact);
    }
}

#[tokio::test]
async fn a_pin_holds_when_the_tag_moves() {
    let registry = open_registry();
    let tag = at(&registry, "p:latest");
    let old = push(&tag, &plain(), policy(), &none()).await.unwrap();
    let annotations = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
    let new = push(&tag, &plain(), policy(), &annotations).await.unwrap();
    assert_eq!(resolve(&tag, &plain()).await.unwrap(), new);
    let pinned = reference(&format!("{}/p:latest@{old}", registry.host()));
    assert_eq!(pull(&pinned, &plain(), None).await.unwrap().manifest_digest, old);
    assert_eq!(resolve(&pinned, &plain()).await.unwrap(), old);
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let registry = open_registry();
    push(&at(&registry, "p:1"), &plain(), policy(), &none()).await.unwrap();
    for reference in
        [at(&registry, "p:2"), at(&registry, "q:1"), at(&registry, "p").at(Digest::of(b""))]
    {
        let error = refused(pull(&reference, &plain(), None).await, Category::NotFound);
        assert!(error.message().contains(&reference.to_string()), "{error}");
    }
}
