//! MAAS behind TLS, with a certificate authority of its own.

use anyhow::{Result, ensure};
use gate::{Authority, TlsFront};
use scenarios::Machine;

use crate::support::stage;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b027_an_unknown_authority_is_not_trusted_until_it_is_given() -> Result<()> {
    let stage = stage("bad-certificate").await?;
    let authority = Authority::new()?;
    let front = TlsFront::of(stage.maas.address(), authority.vouch()?).await?;
    let key = stage.maas.api_key();
    stage.controller.kill();
    stage.controller.use_maas(&format!("{}/MAAS", front.url()), &key);
    stage.controller.start()?;
    stage.controller.watching().await?;
    stage.cluster("c", "", "")?;
    let message = stage.cluster_reason("c", "MaasAvailable", "MaasCertificateUntrusted").await?;
    ensure!(message.contains("give its CA to capmaas"), "{message}");
    ensure!(stage.maas.calls().is_empty(), "the key went to an unknown server");

    let ca = stage.folder().join("ca.pem");
    authority.give_to(&ca)?;
    stage.controller.kill();
    stage.controller.use_flag(&format!("--maas-ca-file={}", ca.display()));
    stage.controller.start()?;
    stage.controller.watching().await?;
    stage.cluster_reason("c", "MaasAvailable", "MaasAvailable").await?;
    stage.machine("c", &Machine::worker("w"))?;
    stage.provisioned("w").await?;
    stage.strike().await
}
