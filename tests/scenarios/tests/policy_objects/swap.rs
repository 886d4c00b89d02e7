//! Another component in a policy's place: at once, without a restart, and in no reconcile two of them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use scenarios::{Machine, Stage, StageOptions, component, eventually, rebuilt};
use serde_json::Value;

use super::{decided, said};
use crate::support::{PolicyFolder, rack, stage_on, stage_with};

const RACK: [&str; 4] = [
    "{hostname: small, cores: 2, memory: 4096, zone: az1}",
    "{hostname: middle, cores: 4, memory: 8192, zone: az2}",
    "{hostname: large, cores: 8, memory: 16384, zone: az3}",
    "{hostname: huge, cores: 16, memory: 65536, zone: az3}",
];

/// Waits until a policy's revision is another one, and says how long that took.
async fn another(stage: &Stage<'_>, policy: &str, before: &str) -> Result<(String, Duration)> {
    let begun = Instant::now();
    loop {
        let status = stage.policies().get(policy).await?.status.unwrap_or_default();
        let digest = status.current.map(|c| c.digest).unwrap_or_default();
        if !digest.is_empty() && digest != before {
            return Ok((digest, begun.elapsed()));
        }
        ensure!(begun.elapsed() < Duration::from_secs(60), "{policy} still is {before}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_swaps_an_allocation_policy_by_replacing_its_config_map() -> Result<()> {
    let stage = stage_on("policy-swap", &RACK).await?;
    stage.enforced("choice", "Allocation", &component("allocation-default")?, "")?;
    let first = stage.policy_ready("choice").await?.current.expect("a revision");
    ensure!(first.name == "allocation-default" && first.interface == "capmaas:policy@0.1.0");
    stage.cluster("c", "", ", policies: {allocation: [choice]}")?;
    stage.machine("c", &Machine::worker("before"))?;
    stage.provisioned("before").await?;
    let by = decided(&stage, "before", "allocation").await?;
    let choice = format!("{}/choice", stage.namespace);
    ensure!(by.by.as_deref() == Some(&choice) && by.digest == first.digest, "{by:?}");

    stage.component_in_config_map("choice", &component("allocation-zone-spread")?)?;
    let (digest, took) = another(&stage, "choice", &first.digest).await?;
    println!("measured: swapped by ConfigMap after {} ms", took.as_millis());
    stage.machine("c", &Machine::worker("after"))?;
    stage.provisioned("after").await?;
    let by = decided(&stage, "after", "allocation").await?;
    ensure!(by.policy.starts_with("allocation-zone-spread") && by.digest == digest, "{by:?}");
    let status = stage.policies().get("choice").await?.status.unwrap_or_default();
    ensure!(
        status.previous.map(|p| p.digest) == Some(first.digest),
        "the one before is kept in mind"
    );
    said(&stage, "choice", "RevisionInUse").await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_takes_the_place_of_another_is_swapped_too() -> Result<()> {
    let folder = PolicyFolder::new()?.file("live.wasm", &component("allocation-default")?)?;
    let options =
        StageOptions { inventory: rack(&RACK), args: folder.flags(), ..Default::default() };
    let stage = stage_with("policy-swap-file", options).await?;
    stage.policy("live", "kind: Allocation, mode: Enforce, source: {file: {path: live.wasm}}")?;
    let first = stage.policy_ready("live").await?.current.expect("a revision");
    let next = folder.path().join("next.wasm");
    std::fs::write(&next, component("allocation-zone-spread")?)?;
    std::fs::rename(&next, folder.path().join("live.wasm"))?;
    let (_, took) = another(&stage, "live", &first.digest).await?;
    println!("measured: swapped by file after {} ms", took.as_millis());
    // A pinned digest is for those who want to decide when: the file alone changes nothing then.
    let pin = format!(
        "kind: Allocation, mode: Enforce, source: {{file: {{path: live.wasm, digest: '{}'}}}}",
        first.digest
    );
    stage.policy("live", &pin)?;
    let why = stage.policy_reason("live", "Verified", "ComponentRefused").await?;
    ensure!(why.contains("its digest is sha256:") && why.contains(&first.digest), "{why}");
    let kept = stage.policy_condition("live", "Ready").await?.and_then(|c| c.message);
    ensure!(kept.is_some_and(|m| m.contains("the last good revision")), "the good one stays");
    std::fs::write(folder.path().join("live.wasm"), component("allocation-default")?)?;
    let back = stage.policy_ready("live").await?.current.expect("a revision");
    ensure!(back.digest == first.digest);
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clusters_that_name_nothing_follow_the_controllers_defaults_as_they_are_now() -> Result<()>
{
    let args = vec![
        "--default-allocation-policy=site".to_owned(),
        "--default-dns-naming-policy=names".to_owned(),
    ];
    let options = StageOptions { inventory: rack(&RACK), args, ..Default::default() };
    let stage = stage_with("policy-defaults", options).await?;
    // The operator has not made them yet: nothing is guessed.
    stage.cluster("c", "", "")?;
    let why = stage.cluster_reason("c", "LoadBalancerReady", "WaitForDNSName").await?;
    ensure!(why.contains("there is no MaasPolicy policy-defaults/names"), "{why}");
    stage.enforced("names", "DnsNaming", &component("dns-naming-default")?, "")?;
    stage.enforced("site", "Allocation", &component("allocation-zone-spread")?, "")?;
    stage.machine("c", &Machine::worker("w"))?;
    stage.provisioned("w").await?;
    let by = decided(&stage, "w", "allocation").await?;
    ensure!(by.by.as_deref() == Some("policy-defaults/site"), "{by:?}");
    let named = eventually("the endpoint's name is explained", 40, async || {
        let status = stage.clusters().get("c").await?.status.unwrap_or_default();
        Ok(status.decisions.into_iter().flatten().next_back())
    });
    let named = named.await?;
    ensure!(named.kind == "dns-naming" && named.by.as_deref() == Some("policy-defaults/names"));
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_rejected_a_machine_is_asked_again_when_it_has_changed() -> Result<()> {
    let stage = stage_on("policy-again", &RACK).await?;
    stage.enforced("strict", "Allocation", &component("refuse-allocation")?, "")?;
    stage.cluster("c", "", ", policies: {allocation: [strict]}")?;
    stage.machine("c", &Machine::worker("w"))?;
    let why = stage.reason("w", "MachineDeployed", "AllocationPolicyFailed").await?;
    ensure!(why.contains("no machine is taken on my watch"), "{why}");
    // Suspended, it is as if it were not named.
    stage.policies().get("strict").await?;
    stage.policy(
        "strict",
        "kind: Allocation, mode: Enforce, suspend: true, source: {configMap: {name: strict}}",
    )?;
    stage.provisioned("w").await?;
    let by = decided(&stage, "w", "allocation").await?;
    ensure!(by.by.is_none() && by.policy.starts_with("allocation-default"), "{by:?}");
    stage.policy_reason("strict", "Ready", "Suspended").await?;
    stage.strike().await
}

/// Who gave each of a policy's answers in one reconcile, as the decision log has it.
fn answered_by(line: &str, policy: &str) -> Result<Vec<String>> {
    let line: Value = serde_json::from_str(line)?;
    let (steps, replies) = (line["steps"].as_array(), line["replies"].as_array());
    let both = steps.context("steps")?.iter().zip(replies.context("replies")?);
    let of = both.filter(|(step, _)| step["ask"]["policy"] == policy);
    of.map(|(_, reply)| {
        let digest = reply["answered"]["policy"]["digest"].as_str();
        digest.map(str::to_owned).with_context(|| format!("no answer: {reply}"))
    })
    .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_that_are_taken_while_the_policy_is_swapped_are_each_chosen_by_one_revision()
-> Result<()> {
    const WANTED: usize = 16;
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("decisions.jsonl");
    let machine = |n| format!("{{hostname: n{n}, cores: 2, memory: 4096, zone: az{}}}", n % 3 + 1);
    let machines: Vec<String> = (0..WANTED).map(machine).collect();
    let options = StageOptions {
        inventory: rack(&machines.iter().map(String::as_str).collect::<Vec<_>>()),
        args: vec![format!("--decision-log={}", log.display())],
        ..Default::default()
    };
    let stage = stage_with("policy-swap-busy", options).await?;
    // It is asked twice for every machine.
    let one = component("allocation-zone-spread")?;
    let revisions = [one.clone(), rebuilt(&one, b'b')];
    stage.enforced("choice", "Allocation", &revisions[0], ", config: {workers: true}")?;
    stage.policy_ready("choice").await?;
    stage.cluster("c", "", ", policies: {allocation: [choice]}")?;
    for n in 0..WANTED {
        stage.machine("c", &Machine::worker(&format!("w{n}")))?;
        if n % 2 == 1 {
            stage.component_in_config_map("choice", &revisions[n.div_ceil(2) % 2])?;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut hosts = Vec::new();
    for n in 0..WANTED {
        hosts.push(stage.provisioned(&format!("w{n}")).await?.system_id);
    }
    hosts.sort();
    hosts.dedup();
    ensure!(hosts.len() == WANTED, "each has a host of its own: {hosts:?}");
    let (mut by, written) = (Vec::new(), std::fs::read_to_string(&log)?);
    for line in written.lines() {
        let mut of_one = answered_by(line, "policy-swap-busy/choice")?;
        let twice = of_one.len() > 1;
        of_one.dedup();
        ensure!(of_one.len() <= 1, "{of_one:?} in one reconcile");
        by.extend(of_one.into_iter().filter(|_| twice));
    }
    ensure!(by.len() >= WANTED, "{by:?}");
    by.sort();
    by.dedup();
    ensure!(by.len() == 2, "both have decided: {by:?}");
    stage.strike().await
}
