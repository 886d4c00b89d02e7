//! Gives every answer that interface 0.1.0 has to a naming, and repeats what it was told.
//!
//! The cluster's name says which answer.

wit_bindgen::generate!({ path: "../policy.wit", world: "dns-naming-policy" });

use capmaas::policy::host::{Level, log};
use capmaas::policy::types::Refusal;
use exports::capmaas::policy::dns_naming::{Guest as DnsNaming, Name, Request};
use exports::capmaas::policy::metadata::{Description, Guest as Metadata, Issue};

struct Policy;

impl Metadata for Policy {
    fn describe() -> Description {
        Description {
            name: "interface-dns-naming".into(),
            version: "0.1.0".into(),
            summary: "every answer of interface 0.1.0 to a naming".into(),
            config_schema: r#"{"type": "object"}"#.into(),
        }
    }

    fn check_config(config: String) -> Result<(), Vec<Issue>> {
        if !config.contains("wrong") {
            return Ok(());
        }
        let issue = |pointer: &str, problem: &str| Issue {
            pointer: pointer.into(),
            problem: problem.into(),
        };
        Err(vec![issue("/wrong", "this is wrong"), issue("", "and so is all of it")])
    }
}

impl DnsNaming for Policy {
    fn propose(request: Request) -> Result<Option<Name>, Refusal> {
        let context = &request.context;
        for level in [Level::Debug, Level::Info, Level::Warn, Level::Error] {
            log(level, &context.cluster);
        }
        let label = format!("api{}-{}", request.attempt, request.suffix);
        match context.cluster.as_str() {
            "none" => Ok(None),
            "label" => Ok(Some(Name { label, domain: None, ttl_seconds: None })),
            "domain" => {
                let domain = request.allowed_domains.last().cloned();
                Ok(Some(Name { label, domain, ttl_seconds: None }))
            }
            "ttl" => {
                Ok(Some(Name { label, domain: None, ttl_seconds: Some(30 * request.attempt) }))
            }
            "everything" => {
                let domain = request.allowed_domains.last().cloned();
                Ok(Some(Name { label, domain, ttl_seconds: Some(30 * request.attempt) }))
            }
            "badconfig" => Err(Refusal::BadConfig(repeated(&request))),
            _ => Err(Refusal::Failed(repeated(&request))),
        }
    }
}

fn repeated(request: &Request) -> String {
    let c = &request.context;
    let config: String = c.config.split_whitespace().collect();
    let pairs: Vec<String> =
        c.attributes.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!(
        "{} {} {} {} {config} {}, {} {} {} {} {}",
        c.decision_id,
        c.now,
        c.namespace,
        c.cluster,
        pairs.join("+"),
        request.suffix,
        request.default_domain,
        request.allowed_domains.join("+"),
        request.taken.join("+"),
        request.attempt
    )
}

export!(Policy);
