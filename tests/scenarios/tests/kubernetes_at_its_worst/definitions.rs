//! Definitions are served later than the controller starts.

use anyhow::{Context, Result, ensure};
use control_plane::{ManagementPlane, PlaneOptions};
use scenarios::{Machine, Stage, StageOptions, eventually};

/// Its health, where the scenario finds it.
struct Health(String);

impl Health {
    fn of(stage: &Stage<'_>) -> Result<Self> {
        let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        stage
            .controller
            .replace_flag("--health-addr=127.0.0.1:0", &format!("--health-addr={free}"));
        Ok(Self(format!("http://{free}")))
    }

    /// Status and text of `/readyz`.
    async fn ready(&self) -> Result<(u16, String)> {
        let answer = reqwest::get(format!("{}/readyz", self.0)).await?;
        Ok((answer.status().as_u16(), answer.text().await?))
    }

    /// Waits until it is not ready for this reason, which its log has too.
    async fn waits_for(&self, stage: &Stage<'_>, what: &str) -> Result<()> {
        eventually(&format!("it waits for {what}"), 90, async || {
            stage.controller.check()?;
            // It may not listen yet.
            let (status, said) = self.ready().await.unwrap_or_default();
            Ok((status == 503 && said.contains(what)).then_some(()))
        })
        .await?;
        let log = stage.controller.log();
        ensure!(log.contains(what), "the log does not say it");
        ensure!(!log.contains("capmaas is watching"), "it said that it watches");
        Ok(())
    }
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
    let health = Health::of(&stage)?;
    stage.controller.start()?;
    health.waits_for(&stage, "install Cluster API").await?;
    plane.install_cluster_api()?;
    health.waits_for(&stage, "apply the definitions of capmaas").await?;

    plane.kubectl(&["apply", "--server-side", "-f", ours])?;
    stage.controller.watching().await?;
    let (status, said) = health.ready().await?;
    ensure!(status == 200, "{said}");
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    stage.provisioned("w").await.context("nothing was started anew")?;
    stage.strike().await
}
