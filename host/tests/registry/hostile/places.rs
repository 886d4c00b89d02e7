//! Redirects: where they may lead, and what is shown there.

use capmaas::policy::oci::{Access, Category, pull};
use gate::{Authority, TlsFront};

use super::{Shelf, for_blobs, for_manifests, tag};
use crate::common::{crypto, is_policy, plain_as_user, reference, refused, user_of};
use crate::stranger::{Reply, Seen, Stranger};

/// A registry that wants a password, and does with blobs what is said once it has seen one.
async fn registry(
    shelf: &Shelf,
    blobs: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
) -> Stranger {
    crypto();
    let shelf = shelf.clone();
    Stranger::start(move |seen| match seen.authorization() {
        None => Reply::challenge("Basic realm=\"x\""),
        Some(_) if for_blobs(seen) => blobs(seen),
        Some(_) => shelf.serve(seen),
    })
    .await
}

/// A place where blobs are, for everybody who knows the address.
async fn storage(shelf: &Shelf) -> Stranger {
    let shelf = shelf.clone();
    Stranger::start(move |_| Reply::ok(shelf.wasm.clone())).await
}

#[tokio::test]
async fn a_component_may_come_from_elsewhere_and_credentials_stay() {
    let shelf = Shelf::new();
    let elsewhere = storage(&shelf).await;
    let url = format!("http://user:pass@{}/blob?s1gnature", elsewhere.host());
    let registry = registry(&shelf, move |_| Reply::to(url.clone())).await;
    let access = plain_as_user(&registry.host());
    is_policy(&pull(&shelf.at(&registry), &access, None).await.unwrap(), &shelf.digest());
    let seen = elsewhere.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!((seen[0].authorization(), seen[0].path.as_str()), (None, "/blob?s1gnature"));
    assert_eq!((seen[0].header("referer"), seen[0].header("cookie")), (None, None));
}

#[tokio::test]
async fn back_home_from_elsewhere_nothing_is_shown_any_more() {
    let shelf = Shelf::new();
    let shelves = shelf.clone();
    let home = std::sync::Arc::new(std::sync::OnceLock::<String>::new());
    let back = home.clone();
    let elsewhere = Stranger::start(move |_| Reply::to(back.get().unwrap().clone())).await;
    let away = format!("http://{}/1", elsewhere.host());
    crypto();
    let registry = Stranger::start(move |seen| match seen.authorization() {
        _ if seen.path == "/return" => Reply::ok(shelves.wasm.clone()),
        None => Reply::challenge("Basic"),
        Some(_) if for_blobs(seen) => Reply::to(away.clone()),
        Some(_) => shelves.serve(seen),
    })
    .await;
    home.set(format!("http://{}/return", registry.host())).unwrap();
    let access = plain_as_user(&registry.host());
    is_policy(&pull(&shelf.at(&registry), &access, None).await.unwrap(), &shelf.digest());
    let last = registry.seen().pop().unwrap();
    assert_eq!((last.path.as_str(), last.authorization()), ("/return", None));
}

#[tokio::test]
async fn the_way_is_short() {
    let shelf = Shelf::new();
    let round =
        Stranger::start(|seen| Reply::to(format!("{}x?s1gnature", seen.path.replace('?', ""))))
            .await;
    let url = format!("http://{}/x", round.host());
    let registry = registry(&shelf, move |_| Reply::to(url.clone())).await;
    let access = plain_as_user(&registry.host());
    let error = refused(pull(&shelf.at(&registry), &access, None).await, Category::Unreachable);
    assert!(error.message().contains("more than 3 times"), "{error}");
    assert_eq!(round.seen().len(), 3);
}

#[tokio::test]
async fn places_that_are_none_are_not_gone_to() {
    let shelf = Shelf::new();
    for to in [
        "",
        "http://",
        "file:///etc/passwd?s1gnature",
        "ftp://example.com/t0ken",
        "data:,x",
        "http://[",
        "\u{7f}",
    ] {
        let registry = registry(&shelf, move |_| Reply::to(to)).await;
        let access = plain_as_user(&registry.host());
        let refusal = pull(&shelf.at(&registry), &access, None).await;
        refused(refusal, Category::Unreachable);
    }
    let nowhere = registry(&shelf, |_| Reply::status(302)).await;
    let access = plain_as_user(&nowhere.host());
    refused(pull(&shelf.at(&nowhere), &access, None).await, Category::Unreachable);
}

#[tokio::test]
async fn a_place_that_refuses_is_no_reason_to_show_it_credentials() {
    let shelf = Shelf::new();
    let elsewhere = Stranger::start(|_| Reply::challenge("Basic realm=\"give\"")).await;
    let url = format!("http://{}/blob", elsewhere.host());
    let registry = registry(&shelf, move |_| Reply::to(url.clone())).await;
    let access = plain_as_user(&registry.host());
    refused(pull(&shelf.at(&registry), &access, None).await, Category::Unreachable);
    assert!(elsewhere.seen().iter().all(|seen| seen.authorization().is_none()));
    assert_eq!(elsewhere.seen().len(), 1);
}

#[tokio::test]
async fn manifests_come_from_the_registry_alone() {
    let shelf = Shelf::new();
    let served = shelf.clone();
    let elsewhere = Stranger::start(move |seen| served.serve(seen)).await;
    let url = format!("http://{}/v2/team/policy/manifests/1", elsewhere.host());
    crypto();
    let registry = Stranger::start(move |_| Reply::to(url.clone())).await;
    let access = plain_as_user(&registry.host());
    for reference in [tag(&registry), shelf.at(&registry)] {
        let error = refused(pull(&reference, &access, None).await, Category::Unreachable);
        assert!(error.message().contains(&elsewhere.host()), "{error}");
    }
    assert!(elsewhere.seen().is_empty());
}

#[tokio::test]
async fn within_the_registry_redirects_keep_the_credentials() {
    let shelf = Shelf::new();
    let served = shelf.clone();
    crypto();
    let registry = Stranger::start(move |seen| match seen.authorization() {
        None => Reply::challenge("Basic"),
        Some(_) if seen.path.starts_with("/v2/") && for_manifests(seen) => {
            Reply::to("/moved/manifests/1")
        }
        Some(_) => served.serve(seen),
    })
    .await;
    let access = plain_as_user(&registry.host());
    is_policy(&pull(&shelf.at(&registry), &access, None).await.unwrap(), &shelf.digest());
}

/// A registry behind TLS, whose blobs are where it says.
async fn behind_tls(shelf: &Shelf, to: String) -> (Stranger, TlsFront, Access, String) {
    let registry = registry(shelf, move |_| Reply::to(to.clone())).await;
    let authority = Authority::new().unwrap();
    let front = TlsFront::of(registry.address, authority.vouch().unwrap()).await.unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    authority.give_to(file.path()).unwrap();
    let host = front.url().replace("https://", "");
    let ca_pem = Some(std::fs::read(file.path()).unwrap());
    let access = Access { keychain: user_of(&host), ca_pem, ..Access::default() };
    (registry, front, access, host)
}

#[tokio::test]
async fn from_tls_no_redirect_leads_to_plain_http() {
    let shelf = Shelf::new();
    let elsewhere = storage(&shelf).await;
    let to = format!("http://{}/blob?s1gnature", elsewhere.host());
    let (registry, _front, access, host) = behind_tls(&shelf, to).await;
    let pinned = reference(&format!("{host}/team/policy")).at(shelf.digest());
    let error = refused(pull(&pinned, &access, None).await, Category::Tls);
    assert!(error.message().contains("without TLS"), "{error}");
    assert!(elsewhere.seen().is_empty());
    assert!(registry.seen().len() > 1, "the registry itself was asked over TLS");
}

#[tokio::test]
async fn what_is_redirected_to_has_to_be_vouched_for_too() {
    let shelf = Shelf::new();
    let elsewhere = storage(&shelf).await;
    let unknown = Authority::new().unwrap();
    let hidden = TlsFront::of(elsewhere.address, unknown.vouch().unwrap()).await.unwrap();
    let (_registry, _front, access, host) =
        behind_tls(&shelf, format!("{}/blob", hidden.url())).await;
    let pinned = reference(&format!("{host}/team/policy")).at(shelf.digest());
    refused(pull(&pinned, &access, None).await, Category::Tls);
    assert!(elsewhere.seen().is_empty());
}
