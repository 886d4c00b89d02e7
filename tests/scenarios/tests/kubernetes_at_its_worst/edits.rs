//! Objects are edited by hand.

use anyhow::{Context, Result, ensure};
use scenarios::{Machine, StageOptions, eventually};

use super::kubectl;
use crate::support::{stage, stage_with, story};

const KIND: &str = "maasmachine";
const FINALIZER: &str = "maasmachine.infrastructure.cluster.x-k8s.io";

/// Another image in the specification reinstalls nothing: not while MAAS deploys, not afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_image_reinstalls_nothing() -> Result<()> {
    let options = StageOptions { speed: 30.0, ..StageOptions::default() };
    let stage = stage_with("kube-image", options).await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    stage.reason("w", "MachineDeployed", "MachineDeploying").await?;
    let image = |name: &str| {
        let patch = format!("{{\"spec\": {{\"image\": \"{name}\"}}}}");
        kubectl(&stage, &["patch", KIND, "w", "--type=merge", "-p", &patch])
    };
    // The API server may refuse it, as such a field should not change; then there is nothing to see.
    let allowed = image("ubuntu/noble").is_ok();
    let host = stage.provisioned("w").await?;
    if allowed {
        image("no/such-image")?;
        let looks = stage.maas.calls().len();
        eventually("it is looked at again", 60, async || {
            Ok((stage.maas.calls().len() > looks + 3).then_some(()))
        })
        .await?;
    }
    let after = stage.provisioned("w").await?;
    ensure!(after.deploys == 1 && after.system_id == host.system_id, "{after:?}");
    ensure!(stage.calls("deploy").len() == 1 && stage.calls("release").is_empty());
    stage.strike().await
}

/// Whoever takes the mark away, or the finalizer, takes no machine with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_mark_or_finalizer_a_machine_is_still_ours() -> Result<()> {
    let stage = stage("kube-mark").await?;
    stage.cluster("c", "", "")?;
    for name in ["unmarked", "unheld"] {
        stage.machine("c", &Machine::worker(name))?;
    }
    let unmarked = stage.provisioned("unmarked").await?;
    stage.provisioned("unheld").await?;
    let no_finalizers = r#"{"metadata": {"finalizers": null}}"#;
    kubectl(&stage, &["patch", KIND, "unheld", "--type=merge", "-p", no_finalizers])?;
    eventually("the finalizer is back", 40, async || {
        let object = stage.machines().get("unheld").await?;
        let held = object.metadata.finalizers.unwrap_or_default();
        Ok(held.iter().any(|f| f == FINALIZER).then_some(()))
    })
    .await?;
    stage.delete("machines.cluster.x-k8s.io", "unheld")?;
    stage.gone("unheld").await?;
    ensure!(stage.held().len() == 1, "{:?}", stage.held());

    kubectl(&stage, &["annotate", KIND, "unmarked", "capmaas.io/mark-"])?;
    let said = eventually("it is looked at without a mark", 40, async || {
        let object = stage.machines().get("unmarked").await?;
        let marked =
            object.metadata.annotations.unwrap_or_default().contains_key("capmaas.io/mark");
        let condition = stage.condition("unmarked", "MachineDeployed").await?.context("there")?;
        Ok((marked || condition.status == "False").then_some(condition))
    })
    .await?;
    if said.status == "False" {
        let message = said.message.unwrap_or_default();
        ensure!(message.contains(&unmarked.hostname), "{message}");
        let mark = &unmarked.workload_annotations["capmaas-mark"];
        kubectl(&stage, &["annotate", KIND, "unmarked", &format!("capmaas.io/mark={mark}")])?;
    }
    ensure!(stage.provisioned("unmarked").await?.system_id == unmarked.system_id);
    stage.strike().await
}

/// Without its provider id an object finds its machine under its mark, at each stage, and takes no other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_id_that_was_taken_away_comes_back() -> Result<()> {
    let options = StageOptions { speed: 30.0, ..StageOptions::default() };
    let stage = stage_with("kube-provider-id", options).await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let without = r#"{"spec": {"providerID": null, "systemID": null}}"#;
    for reason in ["MachineDeploying", "MachineDeployed"] {
        stage.reason("w", "MachineDeployed", reason).await?;
        let before = stage.machines().get("w").await?.spec.provider_id;
        kubectl(&stage, &["patch", KIND, "w", "--type=merge", "-p", without])?;
        eventually("it is back", 60, async || {
            let now = stage.machines().get("w").await?.spec.provider_id;
            ensure!(now.is_none() || now == before, "another machine: {now:?}");
            Ok(now)
        })
        .await?;
    }
    let host = stage.provisioned("w").await?;
    ensure!(host.deploys == 1 && stage.held().len() == 1, "{:?}", stage.held());
    ensure!(stage.calls("allocate").len() == 1, "{:?}", story(&stage));
    stage.strike().await
}
