//! R4, R5, R6: what a deployment sends.

use anyhow::{Context, Result, ensure};
use scenarios::Machine;

use crate::support::{bootstrap_of, params, stage, story};

/// R4: the bootstrap Secret's value reaches the machine, base64-encoded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r4_deploy_sends_the_bootstrap_data() -> Result<()> {
    let stage = stage("r4-bootstrap").await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let host = stage.provisioned("w").await?;
    ensure!(host.user_data == Some(bootstrap_of("w")), "{:?}", host.user_data);
    let deploy = stage.calls("deploy").pop().context("deploy was called")?;
    ensure!(params(&deploy, "user_data").len() == 1, "{deploy:?}");
    stage.strike().await
}

/// R4: whatever bytes the Secret holds (cloud-init takes gzip as well), the same bytes arrive.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r4_b063_binary_bootstrap_data_arrives_unchanged() -> Result<()> {
    use base64::Engine;
    let stage = stage("r4-binary").await?;
    stage.cluster("c", "", "")?;
    let bytes: Vec<u8> =
        [0x1f, 0x8b, 0x08].into_iter().chain((0..40_000).map(|n| (n % 251) as u8)).collect();
    let data = base64::engine::general_purpose::STANDARD.encode(bytes);
    stage.apply(&format!(
        "apiVersion: v1\nkind: Secret\ntype: cluster.x-k8s.io/secret\n\
         metadata: {{name: w-bootstrap, labels: {{cluster.x-k8s.io/cluster-name: c}}}}\n\
         data: {{value: '{data}'}}\n"
    ))?;
    stage.machine("c", &Machine { bootstrap: None, ..Machine::worker("w") })?;
    let host = stage.provisioned("w").await?;
    ensure!(host.user_data == Some(data), "{:?}", host.user_data.map(|d| d.len()));
    stage.strike().await
}

/// R5: swap is off before the deployment begins, and stays so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r5_swap_is_turned_off_before_the_deployment() -> Result<()> {
    let stage = stage("r5-swap").await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let host = stage.provisioned("w").await?;
    ensure!(host.swap_size == Some(0), "{host:?}");
    let update = stage.writes().into_iter().find(|c| c.method == "PUT").context("an update")?;
    ensure!(update.path == format!("/machines/{}/", host.system_id), "{update:?}");
    ensure!(update.params == [("swap_size".to_owned(), "0".to_owned())], "{update:?}");
    let deploy = stage.calls("deploy").pop().context("a deployment")?;
    ensure!(update.seq < deploy.seq && update.status == 200, "{:?}", story(&stage));
    stage.strike().await
}

/// R6: every way to name an image is sent as it stands; MAAS resolves it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r6_the_image_is_sent_verbatim() -> Result<()> {
    let stage = stage("r6-image").await?;
    stage.cluster("c", "", "")?;
    let forms = [
        ("custom", "custom/u-2404-k8s", "u-2404-k8s"),
        ("full", "ubuntu/noble", "noble"),
        ("bare", "noble", "noble"),
        ("alias", "'24.04'", "noble"),
    ];
    for (name, image, _) in &forms {
        stage.machine("c", &Machine::worker(name).with(&format!("image: {image}")))?;
    }
    for (name, image, series) in &forms {
        let host = stage.provisioned(name).await?;
        ensure!(host.distro_series.contains(series), "{name}: {host:?}");
        let here = |c: &maas_sim::Call| c.path.contains(&host.system_id);
        let deploy = stage.calls("deploy").into_iter().find(here).context("a deployment")?;
        ensure!(params(&deploy, "distro_series") == [image.trim_matches('\'')], "{deploy:?}");
        ensure!(params(&deploy, "ephemeral_deploy").is_empty() && !host.ephemeral_deploy);
    }
    stage.strike().await
}
