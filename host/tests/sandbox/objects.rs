//! What `MaasPolicy` objects need of the loader: one compilation for all, and none again for what is loaded.

use std::sync::Arc;

use capmaas::policy::{CompiledCache, Health, Kind, Loader, Metrics, Order, digest};
use capmaas_core::policy::Gate;

use super::guest::Guest;
use super::questions::{compiler, engine};

fn compilations(metrics: &Metrics) -> u64 {
    let mut registry = prometheus_client::registry::Registry::default();
    metrics.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let line = text.lines().find(|l| l.starts_with("capmaas_policy_compile_seconds_count"));
    line.and_then(|l| l.rsplit(' ').next()).map_or(0, |n| n.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_wants_the_same_component_shares_one_compilation() {
    let metrics = Metrics::default();
    let loader = Arc::new(Loader::new(engine(), compiler(), metrics.clone()));
    let wasm = Guest::default().wasm();
    let all: Vec<_> = (0..8)
        .map(|_| {
            let (loader, wasm) = (loader.clone(), wasm.clone());
            tokio::spawn(async move {
                loader.load(Order::of(Kind::DnsNaming), wasm, Health::default()).await
            })
        })
        .collect();
    let mut loaded = Vec::new();
    for one in all {
        loaded.push(one.await.unwrap().unwrap());
    }
    assert!(loaded.iter().all(|l| l.id().digest == digest(&wasm)));
    assert_eq!(compilations(&metrics), 1);
    // When nobody has it any more it is gone, and compiled anew.
    drop(loaded);
    loader.load(Order::of(Kind::DnsNaming), wasm, Health::default()).await.unwrap();
    assert_eq!(compilations(&metrics), 2);
}

#[tokio::test]
async fn compiled_code_has_so_much_room_and_no_more() {
    let new = || Loader::new(engine(), compiler(), Metrics::default());
    let order = || Order::of(Kind::DnsNaming);
    let one = Guest::default().wasm();
    let other = Guest { name: "other", ..Guest::default() }.wasm();
    let size = new().load(order(), one.clone(), Health::default()).await.unwrap().code_size();
    let loader = new().within(size + size / 2);
    let load = async |wasm: &Vec<u8>| loader.load(order(), wasm.clone(), Health::default()).await;
    let first = load(&one).await.unwrap();
    let refused = load(&other).await.err().expect("there is no room");
    assert_eq!(refused.gate, Gate::Loaded);
    assert!(refused.to_string().contains("larger --policy-code-limit"), "{refused}");
    // The same component again takes no more, and what nobody has any more takes nothing.
    let again = load(&one).await.unwrap();
    drop((first, again));
    load(&other).await.unwrap();
}

#[tokio::test]
async fn what_was_compiled_once_is_not_compiled_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let wasm = Guest::default().wasm();
    for expected in [1, 0] {
        let metrics = Metrics::default();
        let cache = CompiledCache::open(&folder.path().join("compiled")).unwrap();
        let loader = Loader::new(engine(), compiler(), metrics.clone()).keeping(Some(cache));
        let order = Order::of(Kind::DnsNaming);
        let loaded = loader.load(order, wasm.clone(), Health::default()).await.unwrap();
        assert_eq!(loaded.id().name, "guest 1.0.0");
        assert_eq!(compilations(&metrics), expected);
    }
}
