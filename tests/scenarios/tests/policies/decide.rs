//! With another component in a default's place, another decision is made.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use maas_sim::{Inventory, OperatorAct};
use scenarios::{Machine, Stage, StageOptions, eventually};

use crate::support::{PolicyFolder, params, rack, stage_on, stage_with, story};

async fn with_policies(
    namespace: &str,
    inventory: Inventory,
    folder: &PolicyFolder,
) -> Result<Stage<'static>> {
    let args = folder.flags();
    stage_with(namespace, StageOptions { inventory, args, ..Default::default() }).await
}

fn refuses(message: &str, policy: &str, words: &str) -> Result<()> {
    let told = message.contains(policy) && message.contains("gave no answer");
    ensure!(told && message.contains(words), "{message}");
    Ok(())
}

/// Nobody but the policy says which machine may be taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_allocation_policy_refuses_no_machine_is_taken() -> Result<()> {
    let folder = PolicyFolder::new()?.policy("allocation", "refuse-allocation")?;
    let stage = with_policies("policy-refuse-alloc", Inventory::default(), &folder).await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let message = stage.reason("w", "MachineDeployed", "AllocationPolicyFailed").await?;
    refuses(&message, "refuse-allocation 0.1.0", "no machine is taken on my watch")?;
    asked_again(&stage, "w").await?;
    ensure!(stage.calls("allocate").is_empty() && stage.held().is_empty(), "{:?}", story(&stage));
    stage.strike().await
}

/// The policy has been asked several times, and refused each time.
async fn asked_again(stage: &Stage<'_>, machine: &str) -> Result<()> {
    let reads = |stage: &Stage<'_>| {
        let log = stage.controller.log();
        log.matches(&format!("MaasMachine.v1beta1.infrastructure.cluster.x-k8s.io/{machine}"))
            .count()
    };
    let before = reads(stage);
    eventually("the machine is reconciled again", 60, async || {
        Ok((reads(stage) > before + 2).then_some(()))
    })
    .await
}

/// Nobody but the policy names the API server: no name, no record, no endpoint.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_naming_policy_refuses_there_is_no_name() -> Result<()> {
    let folder = PolicyFolder::new()?.policy("dns-naming", "refuse-dns-naming")?;
    let stage = with_policies("policy-refuse-name", Inventory::default(), &folder).await?;
    stage.cluster("c", "", "")?;
    let message = stage.cluster_reason("c", "LoadBalancerReady", "WaitForDNSName").await?;
    refuses(&message, "refuse-dns-naming 0.1.0", "no name is given on my watch")?;
    let object = stage.clusters().get("c").await?;
    ensure!(object.spec.control_plane_endpoint.is_none_or(|e| e.host.is_empty()));
    ensure!(object.status.is_some_and(|s| !s.ready));
    ensure!(stage.maas.dns_records().is_empty() && stage.writes().is_empty());
    stage.strike().await
}

/// Nobody but the policy says what to do about a failure: the host is neither released nor replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_failure_policy_refuses_nothing_is_done_about_a_failure() -> Result<()> {
    let folder = PolicyFolder::new()?.policy("failure-handling", "refuse-failure-handling")?;
    let inventory = rack(&[
        "{hostname: bad, cores: 2, memory: 4096, first_deploys_fail: 9}",
        "{hostname: good, cores: 4, memory: 8192}",
    ]);
    let stage = with_policies("policy-refuse-failure", inventory, &folder).await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let message = stage.reason("w", "MachineDeployed", "FailurePolicyFailed").await?;
    refuses(&message, "refuse-failure-handling 0.1.0", "no failure is handled on my watch")?;
    ensure!(message.contains("Failed deployment"), "the failure itself is told too: {message}");
    asked_again(&stage, "w").await?;
    let held = stage.held();
    ensure!(held.len() == 1 && held[0].hostname == "bad", "{held:?}");
    ensure!(stage.calls("release").is_empty() && stage.calls("allocate").len() == 1);
    stage.strike().await
}

/// The defaults are components as well: their settings change what they decide.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_configuration_reaches_the_policy() -> Result<()> {
    let config = r#"{"maxReplacements": 0}"#;
    let folder = PolicyFolder::new()?.config("failure-handling", config)?;
    let inventory = rack(&[
        "{hostname: bad, cores: 2, memory: 4096, first_deploys_fail: 9}",
        "{hostname: good, cores: 4, memory: 8192}",
    ]);
    let stage = with_policies("policy-config", inventory, &folder).await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let status = eventually("it is given up at the first failure", 60, async || {
        let status = stage.machines().get("w").await?.status.unwrap_or_default();
        Ok(status.failure_reason.is_some().then_some(status))
    })
    .await?;
    ensure!(status.failure_message.is_some_and(|m| m.contains("no host is replaced")), "its words");
    let decisions = status.decisions.unwrap_or_default();
    let last = decisions.last().context("the decision is on record")?;
    ensure!(last.policy.contains("failure-handling-default"), "{last:?}");
    ensure!(last.digest.starts_with("sha256:") && last.answer.contains("give up"), "{last:?}");
    ensure!(stage.calls("allocate").len() == 1 && stage.calls("release").is_empty());
    stage.strike().await
}

/// The smallest machines are all in zone az1.
const UNEVEN: &[&str] = &[
    "{hostname: az1-a, cores: 2, memory: 4096, zone: az1}",
    "{hostname: az1-b, cores: 2, memory: 4096, zone: az1}",
    "{hostname: az1-c, cores: 2, memory: 4096, zone: az1}",
    "{hostname: az2-a, cores: 8, memory: 16384, zone: az2}",
    "{hostname: az3-a, cores: 16, memory: 32768, zone: az3}",
];

async fn zones_of_three_control_planes(stage: &Stage<'_>) -> Result<BTreeSet<String>> {
    stage.cluster("c", "", "")?;
    let names = ["cp-1", "cp-2", "cp-3"];
    for name in names {
        stage.machine("c", &Machine::control_plane(name))?;
    }
    let mut zones = BTreeSet::new();
    for name in names {
        zones.insert(stage.provisioned(name).await?.zone);
    }
    Ok(zones)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_default_takes_the_smallest_machines_wherever_they_are() -> Result<()> {
    let stage = stage_on("policy-smallest", UNEVEN).await?;
    let zones = zones_of_three_control_planes(&stage).await?;
    ensure!(zones == BTreeSet::from(["az1".to_owned()]), "{zones:?}");
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zone_spread_puts_control_planes_into_different_zones() -> Result<()> {
    let folder = PolicyFolder::new()?.policy("allocation", "allocation-zone-spread")?;
    let stage = with_policies("policy-spread", rack(UNEVEN), &folder).await?;
    let zones = zones_of_three_control_planes(&stage).await?;
    ensure!(zones.len() == 3, "{zones:?}");
    // One atomic call for each, by id and within what the user wanted.
    for call in stage.calls("allocate") {
        ensure!(params(&call, "system_id").len() == 1 && params(&call, "mem") == ["4096"]);
    }
    let events = stage.events("cp-1").await?;
    let told = events.iter().find(|(reason, _)| reason == "MachineAllocated");
    ensure!(told.is_some_and(|(_, n)| n.contains("allocation-zone-spread")), "{events:?}");
    // A worker is left to MAAS, which takes the smallest there is.
    stage.machine("c", &Machine::worker("w"))?;
    ensure!(stage.provisioned("w").await?.zone == "az1");
    stage.strike().await
}

/// What the user wants always applies: a policy can only narrow it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_never_widens_what_the_user_wants() -> Result<()> {
    let folder = PolicyFolder::new()?.policy("allocation", "allocation-zone-spread")?;
    let stage = with_policies("policy-narrow", rack(UNEVEN), &folder).await?;
    stage.cluster("c", "", "")?;
    for name in ["cp-1", "cp-2"] {
        stage.machine("c", &Machine::control_plane(name).with("failureDomain: az1"))?;
        ensure!(stage.provisioned(name).await?.zone == "az1");
    }
    let other = stage.maas.machine_named("az1-c").context("in the rack")?;
    let taken = stage.maas.machine_named("az1-b").context("in the rack")?;
    let last = if other.owner.is_none() { other } else { taken };
    stage.maas.operator(&last.system_id, OperatorAct::Owner(Some("somebody-else".into())))?;
    stage.maas.operator(&last.system_id, OperatorAct::Status("Allocated".into()))?;
    stage.machine("c", &Machine::control_plane("cp-3").with("failureDomain: az1"))?;
    eventually("the third one waits", 40, async || {
        let condition = stage.condition("cp-3", "MachineDeployed").await?;
        let reason = condition.and_then(|c| c.reason).unwrap_or_default();
        Ok(["NoMachineFits", "NoMachineFound"].contains(&reason.as_str()).then_some(()))
    })
    .await?;
    ensure!(stage.held().iter().all(|m| m.zone == "az1"), "{:?}", stage.held());
    stage.strike().await
}
