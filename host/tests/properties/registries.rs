//! Where a policy comes from, and what a registry is shown.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use capmaas::policy::oci::{Category, Digest, Error, Keychain, Reference};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use regex::Regex;
use url::Url;

const SECRET: &str = "7kQv2XwZb9TnR4sLd8HmYc3PfGj6AeUx";
/// `user:` and the secret, in base64.
const AUTH: &str = "dXNlcjo3a1F2Mlh3WmI5VG5SNHNMZDhIbVljM1BmR2o2QWVVeA==";

/// Host and port, as the reference grammar of `docker pull` has them (distribution/reference, regexp.go), the port in one
/// form only.
static REGISTRY: LazyLock<Regex> = LazyLock::new(|| {
    let label = "([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])";
    whole(&format!(r"({label}(\.{label})*|\[[0-9a-fA-F:.]+\])(:[1-9][0-9]{{0,4}})?"))
});
/// The name of a repository, word for word from the OCI distribution specification 1.1, "Pulling manifests".
static REPOSITORY: LazyLock<Regex> = LazyLock::new(|| {
    whole(r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(\/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*")
});
/// A tag, from the same place.
static TAG: LazyLock<Regex> = LazyLock::new(|| whole("[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}"));
/// A digest of the one algorithm that is taken, from the OCI image specification, "Digests".
static DIGEST: LazyLock<Regex> = LazyLock::new(|| whole("sha256:[a-f0-9]{64}"));

fn whole(grammar: &str) -> Regex {
    Regex::new(&format!(r"\A(?:{grammar})\z")).unwrap()
}

/// A reference is legal, stays the same when it is shown and read again, and leads to its own repository; or it is none.
pub(crate) fn reference(text: &str) {
    let found: Reference = match text.parse() {
        Ok(found) => found,
        Err(error) => return decent(&error, Category::BadReference),
    };
    assert!(REGISTRY.is_match(found.registry()), "{text:?} has the registry {found:?}");
    assert!(REPOSITORY.is_match(found.repository()), "{text:?} has the repository {found:?}");
    assert!(found.repository().len() <= 255, "{text:?}");
    assert!(TAG.is_match(found.tag()), "{text:?} has the tag {found:?}");
    let pinned = found.digest().map(ToString::to_string);
    assert!(pinned.iter().all(|digest| DIGEST.is_match(digest)), "{text:?} is {found:?}");
    let shown = found.to_string();
    let again: Reference = shown.parse().unwrap_or_else(|e| panic!("{text:?} became {shown}: {e}"));
    assert_eq!(again.to_string(), shown, "{text:?} read twice is another");
    assert_eq!(parts(&again), parts(&found), "{text:?} became {shown}");
    leads_to_its_own_repository(&found);
}

fn parts(reference: &Reference) -> (&str, &str, &str, Option<&Digest>) {
    (reference.registry(), reference.repository(), reference.tag(), reference.digest())
}

fn leads_to_its_own_repository(reference: &Reference) {
    let name = reference.digest().map_or_else(|| reference.tag().into(), ToString::to_string);
    let path = format!("/v2/{}/manifests/{name}", reference.repository());
    let url = Url::parse(&format!("https://{}{path}", reference.registry())).unwrap();
    assert_eq!(url.path(), path, "{reference}");
    assert!(url.username().is_empty() && url.password().is_none(), "{reference}");
    assert!(url.query().is_none() && url.fragment().is_none(), "{reference}");
    // An IPv6 address may be written in several ways.
    let host = url.host_str().unwrap_or_default().to_owned();
    let written = reference.registry().to_ascii_lowercase();
    assert!(host.starts_with('[') || written.starts_with(&host), "{reference} leads to {host}");
}

/// What is legal is taken apart as it is written.
pub(crate) fn takes_apart(registry: &str, repository: &str, tag: &str, digest: Option<&str>) {
    let pin = digest.map(|digest| format!("@{digest}")).unwrap_or_default();
    let text = format!("{registry}/{repository}:{tag}{pin}");
    let found: Reference = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
    assert_eq!((found.registry(), found.repository()), (registry, repository), "{text}");
    assert_eq!((found.tag(), found.digest().map(Digest::to_string).as_deref()), (tag, digest));
    assert_eq!(found.to_string(), text);
}

/// Name and password in front of a host are refused, and not repeated.
pub(crate) fn hides_a_password(before: &str, after: &str) {
    for text in [
        format!("user:{before}{SECRET}{after}@registry.example.com/team/policy"),
        format!("{before}:{SECRET}@{after}.example.com/team/policy:1"),
        format!("{SECRET}@registry.example.com/{after}"),
        format!("https://{before}:{SECRET}@registry.example.com/{after}"),
        format!("registry.example.com/{before}@{SECRET}"),
    ] {
        let error = text.parse::<Reference>().expect_err(&text);
        decent(&error, Category::BadReference);
    }
}

/// Whatever a pull secret holds is a keychain or an error, and is shown in neither.
pub(crate) fn pull_secret(bytes: &[u8]) {
    for key in [".dockerconfigjson", ".dockercfg"] {
        let data = BTreeMap::from([(key.to_owned(), ByteString(bytes.to_vec()))]);
        match Keychain::from_secret(&Secret { data: Some(data), ..Secret::default() }) {
            Ok(keychain) => hides(&format!("{keychain:?}")),
            Err(error) => decent(&error, Category::Unauthorized),
        }
    }
}

/// Passwords, tokens and the base64 of both, in their places and where they do not belong.
pub(crate) fn hides_credentials(before: &str, after: &str) {
    let secret = format!("{before}{SECRET}{after}");
    let entry = |auth: serde_json::Value| serde_json::json!({ "auths": { before: auth } });
    for text in [
        entry(serde_json::json!({ "username": "user", "password": secret })),
        entry(serde_json::json!({ "auth": AUTH })),
        entry(serde_json::json!({ "auth": format!("{before}{AUTH}") })),
        entry(serde_json::json!({ "auth": secret })),
        entry(serde_json::json!({ "identitytoken": secret, "registrytoken": secret })),
        entry(serde_json::json!({ "password": [secret] })),
        entry(serde_json::json!(secret)),
        serde_json::json!({ "auths": secret }),
        serde_json::json!({ "credsStore": [secret], "credHelpers": secret }),
        serde_json::json!({ "registry.example.com": { "auth": AUTH, "password": secret } }),
        serde_json::json!({ format!("user:{SECRET}@registry.example.com"): { "auth": AUTH } }),
    ] {
        let text = text.to_string();
        pull_secret(text.as_bytes());
        pull_secret(format!("{text}{secret}").as_bytes());
        pull_secret(&text.as_bytes()[..text.len() - 1]);
    }
    pull_secret(secret.as_bytes());
}

fn decent(error: &Error, category: Category) {
    assert_eq!(error.category(), category, "{error}");
    let message = error.message();
    assert!(!message.is_empty() && message.chars().count() <= 600, "{message}");
    assert!(!message.chars().any(char::is_control), "{message:?}");
    hides(&format!("{error} {error:?}"));
}

fn hides(shown: &str) {
    assert!(!shown.contains(SECRET) && !shown.contains(AUTH), "{shown}");
}
