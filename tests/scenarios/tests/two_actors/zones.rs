//! Somebody rearranges MAAS.

use anyhow::{Context, Result, ensure};
use scenarios::{Colleague, Machine, eventually};

use crate::support::{stage, story};

/// A zone gets another name: machines in it go on, whoever asks for the old name is told, and all is well when it is
/// called as before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zone_that_is_renamed_is_missed_by_its_name() -> Result<()> {
    let stage = stage("two-zone").await?;
    let other = Colleague::of(&stage.maas);
    stage.cluster("c", "", ", failureDomains: [az1, az2]")?;
    stage.machine("c", &Machine::worker("w").with("failureDomain: az1"))?;
    let host = stage.provisioned("w").await?;
    stage.maas.clear_calls();
    other.call("PUT", "/zones/az1/", &[("name", "hall-1")]).await?;
    let message = stage.cluster_reason("c", "FailureDomainsValid", "ZoneNotFound").await?;
    ensure!(message.contains("no zone az1") && message.contains("hall-1"), "{message}");
    eventually("the machine shows its zone", 40, async || {
        let status = stage.machines().get("w").await?.status.context("a status")?;
        ensure!(status.ready && status.failure_reason.is_none(), "{status:?}");
        Ok((status.failure_domain.as_deref() == Some("hall-1")).then_some(()))
    })
    .await?;
    let ours: Vec<_> = stage.writes().into_iter().filter(|c| c.user == "admin").collect();
    ensure!(ours.is_empty(), "{:?}", story(&stage));
    stage.machine("c", &Machine::worker("later").with("failureDomain: az1"))?;
    let message = stage.reason("later", "MachineDeployed", "AllocationInvalid").await?;
    ensure!(message.contains("az1"), "{message}");

    other.call("PUT", "/zones/hall-1/", &[("name", "az1")]).await?;
    stage.cluster_reason("c", "FailureDomainsValid", "FailureDomainsValid").await?;
    eventually("the other one is provisioned", 90, async || {
        let later = stage.host("later").await?;
        Ok(later.filter(|h| h.status_name == "Deployed"))
    })
    .await?;
    ensure!(stage.provisioned("w").await?.system_id == host.system_id);
    stage.strike().await
}
