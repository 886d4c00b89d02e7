//! What a policy looks like in a registry: the layout of CNCF's WebAssembly working group
//! (<https://tag-runtime.cncf.io/wgs/wasm/deliverables/wasm-oci-artifact/>).

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::super::bounded;
use super::super::form::Surface;
use super::digest::Digest;
use super::error::{Category, Error, Result};

/// Largest manifest, bytes. The distribution specification lets registries refuse larger ones than 4 MiB.
pub(super) const LARGEST_MANIFEST: usize = 1 << 20;
/// Largest component, bytes: what may be loaded, too.
pub(super) const LARGEST_LAYER: usize = 32 << 20;

/// Media type of a manifest.
pub(super) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// What we ask for. Lists are asked for so that they can be refused with words; else a registry says that there is nothing.
pub(super) const ACCEPTED: &str = "application/vnd.oci.image.manifest.v1+json, \
     application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json, \
     application/vnd.docker.distribution.manifest.list.v2+json";
const CONFIG: &str = "application/vnd.wasm.config.v0+json";
const LAYER: &str = "application/wasm";
/// The layer of older tools (wasm-to-oci, wasmCloud, Kubewarden), with a config of many types.
const OLDER_LAYER: &str = "application/vnd.wasm.content.layer.v1+wasm";

/// The layer with the component.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Layer {
    pub(super) digest: Digest,
    /// Bytes, at most [`LARGEST_LAYER`].
    pub(super) size: usize,
}

/// What is looked at in a manifest. Everything else, however large or deep, is skipped without being kept.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Received {
    schema_version: Option<u64>,
    media_type: Option<String>,
    manifests: Option<IgnoredAny>,
    layers: Option<Vec<ReceivedLayer>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReceivedLayer {
    media_type: String,
    digest: String,
    size: u64,
}

/// Finds the component's layer in a manifest.
///
/// Only the text itself counts, not the type that the registry said it has: the type is no part of what the digest pins.
pub(super) fn layer_of(manifest: &[u8]) -> Result<Layer> {
    let received: Received = serde_json::from_slice(manifest).map_err(|error| {
        // What serde says may quote the text.
        let (line, column) = (error.line(), error.column());
        bad(format!("it is no manifest of an artifact (JSON, line {line}, column {column})"))
    })?;
    let kind = received.media_type.as_deref().unwrap_or(MANIFEST);
    if received.manifests.is_some() || kind.contains("index") || kind.contains("manifest.list") {
        return Err(bad(
            "it is a list of manifests (an image index); a policy is one artifact: name the digest of that one",
        ));
    }
    if received.schema_version != Some(2) {
        return Err(bad("it is no manifest of schema version 2"));
    }
    let layers = received.layers.unwrap_or_default();
    let [layer] = layers.as_slice() else {
        return Err(bad(format!("it has {} layers; a policy has one", layers.len())));
    };
    if ![LAYER, OLDER_LAYER].contains(&layer.media_type.as_str()) {
        return Err(bad(format!(
            "its layer is of type {:?}, and a policy's is {LAYER} or {OLDER_LAYER}",
            bounded(&layer.media_type, 100)
        )));
    }
    let size = usize::try_from(layer.size).unwrap_or(usize::MAX);
    if size > LARGEST_LAYER {
        return Err(Error::new(Category::TooLarge, "the component is larger than 32 MiB"));
    }
    let digest = layer.digest.parse().map_err(|error: Error| bad(error.message()))?;
    Ok(Layer { digest, size })
}

fn bad(why: impl AsRef<str>) -> Error {
    Error::new(Category::BadArtifact, why)
}

/// An artifact that is to be pushed: the same bytes for the same component and annotations, at all times.
pub(super) struct Artifact {
    pub(super) config: Vec<u8>,
    pub(super) manifest: Vec<u8>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Manifest<'a> {
    schema_version: u8,
    media_type: &'a str,
    config: Descriptor<'a>,
    layers: [Descriptor<'a>; 1],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor<'a> {
    media_type: &'a str,
    digest: String,
    size: usize,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<&'a str, &'a str>,
}

impl<'a> Descriptor<'a> {
    fn new(media_type: &'a str, bytes: &[u8]) -> Self {
        let digest = Digest::of(bytes).to_string();
        Self { media_type, digest, size: bytes.len(), annotations: BTreeMap::new() }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    created: &'static str,
    architecture: &'static str,
    os: &'static str,
    layer_digests: [String; 1],
    component: Component,
}

#[derive(Serialize)]
struct Component {
    exports: Vec<String>,
    imports: Vec<String>,
    target: Option<String>,
}

impl Artifact {
    /// # Errors
    /// When it is no component, or too large.
    pub(super) fn of(wasm: &[u8], annotations: &BTreeMap<String, String>) -> Result<Self> {
        if wasm.len() > LARGEST_LAYER {
            return Err(Error::new(Category::TooLarge, "the component is larger than 32 MiB"));
        }
        let config = Config {
            // Readers of this layout want one (crate oci-wasm); the present time would make every push another artifact.
            created: "1970-01-01T00:00:00Z",
            architecture: "wasm",
            // What the layout says of every component, though a policy gets no WASI.
            os: "wasip2",
            layer_digests: [Digest::of(wasm).to_string()],
            component: component(wasm)?,
        };
        let config = serde_json::to_vec(&config).map_err(|e| bad(e.to_string()))?;
        let mut layer = Descriptor::new(LAYER, wasm);
        // Without a title, `oras pull` writes no file.
        layer.annotations.insert("org.opencontainers.image.title", "policy.wasm");
        let manifest = Manifest {
            schema_version: 2,
            media_type: MANIFEST,
            config: Descriptor::new(CONFIG, &config),
            layers: [layer],
            annotations,
        };
        let manifest = serde_json::to_vec(&manifest).map_err(|e| bad(e.to_string()))?;
        if manifest.len() > LARGEST_MANIFEST {
            let why = "the annotations make the manifest larger than 1 MiB";
            return Err(Error::new(Category::TooLarge, why));
        }
        Ok(Self { config, manifest })
    }
}

/// The names at the outermost level, which the config repeats so that nobody has to fetch the component for them.
fn component(wasm: &[u8]) -> Result<Component> {
    if wasm.get(..8) != Some(b"\0asm\x0d\0\x01\0") {
        return Err(bad("it is no WebAssembly component, so it is no policy"));
    }
    let surface = Surface::of(wasm).map_err(|error| {
        bad(format!("it is a broken component: {}", bounded(&error.to_string(), 200)))
    })?;
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    Ok(Component { exports: owned(surface.exports), imports: owned(surface.imports), target: None })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::{Artifact, Category, Digest, LARGEST_LAYER, LAYER, OLDER_LAYER, layer_of};
    use crate::policy::embedded::DNS_NAMING;

    fn manifest(layers: &str) -> String {
        format!(r#"{{"schemaVersion": 2, "config": {{}}, "layers": [{layers}]}}"#)
    }

    fn layer(kind: &str, size: u64) -> String {
        format!(r#"{{"mediaType": "{kind}", "digest": "{}", "size": {size}}}"#, Digest::of(b"x"))
    }

    #[test]
    fn both_types_of_layers_are_accepted() {
        for kind in [LAYER, OLDER_LAYER] {
            let found = layer_of(manifest(&layer(kind, 7)).as_bytes()).unwrap();
            assert_eq!((found.digest, found.size), (Digest::of(b"x"), 7));
        }
    }

    #[test]
    fn what_is_no_policy_is_refused_with_words() {
        let one = layer(LAYER, 1);
        let sha512 = one.replace("sha256", "sha512");
        for (text, words) in [
            ("", "JSON, line"),
            ("[]", "JSON, line"),
            (&manifest(r#"{"mediaType": 7}"#), "JSON, line"),
            (r#"{"schemaVersion": 2}"#, "0 layers"),
            (r#"{"schemaVersion": 1, "fsLayers": []}"#, "schema version 2"),
            (&manifest(""), "0 layers"),
            (&manifest(&format!("{one},{one}")), "2 layers"),
            (&manifest(&layer("application/vnd.oci.image.layer.v1.tar+gzip", 1)), "tar+gzip"),
            (&manifest(&sha512), "sha256"),
            (r#"{"schemaVersion": 2, "manifests": []}"#, "list of manifests"),
            (
                &manifest(&one).replace("\"config\"", "\"manifests\": [], \"config\""),
                "list of manifests",
            ),
            (
                r#"{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json"}"#,
                "list of",
            ),
        ] {
            let error = layer_of(text.as_bytes()).expect_err(text);
            assert_eq!(error.category(), Category::BadArtifact, "{text}");
            assert!(error.message().contains(words), "{text}: {error}");
        }
        for size in [LARGEST_LAYER as u64 + 1, u64::MAX] {
            let error = layer_of(manifest(&layer(LAYER, size)).as_bytes()).unwrap_err();
            assert_eq!(error.category(), Category::TooLarge);
        }
    }

    #[test]
    fn deep_and_wide_manifests_are_refused_without_harm() {
        let deep = format!(r#"{{"schemaVersion": 2, "annotations": {}"#, "[".repeat(1 << 20));
        assert_eq!(layer_of(deep.as_bytes()).unwrap_err().category(), Category::BadArtifact);
        let wide = manifest(&vec![layer(LAYER, 1); 8000].join(","));
        assert!(layer_of(wide.as_bytes()).unwrap_err().message().contains("8000 layers"));
    }

    /// What is taken is what the text says, and an error is for the operator's eyes.
    fn is_one_bounded_layer(manifest: &[u8]) {
        let layer = match layer_of(manifest) {
            Ok(layer) => layer,
            Err(error) => {
                let taken = [Category::BadArtifact, Category::TooLarge].contains(&error.category());
                assert!(taken && !error.message().chars().any(char::is_control), "{error}");
                return;
            }
        };
        let said: Value = serde_json::from_slice(manifest).unwrap();
        assert_eq!(said["layers"].as_array().map(Vec::len), Some(1), "{said}");
        let only = &said["layers"][0];
        assert!(layer.size <= 32 * 1024 * 1024, "{said}");
        assert_eq!(
            (only["size"].as_u64(), only["digest"].as_str()),
            (Some(layer.size as u64), Some(layer.digest.to_string().as_str()))
        );
        let kinds = ["application/wasm", "application/vnd.wasm.content.layer.v1+wasm"];
        assert!(kinds.iter().any(|kind| only["mediaType"] == *kind), "{said}");
        assert_eq!((&said["schemaVersion"], &said["manifests"]), (&json!(2), &Value::Null));
    }

    /// What a registry may put where something else belongs.
    fn odd() -> impl Strategy<Value = Value> {
        let edge = (LARGEST_LAYER as u64 - 1)..(LARGEST_LAYER as u64 + 2);
        prop_oneof![
            Just(Value::Null),
            "(?s).{0,200}".prop_map(Value::from),
            "sha256:[0-9a-fA-F]{63,65}".prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            edge.prop_map(Value::from),
            Just(json!([])),
            Just(json!([{ "mediaType": LAYER }])),
        ]
    }

    proptest! {
        #[test]
        fn a_manifest_is_one_bounded_layer_or_an_error(
            bytes in prop::collection::vec(any::<u8>(), 0..60),
            kind in prop::sample::select(&[LAYER, OLDER_LAYER, "application/zip"][..]),
            size in 0..=LARGEST_LAYER as u64 + 1,
            field in prop::sample::select(
                &["/schemaVersion", "/mediaType", "/manifests", "/layers", "/layers/0/mediaType", "/layers/0/digest",
                  "/layers/0/size", "/annotations"][..],
            ),
            value in prop::option::of(odd()),
        ) {
            is_one_bounded_layer(&bytes);
            let digest = Digest::of(&bytes);
            let mut whole = json!({
                "schemaVersion": 2, "mediaType": super::MANIFEST, "manifests": null, "annotations": null,
                "layers": [{ "mediaType": kind, "digest": digest.to_string(), "size": size }],
            });
            let found = layer_of(whole.to_string().as_bytes());
            prop_assert_eq!(found.is_ok(), kind != "application/zip" && size <= LARGEST_LAYER as u64);
            if let Some(value) = value {
                *whole.pointer_mut(field).unwrap() = value;
                is_one_bounded_layer(whole.to_string().as_bytes());
            }
        }
    }

    #[test]
    fn the_same_input_makes_the_same_artifact_which_can_be_read() {
        let annotations =
            BTreeMap::from([("b".to_owned(), "2".to_owned()), ("a".into(), "1".into())]);
        let made = Artifact::of(DNS_NAMING, &annotations).unwrap();
        let again = Artifact::of(DNS_NAMING, &annotations).unwrap();
        assert_eq!((&made.config, &made.manifest), (&again.config, &again.manifest));
        let found = layer_of(&made.manifest).unwrap();
        assert_eq!((found.digest, found.size), (Digest::of(DNS_NAMING), DNS_NAMING.len()));
        let config: serde_json::Value = serde_json::from_slice(&made.config).unwrap();
        let exports = config["component"]["exports"].as_array().unwrap();
        assert!(exports.iter().any(|e| e == "capmaas:policy/dns-naming@0.1.0"), "{config}");
        let manifest = String::from_utf8(made.manifest).unwrap();
        assert!(manifest.ends_with(r#""annotations":{"a":"1","b":"2"}}"#), "{manifest}");
    }

    #[test]
    fn only_a_component_can_be_pushed() {
        for wasm in [&b""[..], b"#!/bin/sh", b"\0asm\x01\0\0\0", b"\0asm\x0d\0\x01\0\xff"] {
            let error = Artifact::of(wasm, &BTreeMap::new()).err().unwrap();
            assert_eq!(error.category(), Category::BadArtifact);
        }
        let huge = vec![0; LARGEST_LAYER + 1];
        assert_eq!(
            Artifact::of(&huge, &BTreeMap::new()).err().unwrap().category(),
            Category::TooLarge
        );
    }
}
