//! The status is lost, as in a restore or a move.

use anyhow::{Context, Result, ensure};
use maas_sim::{MachineFaults, OperatorAct};
use scenarios::{Machine, Stage, StageOptions, eventually};

use super::{kubectl, one_machine_came_of_it};
use crate::support::{stage, stage_with, story};

fn lose_status(stage: &Stage<'_>, kind: &str, name: &str) -> Result<()> {
    let nothing = r#"{"status": null}"#;
    let args = ["patch", kind, name, "--subresource=status", "--type=merge", "-p", nothing];
    kubectl(stage, &args).map(drop)
}

/// While MAAS deploys, and when it has: the host is neither deployed again nor replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_that_is_lost_is_told_anew() -> Result<()> {
    let options = StageOptions { speed: 1.0, ..StageOptions::default() };
    let stage = stage_with("kube-status", options).await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    stage.reason("w", "MachineDeployed", "MachineDeploying").await?;
    let host = stage.host("w").await?.context("a host")?;
    lose_status(&stage, "maasmachine", "w")?;
    stage.reason("w", "MachineDeployed", "MachineDeploying").await?;
    stage.maas.operator(&host.system_id, OperatorAct::FinishDeployment)?;
    stage.provisioned("w").await?;
    lose_status(&stage, "maasmachine", "w")?;
    lose_status(&stage, "maascluster", "c")?;
    one_machine_came_of_it(&stage, "w").await?;
    let status = stage.machines().get("w").await?.status.context("a status")?;
    ensure!(status.ready && status.failure_domain == Some(host.zone), "{status:?}");
    eventually("the cluster is ready again", 40, async || {
        let status = stage.clusters().get("c").await?.status;
        Ok(status.filter(|s| s.ready))
    })
    .await?;
    stage.delete("machines.cluster.x-k8s.io", "w")?;
    eventually("the release has begun", 60, async || Ok(stage.calls("release").pop())).await?;
    stage.maas.advance(std::time::Duration::from_secs(60));
    stage.strike().await
}

/// A host that is lost stays lost: Cluster API knows that it was provisioned, so no other is taken in its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_was_lost_is_not_replaced_because_its_status_was() -> Result<()> {
    let stage = stage("kube-status-lost").await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let host = stage.provisioned("w").await?;
    eventually("Cluster API has seen it", 40, async || {
        let path = "jsonpath={.spec.providerID}";
        let id = kubectl(&stage, &["get", "machines.cluster.x-k8s.io", "w", "-o", path])?;
        Ok((!id.is_empty()).then_some(()))
    })
    .await?;
    stage.maas.operator(&host.system_id, OperatorAct::Release)?;
    stage.reason("w", "MachineDeployed", "MachineTerminatedReason").await?;
    stage.maas.clear_calls();
    lose_status(&stage, "maasmachine", "w")?;
    let message = stage.reason("w", "MachineDeployed", "MachineTerminatedReason").await?;
    ensure!(message.contains("replace the Machine"), "{message}");
    let status = stage.machines().get("w").await?.status.context("a status")?;
    ensure!(status.failure_reason.as_deref() == Some("UpdateError"), "{status:?}");
    ensure!(stage.writes().is_empty(), "{:?}", story(&stage));
    stage.strike().await
}

/// While a machine goes: it is released once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_that_is_lost_while_the_machine_goes_stops_nothing() -> Result<()> {
    let options = StageOptions { speed: 30.0, ..StageOptions::default() };
    let stage = stage_with("kube-status-going", options).await?;
    stage.cluster("c", "", "")?;
    for name in ["cp", "other"] {
        stage.machine("c", &Machine::control_plane(name))?;
        stage.reason(name, "DNSAttached", "DNSAttached").await?;
    }
    let host = stage.host("cp").await?.context("a host")?;
    let erases = MachineFaults { erase_on_release: true, ..Default::default() };
    stage.maas.operator(&host.system_id, OperatorAct::Faults(erases))?;
    stage.delete("machines.cluster.x-k8s.io", "cp")?;
    eventually("its deletion is being worked on", 40, async || {
        Ok(stage.condition("cp", "Deleting").await?.filter(|c| c.status == "True"))
    })
    .await?;
    lose_status(&stage, "maasmachine", "cp")?;
    eventually("the release has begun", 60, async || Ok(stage.calls("release").pop())).await?;
    lose_status(&stage, "maasmachine", "cp")?;
    stage.gone("cp").await?;
    ensure!(stage.calls("release").len() == 1, "{:?}", story(&stage));
    let records = stage.maas.dns_records();
    ensure!(records[0].addresses.len() == 1, "the other one alone: {records:?}");
    stage.strike().await
}
