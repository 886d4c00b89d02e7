use std::collections::BTreeMap;
use std::ffi::OsString;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use proptest::prelude::*;
use secrecy::ExposeSecret;
use serde_json::json;

use super::{Credential, Keychain};

fn shown(keychain: &Keychain, reference: &str) -> Vec<String> {
    let found = keychain.lookup(&reference.parse().unwrap()).unwrap();
    let text = |credential: &Credential| match credential {
        Credential::Basic { username, password } => {
            format!("{username}:{}", password.expose_secret())
        }
        Credential::Identity(token) => format!("identity {}", token.expose_secret()),
        Credential::Registry(token) => format!("registry {}", token.expose_secret()),
    };
    found.iter().map(text).collect()
}

fn keychain(json: &str) -> Keychain {
    Keychain::from_dockerconfigjson(json.as_bytes()).unwrap()
}

#[test]
fn every_form_of_an_entry_is_read() {
    let padded = BASE64_STANDARD.encode("me:pass:word");
    let unpadded = BASE64_STANDARD_NO_PAD.encode("me:p");
    assert!(!unpadded.ends_with('=') && !unpadded.len().is_multiple_of(4));
    for (entry, expected) in [
        (format!(r#"{{"auth": "{padded}"}}"#), "me:pass:word"),
        (format!(r#"{{"auth": "{unpadded}"}}"#), "me:p"),
        (format!(r#"{{"auth": "{}"}}"#, BASE64_STANDARD.encode("me:p\0\0")), "me:p"),
        (r#"{"username": "me", "password": "p", "email": "x@y"}"#.into(), "me:p"),
        (format!(r#"{{"username": "no", "password": "no", "auth": "{padded}"}}"#), "me:pass:word"),
        (format!(r#"{{"auth": "{padded}", "identitytoken": "t"}}"#), "identity t"),
        (r#"{"registrytoken": "t", "username": "me", "password": "p"}"#.into(), "registry t"),
    ] {
        let json = format!(r#"{{"auths": {{"example.com": {entry}}}, "HttpHeaders": {{}}}}"#);
        assert_eq!(shown(&keychain(&json), "example.com/a"), [expected], "{json}");
    }
}

#[test]
fn the_longest_path_comes_first_and_wild_cards_last() {
    let entry = |name: &str| format!(r#"{{"username": "{name}", "password": "p"}}"#);
    let json = format!(
        r#"{{"auths": {{"*.example.com": {}, "r.example.com": {}, "r.example.com/team": {}, "r.example.com/team/a": {}}}}}"#,
        entry("glob"),
        entry("host"),
        entry("team"),
        entry("exact"),
    );
    let found = shown(&keychain(&json), "r.example.com/team/a:1");
    assert_eq!(found, ["exact:p", "team:p", "host:p", "glob:p"]);
    assert_eq!(shown(&keychain(&json), "r.example.com/other"), ["host:p", "glob:p"]);
    assert_eq!(shown(&keychain(&json), "other.org/team/a"), Vec::<String>::new());
}

#[test]
fn an_entry_that_is_wrong_matters_only_where_it_is_needed() {
    let chain = keychain(
        r#"{"auths": {"bad.example.com": {"auth": "hunter2!"}, "good.example.com": {"username": "u", "password": "p"},
            "helper.example.com": {}}, "credsStore": "desktop"}"#,
    );
    assert_eq!(shown(&chain, "good.example.com/a"), ["u:p"]);
    assert_eq!(shown(&chain, "helper.example.com/a"), Vec::<String>::new());
    assert!(chain.names_helpers());
    let error = chain.lookup(&"bad.example.com/a".parse().unwrap()).unwrap_err();
    assert!(error.message().contains("base64") && !error.message().contains("hunter2"), "{error}");
}

#[test]
fn nothing_secret_is_shown() {
    let chain = keychain(r#"{"auths": {"example.com": {"username": "u", "password": "hunter2"}}}"#);
    let credentials = chain.lookup(&"example.com/a".parse().unwrap()).unwrap();
    assert!(!format!("{chain:?} {credentials:?}").contains("hunter2"));
    for json in
        [r#"{"auths": {"example.com": "hunter2"}}"#, r#"{"auths": {"a": {"password": 2}}} hunter2"#]
    {
        let error = Keychain::from_dockerconfigjson(json.as_bytes()).unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
        assert!(error.message().contains("line 1"), "{error}");
    }
}

#[test]
fn both_kinds_of_secret_are_read_and_no_other() {
    let entry = r#""example.com": {"username": "u", "password": "p"}"#;
    for (key, json) in [
        (".dockerconfigjson", format!(r#"{{"auths": {{{entry}}}}}"#)),
        (".dockercfg", format!("{{{entry}}}")),
    ] {
        let data = BTreeMap::from([(key.to_owned(), ByteString(json.into_bytes()))]);
        let secret = Secret { data: Some(data), ..Secret::default() };
        let chain = Keychain::from_secret(&secret).unwrap();
        assert_eq!(shown(&chain, "example.com/a"), ["u:p"], "{key}");
    }
    let mut secret = Secret { type_: Some("Opaque".into()), ..Secret::default() };
    secret.metadata.name = Some("mine".into());
    let error = Keychain::from_secret(&secret).unwrap_err();
    assert!(error.message().contains("\"mine\"") && error.message().contains("kubectl"), "{error}");
}

#[test]
fn the_users_files_are_found_and_may_be_missing() {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, user: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let json =
            format!(r#"{{"auths": {{"example.com": {{"username": "{user}", "password": "p"}}}}}}"#);
        std::fs::write(path, json).unwrap();
    };
    let of = |variables: &[(&str, &str)]| {
        let chain = Keychain::of_user_in(|name| {
            let (_, value) = variables.iter().find(|(n, _)| *n == name)?;
            Some(OsString::from(folder.path().join(value)))
        });
        shown(&chain.unwrap(), "example.com/a")
    };
    assert_eq!(of(&[("HOME", "home")]), Vec::<String>::new());
    assert_eq!(of(&[]), Vec::<String>::new());
    write("home/.docker/config.json", "home");
    write("docker/config.json", "docker");
    write("auth.json", "podman");
    assert_eq!(of(&[("HOME", "home")]), ["home:p"]);
    assert_eq!(of(&[("HOME", "home"), ("DOCKER_CONFIG", "docker")]), ["docker:p"]);
    let both = of(&[("HOME", "home"), ("REGISTRY_AUTH_FILE", "auth.json")]);
    assert_eq!(both, ["podman:p", "home:p"]);
    assert_eq!(of(&[("REGISTRY_AUTH_FILE", "missing.json")]), Vec::<String>::new());
}

proptest! {
    #[test]
    fn credentials_are_for_their_own_registry_and_for_no_other(
        host in "[a-z][a-z0-9]{0,8}(\\.[a-z]{2,5}){1,2}(:[1-9][0-9]{0,3})?",
        other in "[a-z][a-z0-9]{0,8}(\\.[a-z]{2,5}){1,2}(:[1-9][0-9]{0,3})?",
        username in "[a-zA-Z0-9$_.+-]{1,12}",
        // Docker pads with zero bytes, so that a password cannot begin or end with one.
        password in "[^\0]{1,24}",
        form in 0..4,
        old: bool,
    ) {
        let pair = format!("{username}:{password}");
        let (entry, expected) = match form {
            0 => (json!({ "auth": BASE64_STANDARD.encode(&pair) }), pair),
            1 => (json!({ "username": username, "password": password }), pair),
            2 => (json!({ "identitytoken": password, "auth": "" }), format!("identity {password}")),
            _ => (json!({ "registrytoken": password }), format!("registry {password}")),
        };
        let (key, json) = match old {
            true => (".dockercfg", json!({ &host: entry })),
            false => (".dockerconfigjson", json!({ "auths": { &host: entry } })),
        };
        let data = BTreeMap::from([(key.to_owned(), ByteString(json.to_string().into_bytes()))]);
        let secret = Secret { data: Some(data), ..Secret::default() };
        let chain = Keychain::from_secret(&secret).unwrap();
        prop_assert_eq!(shown(&chain, &format!("{host}/team/policy")), [expected]);
        if other != host {
            prop_assert_eq!(shown(&chain, &format!("{other}/team/policy")), Vec::<String>::new());
        }
        for near in [format!("x{host}"), format!("x.{host}"), "docker.io".into()] {
            prop_assert_eq!(shown(&chain, &format!("{near}/team/policy")), Vec::<String>::new());
        }
    }
}
