//! Bodies that are not what they should be.

use capmaas::policy::oci::{Access, Cache, Category, Digest, pull, resolve};

use super::{Shelf, for_blobs, for_manifests, tag};
use crate::common::{crypto, is_policy, plain, reference, refused};
use crate::stranger::{Reply, Seen, Stranger};

/// What may be under way in the kernel's buffers beside what was read, bytes.
const BUFFERS: usize = 16 << 20;

async fn server(answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Stranger {
    crypto();
    Stranger::start(answer).await
}

#[tokio::test]
async fn an_honest_registry_is_asked_for_two_things_and_for_nothing_compressed() {
    let shelf = Shelf::new();
    let served = shelf.clone();
    let registry = server(move |seen| served.serve(seen)).await;
    is_policy(&pull(&shelf.at(&registry), &plain(), None).await.unwrap(), &shelf.digest());
    let seen = registry.seen();
    let paths: Vec<&str> = seen.iter().map(|s| s.path.as_str()).collect();
    let (manifest, blob) = (shelf.digest(), &shelf.layer);
    assert_eq!(
        paths,
        [format!("/v2/team/policy/manifests/{manifest}"), format!("/v2/team/policy/blobs/{blob}")]
    );
    for request in &seen {
        assert_eq!(request.header("accept-encoding"), Some("identity"));
        assert_eq!(request.authorization(), None);
    }
}

#[tokio::test]
async fn an_endless_manifest_is_too_large() {
    let registry = server(|_| Reply::Endless(vec![b' '; 64 << 10])).await;
    refused(pull(&tag(&registry), &plain(), None).await, Category::TooLarge);
    refused(resolve(&tag(&registry), &plain()).await, Category::TooLarge);
    assert!(registry.sent() < 2 * ((1 << 20) + BUFFERS), "{}", registry.sent());
}

#[tokio::test]
async fn a_manifest_that_says_how_large_it_is_is_not_even_read() {
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n";
    let registry = server(|_| Reply::Raw(head.to_vec())).await;
    refused(pull(&tag(&registry), &plain(), None).await, Category::TooLarge);
}

#[tokio::test]
async fn an_endless_component_ends_where_its_manifest_says() {
    let shelf = Shelf::new();
    let served = shelf.clone();
    let registry = server(move |seen| match for_blobs(seen) {
        true => Reply::Endless(vec![0; 64 << 10]),
        false => served.serve(seen),
    })
    .await;
    let error = refused(pull(&shelf.at(&registry), &plain(), None).await, Category::DigestMismatch);
    assert!(error.message().contains("larger"), "{error}");
    assert!(registry.sent() < BUFFERS + (1 << 20), "{}", registry.sent());
}

#[tokio::test]
async fn a_component_that_says_it_is_too_large_is_not_fetched() {
    let shelf = Shelf::with_size((32 << 20) + 1);
    let served = shelf.clone();
    let registry = server(move |seen| served.serve(seen)).await;
    refused(pull(&shelf.at(&registry), &plain(), None).await, Category::TooLarge);
    assert!(!registry.seen().iter().any(for_blobs));
}

#[tokio::test]
async fn sizes_that_are_not_true_are_found_out() {
    let length = crate::common::policy().len() as u64;
    for said in [0, length - 1, length + 1] {
        let shelf = Shelf::with_size(said);
        let served = shelf.clone();
        let registry = server(move |seen| served.serve(seen)).await;
        refused(pull(&shelf.at(&registry), &plain(), None).await, Category::DigestMismatch);
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_is_no_body() {
    let shelf = Shelf::new();
    let served = shelf.clone();
    let registry = server(move |seen| match for_blobs(seen) {
        true => Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n\0asm".to_vec()),
        false => served.serve(seen),
    })
    .await;
    refused(pull(&shelf.at(&registry), &plain(), None).await, Category::Unreachable);
}

#[tokio::test]
async fn another_manifest_than_the_pinned_one_is_refused_and_not_kept() {
    let shelf = Shelf::new();
    let served = shelf.clone();
    let registry = server(move |seen| served.serve(seen)).await;
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path(), Cache::DEFAULT_LIMIT).unwrap();
    let pinned = tag(&registry).at(Digest::of(b"another"));
    refused(pull(&pinned, &plain(), Some(&cache)).await, Category::DigestMismatch);
    assert!(!registry.seen().iter().any(for_blobs), "its component was not asked for");
    let kept = std::fs::read_dir(folder.path().join("blobs/sha256")).unwrap().count();
    assert_eq!(kept, 0);
}

#[tokio::test]
async fn another_component_than_the_manifests_is_refused_and_not_kept() {
    let mut shelf = Shelf::new();
    shelf.wasm[20] ^= 1;
    let served = shelf.clone();
    let registry = server(move |seen| served.serve(seen)).await;
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path(), Cache::DEFAULT_LIMIT).unwrap();
    refused(pull(&shelf.at(&registry), &plain(), Some(&cache)).await, Category::DigestMismatch);
    let component = folder.path().join("blobs/sha256").join(shelf.layer.hex());
    assert!(!component.exists());
}

#[tokio::test]
async fn a_registry_that_contradicts_itself_is_refused() {
    let shelf = Shelf::new();
    let served = shelf.clone();
    let registry = server(move |_| {
        let said = ("docker-content-digest", Digest::of(b"another").to_string());
        Reply::Whole(200, vec![said], served.manifest.clone().into())
    })
    .await;
    refused(resolve(&tag(&registry), &plain()).await, Category::DigestMismatch);
}

#[tokio::test]
async fn nothing_compressed_is_unpacked() {
    for encoding in ["gzip", "br", "zstd", "deflate", "gzip, gzip", "x"] {
        let registry = server(move |_| {
            // What this would become is nobody's concern.
            let bomb = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
            Reply::Whole(200, vec![("content-encoding", encoding.into())], bomb)
        })
        .await;
        let error = refused(pull(&tag(&registry), &plain(), None).await, Category::BadArtifact);
        assert!(error.message().contains("compressed"), "{error}");
    }
}

#[tokio::test]
async fn manifests_that_are_bombs_are_no_artifacts() {
    let deep = "[".repeat((1 << 20) - 1);
    let deeper = format!(r#"{{"annotations": {}"#, "{\"a\":".repeat(200_000));
    let layer =
        format!(r#"{{"mediaType":"application/wasm","digest":"{}","size":1}}"#, Digest::of(b""));
    let wide = format!(r#"{{"schemaVersion":2,"layers":[{}]}}"#, vec![layer; 8000].join(","));
    for manifest in [deep, deeper, wide, "null".into(), "\0".repeat(1000)] {
        let registry = server(move |_| Reply::ok(manifest.clone())).await;
        refused(pull(&tag(&registry), &plain(), None).await, Category::BadArtifact);
    }
}

#[tokio::test]
async fn what_is_not_http_is_unreachable() {
    for bytes in [&b""[..], b"SSH-2.0-x\r\n", b"HTTP/1.1 999999 x\r\n\r\n", b"\x16\x03\x01"] {
        let registry = server(move |_| Reply::Raw(bytes.to_vec())).await;
        refused(pull(&tag(&registry), &plain(), None).await, Category::Unreachable);
    }
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(100_000));
    let registry = server(move |_| Reply::Raw(many.clone().into())).await;
    refused(pull(&tag(&registry), &plain(), None).await, Category::Unreachable);
}

#[tokio::test]
async fn every_status_has_its_category() {
    for (status, category) in [
        (403, Category::Unauthorized),
        (404, Category::NotFound),
        (429, Category::Unreachable),
        (500, Category::Unreachable),
        (204, Category::Unreachable),
        (206, Category::Unreachable),
        (304, Category::Unreachable),
    ] {
        // What it says may be anything, so it is not repeated.
        let registry = server(move |_| Reply::Whole(status, vec![], "hunter2 t0ken".into())).await;
        refused(pull(&tag(&registry), &plain(), None).await, category);
        assert!(registry.seen().iter().all(for_manifests));
    }
}

#[tokio::test]
async fn nobody_there_is_unreachable() {
    crypto();
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let reference = reference(&format!("{gone}/team/policy:1"));
    for access in [plain(), Access::default()] {
        refused(pull(&reference, &access, None).await, Category::Unreachable);
    }
}
