//! Who may use a registry, and whose certificate is trusted.

use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capmaas::policy::oci::{Access, Category, Keychain, pull, push, resolve};
use control_plane::{Registry, RegistryOptions};
use gate::Authority;
use url::Url;

use super::common::{
    PASSWORD, USER, at, crypto, is_policy, keychain, none, plain, plain_as_user, policy, refused,
    user_of,
};
use super::stranger::{Reply, Stranger};

fn guarded(tls: bool) -> Registry {
    crypto();
    let user = Some((USER.to_owned(), PASSWORD.to_owned()));
    Registry::start(RegistryOptions { user, tls, ..RegistryOptions::default() }).unwrap()
}

#[tokio::test]
async fn name_and_password_are_shown_when_they_are_asked_for() {
    let registry = guarded(false);
    let policy_at = at(&registry, "team/policy:1");
    for keychain in [
        user_of(&registry.host()),
        Keychain::from_dockerconfigjson(registry.dockerconfigjson().as_bytes()).unwrap(),
    ] {
        let access = Access { keychain, ..plain() };
        let digest = push(&policy_at, &access, policy(), &none()).await.unwrap();
        is_policy(&pull(&policy_at, &access, None).await.unwrap(), &digest);
    }
}

#[tokio::test]
async fn wrong_and_missing_credentials_are_told_apart() {
    let registry = guarded(false);
    let host = registry.host();
    let policy_at = at(&registry, "team/policy:1");
    let wrong = keychain(&serde_json::json!({ &host: { "username": USER, "password": "wrong" } }));
    let elsewhere = user_of("registry.example.com");
    for (keychain, words) in [(wrong, "does not accept"), (elsewhere, "there are none for it")] {
        let access = Access { keychain, ..plain() };
        let errors = [
            refused(pull(&policy_at, &access, None).await, Category::Unauthorized),
            refused(resolve(&policy_at, &access).await, Category::Unauthorized),
            refused(push(&policy_at, &access, policy(), &none()).await, Category::Unauthorized),
        ];
        for error in errors {
            assert!(error.message().contains(words), "{error}");
        }
    }
    let helper = br#"{"credsStore": "desktop", "auths": {}}"#;
    let access = Access { keychain: Keychain::from_dockerconfigjson(helper).unwrap(), ..plain() };
    let error = refused(pull(&policy_at, &access, None).await, Category::Unauthorized);
    assert!(error.message().contains("helper"), "{error}");
}

#[tokio::test]
async fn the_next_credential_is_shown_when_the_first_is_refused() {
    let registry = guarded(false);
    let host = registry.host();
    let mut keychain = keychain(&serde_json::json!({
        format!("{host}/team"): { "username": USER, "password": "old" }
    }));
    keychain.extend(user_of(&host));
    let access = Access { keychain, ..plain() };
    let policy_at = at(&registry, "team/policy:1");
    push(&policy_at, &access, policy(), &none()).await.unwrap();
    pull(&policy_at, &access, None).await.unwrap();
}

#[tokio::test]
async fn the_authority_of_the_bundle_is_trusted_and_no_other() {
    let registry = guarded(true);
    let policy_at = at(&registry, "team/policy:1");
    let keychain = user_of(&registry.host());
    let with = |ca_pem: Option<&str>| Access {
        keychain: keychain.clone(),
        ca_pem: ca_pem.map(|pem| pem.as_bytes().to_vec()),
        ..Access::default()
    };
    let own = with(registry.ca_pem());
    let digest = push(&policy_at, &own, policy(), &none()).await.unwrap();
    is_policy(&pull(&policy_at, &own, None).await.unwrap(), &digest);

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.crt");
    Authority::new().unwrap().give_to(&file).unwrap();
    let other = std::fs::read_to_string(file).unwrap();
    for access in [with(None), with(Some(&other))] {
        let error = refused(pull(&policy_at, &access, None).await, Category::Tls);
        assert!(error.message().contains("CA bundle"), "{error}");
        refused(push(&policy_at, &access, policy(), &none()).await, Category::Tls);
    }
    let both = format!("{other}\n{}", registry.ca_pem().unwrap());
    is_policy(&pull(&policy_at, &with(Some(&both)), None).await.unwrap(), &digest);
    for useless in
        ["", "-----BEGIN CERT", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----"]
    {
        refused(pull(&policy_at, &with(Some(useless)), None).await, Category::Tls);
    }
    // oras, with the same authority and the same credentials.
    let found = registry.oras(folder.path(), &["manifest", "fetch", &policy_at.to_string()]);
    found.unwrap();
}

/// The token service is the test's; the registry that believes it is real.
#[tokio::test]
async fn a_token_is_fetched_from_the_service_that_the_registry_names() {
    crypto();
    let registry = Arc::new(OnceLock::<Registry>::new());
    let believed = registry.clone();
    let pair = format!("Basic {}", BASE64_STANDARD.encode(format!("{USER}:{PASSWORD}")));
    let tokens = Stranger::start(move |seen| {
        let url = Url::parse(&format!("http://x{}", seen.path)).unwrap();
        let scope = url.query_pairs().find(|(name, _)| name == "scope").unwrap().1.into_owned();
        match seen.authorization() {
            Some(shown) if shown == pair => {
                let token = believed.get().unwrap().token(&scope).unwrap();
                Reply::ok(format!(r#"{{"token": "{token}"}}"#))
            }
            _ => Reply::status(401),
        }
    })
    .await;
    let user = Some((USER.to_owned(), PASSWORD.to_owned()));
    let token_service = Some(format!("http://{}/token", tokens.host()));
    let started = Registry::start(RegistryOptions { user, token_service, tls: false }).unwrap();
    let registry = registry.get_or_init(|| started);
    let policy_at = at(registry, "team/policy:1");
    let access = plain_as_user(&registry.host());
    let digest = push(&policy_at, &access, policy(), &none()).await.unwrap();
    is_policy(&pull(&policy_at, &access, None).await.unwrap(), &digest);
    let scopes: Vec<String> = tokens.seen().iter().map(|seen| seen.path.clone()).collect();
    assert_eq!(scopes.len(), 2, "one for the push and one for the pull: {scopes:?}");
    refused(pull(&policy_at, &plain(), None).await, Category::Unauthorized);
}

#[tokio::test]
async fn plain_http_is_spoken_only_when_it_was_said() {
    let registry = guarded(false);
    let policy_at = at(&registry, "team/policy:1");
    let before = registry.requests().unwrap().len();
    let access = Access { keychain: user_of(&registry.host()), ..Access::default() };
    let error = refused(pull(&policy_at, &access, None).await, Category::Tls);
    assert!(error.message().contains("plain HTTP has to be said"), "{error}");
    assert_eq!(registry.requests().unwrap().len(), before, "nothing was asked without TLS");

    let registry = guarded(true);
    let access = plain_as_user(&registry.host());
    refused(pull(&at(&registry, "a:1"), &access, None).await, Category::Unreachable);
}
