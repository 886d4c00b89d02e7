//! What an operator types: endpoint and key.

use capmaas::config::Cli;
use capmaas::maas::{ApiKey, Endpoint};
use clap::Parser;
use url::Url;

const SECRET: &str = "7kQv2XwZb9TnR4sLd8HmYc3PfGj6AeUx";

pub(crate) fn endpoint(text: &str, path: &str) {
    let Ok(endpoint) = Endpoint::parse(text) else {
        return;
    };
    let shown = endpoint.to_string();
    let base = Url::parse(&shown).unwrap();
    assert!(matches!(base.scheme(), "http" | "https") && base.host().is_some(), "{shown}");
    assert!(base.username().is_empty() && base.password().is_none(), "{shown}");
    assert!(base.query().is_none() && base.fragment().is_none(), "{shown}");
    assert!(base.path().ends_with("/api/2.0/") && base.path() != "/api/2.0/", "{shown}");
    assert_eq!(Endpoint::parse(&shown).unwrap(), endpoint, "{text:?} read twice is another");
    let typed = Url::parse(text.trim()).unwrap();
    assert_eq!(typed.origin(), base.origin(), "{text:?} became {shown}");
    let url = endpoint.url(path);
    assert!(url.as_str().starts_with(&shown), "{path:?} leads from {shown} to {url}");
    assert_eq!(Url::parse(url.as_str()).unwrap(), url, "{url} is read as another URL");
    assert!(url.query().is_none() && url.fragment().is_none(), "{url}");
    if path.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'/') {
        assert_eq!(url.as_str(), format!("{shown}{path}"));
    }
}

/// The secret in the wrong variable, in a wrong place, or in a key that is none.
pub(crate) fn keeps_the_secret(before: &str, after: &str) {
    let texts = [
        format!("{before}{SECRET}{after}"),
        format!("{before}:{SECRET}{after}"),
        format!("http://{before}:{SECRET}@maas:99999{after}"),
        format!("http://maas/MAAS?{before}={SECRET}{after}"),
    ];
    for text in texts {
        if let Err(error) = Endpoint::parse(&text) {
            check(&format!("{error:#} {error:?}"));
        }
        if let Err(error) = ApiKey::parse(&text) {
            check(&format!("{error:#} {error:?}"));
        }
    }
}

fn check(shown: &str) {
    assert!(!shown.contains(SECRET), "{shown}");
    assert!(shown.lines().next().unwrap_or_default().chars().count() < 500, "{shown}");
}

pub(crate) fn key(text: &str) {
    let flags = Cli::try_parse_from(["capmaas", &format!("--maas-api-key={text}")]);
    let shown = format!("{:?} {:?}", ApiKey::parse(text), flags);
    let parts: Vec<&str> = text.trim().split(':').collect();
    let sound = |p: &&str| !p.is_empty() && p.bytes().all(|b| b.is_ascii_alphanumeric());
    if parts.len() == 3 && parts.iter().all(sound) {
        let key = ApiKey::parse(text).unwrap();
        assert_eq!(format!("{key:?}"), "ApiKey(…)");
        assert_eq!(
            ApiKey::parse(&parts.join(":")).unwrap(),
            key,
            "blanks around a key are no part"
        );
    }
    for secret in parts.iter().filter(|p| p.len() >= 24) {
        assert!(!shown.contains(secret), "{shown}");
    }
    if parts.len() != 3 || parts.iter().any(|p| p.is_empty()) {
        assert!(ApiKey::parse(text).is_err(), "{text:?}");
    }
}
