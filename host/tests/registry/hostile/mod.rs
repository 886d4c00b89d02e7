//! Registries that are up to no good, and what becomes of it: a category, and nothing else.

mod bodies;
mod places;
mod time;
mod tokens;
mod uploads;

use capmaas::policy::oci::{Digest, Reference};
use serde_json::json;

use super::common::{policy, reference};
use super::stranger::{Reply, Seen, Stranger};

/// An artifact as an honest registry has it.
#[derive(Clone)]
struct Shelf {
    manifest: String,
    layer: Digest,
    wasm: Vec<u8>,
}

impl Shelf {
    fn new() -> Self {
        Self::with_size(policy().len() as u64)
    }

    /// One whose manifest says that the component has this size.
    fn with_size(size: u64) -> Self {
        let layer = Digest::of(&policy());
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": { "mediaType": "application/vnd.wasm.config.v0+json", "digest": Digest::of(b"{}").to_string(), "size": 2 },
            "layers": [{ "mediaType": "application/wasm", "digest": layer.to_string(), "size": size }],
        });
        Self { manifest: manifest.to_string(), layer, wasm: policy() }
    }

    fn digest(&self) -> Digest {
        Digest::of(self.manifest.as_bytes())
    }

    /// The policy at this server, pinned.
    fn at(&self, stranger: &Stranger) -> Reference {
        tag(stranger).at(self.digest())
    }

    /// What an honest registry answers.
    fn serve(&self, seen: &Seen) -> Reply {
        if seen.path.contains("/manifests/") {
            Reply::ok(self.manifest.clone())
        } else if seen.path.contains(&self.layer.to_string()) {
            Reply::ok(self.wasm.clone())
        } else {
            Reply::status(404)
        }
    }
}

/// The policy at this server, by its tag.
fn tag(stranger: &Stranger) -> Reference {
    reference(&format!("{}/team/policy:1", stranger.host()))
}

fn for_manifests(seen: &Seen) -> bool {
    seen.path.contains("/manifests/")
}

fn for_blobs(seen: &Seen) -> bool {
    seen.path.contains("/blobs/")
}
