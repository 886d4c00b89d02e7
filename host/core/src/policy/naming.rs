use serde::{Deserialize, Serialize};

use super::Context;
use crate::text::bounded;

/// How shall the endpoint be called?
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct NameRequest {
    /// Cluster, time, seed.
    pub context: Context,
    /// Six characters, random, stable for one attempt.
    pub suffix: String,
    /// `MaasCluster.spec.dnsDomain`.
    pub default_domain: String,
    /// Domains an answer may use.
    pub allowed_domains: Vec<String>,
    /// Full names already refused in this decision.
    pub taken: Vec<String>,
    /// Counts from 0.
    pub attempt: u32,
}

/// A proposed name.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Name {
    /// One RFC 1123 label.
    pub label: String,
    /// Domain; `None` is the default one.
    pub domain: Option<String>,
    /// Seconds; `None` is 10.
    pub ttl_seconds: Option<u32>,
}

/// The full name an answer stands for, or why it cannot be used.
pub fn fqdn(answer: Option<&Name>, request: &NameRequest) -> Result<String, String> {
    let Some(name) = answer else {
        let label = built_in_label(&request.context.cluster, &request.suffix);
        return sound(&label, &request.default_domain);
    };
    if !is_label(&name.label) {
        let shown = bounded(&name.label, 80);
        return Err(format!(
            "label {shown:?} is not one RFC 1123 label (1-63 of a-z, 0-9 and -, no - at the ends)"
        ));
    }
    let domain = name.domain.as_deref().unwrap_or(&request.default_domain);
    if !request.allowed_domains.iter().any(|d| d == domain) {
        let shown = bounded(domain, 80);
        let allowed = bounded(&request.allowed_domains.join(", "), 150);
        return Err(format!("domain {shown:?} is not allowed here (allowed: {allowed})"));
    }
    sound(&name.label, domain)
}

/// A label and a domain may each be as long as DNS allows, and together too long.
fn sound(label: &str, domain: &str) -> Result<String, String> {
    let fqdn = format!("{label}.{domain}");
    if fqdn.len() > LONGEST_NAME {
        return Err(format!("it has {} characters, and DNS allows {LONGEST_NAME}", fqdn.len()));
    }
    if !is_dns_name(&fqdn) {
        let shown = bounded(domain, 80);
        return Err(format!("{shown:?} is no DNS domain: correct spec.dnsDomain"));
    }
    Ok(fqdn)
}

const LONGEST_NAME: usize = 253;

/// A name that can be looked up. Which labels it takes for a new record, MAAS knows best.
pub(crate) fn is_dns_name(text: &str) -> bool {
    let letter = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let label = |l: &str| (1..=63).contains(&l.len()) && l.bytes().all(letter);
    text.len() <= LONGEST_NAME && text.split('.').all(label)
}

/// `<cluster>-<suffix>`, cut so that the label stays within 63 characters.
fn built_in_label(cluster: &str, suffix: &str) -> String {
    let clean: String = cluster
        .to_ascii_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(63usize.saturating_sub(suffix.len() + 1))
        .collect();
    match clean.trim_matches('-') {
        "" => suffix.to_owned(),
        clean => format!("{clean}-{suffix}"),
    }
}

fn is_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&text.len())
        && text.chars().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> NameRequest {
        NameRequest {
            context: Context {
                decision_id: "d".into(),
                now: 0,
                namespace: "default".into(),
                cluster: "my-cluster".into(),
                attributes: vec![],
            },
            suffix: "a1b2c3".into(),
            default_domain: "maas".into(),
            allowed_domains: vec!["maas".into()],
            taken: vec![],
            attempt: 0,
        }
    }

    fn name(label: &str, domain: Option<&str>) -> Name {
        Name { label: label.into(), domain: domain.map(Into::into), ttl_seconds: None }
    }

    #[test]
    fn the_built_in_name_is_cluster_and_suffix() {
        assert_eq!(fqdn(None, &request()).unwrap(), "my-cluster-a1b2c3.maas");
        let mut long = request();
        long.context.cluster = "x".repeat(80);
        let label = fqdn(None, &long).unwrap();
        assert_eq!(label.split('.').next().unwrap().len(), 63);
        for nameless in ["", "-", "..."] {
            long.context.cluster = nameless.into();
            assert_eq!(fqdn(None, &long).unwrap(), "a1b2c3.maas");
        }
    }

    #[test]
    fn a_name_is_one_that_dns_allows() {
        let mut request = request();
        request.default_domain = ["x".repeat(61).as_str(); 4].join(".");
        assert_eq!(request.default_domain.len(), 247);
        request.allowed_domains = vec![request.default_domain.clone()];
        assert_eq!(fqdn(Some(&name("apiii", None)), &request).unwrap().len(), 253);
        let problem = fqdn(Some(&name("apiiii", None)), &request).unwrap_err();
        assert!(problem.contains("254"), "{problem}");
        for domain in ["", "my domain", "corp..example", "maas\n"] {
            request.default_domain = domain.into();
            assert!(fqdn(None, &request).unwrap_err().contains("spec.dnsDomain"), "{domain:?}");
        }
    }

    #[test]
    fn a_bad_label_or_a_foreign_domain_is_refused_with_the_reason() {
        let bad_names = ["", "-a", "a-", "A", "a.b", "ä"];
        for label in bad_names {
            assert!(fqdn(Some(&name(label, None)), &request()).is_err(), "{label}");
        }
        assert!(fqdn(Some(&name(&"x".repeat(10_000), None)), &request()).unwrap_err().len() < 300);
        let foreign = fqdn(Some(&name("api", Some("corp"))), &request()).unwrap_err();
        assert!(foreign.contains("corp") && foreign.contains("maas"), "{foreign}");
        assert_eq!(fqdn(Some(&name("api", None)), &request()).unwrap(), "api.maas");
    }
}
