//! How to name a cluster's endpoint: `<namespace>-<cluster>-<suffix>`.

wit_bindgen::generate!({ path: "wit", world: "dns-naming-policy" });

use capmaas::policy::types::Refusal;
use exports::capmaas::policy::dns_naming::{Guest as DnsNaming, Name, Request};
use exports::capmaas::policy::metadata::{Description, Guest as Metadata, Issue};

/// A DNS label ends here (RFC 1035).
const LONGEST_LABEL: usize = 63;

struct Policy;

impl Metadata for Policy {
    fn describe() -> Description {
        Description {
            name: "@NAME@".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "names begin with the namespace".into(),
            // JSON Schema of the settings, which the host checks before check_config is asked.
            config_schema: r#"{"type": "object", "additionalProperties": false}"#.into(),
        }
    }

    fn check_config(_config: String) -> Result<(), Vec<Issue>> {
        Ok(())
    }
}

impl DnsNaming for Policy {
    fn propose(request: Request) -> Result<Option<Name>, Refusal> {
        // Names of Kubernetes objects are made of the letters that DNS allows, but for dots.
        let front = format!("{}-{}", request.context.namespace, request.context.cluster).replace('.', "-");
        let room = LONGEST_LABEL - request.suffix.len() - 1;
        let front: String = front.chars().take(room).collect();
        let label = format!("{}-{}", front.trim_matches('-'), request.suffix);
        Ok(Some(Name { label, domain: None, ttl_seconds: None }))
    }
}

export!(Policy);
