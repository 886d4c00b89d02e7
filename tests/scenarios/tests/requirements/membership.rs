//! R11: which control planes the record holds.

use anyhow::{Context, Result, ensure};
use maas_sim::{MachineFaults, OperatorAct};
use scenarios::{Machine, Stage, StageOptions, eventually};

use crate::support::{impatient, stage_with};

fn held_addresses(stage: &Stage<'_>) -> Vec<String> {
    let records = stage.maas.dns_records();
    records.iter().flat_map(|r| r.addresses.iter().flatten().cloned()).collect()
}

fn record_writes(stage: &Stage<'_>) -> usize {
    stage.dns_calls().iter().filter(|c| c.method == "PUT").count()
}

/// R11: a control plane that is still being installed would send clients into an installer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r11_a_deploying_control_plane_is_not_in_the_record() -> Result<()> {
    let stage =
        stage_with("r11-deploying", StageOptions { speed: 1.0, ..Default::default() }).await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::control_plane("cp"))?;
    stage.reason("cp", "MachineDeployed", "MachineDeploying").await?;
    let host = stage.host("cp").await?.context("a host")?;
    // Several looks at the record while the host has power and an address.
    stage.maas.operator(&host.system_id, OperatorAct::PowerOn)?;
    let looks = stage.dns_calls().len();
    eventually("the record is looked at twice more", 60, async || {
        Ok((stage.dns_calls().len() >= looks + 2).then_some(()))
    })
    .await?;
    ensure!(held_addresses(&stage).is_empty(), "{:?}", stage.maas.dns_records());
    stage.maas.operator(&host.system_id, OperatorAct::FinishDeployment)?;
    stage.reason("cp", "DNSAttached", "DNSAttached").await?;
    ensure!(held_addresses(&stage).len() == 1);
    // Let the release at the end come to its end as well.
    stage.delete("machines.cluster.x-k8s.io", "cp")?;
    eventually("the release has begun", 90, async || Ok(stage.calls("release").pop())).await?;
    stage.maas.advance(std::time::Duration::from_secs(60));
    stage.strike().await
}

/// R11: neither a flicker of the power reading nor "unknown" takes an address away; two readings
/// of "off" do, and it comes back with the power.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r11_only_a_machine_that_stays_off_leaves_the_record() -> Result<()> {
    let folder = impatient()?;
    let options = StageOptions { args: folder.flags(), ..Default::default() };
    let stage = stage_with("r11-power", options).await?;
    stage.cluster("c", "", "")?;
    for name in ["cp-1", "cp-2"] {
        stage.machine("c", &Machine::control_plane(name))?;
        stage.reason(name, "DNSAttached", "DNSAttached").await?;
    }
    let host = stage.host("cp-1").await?.context("a host")?;
    let full = held_addresses(&stage);
    ensure!(full.len() == 2, "{full:?}");
    let writes = record_writes(&stage);

    stage.maas.operator(&host.system_id, OperatorAct::PowerOff)?;
    eventually("it is powered on", 60, async || Ok(stage.calls("power_on").pop())).await?;
    stage.provisioned("cp-1").await?;
    let reading = OperatorAct::Power("unknown".into());
    stage.maas.operator(&host.system_id, reading)?;
    let looks = stage.dns_calls().len();
    eventually("the record is looked at twice more", 60, async || {
        Ok((stage.dns_calls().len() >= looks + 2).then_some(()))
    })
    .await?;
    ensure!(record_writes(&stage) == writes, "{:?}", stage.maas.dns_records());

    let dead = MachineFaults { bmc_error: Some("no answer".into()), ..Default::default() };
    stage.maas.operator(&host.system_id, OperatorAct::Faults(dead))?;
    stage.maas.operator(&host.system_id, OperatorAct::PowerOff)?;
    eventually("its address leaves the record", 60, async || {
        Ok((held_addresses(&stage).len() == 1).then_some(()))
    })
    .await?;
    let left = held_addresses(&stage);
    ensure!(host.ip_addresses.iter().all(|ip| !left.contains(ip)), "{left:?}, {host:?}");

    let alive = OperatorAct::Faults(MachineFaults::default());
    stage.maas.operator(&host.system_id, alive)?;
    eventually("its address comes back", 60, async || {
        Ok((held_addresses(&stage).len() == 2).then_some(()))
    })
    .await?;
    stage.strike().await
}

/// R11: nothing is written while nothing changes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r11_a_settled_record_is_not_written_again() -> Result<()> {
    let stage = crate::support::stage("r11-settled").await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::control_plane("cp"))?;
    stage.reason("cp", "DNSAttached", "DNSAttached").await?;
    stage.maas.clear_calls();
    eventually("the record is looked at three times", 60, async || {
        Ok((stage.dns_calls().len() >= 3).then_some(()))
    })
    .await?;
    ensure!(stage.writes().is_empty(), "{:?}", stage.writes());
    stage.strike().await
}

/// R11: a control plane that is no longer Deployed leaves the record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r11_a_control_plane_that_was_released_behind_our_back_leaves_the_record() -> Result<()> {
    let stage = crate::support::stage("r11-released").await?;
    stage.cluster("c", "", "")?;
    for name in ["cp-1", "cp-2"] {
        stage.machine("c", &Machine::control_plane(name))?;
        stage.reason(name, "DNSAttached", "DNSAttached").await?;
    }
    let stays = stage.host("cp-2").await?.context("a host")?;
    let goes = stage.host("cp-1").await?.context("a host")?;
    stage.maas.operator(&goes.system_id, OperatorAct::Release)?;
    eventually("the record holds the other one alone", 60, async || {
        Ok((held_addresses(&stage) == stays.ip_addresses).then_some(()))
    })
    .await?;
    stage.strike().await
}
