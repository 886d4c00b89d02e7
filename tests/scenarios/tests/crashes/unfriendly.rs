//! Accidents that come together, and worlds that do not wait for the controller to come back.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use gate::{Act, Rule, Side};
use kube::api::{Patch, PatchParams};
use maas_sim::OperatorAct;
use scenarios::matrix::{boundaries, kept_alive};
use scenarios::{Dice, Machine, Stage, StageOptions, eventually};
use serde_json::json;

use super::restart;
use crate::support::{impatient, one_machine_came_of_it, rack, stage, stage_with, story};

/// The BMC refuses the release, twice, and each time the controller dies before it hears of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_is_refused_while_the_controller_dies() -> Result<()> {
    let folder = impatient()?;
    let stubborn = "{hostname: stubborn, cores: 4, memory: 8192, first_releases_refused: 2}";
    let (inventory, args) = (rack(&[stubborn]), folder.flags());
    let stage =
        stage_with("crash-refused", StageOptions { inventory, args, ..Default::default() }).await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let host = stage.provisioned("w").await?;
    stage.gate.add(Rule::on(Side::Maas, "POST", "op=release", Act::KillAfter).times(2));
    stage.delete("machines.cluster.x-k8s.io", "w")?;
    kept_alive(&stage, &AtomicUsize::new(0), stage.gone("w")).await?;
    let statuses: Vec<u16> = stage.calls("release").iter().map(|c| c.status).collect();
    ensure!(statuses == [500, 500, 200], "{statuses:?}");
    let after = stage.maas.machine(&host.system_id).context("it exists")?;
    ensure!(after.releases == 1 && after.owner.is_none(), "{after:?}");
    stage.strike().await
}

/// The allocate lingers on its way to MAAS; it is carried out for a controller that has died, when its successor
/// is there already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_allocate_is_carried_out_after_the_restart() -> Result<()> {
    let stage = stage("crash-lingering").await?;
    stage.controller.kill();
    stage.controller.replace_flag("--in-flight=6", "--in-flight=40");
    restart(&stage).await?;
    let lingers = Act::Delay(Duration::from_secs(12));
    stage.gate.add(Rule::on(Side::Maas, "POST", "op=allocate", lingers).times(1));
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    eventually("the allocate is on its way", 60, async || {
        Ok(stage.gate.calls().into_iter().find(|c| c.target.contains("op=allocate")))
    })
    .await?;
    stage.controller.kill();
    restart(&stage).await?;
    stage.reason("w", "MachineDeployed", "AllocationUnanswered").await?;
    ensure!(stage.held().is_empty(), "it came too early to show anything: {:?}", stage.held());
    one_machine_came_of_it(&stage, "w").await?;
    ensure!(stage.calls("allocate").len() == 1, "{:?}", story(&stage));
    stage.strike().await
}

/// Two machines carry the mark of an object that names none: one is kept, the other goes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_machines_carry_one_mark() -> Result<()> {
    let stage = stage("crash-two-marked").await?;
    stage.gate.add(Rule::on(Side::Maas, "POST", "op=allocate", Act::KillBefore).times(1));
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let mut kills = stage.gate.kills();
    kills.wait_for(|kills| *kills == 1).await?;
    let annotations = stage.machines().get("w").await?.metadata.annotations.context("some")?;
    let mut ids = BTreeSet::new();
    for name in ["az1-large-1", "az2-large-1"] {
        let id = stage.maas.machine_named(name).context("in the rack")?.system_id;
        for act in [
            OperatorAct::Owner(Some("admin".into())),
            OperatorAct::AgentName(annotations["capmaas.io/mark"].clone()),
            OperatorAct::Status("Allocated".into()),
        ] {
            stage.maas.operator(&id, act)?;
        }
        ids.insert(id);
    }
    restart(&stage).await?;
    one_machine_came_of_it(&stage, "w").await?;
    let kept = stage.host("w").await?.context("a host")?.system_id;
    ensure!(Some(&kept) == ids.first(), "{kept} of {ids:?}");
    ensure!(stage.calls("allocate").is_empty(), "{:?}", story(&stage));
    stage.strike().await
}

/// An object is made anew from a dump of another, mark and all: each has a host of its own, and keeps it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_objects_carry_one_mark() -> Result<()> {
    let stage = stage("crash-two-objects").await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let first = stage.provisioned("w").await?;
    let annotations = stage.machines().get("w").await?.metadata.annotations.context("some")?;
    let copied = json!({ "metadata": { "annotations": {
        "capmaas.io/mark": annotations["capmaas.io/mark"],
    } } });
    stage.controller.kill();
    stage.machine("c", &Machine::worker("copy"))?;
    let params = PatchParams::default();
    stage.machines().patch("copy", &params, &Patch::Merge(&copied)).await?;
    restart(&stage).await?;
    let second = stage.provisioned("copy").await?;
    ensure!(first.system_id != second.system_id, "{second:?}");
    stage.delete("machines.cluster.x-k8s.io", "copy")?;
    stage.gone("copy").await?;
    let held: Vec<String> = stage.held().into_iter().map(|m| m.system_id).collect();
    ensure!(held == [first.system_id], "{held:?}");
    stage.strike().await
}

/// Takes away the status of the machine and of the cluster whenever the controller has reached another place.
async fn forget_everything(stage: &Stage<'_>) -> Result<()> {
    let nothing = Patch::Merge(json!({ "status": null }));
    let params = PatchParams::default();
    let mut known = 0;
    loop {
        let reached = boundaries(&stage.gate.calls()).iter().filter(|b| b.writes()).count();
        if reached != known {
            known = reached;
            // Either may not be there yet, or any more.
            let _ = stage.machines().patch_status("cp", &params, &nothing).await;
            let _ = stage.clusters().patch_status("c", &params, &nothing).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What was reported is lost again and again, as with a backup that leaves the status out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_is_lost_at_each_stage() -> Result<()> {
    let stage = stage("crash-status").await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::control_plane("cp"))?;
    tokio::select! {
        found = stage.reason("cp", "DNSAttached", "DNSAttached") => drop(found?),
        never = forget_everything(&stage) => never?,
    }
    one_machine_came_of_it(&stage, "cp").await?;
    ensure!(stage.calls("allocate").len() == 1, "{:?}", story(&stage));
    ensure!(stage.maas.dns_records().len() == 1, "{:?}", stage.maas.dns_records());
    stage.delete("machines.cluster.x-k8s.io", "cp")?;
    tokio::select! {
        gone = stage.gone("cp") => gone?,
        never = forget_everything(&stage) => never?,
    }
    ensure!(stage.calls("release").len() == 1, "{:?}", story(&stage));
    stage.strike().await
}

/// A host that was given up runs all the same, with the bootstrap data that it was sent: the other host is taken
/// only when it is off, or two would join under one name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_was_given_up_wakes_up() -> Result<()> {
    let mut inventory = rack(&[
        "{hostname: sleeper, cores: 2, memory: 4096, first_deploys_hang: 9}",
        "{hostname: works, cores: 4, memory: 8192}",
    ]);
    inventory.timings.power_off = 86_400.0;
    inventory.timings.release_timeout = 172_800.0;
    let folder = impatient()?;
    let args = [folder.flags(), vec!["--deploy-timeout=6".to_owned()]].concat();
    let options = StageOptions { inventory, args, ..Default::default() };
    let stage = stage_with("crash-sleeper", options).await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let sleeper = stage.maas.machine_named("sleeper").context("in the rack")?.system_id;
    eventually("it is given up", 60, async || Ok(stage.calls("release").pop())).await?;
    // The BMC says that it obeys and does not: MAAS believes the machine free, and it runs.
    for act in [
        OperatorAct::Status("Ready".into()),
        OperatorAct::Owner(None),
        OperatorAct::AgentName(String::new()),
        OperatorAct::Power("on".into()),
    ] {
        stage.maas.operator(&sleeper, act)?;
    }
    stage.controller.kill();
    restart(&stage).await?;
    let before = stage.gate.count();
    eventually("it was looked at three times", 60, async || {
        let calls = stage.gate.calls();
        let looks = calls[before..].iter().filter(|c| c.target.contains(&sleeper)).count();
        Ok((looks >= 3).then_some(()))
    })
    .await?;
    ensure!(stage.calls("allocate").len() == 1, "{:?}", story(&stage));
    stage.maas.operator(&sleeper, OperatorAct::PowerOff)?;
    ensure!(stage.provisioned("w").await?.hostname == "works");
    stage.delete("machines.cluster.x-k8s.io", "w")?;
    eventually("the other one is released", 60, async || {
        Ok(stage.calls("release").get(1).cloned())
    })
    .await?;
    stage.maas.advance(Duration::from_secs(172_000));
    stage.gone("w").await?;
    stage.strike().await
}

/// Kills and starts the controller at random moments, for ever.
async fn kill_at_random(stage: &Stage<'_>, dice: &mut Dice) -> Result<()> {
    loop {
        tokio::time::sleep(Duration::from_millis(300 + dice.below(3000))).await;
        stage.controller.kill();
        stage.controller.start()?;
        stage.controller.watching().await?;
    }
}

/// The controller never lives for longer than a few seconds, from the first wish to the last finalizer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_dies_again_and_again() -> Result<()> {
    for seed in [7, 20_260_101] {
        let stage = stage(&format!("crash-random-{seed}")).await?;
        let mut dice = Dice::new(seed);
        let up = async {
            stage.cluster("c", "", "")?;
            stage.machine("c", &Machine::control_plane("cp"))?;
            stage.machine("c", &Machine::worker("w"))?;
            eventually("both are up", 180, async || {
                let attached = stage.condition("cp", "DNSAttached").await?;
                let deployed = stage.condition("w", "MachineDeployed").await?;
                let both = [attached, deployed].into_iter().flatten();
                Ok((both.filter(|c| c.status == "True").count() == 2).then_some(()))
            })
            .await
        };
        let told = tokio::select! {
            told = up => told,
            never = kill_at_random(&stage, &mut dice) => never,
        };
        told.with_context(|| format!("seed {seed}"))?;
        let given = stage.calls("allocate").iter().filter(|c| c.status == 200).count();
        ensure!(given == 2 && stage.held().len() == 2, "seed {seed}: {:?}", story(&stage));
        ensure!(stage.held().iter().all(|m| m.deploys == 1), "seed {seed}: {:?}", stage.held());
        stage.delete("clusters.cluster.x-k8s.io", "c")?;
        let down = async { tokio::try_join!(stage.gone("cp"), stage.gone("w")).map(drop) };
        let told = tokio::select! {
            told = down => told,
            never = kill_at_random(&stage, &mut dice) => never,
        };
        told.with_context(|| format!("seed {seed}"))?;
        stage.controller.kill();
        restart(&stage).await?;
        stage.strike().await?;
    }
    Ok(())
}
