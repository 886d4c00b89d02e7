//! The status is lost, as in a restore or a move.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use gate::{Act, Call, Rule, Side};
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
    stage.maas.advance(Duration::from_secs(60));
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

/// MAAS has given a machine, and before the object can be told which, its status is lost: no second one is taken. Neither
/// when the controller dies at that very moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_that_is_lost_while_a_machine_is_taken_costs_no_second_one() -> Result<()> {
    let stage = stage("kube-status-taking").await?;
    stage.cluster("c", "", "")?;
    for (name, dies) in [("lives", false), ("dies", true)] {
        // It has a status before a machine is taken.
        let unready = Machine { bootstrap: None, ..Machine::worker(name) };
        stage.machine("c", &unready)?;
        eventually("its status says what it waits for", 40, async || {
            Ok(stage.condition(name, "MachineDeployed").await?.filter(|c| c.status == "False"))
        })
        .await?;
        let told = |call: &Call| call.method == "PATCH" && has(&call.body, "providerID");
        let act = if dies { Act::KillBefore } else { Act::Delay(Duration::from_secs(15)) };
        stage.gate.add(Rule::when(Side::Kubernetes, told, act).times(1));
        let kills = *stage.gate.kills().borrow();
        stage.maas.clear_calls();
        stage.bootstrap_secret("c", name, &format!("#cloud-config\n# of {name}\n"))?;
        eventually("the object is about to be told", 60, async || {
            let delayed = stage.gate.calls().iter().any(|c| c.act == Some("delay"));
            let killed = *stage.gate.kills().borrow() > kills;
            Ok((if dies { killed } else { delayed }).then_some(()))
        })
        .await?;
        let object = stage.machines().get(name).await?;
        ensure!(object.spec.provider_id.is_none(), "the scenario came too late: {:?}", object.spec);
        lose_status(&stage, "maasmachine", name)?;
        if dies {
            stage.controller.start()?;
            stage.controller.watching().await?;
        }
        let host = stage.provisioned(name).await?;
        ensure!(host.deploys == 1, "{host:?}");
        ensure!(stage.calls("allocate").len() == 1, "{:?}", story(&stage));
        stage.gate.clear_rules();
    }
    ensure!(stage.held().len() == 2, "{:?}", stage.held());
    stage.strike().await
}

fn has(body: &[u8], word: &str) -> bool {
    String::from_utf8_lossy(body).contains(word)
}
