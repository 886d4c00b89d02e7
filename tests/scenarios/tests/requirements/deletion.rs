//! R14: how a machine goes.

use anyhow::{Context, Result, ensure};
use maas_sim::{MachineFaults, OperatorAct};
use scenarios::{Machine, Stage, StageOptions, eventually};

use crate::support::{params, stage, stage_with, story};

/// From now on the host takes two simulated minutes to erase its disks when it is released.
fn erases(stage: &Stage<'_>, host: &str) -> Result<()> {
    let faults = MachineFaults { erase_on_release: true, ..Default::default() };
    stage.maas.operator(host, OperatorAct::Faults(faults))
}

/// R14: out of DNS, then release, then `Deleted` while MAAS works, and the finalizer goes last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r14_a_control_plane_leaves_dns_before_it_is_released() -> Result<()> {
    let stage = stage("r14-order").await?;
    stage.cluster("c", "", "")?;
    for name in ["cp-1", "cp-2"] {
        stage.machine("c", &Machine::control_plane(name))?;
        stage.reason(name, "DNSAttached", "DNSAttached").await?;
    }
    let host = stage.host("cp-1").await?.context("a host")?;
    let stays = stage.host("cp-2").await?.context("a host")?;
    erases(&stage, &host.system_id)?;
    stage.maas.clear_calls();
    stage.delete("machines.cluster.x-k8s.io", "cp-1")?;
    let message = stage.reason("cp-1", "MachineDeployed", "Deleted").await?;
    ensure!(message.contains(&host.hostname), "{message}");

    let order = story(&stage);
    ensure!(order == ["PUT dnsresources", "release"], "{order:?}");
    let left = &stage.writes()[0];
    ensure!(params(left, "ip_addresses") == [stays.ip_addresses.join(" ")], "{left:?}");
    let released = stage.calls("release").pop().context("a release")?;
    ensure!(released.path.contains(&host.system_id), "{released:?}");
    ensure!(params(&released, "erase").is_empty(), "{released:?}");

    stage.gone("cp-1").await?;
    let after = stage.maas.machine(&host.system_id).context("MAAS still has it")?;
    ensure!(after.status_name == "Ready" && after.owner.is_none(), "{after:?}");
    ensure!(after.workload_annotations.is_empty(), "{after:?}");
    stage.strike().await
}

/// R14: the finalizer stays while MAAS erases disks, and any cluster can take the machine later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r14_b073_the_object_stays_until_the_machine_is_no_longer_ours() -> Result<()> {
    let mut options = StageOptions::default();
    options.inventory.timings.erase = 86_400.0;
    let stage = stage_with("r14-finalizer", options).await?;
    stage.cluster("a", "", "")?;
    stage.cluster("b", "", "")?;
    let only = "tags: [gpu]";
    stage.machine("a", &Machine::worker("a-w").with(only).with("failureDomain: az1"))?;
    let host = stage.provisioned("a-w").await?;
    // So long that the scenario has to end it.
    let faults = MachineFaults { erase_on_release: true, ..Default::default() };
    stage.maas.operator(&host.system_id, OperatorAct::Faults(faults))?;
    stage.delete("machines.cluster.x-k8s.io", "a-w")?;
    stage.reason("a-w", "MachineDeployed", "Deleted").await?;
    stage.maas.operator(&host.system_id, OperatorAct::Status("Disk erasing".into()))?;
    eventually("MAAS is asked what the machine does", 40, async || {
        let seen = stage.machines().get("a-w").await?.status.and_then(|s| s.machine_state);
        Ok((seen.as_deref() == Some("Disk erasing")).then_some(()))
    })
    .await?;
    let object = stage.machines().get("a-w").await?;
    let finalizers = object.metadata.finalizers.unwrap_or_default();
    ensure!(finalizers == ["maasmachine.infrastructure.cluster.x-k8s.io"], "{finalizers:?}");

    stage.maas.operator(&host.system_id, OperatorAct::Owner(None))?;
    stage.maas.operator(&host.system_id, OperatorAct::Annotate(cleared(&host)))?;
    stage.maas.operator(&host.system_id, OperatorAct::Status("Ready".into()))?;
    stage.maas.operator(&host.system_id, OperatorAct::Faults(MachineFaults::default()))?;
    stage.gone("a-w").await?;
    stage.machine("b", &Machine::worker("b-w").with(only).with("failureDomain: az1"))?;
    ensure!(stage.provisioned("b-w").await?.system_id == host.system_id);
    stage.strike().await
}

fn cleared(host: &maas_sim::MachineView) -> std::collections::BTreeMap<String, String> {
    host.workload_annotations.keys().map(|k| (k.clone(), String::new())).collect()
}

/// R14: a machine that ends in New, or that MAAS no longer knows, is no longer ours either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r14_new_and_gone_are_released_too() -> Result<()> {
    let stage = stage("r14-new").await?;
    stage.cluster("c", "", "")?;
    for name in ["new", "removed"] {
        stage.machine("c", &Machine::worker(name))?;
    }
    let fresh = stage.provisioned("new").await?;
    let removed = stage.provisioned("removed").await?;
    let faults = MachineFaults { new_after_release: true, ..Default::default() };
    stage.maas.operator(&fresh.system_id, OperatorAct::Faults(faults))?;
    stage.maas.operator(&removed.system_id, OperatorAct::Remove)?;
    for name in ["new", "removed"] {
        stage.delete("machines.cluster.x-k8s.io", name)?;
        stage.gone(name).await?;
    }
    let after = stage.maas.machine(&fresh.system_id).context("MAAS still has it")?;
    ensure!(after.status_name == "New" && after.owner.is_none(), "{after:?}");
    let released = stage.calls("release");
    ensure!(released.iter().all(|c| c.path.contains(&fresh.system_id)), "{released:?}");
    stage.strike().await
}

/// R14: deleting a machine that never got a host leaves MAAS alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r14_without_a_host_there_is_nothing_to_release() -> Result<()> {
    let stage = stage("r14-nothing").await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w").with("minCPU: 512"))?;
    stage.reason("w", "MachineDeployed", "NoMachineFound").await?;
    stage.delete("machines.cluster.x-k8s.io", "w")?;
    stage.gone("w").await?;
    ensure!(stage.calls("release").is_empty(), "{:?}", story(&stage));
    stage.strike().await
}

/// R14: a machine may be deleted at any time: while it is deployed, and when that has failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r14_a_machine_can_be_deleted_before_it_is_ready() -> Result<()> {
    let options = StageOptions { speed: 1.0, ..StageOptions::default() };
    let stage = stage_with("r14-early", options).await?;
    stage.cluster("c", "", "")?;
    for name in ["deploying", "failed"] {
        stage.machine("c", &Machine::worker(name))?;
        stage.reason(name, "MachineDeployed", "MachineDeploying").await?;
    }
    let failed = stage.host("failed").await?.context("a host")?;
    // It fails and both are deleted while nobody looks.
    stage.controller.kill();
    let failure = OperatorAct::FailDeployment("no boot device".into());
    stage.maas.operator(&failed.system_id, failure)?;
    for name in ["deploying", "failed"] {
        stage.delete("machines.cluster.x-k8s.io", name)?;
        eventually("Cluster API deletes the MaasMachine", 60, async || {
            Ok(stage.machines().get(name).await?.metadata.deletion_timestamp)
        })
        .await?;
    }
    stage.controller.start()?;
    stage.controller.watching().await?;
    eventually("both releases have begun", 60, async || {
        Ok((stage.calls("release").len() == 2).then_some(()))
    })
    .await?;
    stage.maas.advance(std::time::Duration::from_secs(120));
    for name in ["deploying", "failed"] {
        stage.gone(name).await?;
    }
    ensure!(stage.calls("allocate").len() == 2, "no other host may be taken: {:?}", story(&stage));
    stage.strike().await
}
