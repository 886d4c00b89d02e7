//! MAAS shows another certificate.

use anyhow::{Context, Result, ensure};
use scenarios::Machine;

use crate::bad_input::certificate::{TlsFront, fresh_certificate};
use crate::support::{stage, story};

/// A certificate that nobody vouches for gets no key; what runs stays as it is, and all is well with the old one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_certificate_is_not_trusted_and_the_old_one_still_is() -> Result<()> {
    let stage = stage("worst-certificate").await?;
    let (front, pem) = TlsFront::of(stage.maas.address()).await?;
    let ca = stage.folder().join("ca.pem");
    std::fs::write(&ca, pem)?;
    stage.controller.kill();
    stage.controller.use_maas(&format!("https://{}/MAAS", front.address), &stage.maas.api_key());
    stage.controller.use_flag(&format!("--maas-ca-file={}", ca.display()));
    stage.controller.start()?;
    stage.controller.watching().await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::control_plane("cp"))?;
    stage.reason("cp", "DNSAttached", "DNSAttached").await?;

    let before = front.show(fresh_certificate()?.0);
    let message = stage.cluster_reason("c", "MaasAvailable", "MaasCertificateUntrusted").await?;
    ensure!(message.contains("give its CA to capmaas"), "{message}");
    stage.maas.clear_calls();
    let status = stage.machines().get("cp").await?.status.context("a status")?;
    ensure!(status.ready && status.failure_reason.is_none(), "{status:?}");
    stage.machine("c", &Machine::worker("w"))?;
    stage.reason("w", "MachineDeployed", "MaasCertificateUntrusted").await?;
    ensure!(stage.maas.calls().is_empty(), "{:?}", story(&stage));
    front.show(before);
    stage.provisioned("w").await?;
    stage.cluster_reason("c", "MaasAvailable", "MaasAvailable").await?;
    stage.strike().await
}
