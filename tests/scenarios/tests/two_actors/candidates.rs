//! Somebody wants the same machine.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use gate::{Act, Rule, Side};
use scenarios::{Colleague, Machine, Stage, eventually};

use crate::support::{stage_on, story};

/// Our allocate call is on its way, and MAAS has not seen it.
async fn on_its_way(stage: &Stage<'_>) -> Result<()> {
    eventually("an allocate call is on its way", 40, async || {
        let calls = stage.gate.calls();
        Ok(calls.iter().any(|c| c.act == Some("delay")).then_some(()))
    })
    .await
}

fn allocates_late(stage: &Stage<'_>) {
    let late = Act::Delay(Duration::from_secs(3));
    stage.gate.add(Rule::on(Side::Maas, "POST", "machines/*op=allocate", late).times(1));
}

/// A script with the very same key takes the machine that fits best a moment before us: the next one is taken, and the
/// script's machine is never touched.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidate_that_somebody_takes_first_is_theirs() -> Result<()> {
    let rack =
        ["{hostname: one, cores: 2, memory: 4096}", "{hostname: two, cores: 4, memory: 8192}"];
    let stage = stage_on("two-candidate", &rack).await?;
    let script = Colleague::with_key(&stage.maas, stage.maas.api_key());
    allocates_late(&stage);
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    on_its_way(&stage).await?;
    let first = stage.maas.machine_named("one").context("in the rack")?.system_id;
    script.call("POST", "/machines/?op=allocate", &[("system_id", &first)]).await?;
    let host = stage.provisioned("w").await?;
    ensure!(host.system_id != first, "{host:?}");
    let theirs = stage.maas.machine(&first).context("in the rack")?;
    ensure!(theirs.status_name == "Allocated" && theirs.workload_annotations.is_empty());
    ensure!(stage.calls("allocate").len() == 2, "theirs and ours: {:?}", story(&stage));
    let touched = stage.writes().iter().filter(|c| c.path.contains(&first)).count();
    ensure!(touched == 0, "{:?}", story(&stage));
    script.call("POST", &format!("/machines/{first}/?op=release"), &[]).await?;
    stage.strike().await
}

/// The only machine is taken: that is said, and the Machine gets it once it is given back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_candidate_is_waited_for() -> Result<()> {
    let stage = stage_on("two-last", &["{hostname: only, cores: 2, memory: 4096}"]).await?;
    let other = Colleague::of(&stage.maas);
    allocates_late(&stage);
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    on_its_way(&stage).await?;
    let only = stage.maas.machine_named("only").context("in the rack")?.system_id;
    other.call("POST", "/machines/?op=allocate", &[("system_id", &only)]).await?;
    let message = stage.reason("w", "MachineDeployed", "NoMachineFound").await?;
    ensure!(!message.is_empty());
    other.call("POST", &format!("/machines/{only}/?op=release"), &[]).await?;
    // The failure policy asks again after half a minute.
    let host = eventually("it gets the machine", 90, async || {
        let host = stage.host("w").await?;
        Ok(host.filter(|h| h.status_name == "Deployed"))
    })
    .await?;
    ensure!(host.system_id == only && host.owner.as_deref() == Some("admin"), "{host:?}");
    stage.strike().await
}
