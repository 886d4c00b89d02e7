//! Does the simulator answer as a real MAAS 3.7.3 did? `fixtures/pairs.json` holds what that one answered: status, content
//! type, texts, the shape of JSON, and the fields of machines that a client decides by. Each pair is replayed after the same
//! preparations. A pair that does not agree must be listed in `fixtures/exceptions.json` with a reason, and a listed pair
//! that agrees after all is a failure too.

#[path = "../common/mod.rs"]
mod common;
mod compare;
mod replay;

use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Exception {
    reason: String,
    pairs: Vec<String>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_simulator_answers_as_maas_did() {
    let fixtures: replay::Fixtures =
        serde_json::from_str(include_str!("../fixtures/pairs.json")).expect("pairs.json");
    let listed: Vec<Exception> =
        serde_json::from_str(include_str!("../fixtures/exceptions.json")).expect("exceptions.json");
    let mut excused: BTreeMap<&str, &str> = BTreeMap::new();
    for exception in &listed {
        for pair in &exception.pairs {
            assert!(!exception.reason.is_empty(), "{pair} has no reason");
            assert!(excused.insert(pair, &exception.reason).is_none(), "{pair} is listed twice");
        }
    }
    let client = common::client();
    let (mut total, mut agreed, mut wrong) = (0, 0, vec![]);
    for group in &fixtures.groups {
        for (pair, differences) in replay::run(&client, group, &fixtures.shapes).await {
            total += 1;
            match (differences.is_empty(), excused.remove(pair.id.as_str())) {
                (true, None) => agreed += 1,
                (true, Some(_)) => {
                    wrong.push(format!("{} ({}) is an exception, but agrees", pair.id, pair.name))
                }
                (false, Some(_)) => {}
                (false, None) => {
                    wrong.push(format!(
                        "{} ({}):\n    {}",
                        pair.id,
                        pair.name,
                        differences.join("\n    ")
                    ));
                }
            }
        }
    }
    wrong.extend(
        excused.keys().map(|pair| format!("{pair} is an exception, but there is no such pair")),
    );
    let exceptions: usize = listed.iter().map(|e| e.pairs.len()).sum();
    println!("agreement: {agreed} of {total} pairs, {exceptions} listed exceptions");
    assert!(wrong.is_empty(), "{} pairs are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
