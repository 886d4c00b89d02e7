//! The controller dies, or an answer is lost, at bad moments: no machine leaks, none is taken twice.

mod matrix;
mod unfriendly;

use anyhow::{Context, Result, ensure};
use maas_sim::{CallFault, FaultAction, MachineFaults, OperatorAct};
use scenarios::{Machine, Stage, StageOptions, eventually};

use crate::support::{one_machine_came_of_it, stage, stage_with, story};

async fn restart(stage: &Stage<'_>) -> Result<()> {
    stage.controller.start()?;
    stage.controller.watching().await
}

/// MAAS has given a machine, and the controller dies before it can write down which.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b035_it_dies_between_allocate_and_writing_down_the_machine() -> Result<()> {
    let stage = stage("crash-allocate").await?;
    let late = FaultAction::DelayReply { ms: 60_000 };
    stage.maas.add_fault(CallFault::on_op("allocate", late).times(1));
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    eventually("MAAS has given a machine", 60, async || Ok(stage.held().pop())).await?;
    stage.controller.kill();
    let object = stage.machines().get("w").await?;
    ensure!(object.spec.provider_id.is_none(), "the scenario came too late: {:?}", object.spec);
    restart(&stage).await?;
    one_machine_came_of_it(&stage, "w").await?;
    ensure!(stage.calls("allocate").len() == 1, "{:?}", story(&stage));
    stage.strike().await
}

/// The same, and the user deletes the Machine before the controller is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_was_never_written_down_is_released_all_the_same() -> Result<()> {
    let stage = stage("crash-orphan").await?;
    let late = FaultAction::DelayReply { ms: 60_000 };
    stage.maas.add_fault(CallFault::on_op("allocate", late).times(1));
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    eventually("MAAS has given a machine", 60, async || Ok(stage.held().pop())).await?;
    stage.controller.kill();
    stage.delete("machines.cluster.x-k8s.io", "w")?;
    eventually("Cluster API deletes the MaasMachine", 60, async || {
        Ok(stage.machines().get("w").await?.metadata.deletion_timestamp)
    })
    .await?;
    restart(&stage).await?;
    stage.gone("w").await?;
    eventually("the machine is free", 30, async || Ok(stage.held().is_empty().then_some(())))
        .await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_dies_while_maas_deploys() -> Result<()> {
    let stage =
        stage_with("crash-deploy", StageOptions { speed: 30.0, ..Default::default() }).await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    eventually("the deployment runs", 60, async || {
        Ok(stage.held().pop().filter(|m| m.status_name == "Deploying"))
    })
    .await?;
    stage.controller.kill();
    restart(&stage).await?;
    one_machine_came_of_it(&stage, "w").await?;
    ensure!(stage.calls("deploy").len() == 1, "{:?}", story(&stage));
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_dies_while_maas_releases() -> Result<()> {
    let stage = stage("crash-release").await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let host = stage.provisioned("w").await?;
    let erases = MachineFaults { erase_on_release: true, ..Default::default() };
    stage.maas.operator(&host.system_id, OperatorAct::Faults(erases))?;
    stage.delete("machines.cluster.x-k8s.io", "w")?;
    eventually("the release runs", 60, async || Ok(stage.calls("release").pop())).await?;
    stage.controller.kill();
    ensure!(stage.machines().get_opt("w").await?.is_some());
    eventually("MAAS is done while nobody looks", 60, async || {
        Ok(stage.held().is_empty().then_some(()))
    })
    .await?;
    restart(&stage).await?;
    stage.gone("w").await?;
    let after = stage.maas.machine(&host.system_id).context("it exists")?;
    ensure!(after.releases == 1 && stage.calls("release").len() == 1, "{:?}", story(&stage));
    stage.strike().await
}

/// A restart with everything in order touches nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_touches_nothing() -> Result<()> {
    let stage = stage("crash-idle").await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::control_plane("cp"))?;
    stage.machine("c", &Machine::worker("w"))?;
    stage.reason("cp", "DNSAttached", "DNSAttached").await?;
    let host = stage.provisioned("w").await?;
    stage.controller.kill();
    stage.maas.clear_calls();
    restart(&stage).await?;
    eventually("record and machine are looked at twice", 60, async || {
        let calls = stage.maas.calls();
        let machine = calls.iter().filter(|c| c.path.contains(&host.system_id)).count();
        Ok((machine >= 2 && stage.dns_calls().len() >= 2).then_some(()))
    })
    .await?;
    ensure!(stage.writes().is_empty(), "{:?}", story(&stage));
    stage.strike().await
}

/// MAAS carries a call out and its answer never comes: for each write, one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_lost_costs_no_machine() -> Result<()> {
    let stage = stage("crash-replies").await?;
    let lost = || FaultAction::DropReply;
    for op in ["allocate", "set_workload_annotations", "deploy", "release"] {
        stage.maas.add_fault(CallFault::on_op(op, lost()).times(1));
    }
    stage.maas.add_fault(CallFault::on("PUT", "/machines/", lost()).times(1));
    stage.maas.add_fault(CallFault::on("POST", "/dnsresources/", lost()).times(1));
    stage.maas.add_fault(CallFault::on("PUT", "/dnsresources/", lost()).times(1));
    stage.maas.add_fault(CallFault::on("DELETE", "/dnsresources/", lost()).times(1));
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::control_plane("cp"))?;
    stage.reason("cp", "DNSAttached", "DNSAttached").await?;
    one_machine_came_of_it(&stage, "cp").await?;
    ensure!(stage.calls("allocate").len() == 1, "{:?}", story(&stage));
    ensure!(stage.maas.dns_records().len() == 1, "{:?}", stage.maas.dns_records());
    let dropped = stage.writes().iter().filter(|c| c.reply_dropped).count();
    ensure!(dropped == 6, "{dropped}: {:?}", story(&stage));
    stage.strike().await
}

/// An allocate that never reached MAAS is repeated, under the same mark, after the time in which it
/// could still arrive.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_never_arrived_is_repeated() -> Result<()> {
    let stage = stage("crash-lost-call").await?;
    stage.maas.add_fault(CallFault::on_op("allocate", FaultAction::CloseBefore).times(1));
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let message = stage.reason("w", "MachineDeployed", "AllocationUnanswered").await?;
    ensure!(message.contains("unanswered"), "{message}");
    one_machine_came_of_it(&stage, "w").await?;
    let marks: Vec<_> = stage
        .calls("allocate")
        .iter()
        .map(|c| crate::support::params(c, "agent_name").join(","))
        .collect();
    ensure!(marks.len() == 2 && marks[0] == marks[1], "{marks:?}");
    stage.strike().await
}

/// MAAS works on an allocate that we have long given up: the second machine goes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_was_given_too_late_goes_back() -> Result<()> {
    let stage = stage("crash-too-late").await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    eventually("one is deploying", 60, async || {
        Ok(stage.held().pop().filter(|m| m.status_name == "Deploying"))
    })
    .await?;
    let mark = stage.machines().get("w").await?.metadata.annotations.context("annotations")?;
    let free = stage.maas.machine_named("az2-large-1").context("in the rack")?;
    let late = [
        OperatorAct::Owner(Some("admin".into())),
        OperatorAct::AgentName(mark["capmaas.io/mark"].clone()),
        OperatorAct::Status("Allocated".into()),
    ];
    for act in late {
        stage.maas.operator(&free.system_id, act)?;
    }
    let kept = stage.provisioned("w").await?;
    eventually("the second one is free again", 60, async || {
        Ok((stage.held().len() == 1).then_some(()))
    })
    .await?;
    ensure!(kept.system_id != free.system_id && kept.deploys == 1, "{kept:?}");
    let events = stage.events("w").await?;
    ensure!(events.iter().any(|(r, _)| r == "SurplusMachineReleased"), "{events:?}");
    stage.strike().await
}

/// A proxy in front of MAAS gives up while MAAS goes on working: the machine is found, not taken twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b017_a_proxy_that_gives_up_costs_no_machine() -> Result<()> {
    let stage = stage("crash-proxy").await?;
    let gateway = || FaultAction::WorkThenAnswer {
        status: 504,
        content_type: "text/html".into(),
        body: "<html><h1>504 Gateway Time-out</h1></html>".into(),
    };
    for op in ["allocate", "deploy", "release"] {
        stage.maas.add_fault(CallFault::on_op(op, gateway()).times(1));
    }
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    one_machine_came_of_it(&stage, "w").await?;
    ensure!(stage.calls("allocate").len() == 1, "{:?}", story(&stage));
    stage.strike().await
}

/// MAAS says that it is busy and when to come back: that is not a failure of anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b015_a_busy_maas_is_asked_again() -> Result<()> {
    let stage = stage("crash-busy").await?;
    let busy = || FaultAction::Answer {
        status: 409,
        content_type: "text/html".into(),
        body: "<html>conflict</html>".into(),
        retry_after: Some(1),
    };
    for op in ["allocate", "set_workload_annotations", "deploy", "release"] {
        stage.maas.add_fault(CallFault::on_op(op, busy()).times(2));
    }
    stage.maas.add_fault(CallFault::on("PUT", "/machines/", busy()).times(2));
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    one_machine_came_of_it(&stage, "w").await?;
    let object = stage.machines().get("w").await?;
    let annotations = object.metadata.annotations.unwrap_or_default();
    ensure!(!annotations.contains_key("capmaas.io/failed-hosts"), "{annotations:?}");
    stage.strike().await
}
