use std::collections::BTreeMap;
use std::time::Duration;

use capmaas::policy::embedded;
use capmaas::policy::oci::{
    Access, Category, Digest, Error, Keychain, Pulled, Reference, Timeouts,
};
use control_plane::{Registry, RegistryOptions};

/// What must not be seen in any error: the password, the token and the query of the addresses in these tests.
pub(crate) const SECRETS: [&str; 3] = ["hunter2", "t0ken", "s1gnature"];
pub(crate) const USER: &str = "me";
pub(crate) const PASSWORD: &str = "hunter2";

pub(crate) fn policy() -> Vec<u8> {
    embedded::DNS_NAMING.to_vec()
}

pub(crate) fn none() -> BTreeMap<String, String> {
    BTreeMap::new()
}

pub(crate) fn crypto() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// A real registry, without TLS and for everybody.
pub(crate) fn open_registry() -> Registry {
    crypto();
    Registry::start(RegistryOptions::default()).unwrap()
}

pub(crate) fn reference(text: &str) -> Reference {
    text.parse().unwrap()
}

pub(crate) fn at(registry: &Registry, path: &str) -> Reference {
    reference(&format!("{}/{path}", registry.host()))
}

/// Access by plain HTTP, anonymous.
pub(crate) fn plain() -> Access {
    Access { plain_http: true, ..Access::default() }
}

/// Access by plain HTTP to a host as [`USER`].
pub(crate) fn plain_as_user(host: &str) -> Access {
    Access { keychain: user_of(host), ..plain() }
}

pub(crate) fn user_of(host: &str) -> Keychain {
    keychain(&serde_json::json!({ host: { "username": USER, "password": PASSWORD } }))
}

pub(crate) fn keychain(auths: &serde_json::Value) -> Keychain {
    let json = serde_json::json!({ "auths": auths }).to_string();
    Keychain::from_dockerconfigjson(json.as_bytes()).unwrap()
}

/// Access that gives up soon.
pub(crate) fn impatient(access: Access) -> Access {
    let timeouts = Timeouts { overall: Duration::from_secs(2), idle: Duration::from_millis(500) };
    Access { timeouts, ..access }
}

/// The error of a result, which is of this category and shows nothing secret.
#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(result: Result<T, Error>, category: Category) -> Error {
    let error = result.expect_err("it was refused");
    assert_eq!(error.category(), category, "{error}");
    for secret in SECRETS {
        assert!(!format!("{error} {error:?}").contains(secret), "{error}");
    }
    error
}

#[track_caller]
pub(crate) fn is_policy(pulled: &Pulled, digest: &Digest) {
    assert_eq!(pulled.manifest_digest, *digest);
    assert!(pulled.wasm == policy(), "another component");
}
