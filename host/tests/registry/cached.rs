//! A restart without the registry.

use capmaas::policy::oci::{Cache, Category, Digest, pull, push, resolve};

use super::common::{at, is_policy, none, open_registry, plain, policy, refused};

#[tokio::test]
async fn a_pinned_policy_needs_its_registry_once() {
    let mut registry = open_registry();
    let tag = at(&registry, "team/policy:1");
    push(&tag, &plain(), policy(), &none()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path(), Cache::DEFAULT_LIMIT).unwrap();
    // A tag is resolved once, and the digest is remembered by whoever asked.
    let digest = resolve(&tag, &plain()).await.unwrap();
    let pinned = tag.at(digest.clone());
    is_policy(&pull(&pinned, &plain(), Some(&cache)).await.unwrap(), &digest);

    let asked = registry.requests().unwrap().len();
    is_policy(&pull(&pinned, &plain(), Some(&cache)).await.unwrap(), &digest);
    assert_eq!(registry.requests().unwrap().len(), asked);

    registry.stop();
    let after_restart = Cache::open(folder.path(), Cache::DEFAULT_LIMIT).unwrap();
    is_policy(&pull(&pinned, &plain(), Some(&after_restart)).await.unwrap(), &digest);
    // The tag alone may mean another policy by now.
    refused(pull(&tag, &plain(), Some(&after_restart)).await, Category::Unreachable);
    refused(resolve(&tag, &plain()).await, Category::Unreachable);
    registry.resume().unwrap();
    is_policy(&pull(&tag, &plain(), Some(&after_restart)).await.unwrap(), &digest);
}

#[tokio::test]
async fn a_damaged_entry_is_fetched_again() {
    let registry = open_registry();
    let tag = at(&registry, "team/policy:1");
    let digest = push(&tag, &plain(), policy(), &none()).await.unwrap();
    let pinned = tag.at(digest.clone());
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path(), Cache::DEFAULT_LIMIT).unwrap();
    pull(&pinned, &plain(), Some(&cache)).await.unwrap();
    for damaged in [&digest, &Digest::of(&policy())] {
        let file = folder.path().join("blobs/sha256").join(damaged.hex());
        std::fs::write(&file, "not what it was").unwrap();
        is_policy(&pull(&pinned, &plain(), Some(&cache)).await.unwrap(), &digest);
        assert_eq!(Digest::of(&std::fs::read(&file).unwrap()), *damaged);
    }
}

#[tokio::test]
async fn the_component_of_two_artifacts_is_fetched_once() {
    let registry = open_registry();
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path(), Cache::DEFAULT_LIMIT).unwrap();
    for (name, annotation) in [("one:1", "1"), ("two:1", "2")] {
        let annotations = [("a".to_owned(), annotation.to_owned())].into();
        push(&at(&registry, name), &plain(), policy(), &annotations).await.unwrap();
        pull(&at(&registry, name), &plain(), Some(&cache)).await.unwrap();
    }
    let layer = format!("blobs/{}", Digest::of(&policy()));
    let requests = registry.requests().unwrap();
    let fetched = requests.iter().filter(|r| r.contains("\"GET") && r.contains(&layer)).count();
    assert_eq!(fetched, 1, "{requests:?}");
}

#[tokio::test]
async fn two_processes_may_use_one_cache_at_once() {
    let registry = open_registry();
    let tag = at(&registry, "team/policy:1");
    let digest = push(&tag, &plain(), policy(), &none()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    // Room for one of the two blobs, so that each throws out what the other has just kept.
    let caches = [(); 2].map(|()| Cache::open(folder.path(), policy().len() as u64).unwrap());
    let pulls = (0..20).map(|i| {
        let (pinned, cache) = (tag.at(digest.clone()), caches[i % 2].clone());
        tokio::spawn(async move { pull(&pinned, &plain(), Some(&cache)).await })
    });
    for pulled in pulls.collect::<Vec<_>>() {
        is_policy(&pulled.await.unwrap().unwrap(), &digest);
    }
}
