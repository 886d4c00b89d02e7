//! The API key is revoked, and its file gets another one.

use anyhow::{Context, Result, ensure};
use scenarios::{Machine, Stage};

use crate::support::stage;

/// The controller reads its key from a file, as the chart lets it.
async fn with_key_file(stage: &Stage<'_>) -> Result<std::path::PathBuf> {
    let file = stage.folder().join("MAAS_API_KEY");
    std::fs::write(&file, stage.maas.api_key() + "\n")?;
    stage.controller.kill();
    stage.use_key("");
    stage.controller.use_flag(&format!("--maas-api-key-file={}", file.display()));
    stage.controller.start()?;
    stage.controller.watching().await?;
    Ok(file)
}

/// No restart is needed: the new key is read when MAAS refuses the old one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_replaced_in_its_file_is_found() -> Result<()> {
    let stage = stage("worst-key").await?;
    let file = with_key_file(&stage).await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let host = stage.provisioned("w").await?;
    let key = stage.maas.replace_key("admin")?;
    let message = stage.cluster_reason("c", "MaasAvailable", "MaasUnauthorized").await?;
    ensure!(message.contains("MAAS_API_KEY"), "{message}");
    let status = stage.machines().get("w").await?.status.context("a status")?;
    ensure!(status.ready && status.failure_reason.is_none(), "{status:?}");
    // A key that is only half written is no key.
    std::fs::write(&file, &key[..key.len() / 2])?;
    stage.cluster_reason("c", "MaasAvailable", "MaasUnauthorized").await?;
    std::fs::write(&file, &key)?;
    stage.cluster_reason("c", "MaasAvailable", "MaasAvailable").await?;
    stage.machine("c", &Machine::worker("later"))?;
    stage.provisioned("later").await?;
    ensure!(stage.provisioned("w").await?.system_id == host.system_id);
    let secret = key.rsplit(':').next().context("three parts")?;
    ensure!(!stage.controller.log().contains(secret), "the log shows the secret");
    stage.strike().await
}

/// The file has the new key before MAAS forgets the old one: nobody notices for long, and machines go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_replaced_in_good_time_stops_nothing() -> Result<()> {
    let stage = stage("worst-key-early").await?;
    let file = with_key_file(&stage).await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::control_plane("cp"))?;
    stage.reason("cp", "DNSAttached", "DNSAttached").await?;
    std::fs::write(&file, stage.maas.replace_key("admin")?)?;
    stage.delete("machines.cluster.x-k8s.io", "cp")?;
    stage.gone("cp").await?;
    ensure!(stage.held().is_empty(), "{:?}", stage.held());
    stage.strike().await
}
