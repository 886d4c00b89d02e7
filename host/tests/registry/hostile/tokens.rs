//! Token services: where they may be, and what they are shown.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capmaas::policy::oci::{Access, Category, pull, push};
use gate::{Authority, TlsFront};
use serde_json::json;

use super::{Shelf, for_blobs, tag};
use crate::common::{
    PASSWORD, USER, crypto, is_policy, keychain, none, plain, plain_as_user, policy, reference,
    refused, user_of,
};
use crate::stranger::{Reply, Seen, Stranger};

const TOKEN: &str = "Bearer t0ken";

fn basic() -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{USER}:{PASSWORD}")))
}

/// A registry that wants a token from this realm.
async fn registry(shelf: &Shelf, realm: String) -> Stranger {
    crypto();
    let shelf = shelf.clone();
    Stranger::start(move |seen| match seen.authorization() {
        Some(TOKEN) => shelf.serve(seen),
        _ => Reply::challenge(format!(
            "Bearer realm=\"{realm}\",service=\"registry\",scope=\"everything\""
        )),
    })
    .await
}

async fn service(answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Stranger {
    Stranger::start(answer).await
}

fn granted() -> Reply {
    Reply::ok(r#"{"token": "t0ken", "expires_in": 60}"#)
}

#[tokio::test]
async fn a_token_is_asked_for_with_the_least_that_is_needed() {
    let shelf = Shelf::new();
    for name in ["token", "access_token"] {
        let tokens = service(move |_| Reply::ok(json!({ name: "t0ken" }).to_string())).await;
        let registry = registry(&shelf, format!("http://{}/token?account=x", tokens.host())).await;
        let access = plain_as_user(&registry.host());
        is_policy(&pull(&shelf.at(&registry), &access, None).await.unwrap(), &shelf.digest());
        let seen = tokens.seen();
        assert_eq!(seen.len(), 1, "one token for the manifest and the component");
        assert_eq!(
            seen[0].path,
            "/token?account=x&service=registry&scope=repository%3Ateam%2Fpolicy%3Apull"
        );
        assert_eq!(seen[0].authorization(), Some(basic().as_str()));
        let shown: Vec<_> =
            registry.seen().iter().map(|s| s.authorization().map(str::to_owned)).collect();
        assert_eq!(shown, [None, Some(TOKEN.to_owned()), Some(TOKEN.to_owned())]);
    }
}

#[tokio::test]
async fn without_credentials_a_token_for_everybody_is_asked_for() {
    let shelf = Shelf::new();
    let tokens = service(|_| granted()).await;
    let registry = registry(&shelf, format!("http://{}/token", tokens.host())).await;
    pull(&shelf.at(&registry), &plain(), None).await.unwrap();
    assert_eq!(tokens.seen()[0].authorization(), None);
}

#[tokio::test]
async fn to_push_a_token_for_pushing_is_asked_for() {
    let tokens = service(|_| granted()).await;
    let registry = registry(&Shelf::new(), format!("http://{}/token", tokens.host())).await;
    let access = plain_as_user(&registry.host());
    push(&tag(&registry), &access, policy(), &none()).await.unwrap_err();
    assert!(tokens.seen()[0].path.ends_with("%3Apull%2Cpush"), "{:?}", tokens.seen());
}

#[tokio::test]
async fn an_identity_token_is_changed_for_a_token_and_a_registry_token_is_one() {
    let shelf = Shelf::new();
    let tokens = service(|_| granted()).await;
    let registry = registry(&shelf, format!("http://{}/token", tokens.host())).await;
    let with = |entry: serde_json::Value| Access {
        keychain: keychain(&json!({ registry.host(): entry })),
        ..plain()
    };
    let identity = with(json!({ "identitytoken": "hunter2/+" }));
    pull(&shelf.at(&registry), &identity, None).await.unwrap();
    let seen = tokens.seen().pop().unwrap();
    assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", "/token"));
    assert_eq!(
        seen.body,
        "grant_type=refresh_token&client_id=capmaas&service=registry&scope=repository%3Ateam%2Fpolicy%3Apull\
         &refresh_token=hunter2%2F%2B"
    );
    pull(&shelf.at(&registry), &with(json!({ "registrytoken": "t0ken" })), None).await.unwrap();
    assert_eq!(tokens.seen().len(), 1, "a registry token is shown as it is");
    let wrong = with(json!({ "registrytoken": "hunter2" }));
    refused(pull(&shelf.at(&registry), &wrong, None).await, Category::Unauthorized);
}

#[tokio::test]
async fn storage_elsewhere_is_not_shown_the_token() {
    let shelf = Shelf::new();
    let served = shelf.clone();
    let storage = service(move |_| Reply::ok(served.wasm.clone())).await;
    let tokens = service(|_| granted()).await;
    let (served, realm) = (shelf.clone(), format!("Bearer realm=\"http://{}/\"", tokens.host()));
    let to = format!("http://{}/blob", storage.host());
    crypto();
    let registry = Stranger::start(move |seen| match seen.authorization() {
        Some(TOKEN) if for_blobs(seen) => Reply::to(to.clone()),
        Some(TOKEN) => served.serve(seen),
        _ => Reply::challenge(realm.clone()),
    })
    .await;
    pull(&shelf.at(&registry), &plain_as_user(&registry.host()), None).await.unwrap();
    assert_eq!(storage.seen()[0].authorization(), None);
}

#[tokio::test]
async fn over_tls_a_realm_without_tls_is_shown_nothing() {
    let shelf = Shelf::new();
    let tokens = service(|_| granted()).await;
    let registry = registry(&shelf, format!("http://{}/token?s1gnature", tokens.host())).await;
    let authority = Authority::new().unwrap();
    let front = TlsFront::of(registry.address, authority.vouch().unwrap()).await.unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    authority.give_to(file.path()).unwrap();
    let host = front.url().replace("https://", "");
    let ca_pem = Some(std::fs::read(file.path()).unwrap());
    let access = Access { keychain: user_of(&host), ca_pem, ..Access::default() };
    let pinned = reference(&format!("{host}/team/policy")).at(shelf.digest());
    let error = refused(pull(&pinned, &access, None).await, Category::Tls);
    assert!(error.message().contains("token service"), "{error}");
    assert!(tokens.seen().is_empty());
}

#[tokio::test]
async fn over_tls_a_realm_on_another_host_is_asked_if_it_is_vouched_for() {
    let shelf = Shelf::new();
    let tokens = service(|_| granted()).await;
    let authority = Authority::new().unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    authority.give_to(file.path()).unwrap();
    crypto();
    let service = TlsFront::of(tokens.address, authority.vouch().unwrap()).await.unwrap();
    let registry = registry(&shelf, format!("{}/token", service.url())).await;
    let front = TlsFront::of(registry.address, authority.vouch().unwrap()).await.unwrap();
    let host = front.url().replace("https://", "");
    let ca_pem = Some(std::fs::read(file.path()).unwrap());
    let access = Access { keychain: user_of(&host), ca_pem, ..Access::default() };
    let pinned = reference(&format!("{host}/team/policy")).at(shelf.digest());
    is_policy(&pull(&pinned, &access, None).await.unwrap(), &shelf.digest());
    assert_eq!(tokens.seen()[0].authorization(), Some(basic().as_str()));
    service.show(Authority::new().unwrap().vouch().unwrap());
    refused(pull(&pinned, &access, None).await, Category::Tls);
    assert_eq!(tokens.seen().len(), 1);
}

#[tokio::test]
async fn a_token_service_does_not_send_us_elsewhere() {
    let shelf = Shelf::new();
    let elsewhere = service(|_| granted()).await;
    let url = format!("http://{}/?s1gnature", elsewhere.host());
    let tokens = service(move |_| Reply::to(url.clone())).await;
    let registry = registry(&shelf, format!("http://{}/token", tokens.host())).await;
    for entry in
        [json!({ "username": USER, "password": PASSWORD }), json!({ "identitytoken": PASSWORD })]
    {
        let access = Access { keychain: keychain(&json!({ registry.host(): entry })), ..plain() };
        refused(pull(&shelf.at(&registry), &access, None).await, Category::Unreachable);
    }
    assert!(elsewhere.seen().is_empty());
}

#[tokio::test]
async fn realms_that_are_none_are_not_gone_to() {
    let shelf = Shelf::new();
    for realm in ["", "x", "file:///t0ken", "http://", "http://u:t0ken@127.0.0.1:1/", "mailto:a@b"]
    {
        let registry = registry(&shelf, realm.to_owned()).await;
        let access = plain_as_user(&registry.host());
        refused(pull(&shelf.at(&registry), &access, None).await, Category::Unreachable);
    }
}

#[tokio::test]
async fn answers_of_token_services_are_bounded_and_may_be_nonsense() {
    let shelf = Shelf::new();
    let large = format!(r#"{{"token": "{}"}}"#, "x".repeat(64 << 10));
    for (reply, category) in [
        (Reply::Endless(vec![b' '; 4096]), Category::TooLarge),
        (Reply::ok(large), Category::TooLarge),
        (Reply::ok("t0ken"), Category::Unreachable),
        (Reply::ok(r#"{"token": ""}"#), Category::Unreachable),
        (Reply::ok(r#"{"token": ["t0ken"]}"#), Category::Unreachable),
        (Reply::ok(r#"{"token": "t0ken\r\nx: y"}"#), Category::Unauthorized),
        (Reply::ok("[".repeat(60_000)), Category::Unreachable),
        (Reply::status(401), Category::Unauthorized),
        (Reply::status(403), Category::Unauthorized),
        (Reply::status(500), Category::Unreachable),
    ] {
        let tokens = service(move |_| reply.clone()).await;
        let registry = registry(&shelf, format!("http://{}/token", tokens.host())).await;
        let access = plain_as_user(&registry.host());
        refused(pull(&shelf.at(&registry), &access, None).await, category);
    }
}

#[tokio::test]
async fn a_registry_that_is_never_content_is_asked_once_for_each_credential() {
    crypto();
    let tokens = service(|_| granted()).await;
    let realm = format!("Bearer realm=\"http://{}/\"", tokens.host());
    let registry = Stranger::start(move |_| Reply::challenge(realm.clone())).await;
    let host = registry.host();
    let entry = |n: usize| {
        (
            format!("{host}/team/policy{}", "/".repeat(n)),
            json!({ "username": n.to_string(), "password": "p" }),
        )
    };
    let auths: serde_json::Map<_, _> = (0..50).map(entry).collect();
    let access = Access { keychain: keychain(&auths.into()), ..plain() };
    refused(pull(&tag(&registry), &access, None).await, Category::Unauthorized);
    assert_eq!((tokens.seen().len(), registry.seen().len()), (4, 5));
    let basic = Stranger::start(|_| Reply::challenge("Basic")).await;
    refused(pull(&tag(&basic), &plain_as_user(&basic.host()), None).await, Category::Unauthorized);
    assert_eq!(basic.seen().len(), 2);
    let wordless = Stranger::start(|_| Reply::status(401)).await;
    refused(
        pull(&tag(&wordless), &plain_as_user(&wordless.host()), None).await,
        Category::Unauthorized,
    );
    assert!(wordless.seen().iter().all(|seen| seen.authorization().is_none()));
}
