//! The built-in name: `<cluster>-<six characters>` in the cluster's own domain.

wit_bindgen::generate!({ path: "../../wit", world: "dns-naming-policy" });

use arena as _;
use capmaas::policy::types::Refusal;
use exports::capmaas::policy::dns_naming::{Guest as DnsNaming, Name, Request};
use exports::capmaas::policy::metadata::{Description, Guest as Metadata, Issue};

/// A DNS label ends here (RFC 1035).
const LONGEST_LABEL: usize = 63;

struct Policy;

impl Metadata for Policy {
    fn describe() -> Description {
        Description {
            name: "dns-naming-default".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "<cluster>-<suffix> in the cluster's own domain".into(),
            config_schema: r#"{"type":"object","additionalProperties":false}"#.into(),
        }
    }

    fn check_config(config: String) -> Result<(), Vec<Issue>> {
        let empty: String = config.chars().filter(|c| !c.is_whitespace()).collect();
        if matches!(empty.as_str(), "" | "{}") {
            return Ok(());
        }
        Err(vec![Issue { pointer: "".into(), problem: "this policy has no settings".into() }])
    }
}

impl DnsNaming for Policy {
    fn propose(request: Request) -> Result<Option<Name>, Refusal> {
        let room = LONGEST_LABEL - request.suffix.len() - 1;
        let front: String = request
            .context
            .cluster
            .to_ascii_lowercase()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .take(room)
            .collect();
        let label = format!("{}-{}", front.trim_matches('-'), request.suffix);
        Ok(Some(Name { label, domain: None, ttl_seconds: None }))
    }
}

export!(Policy);
