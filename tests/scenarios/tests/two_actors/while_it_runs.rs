//! Somebody interferes with a machine that runs, or that is going.

use anyhow::{Context, Result, ensure};
use maas_sim::{MachineFaults, OperatorAct};
use scenarios::{Colleague, Machine, Stage, StageOptions, eventually};

use crate::support::{stage, stage_with, story};

/// A machine that runs may be locked, renamed and moved: it is followed, and nothing is done to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_machine_may_be_locked_renamed_and_moved() -> Result<()> {
    let stage = stage("two-running").await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let host = stage.provisioned("w").await?;
    let named = stage.machines().get("w").await?.spec.provider_id;
    stage.maas.clear_calls();
    let zone = if host.zone == "az2" { "az1" } else { "az2" };
    let acts = [
        OperatorAct::Lock,
        OperatorAct::Hostname("calliope".into()),
        OperatorAct::Zone(zone.into()),
    ];
    for act in acts {
        stage.maas.operator(&host.system_id, act)?;
    }
    let object = eventually("the object shows it", 40, async || {
        let object = stage.machines().get("w").await?;
        let status = object.status.clone().unwrap_or_default();
        let shown = status.hostname.as_deref() == Some("calliope")
            && status.failure_domain.as_deref() == Some(zone);
        Ok(shown.then_some(object))
    })
    .await?;
    ensure!(object.status.is_some_and(|s| s.ready && s.failure_reason.is_none()));
    ensure!(object.spec.provider_id == named, "Cluster API has copied it: {:?}", object.spec);
    ensure!(stage.writes().is_empty(), "{:?}", story(&stage));
    stage.maas.operator(&host.system_id, OperatorAct::Unlock)?;
    stage.strike().await
}

/// Somebody deploys another system over a running machine: that is said, and left to people.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_is_deployed_anew_by_somebody_is_reported() -> Result<()> {
    let options = StageOptions { speed: 20.0, ..StageOptions::default() };
    let stage = stage_with("two-again", options).await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let host = stage.provisioned("w").await?;
    stage.maas.clear_calls();
    stage.maas.operator(&host.system_id, OperatorAct::Status("Deploying".into()))?;
    let message = stage.reason("w", "MachineDeployed", "MachineDeploying").await?;
    ensure!(message.contains("not by this controller"), "{message}");
    let status = stage.machines().get("w").await?.status.context("a status")?;
    ensure!(!status.ready && status.failure_reason.is_none(), "{status:?}");
    stage.maas.operator(&host.system_id, OperatorAct::Status("Deployed".into()))?;
    stage.provisioned("w").await?;
    ensure!(stage.writes().is_empty(), "{:?}", story(&stage));
    stage.strike().await
}

/// A machine that is being deleted, while MAAS erases its disks.
async fn going(stage: &Stage<'_>, name: &str) -> Result<String> {
    let host = stage.provisioned(name).await?;
    let erases = MachineFaults { erase_on_release: true, ..Default::default() };
    stage.maas.operator(&host.system_id, OperatorAct::Faults(erases))?;
    stage.delete("machines.cluster.x-k8s.io", name)?;
    stage.reason(name, "MachineDeployed", "Deleted").await?;
    Ok(host.system_id)
}

/// Whatever somebody does to a machine that is being released, its object goes, and nothing stays held.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_is_interfered_with_while_it_goes_still_goes() -> Result<()> {
    let options = StageOptions { speed: 30.0, ..StageOptions::default() };
    let stage = stage_with("two-releasing", options).await?;
    stage.cluster("c", "", "")?;
    let acts = [
        ("locked", OperatorAct::Lock),
        ("broken", OperatorAct::Break("a disk is dying".into())),
        ("removed", OperatorAct::Remove),
        ("renamed", OperatorAct::Hostname("calliope".into())),
    ];
    for (name, _) in &acts {
        stage.machine("c", &Machine::worker(name))?;
    }
    for (name, act) in acts {
        let id = going(&stage, name).await?;
        stage.maas.operator(&id, act)?;
        if name == "locked" {
            eventually("MAAS is done with it", 60, async || {
                let shown = stage.maas.machine(&id).context("it exists")?;
                Ok((shown.status_name == "Ready").then_some(()))
            })
            .await?;
        }
        stage.gone(name).await?;
    }
    stage.strike().await
}

/// Free again and taken by somebody else between two looks of ours: the object goes, their machine stays theirs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_somebody_takes_the_moment_it_is_free_stays_theirs() -> Result<()> {
    let stage = stage("two-taken").await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let host = stage.provisioned("w").await?;
    stage.controller.kill();
    stage.delete("machines.cluster.x-k8s.io", "w")?;
    stage.maas.operator(&host.system_id, OperatorAct::Release)?;
    eventually("it is free", 40, async || {
        let shown = stage.maas.machine(&host.system_id).context("it exists")?;
        Ok((shown.status_name == "Ready").then_some(()))
    })
    .await?;
    let other = Colleague::of(&stage.maas);
    let form = [("system_id", host.system_id.as_str())];
    other.call("POST", "/machines/?op=allocate", &form).await?;
    stage.maas.clear_calls();
    stage.controller.start()?;
    stage.controller.watching().await?;
    stage.gone("w").await?;
    ensure!(stage.writes().is_empty(), "{:?}", story(&stage));
    let after = stage.maas.machine(&host.system_id).context("it exists")?;
    ensure!(after.owner.as_deref() == Some("somebody-else"), "{after:?}");
    stage.strike().await
}
