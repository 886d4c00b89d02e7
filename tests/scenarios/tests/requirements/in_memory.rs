//! R6, R8: machines that run from memory.

use anyhow::{Context, Result, ensure};
use maas_sim::OperatorAct;
use scenarios::{Machine, StageOptions, eventually};

use crate::support::{params, rack, stage, stage_on, stage_with};

/// R6, R8: `deployInMemory` reaches MAAS, on a machine with 16 GiB at least; when such a machine
/// loses power it is lost, and powering it on would only install it anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r8_b059_a_machine_in_memory_that_lost_power_is_lost() -> Result<()> {
    let stage = stage("r8-in-memory").await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w").with("deployInMemory: true"))?;
    let host = stage.provisioned("w").await?;
    ensure!(host.ephemeral_deploy && host.memory_mib >= 16384, "{host:?}");
    let deploy = stage.calls("deploy").pop().context("a deployment")?;
    ensure!(params(&deploy, "ephemeral_deploy") == ["true"], "{deploy:?}");
    ensure!(
        params(&stage.calls("allocate")[0], "mem") == ["16384"],
        "{:?}",
        stage.calls("allocate")
    );

    stage.maas.clear_calls();
    stage.maas.operator(&host.system_id, OperatorAct::PowerOff)?;
    let message = stage.reason("w", "MachineDeployed", "MachinePoweredOff").await?;
    ensure!(message.contains("its state is gone") && message.contains("replace"), "{message}");
    let status = stage.machines().get("w").await?.status.context("status")?;
    ensure!(!status.ready && status.failure_reason.as_deref() == Some("UpdateError"), "{status:?}");
    ensure!(status.failure_message.is_some_and(|m| m.contains("ran from memory")));
    ensure!(stage.writes().is_empty(), "{:?}", stage.writes());
    stage.strike().await
}

/// R8: a MAAS that cannot deploy to memory is told from one that can before a machine is taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r8_b057_a_maas_that_is_too_old_is_named_before_a_machine_is_taken() -> Result<()> {
    let options = StageOptions { version: "3.6.2".into(), ..StageOptions::default() };
    let stage = stage_with("r8-old-maas", options).await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w").with("deployInMemory: true"))?;
    let message = stage.reason("w", "MachineDeployed", "InMemoryUnsupported").await?;
    ensure!(message.contains("MAAS 3.6.2") && message.contains("upgrade MAAS"), "{message}");
    ensure!(stage.calls("allocate").is_empty() && stage.held().is_empty());

    // The version is asked for again within a minute.
    stage.maas.set_version("3.6.3");
    eventually("the machine is taken after the upgrade", 100, async || {
        Ok(stage.calls("allocate").pop())
    })
    .await?;
    stage.provisioned("w").await?;
    stage.strike().await
}

/// R8: machines with less memory than 16 GiB are not taken, whatever the user asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r8_b059_a_machine_that_is_too_small_is_not_taken() -> Result<()> {
    let small = "{hostname: small, cores: 4, memory: 8192, zone: az1}";
    let stage = stage_on("r8-too-small", &[small]).await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w").with("deployInMemory: true"))?;
    let message = stage.reason("w", "MachineDeployed", "NoMachineFound").await?;
    ensure!(message.contains("add one, free one, or ask for less"), "{message}");
    ensure!(stage.held().is_empty() && stage.calls("deploy").is_empty());

    let big = rack(&["{hostname: big, cores: 8, memory: 16384, zone: az1}"]).machines.remove(0);
    stage.maas.add_machine(big);
    ensure!(stage.provisioned("w").await?.hostname == "big");
    stage.strike().await
}
