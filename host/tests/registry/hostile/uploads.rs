//! Registries that want a policy to go elsewhere, or do not take it.

use capmaas::policy::oci::{Category, push};

use super::tag;
use crate::common::{crypto, none, plain, plain_as_user, policy, refused};
use crate::stranger::{Reply, Stranger};

#[tokio::test]
async fn nothing_is_uploaded_to_another_host() {
    crypto();
    let elsewhere = Stranger::start(|_| Reply::status(201)).await;
    let url = format!("http://{}/upload?s1gnature", elsewhere.host());
    let redirect = url.clone();
    let says = Stranger::start(move |seen| match seen.method.as_str() {
        "HEAD" => Reply::status(404),
        _ => Reply::Whole(202, vec![("location", url.clone())], vec![]),
    })
    .await;
    let redirects = Stranger::start(move |seen| match seen.method.as_str() {
        "HEAD" => Reply::status(404),
        _ => Reply::to(redirect.clone()),
    })
    .await;
    for registry in [says, redirects] {
        let access = plain_as_user(&registry.host());
        refused(push(&tag(&registry), &access, policy(), &none()).await, Category::Unreachable);
        assert!(elsewhere.seen().is_empty());
    }
}

#[tokio::test]
async fn a_registry_that_does_not_take_it_says_why_by_its_status() {
    for (status, category) in [
        (403, Category::Unauthorized),
        (404, Category::NotFound),
        (413, Category::TooLarge),
        (405, Category::Unreachable),
        (507, Category::Unreachable),
    ] {
        crypto();
        let registry = Stranger::start(move |_| Reply::status(status)).await;
        refused(push(&tag(&registry), &plain(), policy(), &none()).await, category);
    }
}

#[tokio::test]
async fn what_is_no_component_is_not_pushed() {
    crypto();
    let registry = Stranger::start(|_| Reply::status(201)).await;
    refused(
        push(&tag(&registry), &plain(), b"#!/bin/sh".to_vec(), &none()).await,
        Category::BadArtifact,
    );
    assert!(registry.seen().is_empty());
}
