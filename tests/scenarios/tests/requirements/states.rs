//! R7, R15: what every state that MAAS shows means.

use anyhow::{Context, Result, ensure};
use capmaas_api::MaasMachineStatus;
use maas_sim::{MachineFaults, OperatorAct};
use scenarios::{Machine, Stage, StageOptions, eventually};

use crate::support::{bootstrap_of, stage, stage_with, story};

async fn status(stage: &Stage<'_>, machine: &str) -> Result<MaasMachineStatus> {
    stage.machines().get(machine).await?.status.context("a status")
}

/// R7: while MAAS works on a machine it is not ready, and the object says what is going on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r7_a_machine_is_ready_when_it_is_deployed_and_not_before() -> Result<()> {
    // MAAS's clock stands still until the scenario moves it.
    let stage =
        stage_with("r7-progress", StageOptions { speed: 1.0, ..Default::default() }).await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let message = stage.reason("w", "MachineDeployed", "MachineDeploying").await?;
    ensure!(message.contains("MAAS deploys custom/u-2404-k8s"), "{message}");
    let deploying = eventually("the state is shown", 20, async || {
        let status = status(&stage, "w").await?;
        Ok((status.machine_state.as_deref() == Some("Deploying")).then_some(status))
    })
    .await?;
    ensure!(!deploying.ready && deploying.initialization.is_none(), "{deploying:?}");

    let host = stage.host("w").await?.context("a host")?;
    stage.maas.operator(&host.system_id, OperatorAct::FinishDeployment)?;
    stage.provisioned("w").await?;
    let deployed = status(&stage, "w").await?;
    ensure!(deployed.ready && deployed.machine_powered == Some(true), "{deployed:?}");
    ensure!(deployed.initialization.and_then(|i| i.provisioned) == Some(true));
    ensure!(deployed.failure_domain == Some(host.zone), "{:?}", deployed.failure_domain);
    stage.maas.advance(std::time::Duration::from_secs(60));
    let strike = stage.strike();
    strike.await
}

/// R7: released behind our back before it was ever provisioned: another host is taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r7_an_unexpected_state_before_provisioning_replaces_the_host() -> Result<()> {
    let stage = stage_with("r7-before", StageOptions { speed: 30.0, ..Default::default() }).await?;
    stage.cluster("c", "", "")?;
    let lost = [
        ("released", OperatorAct::Release),
        ("broken", OperatorAct::Break("a disk is dying".into())),
        ("removed", OperatorAct::Remove),
    ];
    for (name, act) in lost {
        stage.machine("c", &Machine::worker(name))?;
        stage.reason(name, "MachineDeployed", "MachineDeploying").await?;
        let first = stage.host(name).await?.context("a host")?;
        stage.maas.operator(&first.system_id, act)?;
        let second = stage.provisioned(name).await?;
        ensure!(second.system_id != first.system_id, "{name}: the same host again");
        let status = status(&stage, name).await?;
        ensure!(status.failure_reason.is_none() && status.ready, "{name}: {status:?}");
    }
    stage.strike().await
}

/// R7: the same after it was provisioned is a failure that is reported, and nothing is done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r7_an_unexpected_state_after_provisioning_is_a_failure() -> Result<()> {
    let stage = stage("r7-after").await?;
    stage.cluster("c", "", "")?;
    let status_of = |s: &str| OperatorAct::Status(s.into());
    let acts = [
        ("released", vec![OperatorAct::Release], "MachineTerminatedReason"),
        ("new", vec![status_of("New")], "MachineTerminatedReason"),
        ("erasing", vec![status_of("Disk erasing")], "MachineTerminatedReason"),
        ("releasing", vec![status_of("Releasing")], "MachineTerminatedReason"),
        ("failed", vec![status_of("Failed deployment")], "MachineDeployFailed"),
        ("broken", vec![OperatorAct::Break("a fan is dying".into())], "MachineStateUndefined"),
        ("allocated", vec![status_of("Allocated")], "MachineStateUndefined"),
        ("removed", vec![OperatorAct::Remove], "MachineNotFound"),
    ];
    for (name, ..) in &acts {
        stage.machine("c", &Machine::worker(name))?;
    }
    for (name, ..) in &acts {
        stage.provisioned(name).await?;
    }
    stage.maas.clear_calls();
    for (name, acts, reason) in acts {
        let host = stage.host(name).await?.context("a host")?;
        for act in acts {
            stage.maas.operator(&host.system_id, act)?;
        }
        let message = stage.reason(name, "MachineDeployed", reason).await?;
        ensure!(message.contains("replace the Machine"), "{name}: {message}");
        let status = status(&stage, name).await?;
        ensure!(!status.ready && status.failure_reason.as_deref() == Some("UpdateError"), "{name}");
        ensure!(status.failure_message == Some(message), "{name}: {:?}", status.failure_message);
    }
    ensure!(stage.writes().is_empty(), "nothing may be done about it: {:?}", story(&stage));
    for host in stage.held() {
        if ["New", "Releasing", "Disk erasing"].contains(&host.status_name.as_str()) {
            // What no real MAAS shows for long: let it come to its end.
            stage.maas.operator(&host.system_id, OperatorAct::Owner(None))?;
        }
    }
    stage.strike().await
}

/// R7: a state that means neither success nor failure is waited out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r7_a_state_of_passage_is_waited_out() -> Result<()> {
    let stage = stage("r7-passage").await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let host = stage.provisioned("w").await?;
    stage.maas.clear_calls();
    for state in ["Rescue mode", "Testing", "Entering rescue mode"] {
        stage.maas.operator(&host.system_id, OperatorAct::Status(state.into()))?;
        let message = stage.reason("w", "MachineDeployed", "MachineStateUndefined").await?;
        ensure!(message.contains(state) && message.contains("waiting"), "{message}");
        let seen = status(&stage, "w").await?;
        ensure!(!seen.ready && seen.failure_reason.is_none(), "{seen:?}");
        stage.maas.operator(&host.system_id, OperatorAct::Status("Deployed".into()))?;
        stage.provisioned("w").await?;
    }
    ensure!(stage.writes().is_empty(), "{:?}", story(&stage));
    stage.strike().await
}

/// R15: a deployed machine that is off is powered on again, with its own data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r15_a_deployed_machine_that_is_off_is_powered_on_again() -> Result<()> {
    let stage = stage("r15-power").await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let host = stage.provisioned("w").await?;
    stage.maas.clear_calls();
    stage.maas.operator(&host.system_id, OperatorAct::PowerOff)?;
    eventually("it is powered on", 60, async || Ok(stage.calls("power_on").pop())).await?;
    let again = stage.provisioned("w").await?;
    ensure!(again.power_state == "on" && again.deploys == 1, "{again:?}");
    ensure!(again.user_data == Some(bootstrap_of("w")), "MAAS forgets what is not sent again");
    ensure!(story(&stage) == ["power_on"], "{:?}", story(&stage));
    let events = stage.events("w").await?;
    let told = events.iter().find(|(reason, _)| reason == "MachinePoweredOff");
    ensure!(told.is_some_and(|(_, note)| note.contains(&host.hostname)), "{events:?}");
    stage.strike().await
}

/// R15: a machine whose BMC refuses is tried again until it works, and is never released for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r15_power_on_is_tried_again_when_the_bmc_refuses() -> Result<()> {
    let folder = crate::support::impatient()?;
    let options = StageOptions { args: folder.flags(), ..Default::default() };
    let stage = stage_with("r15-bmc", options).await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let host = stage.provisioned("w").await?;
    stage.maas.clear_calls();
    let refusal = "the BMC does not answer";
    let faults = MachineFaults { bmc_error: Some(refusal.into()), ..Default::default() };
    stage.maas.operator(&host.system_id, OperatorAct::Faults(faults))?;
    stage.maas.operator(&host.system_id, OperatorAct::PowerOff)?;
    eventually("the object quotes the BMC", 40, async || {
        let condition = stage.condition("w", "MachineDeployed").await?;
        let message = condition.and_then(|c| c.message).unwrap_or_default();
        Ok(message.contains(refusal).then_some(()))
    })
    .await?;
    stage.maas.operator(&host.system_id, OperatorAct::Faults(MachineFaults::default()))?;
    let again = stage.provisioned("w").await?;
    ensure!(again.system_id == host.system_id && again.power_state == "on", "{again:?}");
    ensure!(stage.calls("release").is_empty(), "{:?}", story(&stage));
    stage.strike().await
}
