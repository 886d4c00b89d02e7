//! Machines that are locked, or not ours.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use maas_sim::OperatorAct;
use scenarios::{Machine, eventually};

use crate::support::{stage, story};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_machine_is_released_once_it_is_unlocked() -> Result<()> {
    let stage = stage("bad-locked").await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let host = stage.provisioned("w").await?;
    stage.maas.operator(&host.system_id, OperatorAct::Lock)?;
    stage.maas.clear_calls();
    stage.delete("machines.cluster.x-k8s.io", "w")?;
    let message = stage.reason("w", "MachineDeployed", "MachineLocked").await?;
    ensure!(message.contains(&host.hostname) && message.contains("unlock it there"), "{message}");
    ensure!(stage.writes().is_empty() && stage.held().len() == 1, "{:?}", story(&stage));
    stage.maas.operator(&host.system_id, OperatorAct::Unlock)?;
    stage.gone("w").await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b037_a_machine_of_somebody_else_is_left_alone() -> Result<()> {
    let stage = stage("bad-foreign").await?;
    stage.cluster("c", "", "")?;
    let before = stage.maas.machine_named("az1-taken-1").context("in the rack")?;
    let id = format!("providerID: 'maas:///az1/{}'", before.system_id);
    stage.machine("c", &Machine::worker("w").with(&id))?;
    let message = stage.reason("w", "MachineDeployed", "MachineNotOwned").await?;
    ensure!(message.contains("\"somebody-else\"") && message.contains("left alone"), "{message}");
    stage.delete("machines.cluster.x-k8s.io", "w")?;
    stage.gone("w").await?;
    let touched: Vec<_> =
        stage.writes().into_iter().filter(|c| c.path.contains(&before.system_id)).collect();
    ensure!(touched.is_empty(), "{touched:?}");
    ensure!(stage.maas.machine(&before.system_id) == Some(before));
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b075_a_machine_of_another_cluster_is_left_to_it() -> Result<()> {
    let stage = stage("bad-claimed").await?;
    // Both clusters act with the same key.
    stage.cluster("a", "", "")?;
    stage.cluster("b", "", "")?;
    stage.machine("b", &Machine::control_plane("owner"))?;
    stage.reason("owner", "DNSAttached", "DNSAttached").await?;
    let host = stage.provisioned("owner").await?;
    let id = format!("providerID: 'maas:///{}/{}'", host.zone, host.system_id);
    stage.machine("a", &Machine::control_plane("thief").with(&id))?;
    let message = stage.reason("thief", "MachineDeployed", "MachineNotOwned").await?;
    ensure!(message.contains("bad-claimed/owner"), "{message}");
    stage.delete("machines.cluster.x-k8s.io", "thief")?;
    stage.gone("thief").await?;
    stage.delete("clusters.cluster.x-k8s.io", "a")?;
    eventually("cluster a is gone", 60, async || {
        Ok(stage.clusters().get_opt("a").await?.is_none().then_some(()))
    })
    .await?;
    let after = stage.provisioned("owner").await?;
    ensure!(after.releases == host.releases && after.owner == host.owner, "{after:?}");
    ensure!(stage.calls("release").is_empty(), "{:?}", story(&stage));
    let records = stage.maas.dns_records();
    ensure!(records.len() == 1 && records[0].fqdn.starts_with("b-"), "{records:?}");
    ensure!(records[0].addresses.len() == 1, "{records:?}");
    stage.strike().await
}

/// What MAAS does with our annotations when somebody releases the machine.
fn wiped() -> BTreeMap<String, String> {
    ["cluster", "namespace", "machine", "mark"]
        .map(|key| (format!("capmaas-{key}"), String::new()))
        .into()
}

/// Another administrator's name on our machine: the key was changed, or the machine was taken over
/// for a while. It is neither touched nor given up, and all is well once it is ours again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_with_our_annotations_and_another_owner_is_kept_until_it_is_settled() -> Result<()>
{
    let stage = stage("bad-other-owner").await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::control_plane("cp"))?;
    let host = stage.provisioned("cp").await?;
    let address = host.ip_addresses.first().cloned().context("an address")?;
    let held = || {
        let records = stage.maas.dns_records();
        records.iter().any(|r| r.addresses.contains(&Some(address.clone())))
    };
    eventually("the address is in the record", 30, async || Ok(held().then_some(()))).await?;
    stage.maas.operator(&host.system_id, OperatorAct::Owner(Some("somebody-else".into())))?;
    let message = stage.reason("cp", "MachineDeployed", "MachineNotOwned").await?;
    ensure!(message.contains("somebody-else") && message.contains("admin"), "{message}");
    stage.maas.clear_calls();
    stage.delete("machines.cluster.x-k8s.io", "cp")?;
    eventually("the deletion was looked at", 30, async || {
        let object = stage.machines().get_opt("cp").await?;
        Ok(object.is_some_and(|m| m.metadata.deletion_timestamp.is_some()).then_some(()))
    })
    .await?;
    stage.reason("cp", "MachineDeployed", "MachineNotOwned").await?;
    ensure!(
        stage.writes().iter().all(|c| c.path.starts_with("/dnsresources")),
        "{:?}",
        story(&stage)
    );
    stage.maas.operator(&host.system_id, OperatorAct::Owner(Some("admin".into())))?;
    stage.gone("cp").await?;
    stage.strike().await
}

/// Given to somebody else behind our back: reported, not touched, and not released either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b037_a_machine_that_changed_hands_is_reported_and_left_alone() -> Result<()> {
    let stage = stage("bad-changed-hands").await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let host = stage.provisioned("w").await?;
    stage.maas.clear_calls();
    stage.maas.operator(&host.system_id, OperatorAct::Owner(Some("somebody-else".into())))?;
    stage.maas.operator(&host.system_id, OperatorAct::Annotate(wiped()))?;
    stage.maas.operator(&host.system_id, OperatorAct::AgentName(String::new()))?;
    let message = stage.reason("w", "MachineDeployed", "MachineNotOwned").await?;
    ensure!(message.contains("somebody-else"), "{message}");
    eventually("it counts as lost", 30, async || {
        let status = stage.machines().get("w").await?.status.context("a status")?;
        Ok(status.failure_reason.is_some().then_some(()))
    })
    .await?;
    let status = stage.machines().get("w").await?.status.context("a status")?;
    ensure!(!status.ready && status.failure_reason.is_some(), "{status:?}");
    stage.delete("machines.cluster.x-k8s.io", "w")?;
    stage.gone("w").await?;
    ensure!(stage.writes().is_empty(), "{:?}", story(&stage));
    let after = stage.maas.machine(&host.system_id).context("it exists")?;
    ensure!(after.owner.as_deref() == Some("somebody-else") && after.status_name == "Deployed");
    stage.strike().await
}
