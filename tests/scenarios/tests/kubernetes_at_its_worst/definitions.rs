//! Definitions are served later than the controller starts.

use anyhow::{Context, Result, ensure};
use control_plane::{ManagementPlane, PlaneOptions};
use scenarios::{Machine, Stage, StageOptions, eventually};

/// Waits until it is not ready for this reason, which its log has too.
async fn waits_for(stage: &Stage<'_>, what: &str) -> Result<()> {
    eventually(&format!("it waits for {what}"), 90, async || {
        stage.controller.check()?;
        // It may not listen yet.
        let (status, said) = stage.ready().await.unwrap_or_default();
        Ok((status == 503 && said.contains(what)).then_some(()))
    })
    .await?;
    let log = stage.controller.log();
    ensure!(log.contains(what), "the log does not say it");
    ensure!(!log.contains("capmaas is watching"), "it said that it watches");
    Ok(())
}

/// The controller is installed before Cluster API, and its own definitions are applied last: it says each time what is
/// missing, and begins by itself once all are there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_that_is_there_before_the_definitions_waits_for_them() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let options = PlaneOptions { cluster_api: false, ..PlaneOptions::default() };
    let plane = ManagementPlane::start(&folder.path().join("plane"), options)?;
    let stage = Stage::prepare(&plane, "kube-definitions", StageOptions::default()).await?;
    let ours = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crds");
    plane.kubectl(&["delete", "--wait", "-f", ours])?;
    stage.controller.start()?;
    waits_for(&stage, "install Cluster API").await?;
    plane.install_cluster_api()?;
    waits_for(&stage, "apply the definitions of capmaas").await?;

    plane.kubectl(&["apply", "--server-side", "-f", ours])?;
    stage.controller.watching().await?;
    let (status, said) = stage.ready().await?;
    ensure!(status == 200, "{said}");
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    stage.provisioned("w").await.context("nothing was started anew")?;
    stage.strike().await
}
