//! MAAS does not answer at all.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use gate::{Act, Rule, Side};
use scenarios::{Machine, Stage, eventually};

use crate::support::stage;

fn maas_calls(stage: &Stage<'_>) -> usize {
    stage.gate.calls().iter().filter(|c| c.side == Side::Maas).count()
}

/// However many machines wait, a MAAS that is down gets twelve calls in the first minute at most; it is said on the
/// cluster and on each machine, and the first answer ends it for all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_maas_that_is_down_is_not_asked_by_everybody() -> Result<()> {
    let stage = stage("worst-down").await?;
    stage.cluster("c", "", "")?;
    stage.cluster_reason("c", "MaasAvailable", "MaasAvailable").await?;
    stage.gate.add(Rule::on(Side::Maas, "", "", Act::CloseBefore));
    let (before, began) = (maas_calls(&stage), Instant::now());
    let names: Vec<String> = (1..=20).map(|n| format!("w-{n}")).collect();
    for name in &names {
        // More memory than any machine has: who MAAS serves again is told so.
        stage.machine("c", &Machine::worker(name).with("minMemory: 9000000"))?;
    }
    for name in &names {
        let message = stage.reason(name, "MachineDeployed", "MaasUnavailable").await?;
        ensure!(message.contains("check MAAS_ENDPOINT and that MAAS is up"), "{message}");
    }
    let message = stage.cluster_reason("c", "MaasAvailable", "MaasUnavailable").await?;
    ensure!(message.contains("cannot be reached"), "{message}");
    let mut most = 0;
    eventually("a minute has passed", 90, async || {
        let over = began.elapsed() > Duration::from_secs(60);
        if !over {
            most = maas_calls(&stage) - before;
        }
        Ok(over.then_some(()))
    })
    .await?;
    ensure!((1..=12).contains(&most), "{most} calls in the first minute");
    stage.gate.clear_rules();
    for name in &names {
        eventually(&format!("{name} hears of MAAS again"), 120, async || {
            let said = stage.condition(name, "MachineDeployed").await?.context("a condition")?;
            Ok((said.reason.as_deref() == Some("NoMachineFound")).then_some(()))
        })
        .await?;
    }
    stage.cluster_reason("c", "MaasAvailable", "MaasAvailable").await?;
    stage.strike().await
}

/// Connections that stay open without an answer are given up, and everything stays as it is meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_maas_that_is_silent_is_given_up() -> Result<()> {
    let stage = stage("worst-silent").await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::control_plane("cp"))?;
    stage.reason("cp", "DNSAttached", "DNSAttached").await?;
    let records = stage.maas.dns_records();
    stage.gate.add(Rule::on(Side::Maas, "", "", Act::Hold));
    let message = eventually("the silence is reported", 240, async || {
        let said = stage.cluster_condition("c", "MaasAvailable").await?.context("it is there")?;
        let reported = said.reason.as_deref() == Some("MaasUnavailable");
        Ok(reported.then(|| said.message.unwrap_or_default()))
    })
    .await?;
    ensure!(message.contains("no answer in time"), "{message}");
    ensure!(stage.machines().get("cp").await?.status.context("a status")?.ready);
    ensure!(stage.maas.dns_records() == records, "{:?}", stage.maas.dns_records());
    stage.gate.clear_rules();
    eventually("MAAS is there again", 180, async || {
        let said = stage.cluster_condition("c", "MaasAvailable").await?.context("it is there")?;
        Ok((said.status == "True").then_some(()))
    })
    .await?;
    stage.machine("c", &Machine::worker("w"))?;
    stage.provisioned("w").await?;
    stage.strike().await
}
