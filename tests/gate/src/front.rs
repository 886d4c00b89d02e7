//! A server behind TLS: a front that shows certificates, and who vouches for them.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use rcgen::{CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, crypto};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

/// A certificate authority.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    /// Another one, which nobody trusts yet.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn new() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        Ok(Self(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?))
    }

    /// Puts its own certificate into a file, as whoever wants it to be trusted.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn give_to(&self, file: &Path) -> Result<()> {
        Ok(std::fs::write(file, self.0.pem())?)
    }

    /// A certificate for this machine.
    ///
    /// # Errors
    /// When no certificate can be made.
    pub fn vouch(&self) -> Result<TlsAcceptor> {
        self.vouch_with(|_| {})
    }

    /// A certificate for this machine that has something special.
    ///
    /// # Errors
    /// When no certificate can be made.
    pub fn vouch_with(&self, special: impl FnOnce(&mut CertificateParams)) -> Result<TlsAcceptor> {
        let mut params = CertificateParams::new(["localhost".into(), "127.0.0.1".into()])?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        special(&mut params);
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.0)?;
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let provider = Arc::new(crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// Serves over TLS what another server serves without.
pub struct TlsFront {
    address: SocketAddr,
    acceptor: Arc<Mutex<TlsAcceptor>>,
    open: Arc<Mutex<Vec<AbortHandle>>>,
}

impl TlsFront {
    /// A front that shows this certificate.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn of(behind: SocketAddr, certificate: TlsAcceptor) -> Result<Self> {
        let acceptor = Arc::new(Mutex::new(certificate));
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
        Ok(Self { address, acceptor, open })
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Shows another certificate from now on, as after a restart.
    pub fn show(&self, certificate: TlsAcceptor) {
        *self.acceptor.lock().expect("no panic") = certificate;
        self.open.lock().expect("no panic").drain(..).for_each(|connection| connection.abort());
    }
}
