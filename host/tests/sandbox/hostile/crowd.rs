//! Every sort of hostile guest at once, in a process of its own: what it costs, and that the others
//! are served all the while.

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use capmaas::policy::{Choices, Engine, Policies};
use capmaas_core::Reply;
use capmaas_core::policy::{Question, Stage};

use super::super::questions::{
    allocation_request, compiler, failure, name, name_request, shortlist,
};
use super::answers::hostile;

/// Sixteen places: the memory that a guest may have, and what its answer may be on the way.
const BOUND_MIB: usize = 16 * (64 + 12);
/// How one set of hostile policies behaves: allocation, naming, failure handling.
const SETS: [[&str; 3]; 3] =
    [["spin", "grow", "flood"], ["aliases", "spin", "recurse"], ["list", "panic", "grow"]];
/// Questions to each hostile policy, all at once.
const CROWD: usize = 24;

#[test]
fn while_hostile_guests_of_every_sort_crowd_the_engine_the_others_are_served() {
    // Other tests would be measured with it.
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["hostile::crowd::in_a_process_of_its_own", "--exact", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    for line in said.lines().filter(|l| l.contains("measured:")) {
        println!("{line}");
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}\n{complaint}");
}

/// A line of /proc/self/status, MiB.
fn status_mib(key: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with(key)).expect("Linux tells it");
    let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib >> 10
}

async fn hostile_set(engine: &Engine, how: [&str; 3]) -> Policies {
    let [allocation, dns_naming, failure_handling] = how.map(hostile);
    let choices = Choices { allocation, dns_naming, failure_handling };
    Policies::load(engine.clone(), choices, compiler()).await.unwrap()
}

fn questions() -> Vec<Question> {
    let each = || {
        [
            Question::Shortlist(allocation_request()),
            Question::Name(name_request()),
            Question::Handle(failure(Stage::Power, 1, 0)),
        ]
    };
    (0..CROWD).flat_map(|_| each()).collect()
}

/// Asks everything at once; nothing of it is answered.
async fn crowd(sets: &[Policies]) -> usize {
    let asked = sets.iter().flat_map(|set| questions().into_iter().map(|q| set.ask(q)));
    let replies = futures::future::join_all(asked).await;
    let refused = |r: &Reply| matches!(r, Reply::Refused(r) if r.category != "unavailable");
    assert!(replies.iter().all(refused), "{replies:?}");
    replies.len()
}

/// Asks healthy policies one question after another until the crowd is through.
async fn served(healthy: &Policies, through: &AtomicBool) -> Vec<Duration> {
    let mut waits = Vec::new();
    while !through.load(Ordering::Relaxed) {
        let before = Instant::now();
        // Both panic unless they are answered.
        shortlist(healthy).await;
        name(healthy).await;
        waits.push(before.elapsed());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    waits.sort();
    waits
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by the test before it"]
async fn in_a_process_of_its_own() {
    let engine = Engine::new().unwrap();
    let mut sets = Vec::new();
    for how in SETS {
        sets.push(hostile_set(&engine, how).await);
    }
    let healthy = Policies::load(engine, Choices::default(), compiler()).await.unwrap();
    let before = status_mib("VmRSS:");
    // The peak so far is that of loading.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let through = AtomicBool::new(false);
    let start = Instant::now();
    let crowding = async {
        let calls = crowd(&sets).await;
        through.store(true, Ordering::Relaxed);
        calls
    };
    let (calls, waits) = tokio::join!(crowding, served(&healthy, &through));
    let (peak, after) = (status_mib("VmHWM:"), status_mib("VmRSS:"));
    println!(
        "measured: {calls} hostile calls in {} ms; {} pairs of healthy calls meanwhile, median {} \
         ms, longest {} ms; resident {before} MiB before, {peak} MiB at most, {after} MiB after",
        start.elapsed().as_millis(),
        waits.len(),
        waits[waits.len() / 2].as_millis(),
        waits[waits.len() - 1].as_millis(),
    );
    assert!(waits.len() >= 3, "{waits:?}");
    assert!(peak < before + BOUND_MIB, "{before} MiB before, {peak} MiB at most");
    assert!(after < before + 64, "{before} MiB before, {after} MiB after");
}

#[tokio::test]
async fn a_policy_that_hangs_takes_no_more_than_its_share_of_places() {
    // Far more questions than there are places; another kind need not wait for any of them.
    let engine = Engine::new().unwrap();
    let choices = Choices { dns_naming: hostile("spin"), ..Choices::default() };
    let policies = Policies::load(engine, choices, compiler()).await.unwrap();
    let through = AtomicUsize::new(0);
    let hanging = (0..64).map(|_| async {
        policies.ask(Question::Name(name_request())).await;
        through.fetch_add(1, Ordering::Relaxed);
    });
    let mut hanging = std::pin::pin!(futures::future::join_all(hanging));
    // All of them are asked before the other one.
    assert!(futures::poll!(&mut hanging).is_pending());
    tokio::select! {
        biased;
        _ = shortlist(&policies) => {}
        _ = &mut hanging => panic!("64 that hang were through before one that does not"),
    }
    // Without shares it would have come after 48 of them at least.
    let through = through.load(Ordering::Relaxed);
    assert!(through < 32, "{through} that hang were through before one that does not");
}
