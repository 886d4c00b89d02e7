//! A policy that misbehaves towards one cluster costs that cluster its answers, and nobody else.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use capmaas_api::MaasMachine;
use capmaas_api::names::FAILED_HOSTS_ANNOTATION;
use kube::ResourceExt;
use maas_sim::Inventory;
use scenarios::{Machine, Stage, StageOptions, eventually};
use sha2::{Digest, Sha256};

use crate::support::{PolicyFolder, dist, rack, stage_with};

/// Three hostile policies at four calls each, 64 MiB a call, and the controller itself.
const MOST_RESIDENT_MIB: u64 = 1024;

/// The object says what went wrong, and which policy it was, by name and digest.
fn accuses(message: &str, category: &str) -> Result<()> {
    let wasm = std::fs::read(dist().join("hostile.wasm"))?;
    let digest: String = Sha256::digest(&wasm).iter().map(|b| format!("{b:02x}")).collect();
    let told = format!("policy hostile 0.1.0 ({}) gave no answer ({category})", &digest[..12]);
    ensure!(message.contains(&told), "{told}: {message}");
    Ok(())
}

/// How often no answer came, by the controller's log.
fn unanswered(stage: &Stage<'_>) -> usize {
    stage.controller.log().matches("no answer from a policy").count()
}

async fn named(stage: &Stage<'_>, cluster: &str) -> Result<()> {
    eventually(&format!("{cluster} has an endpoint"), 60, async || {
        let spec = stage.clusters().get(cluster).await?.spec;
        Ok(spec.control_plane_endpoint.filter(|e| !e.host.is_empty()).map(drop))
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_hangs_for_one_cluster_is_told_there_and_holds_up_no_other() -> Result<()> {
    let folder = PolicyFolder::new()?
        .policy("dns-naming", "hostile")?
        .config("dns-naming", "\"spin nameless\"")?
        .policy("allocation", "hostile")?
        .config("allocation", "\"grow landless\"")?;
    let options = StageOptions { args: folder.flags(), ..StageOptions::default() };
    let stage = stage_with("policy-hostile", options).await?;
    stage.cluster("nameless", "", "")?;
    stage.cluster("landless", "", "")?;
    stage.machine("landless", &Machine::worker("w"))?;
    let message = stage.cluster_reason("nameless", "LoadBalancerReady", "WaitForDNSName").await?;
    accuses(&message, "timeout")?;
    let message = stage.reason("w", "MachineDeployed", "AllocationPolicyFailed").await?;
    accuses(&message, "memory")?;

    // Only now does the healthy one begin; the others are asked again all the while.
    let (before, start) = (unanswered(&stage), Instant::now());
    stage.cluster("healthy", "", "")?;
    stage.machine("healthy", &Machine::control_plane("cp"))?;
    stage.provisioned("cp").await?;
    let took = start.elapsed().as_secs_f32();
    named(&stage, "healthy").await?;
    let (during, (now, most)) = (unanswered(&stage) - before, stage.controller.resident_mib()?);
    println!(
        "measured: the healthy machine was deployed after {took:.1} s; {during} hostile calls \
         meanwhile; controller resident {now} MiB, {most} MiB at most"
    );
    ensure!(during > 0, "the hostile policies were asked meanwhile");
    ensure!(most < MOST_RESIDENT_MIB, "{most} MiB");
    ensure!(stage.held().len() == 1, "only the healthy cluster holds a machine");

    // The operator takes other policies; nothing else need be done.
    stage.controller.kill();
    for kind in ["dns-naming", "allocation"] {
        let flag = |name: &str| format!("--policy={kind}={name}");
        std::fs::copy(
            dist().join(format!("{kind}-default.wasm")),
            folder.path().join(format!("{kind}-default.wasm")),
        )?;
        stage
            .controller
            .replace_flag(&flag("hostile.wasm"), &flag(&format!("{kind}-default.wasm")));
        std::fs::write(folder.path().join(format!("{kind}.json")), "{}")?;
    }
    stage.controller.start()?;
    stage.controller.watching().await?;
    named(&stage, "nameless").await?;
    stage.provisioned("w").await?;
    stage.strike().await
}

/// What the machine remembers of the host that failed first.
fn failed_host(object: &MaasMachine) -> Result<Option<serde_json::Value>> {
    let Some(text) = object.annotations().get(FAILED_HOSTS_ANNOTATION) else {
        return Ok(None);
    };
    let hosts: Vec<serde_json::Value> = serde_json::from_str(text)?;
    Ok(hosts.into_iter().next())
}

/// The longest delay that the contract can express is 136 years. The host cuts it at an hour.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delay_without_end_ends_after_an_hour() -> Result<()> {
    let folder = PolicyFolder::new()?
        .policy("failure-handling", "hostile")?
        .config("failure-handling", "\"long-replacement c\"")?;
    let inventory: Inventory = rack(&[
        "{hostname: bad, cores: 2, memory: 4096, first_deploys_fail: 9}",
        "{hostname: good, cores: 4, memory: 8192}",
    ]);
    let options = StageOptions { inventory, args: folder.flags(), ..StageOptions::default() };
    let stage = stage_with("policy-long-delay", options).await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let (decided, host) = eventually("the failure is decided", 60, async || {
        let object = stage.machines().get("w").await?;
        let host = failed_host(&object)?;
        let decisions = object.status.and_then(|s| s.decisions).unwrap_or_default();
        let decided = decisions.into_iter().find(|d| d.kind == "failure-handling");
        Ok(decided.zip(host))
    })
    .await?;
    ensure!(decided.policy == "hostile 0.1.0" && decided.digest.starts_with("sha256:"));
    let pause = host["nextAt"].as_i64().context("when the next is taken")? - decided.at;
    ensure!((3000..=3660).contains(&pause), "the next host is taken after {pause} s");
    stage.strike().await.context("it can still be deleted")
}
