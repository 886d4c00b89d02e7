//! Servers that take their time.

use std::time::Duration;

use capmaas::policy::oci::{Access, Category, Timeouts, pull, push, resolve};

use super::{Shelf, for_blobs, tag};
use crate::common::{crypto, impatient, none, plain, policy, reference, refused};
use crate::stranger::{Reply, Seen, Stranger};

const FOREVER: Duration = Duration::from_secs(3600);
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 400\r\n\r\n";

async fn server(answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Stranger {
    crypto();
    Stranger::start(answer).await
}

#[tokio::test]
async fn a_server_that_says_nothing_is_left() {
    let registry = server(|_| Reply::Slow(vec![b'H'], FOREVER)).await;
    let access = impatient(plain());
    refused(pull(&tag(&registry), &access, None).await, Category::Timeout);
    refused(resolve(&tag(&registry), &access).await, Category::Timeout);
    refused(push(&tag(&registry), &access, policy(), &none()).await, Category::Timeout);
}

#[tokio::test]
async fn a_server_that_falls_silent_is_left() {
    let registry = server(|_| Reply::Slow(HEAD.to_vec(), Duration::ZERO)).await;
    let error = refused(pull(&tag(&registry), &impatient(plain()), None).await, Category::Timeout);
    assert!(error.message().contains("said nothing"), "{error}");
}

#[tokio::test]
async fn a_server_that_drips_is_left_when_the_time_for_all_of_it_is_over() {
    // It is never silent for as long as it may be.
    let drip = [HEAD, &[b' '; 300]].concat();
    let shelf = Shelf::new();
    let served = shelf.clone();
    let registry = server(move |seen| match for_blobs(seen) {
        true => Reply::Slow(drip.clone(), Duration::from_millis(40)),
        false => served.serve(seen),
    })
    .await;
    let timeouts = Timeouts { overall: Duration::from_secs(1), idle: FOREVER };
    let access = Access { timeouts, ..plain() };
    let error = refused(pull(&shelf.at(&registry), &access, None).await, Category::Timeout);
    assert!(error.message().contains("within 1s"), "{error}");
}

#[tokio::test]
async fn a_server_that_does_not_read_is_left() {
    // The kernel takes the connection; nobody else does.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    crypto();
    let deaf = reference(&format!("{}/team/policy:1", listener.local_addr().unwrap()));
    refused(push(&deaf, &impatient(plain()), policy(), &none()).await, Category::Timeout);
    // Nor does it speak TLS.
    refused(pull(&deaf, &impatient(Access::default()), None).await, Category::Timeout);
}

#[tokio::test]
async fn a_token_service_that_says_nothing_is_left() {
    let tokens = server(|_| Reply::Slow(vec![b'H'], FOREVER)).await;
    let realm = format!("Bearer realm=\"http://{}/\"", tokens.host());
    let registry = server(move |_| Reply::challenge(realm.clone())).await;
    refused(pull(&tag(&registry), &impatient(plain()), None).await, Category::Timeout);
}
