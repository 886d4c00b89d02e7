//! Somebody interferes with a machine before it is deployed.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use gate::{Act, Rule, Side};
use maas_sim::{MachineView, OperatorAct};
use scenarios::{Machine, Stage, StageOptions, eventually};

use crate::support::{bootstrap_of, stage, stage_with, story};

/// The first deploy call for each host is late.
fn deploys_late(stage: &Stage<'_>) {
    let mut seen = HashSet::new();
    let first = move |call: &gate::Call| {
        call.method == "POST"
            && call.target.contains("op=deploy")
            && seen.insert(call.target.clone())
    };
    stage.gate.add(Rule::when(Side::Maas, first, Act::Delay(Duration::from_secs(4))));
}

/// The host of a machine whose deploy call is on its way.
async fn being_prepared(stage: &Stage<'_>, machine: &str) -> Result<MachineView> {
    eventually(&format!("{machine} is prepared"), 40, async || {
        let Some(host) = stage.host(machine).await? else { return Ok(None) };
        let calls = stage.gate.calls();
        let late = |c: &gate::Call| {
            c.act == Some("delay") && c.target.contains(&host.system_id) && c.status.is_none()
        };
        Ok(calls.iter().any(late).then_some(host))
    })
    .await
}

/// Whatever happens to it between allocate and deploy, the Machine gets a host that runs its own data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_is_taken_away_while_it_is_prepared_is_replaced() -> Result<()> {
    let stage = stage("two-preparing").await?;
    deploys_late(&stage);
    stage.cluster("c", "", "")?;
    let acts = [
        ("released", OperatorAct::Release),
        ("broken", OperatorAct::Break("a disk is dying".into())),
        ("removed", OperatorAct::Remove),
        ("handed-over", OperatorAct::Owner(Some("somebody-else".into()))),
    ];
    for (name, act) in acts {
        stage.machine("c", &Machine::worker(name))?;
        let first = being_prepared(&stage, name).await?;
        stage.maas.operator(&first.system_id, act)?;
        if name == "handed-over" {
            // Ours by its annotations: a person has to say whose it is, and says so.
            let message = stage.reason(name, "MachineDeployed", "MachineNotOwned").await?;
            ensure!(message.contains("somebody-else"), "{message}");
            let back = OperatorAct::Owner(Some("admin".into()));
            stage.maas.operator(&first.system_id, back)?;
        }
        let host = stage.provisioned(name).await?;
        ensure!(host.user_data == Some(bootstrap_of(name)), "{name}: {host:?}");
        let (machine, cluster) = ("capmaas-machine", "capmaas-cluster");
        ensure!(host.workload_annotations[machine] == name, "{name}: {host:?}");
        ensure!(host.workload_annotations[cluster] == "c", "{name}: {host:?}");
    }
    stage.strike().await
}

/// A lock stops the deployment, with a word about it, until somebody unlocks the machine; a new name stops nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_waited_for_and_another_name_is_followed() -> Result<()> {
    let stage = stage("two-lock").await?;
    deploys_late(&stage);
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("locked"))?;
    let locked = being_prepared(&stage, "locked").await?;
    stage.maas.operator(&locked.system_id, OperatorAct::Lock)?;
    stage.machine("c", &Machine::worker("renamed"))?;
    let renamed = being_prepared(&stage, "renamed").await?;
    stage.maas.operator(&renamed.system_id, OperatorAct::Hostname("calliope".into()))?;
    let seen = eventually("MAAS has an answer to the deploy call", 40, async || {
        let condition = stage.condition("locked", "MachineDeployed").await?;
        let reason = condition.as_ref().and_then(|c| c.reason.clone()).unwrap_or_default();
        Ok(["MachineLocked", "MachineDeployed"].contains(&reason.as_str()).then_some(condition))
    })
    .await?
    .context("a condition")?;
    if seen.reason.as_deref() == Some("MachineLocked") {
        let message = seen.message.unwrap_or_default();
        ensure!(message.contains(&locked.hostname) && message.contains("unlock"), "{message}");
    }
    stage.maas.operator(&locked.system_id, OperatorAct::Unlock)?;
    ensure!(stage.provisioned("locked").await?.system_id == locked.system_id);
    ensure!(stage.provisioned("renamed").await?.system_id == renamed.system_id);
    let status = stage.machines().get("renamed").await?.status.context("a status")?;
    ensure!(status.hostname.as_deref() == Some("calliope"), "{status:?}");
    ensure!(stage.calls("release").is_empty(), "{:?}", story(&stage));
    stage.strike().await
}

/// Locked, renamed or moved while MAAS installs it: the Machine becomes ready all the same, on the same host.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_changes_while_maas_deploys_is_followed() -> Result<()> {
    let options = StageOptions { speed: 1.0, ..StageOptions::default() };
    let stage = stage_with("two-deploying", options).await?;
    stage.cluster("c", "", "")?;
    let acts = [
        ("locked", OperatorAct::Lock),
        ("renamed", OperatorAct::Hostname("calliope".into())),
        ("moved", OperatorAct::Zone("az2".into())),
    ];
    for (name, _) in &acts {
        stage.machine("c", &Machine::worker(name))?;
    }
    for (name, act) in acts {
        stage.reason(name, "MachineDeployed", "MachineDeploying").await?;
        let first = stage.host(name).await?.context("a host")?;
        stage.maas.operator(&first.system_id, act)?;
        stage.maas.operator(&first.system_id, OperatorAct::FinishDeployment)?;
        let host = stage.provisioned(name).await?;
        ensure!(host.system_id == first.system_id && host.deploys == 1, "{name}: {host:?}");
        let status = stage.machines().get(name).await?.status.context("a status")?;
        ensure!(status.hostname == Some(host.hostname), "{name}: {status:?}");
        ensure!(status.failure_domain == Some(host.zone), "{name}: {status:?}");
        stage.maas.operator(&first.system_id, OperatorAct::Unlock)?;
        stage.delete("machines.cluster.x-k8s.io", name)?;
    }
    eventually("all are being released", 60, async || {
        Ok((stage.calls("release").len() == 3).then_some(()))
    })
    .await?;
    stage.maas.advance(Duration::from_secs(60));
    stage.strike().await
}
