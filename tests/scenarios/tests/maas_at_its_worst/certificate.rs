//! MAAS shows another certificate.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use gate::{Authority, TlsFront};
use scenarios::{Machine, Stage, eventually};

use crate::support::{stage, story};

/// A MAAS behind TLS, and the file with the authority that the controller trusts for it.
struct Guarded {
    authority: Authority,
    front: TlsFront,
    ca: PathBuf,
}

impl Guarded {
    /// The controller is told of it, as the chart tells it.
    async fn with(stage: &Stage<'_>) -> Result<Self> {
        let authority = Authority::new()?;
        let front = TlsFront::of(stage.maas.address(), authority.vouch()?).await?;
        let ca = stage.folder().join("ca.pem");
        authority.give_to(&ca)?;
        stage.controller.kill();
        stage.controller.use_maas(&format!("{}/MAAS", front.url()), &stage.maas.api_key());
        stage.controller.use_flag(&format!("--maas-ca-file={}", ca.display()));
        stage.controller.start()?;
        stage.controller.watching().await?;
        Ok(Self { authority, front, ca })
    }
}

/// A stage whose MAAS is behind TLS, with a control plane that serves.
async fn serving(namespace: &str) -> Result<(Stage<'static>, Guarded)> {
    let stage = stage(namespace).await?;
    let maas = Guarded::with(&stage).await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::control_plane("cp"))?;
    stage.reason("cp", "DNSAttached", "DNSAttached").await?;
    Ok((stage, maas))
}

/// Waits until MAAS serves again: after some refusals it is asked once a minute.
async fn available(stage: &Stage<'_>) -> Result<()> {
    eventually("MAAS is available", 150, async || {
        let status = stage.clusters().get("c").await?.status.unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        let served = conditions.iter().any(|c| c.kind == "MaasAvailable" && c.status == "True");
        Ok(served.then_some(()))
    })
    .await
}

/// A certificate that nobody vouches for gets no key; what runs stays as it is, and all is well with the old one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_certificate_is_not_trusted_and_the_old_one_still_is() -> Result<()> {
    let (stage, maas) = serving("worst-certificate").await?;
    maas.front.show(Authority::new()?.vouch()?);
    let message = stage.cluster_reason("c", "MaasAvailable", "MaasCertificateUntrusted").await?;
    ensure!(message.contains("give its CA to capmaas"), "{message}");
    stage.maas.clear_calls();
    let status = stage.machines().get("cp").await?.status.context("a status")?;
    ensure!(status.ready && status.failure_reason.is_none(), "{status:?}");
    stage.machine("c", &Machine::worker("w"))?;
    stage.reason("w", "MachineDeployed", "MaasCertificateUntrusted").await?;
    ensure!(stage.maas.calls().is_empty(), "{:?}", story(&stage));
    maas.front.show(maas.authority.vouch()?);
    available(&stage).await?;
    stage.provisioned("w").await?;
    stage.strike().await
}

/// Everybody's certificate runs out one day. It is said to have, and all goes on when MAAS has another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_has_expired_is_said_to_have_until_it_is_renewed() -> Result<()> {
    let (stage, maas) = serving("worst-expired").await?;
    maas.front.show(maas.authority.vouch_with(|c| c.not_after = rcgen::date_time_ymd(2020, 1, 1))?);
    let message = stage.cluster_reason("c", "MaasAvailable", "MaasCertificateExpired").await?;
    ensure!(message.contains("has expired") && message.contains("renew it"), "{message}");
    stage.machine("c", &Machine::worker("w"))?;
    let message = stage.reason("w", "MachineDeployed", "MaasCertificateExpired").await?;
    ensure!(message.contains("has expired"), "{message}");
    let status = stage.machines().get("cp").await?.status.context("a status")?;
    ensure!(status.ready && status.failure_reason.is_none(), "{status:?}");
    maas.front.show(maas.authority.vouch()?);
    available(&stage).await?;
    stage.provisioned("w").await?;
    stage.strike().await
}

/// MAAS's certificate comes from a new authority. Once the file has it, the controller trusts it, without a restart; and
/// whoever can only show the old one's word gets no key any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_authority_is_trusted_when_its_file_has_it() -> Result<()> {
    let (stage, maas) = serving("worst-authority").await?;
    let new = Authority::new()?;
    maas.front.show(new.vouch()?);
    stage.cluster_reason("c", "MaasAvailable", "MaasCertificateUntrusted").await?;
    // Half a file is no authority, and that is said.
    std::fs::write(&maas.ca, "-----BEGIN CERTIFICATE-----\nMIIB")?;
    eventually("the file is said to be of no use", 150, async || {
        let status = stage.clusters().get("c").await?.status.unwrap_or_default();
        let mut said = status.conditions.unwrap_or_default().into_iter().filter_map(|c| c.message);
        Ok(said.any(|m| m.contains("ca.pem")).then_some(()))
    })
    .await?;
    new.give_to(&maas.ca)?;
    available(&stage).await?;
    stage.machine("c", &Machine::worker("w"))?;
    stage.provisioned("w").await?;

    maas.front.show(maas.authority.vouch()?);
    stage.cluster_reason("c", "MaasAvailable", "MaasCertificateUntrusted").await?;
    maas.front.show(new.vouch()?);
    available(&stage).await?;
    stage.strike().await
}
