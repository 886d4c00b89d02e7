//! A policy that gives no answer: what its object says is done, and nobody else is concerned.

use anyhow::{Result, ensure};
use scenarios::{Machine, Stage, component, eventually};

use super::{decided, said};
use crate::support::{stage, stage_on};

async fn hostile(stage: &Stage<'_>, name: &str, kind: &str, how: &str, more: &str) -> Result<()> {
    let more = format!(", config: {{how: '{how}'}}{more}");
    stage.enforced(name, kind, &component("hostile")?, &more)?;
    stage.policy_ready(name).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_failures_in_a_row_degrade_a_policy_and_one_answer_clears_it() -> Result<()> {
    let stage = stage("policy-degraded").await?;
    hostile(&stage, "bad", "Allocation", "panic c", "").await?;
    stage.cluster("c", "", ", policies: {allocation: [bad]}")?;
    stage.cluster("other", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let why = stage.policy_reason("bad", "Degraded", "FailingInARow").await?;
    ensure!(why.starts_with("5 failures in a row, the last: trap:"), "{why}");
    said(&stage, "bad", "PolicyDegraded").await?;
    let why = stage.reason("w", "MachineDeployed", "AllocationPolicyFailed").await?;
    ensure!(why.contains("hostile 0.1.0") || why.contains("policy-degraded/bad"), "{why}");
    ensure!(stage.held().is_empty(), "Fail: no machine is taken without its word");
    // Another cluster is not concerned.
    stage.machine("other", &Machine::worker("o"))?;
    stage.provisioned("o").await?;
    // The operator puts a good component in its place: it begins anew.
    stage.component_in_config_map("bad", &component("allocation-default")?)?;
    stage.policy("bad", "kind: Allocation, mode: Enforce, source: {configMap: {name: bad}}")?;
    stage.provisioned("w").await?;
    stage.policy_ready("bad").await?;
    ensure!(stage.policy_condition("bad", "Degraded").await?.is_some_and(|c| c.status == "False"));
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_use_default_every_decision_is_made_all_the_same() -> Result<()> {
    let stage = stage("policy-use-default").await?;
    let lenient = ", onFailure: UseDefault";
    hostile(&stage, "alloc", "Allocation", "spin c", lenient).await?;
    hostile(&stage, "names", "DnsNaming", "panic c", lenient).await?;
    let policies = ", policies: {allocation: [alloc], dnsNaming: names}";
    stage.cluster("c", "", policies)?;
    stage.machine("c", &Machine::control_plane("cp"))?;
    stage.provisioned("cp").await?;
    let by = decided(&stage, "cp", "allocation").await?;
    ensure!(by.by.is_none(), "{by:?}");
    let note = said(&stage, "cp", "PolicyDefaultUsed").await?;
    ensure!(note.contains("policy-use-default/alloc") && note.contains("timeout"), "{note}");
    let note = said(&stage, "c", "PolicyDefaultUsed").await?;
    ensure!(note.contains("policy-use-default/names") && note.contains("trap"), "{note}");
    let timeouts =
        ["capmaas_policy_calls_total", "policy-use-default/alloc", "outcome=\"timeout\""];
    ensure!(stage.metric(&timeouts).await? >= 1.0, "{}", stage.metrics().await?);
    let peak = ["capmaas_policy_memory_peak_bytes", "policy-use-default/names"];
    ensure!(stage.metric(&peak).await? > 65_535.0, "{}", stage.metrics().await?);
    stage.strike().await
}

/// `strike` deletes everything and waits until MAAS holds nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_policy_whatever_keeps_a_cluster_from_being_deleted() -> Result<()> {
    let rack = ["{hostname: a, cores: 2, memory: 4096, first_releases_refused: 2}"];
    let stage = stage_on("policy-delete", &rack).await?;
    hostile(&stage, "bad", "FailureHandling", "panic c", "").await?;
    let policies = ", policies: {failureHandling: bad}";
    stage.cluster("c", "", policies)?;
    stage.machine("c", &Machine::control_plane("cp"))?;
    stage.provisioned("cp").await?;
    stage.delete("machine", "cp")?;
    let note = said(&stage, "cp", "PolicyDefaultUsed").await?;
    ensure!(note.contains("policy-delete/bad"), "{note}");
    // And one that is not even there any more.
    stage.delete("maaspolicy", "bad")?;
    eventually("it is gone", 30, async || {
        Ok(stage.policies().get_opt("bad").await?.is_none().then_some(()))
    })
    .await?;
    stage.strike().await
}
