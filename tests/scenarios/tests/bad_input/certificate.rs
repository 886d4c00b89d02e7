//! MAAS behind TLS, with a certificate authority of its own.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Result, ensure};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use scenarios::Machine;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::support::stage;

/// Serves `behind` over TLS with a fresh self-signed certificate: the address, and the certificate.
async fn tls_in_front_of(behind: SocketAddr) -> Result<(SocketAddr, String)> {
    let made = rcgen::generate_simple_self_signed(["localhost".into(), "127.0.0.1".into()])?;
    let pem = made.cert.pem();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der())
        .map_err(|e| anyhow::anyhow!("{e}"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)?;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut outside = acceptor.accept(socket).await.ok()?;
                let mut inside = TcpStream::connect(behind).await.ok()?;
                tokio::io::copy_bidirectional(&mut outside, &mut inside).await.ok()
            });
        }
    });
    Ok((address, pem))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_authority_is_not_trusted_until_it_is_given() -> Result<()> {
    let stage = stage("bad-certificate").await?;
    let (address, pem) = tls_in_front_of(stage.maas.address()).await?;
    let url = format!("https://{address}/MAAS");
    let key = stage.maas.api_key();
    stage.controller.kill();
    stage.controller.use_maas(&url, &key);
    stage.controller.start()?;
    stage.controller.watching().await?;
    stage.cluster("c", "", "")?;
    let message = stage.cluster_reason("c", "MaasAvailable", "MaasCertificateUntrusted").await?;
    ensure!(message.contains("give its CA to capmaas"), "{message}");
    ensure!(stage.maas.calls().is_empty(), "the key went to an unknown server");

    let ca = stage.folder().join("ca.pem");
    std::fs::write(&ca, pem)?;
    stage.controller.kill();
    stage.controller.use_flag(&format!("--maas-ca-file={}", ca.display()));
    stage.controller.start()?;
    stage.controller.watching().await?;
    stage.cluster_reason("c", "MaasAvailable", "MaasAvailable").await?;
    stage.machine("c", &Machine::worker("w"))?;
    stage.provisioned("w").await?;
    stage.strike().await
}
