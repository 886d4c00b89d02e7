//! MAAS behind TLS, with a certificate authority of its own.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use anyhow::{Result, ensure};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use scenarios::Machine;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

use crate::support::stage;

/// Serves a MAAS over TLS with a self-signed certificate.
pub(crate) struct TlsFront {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    acceptor: Arc<Mutex<TlsAcceptor>>,
    open: Arc<Mutex<Vec<AbortHandle>>>,
}

impl TlsFront {
    /// The front, and its certificate.
    pub(crate) async fn of(behind: SocketAddr) -> Result<(Self, String)> {
        let (acceptor, pem) = fresh_certificate()?;
        let acceptor = Arc::new(Mutex::new(acceptor));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let open = Arc::<Mutex<Vec<AbortHandle>>>::default();
        let (current, opened) = (acceptor.clone(), open.clone());
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let acceptor = current.lock().expect("no panic").clone();
                let connection = tokio::spawn(async move {
                    let mut outside = acceptor.accept(socket).await.ok()?;
                    let mut inside = TcpStream::connect(behind).await.ok()?;
                    tokio::io::copy_bidirectional(&mut outside, &mut inside).await.ok()
                });
                opened.lock().expect("no panic").push(connection.abort_handle());
            }
        });
        Ok((Self { address, acceptor, open }, pem))
    }

    /// Shows another certificate from now on, as after a restart, and returns the one before.
    pub(crate) fn show(&self, certificate: TlsAcceptor) -> TlsAcceptor {
        self.open.lock().expect("no panic").drain(..).for_each(|connection| connection.abort());
        std::mem::replace(&mut self.acceptor.lock().expect("no panic"), certificate)
    }
}

/// A certificate that nobody knows, to be shown, and in PEM.
pub(crate) fn fresh_certificate() -> Result<(TlsAcceptor, String)> {
    let made = rcgen::generate_simple_self_signed(["localhost".into(), "127.0.0.1".into()])?;
    let pem = made.cert.pem();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der())
        .map_err(|e| anyhow::anyhow!("{e}"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)?;
    Ok((TlsAcceptor::from(Arc::new(config)), pem))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b027_an_unknown_authority_is_not_trusted_until_it_is_given() -> Result<()> {
    let stage = stage("bad-certificate").await?;
    let (front, pem) = TlsFront::of(stage.maas.address()).await?;
    let url = format!("https://{}/MAAS", front.address);
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
