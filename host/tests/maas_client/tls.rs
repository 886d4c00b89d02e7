//! Encrypted connections: whose certificate is trusted.

use std::sync::Arc;

use capmaas::maas::{Client, Options};
use capmaas_core::{Category, Read, Reply};
use rcgen::{CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use super::common::{Region, allocate, crypto, failed, options};

/// A region behind a proxy that speaks TLS, and the authority that vouches for the proxy.
struct Guarded {
    region: Region,
    url: String,
    authority: String,
}

impl Guarded {
    async fn start() -> Self {
        let region = Region::start().await;
        let (authority, acceptor) = certified();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/MAAS", listener.local_addr().unwrap());
        let behind = region.maas.address();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let mut outside = acceptor.accept(stream).await?;
                    let mut inside = TcpStream::connect(behind).await?;
                    tokio::io::copy_bidirectional(&mut outside, &mut inside).await
                });
            }
        });
        Self { region, url, authority }
    }

    fn options(&self) -> Options {
        options(&self.url, &self.region.maas.api_key())
    }
}

/// An authority as PEM, and a server for 127.0.0.1 that it vouches for.
fn certified() -> (String, TlsAcceptor) {
    crypto();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    (authority.pem(), TlsAcceptor::from(Arc::new(config)))
}

#[tokio::test]
async fn an_unknown_authority_is_a_matter_of_the_certificate() {
    let guarded = Guarded::start().await;
    let client = Client::new(guarded.options()).unwrap();
    let error = failed(client.read(&Read::Zones).await);
    assert_eq!(error.category, Category::Tls, "{error:?}");
    assert!(error.endpoint_wide());
    let error = failed(client.perform(&allocate(Default::default()), None).await);
    assert_eq!(error.category, Category::Tls);
    assert!(!error.ambiguous(), "nothing was sent");
    assert_eq!(guarded.region.maas.calls(), []);
}

#[tokio::test]
async fn the_authority_of_the_ca_file_is_trusted() {
    let guarded = Guarded::start().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &guarded.authority).unwrap();
    let options = Options { ca_file: Some(file.path().to_owned()), ..guarded.options() };
    let reply = Client::new(options).unwrap().read(&Read::Version).await;
    assert_eq!(reply, Reply::Text("3.7.3".into()));
}

#[tokio::test]
async fn the_authority_of_another_ca_file_is_not() {
    let guarded = Guarded::start().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let (another, _) = certified();
    std::fs::write(file.path(), another).unwrap();
    let options = Options { ca_file: Some(file.path().to_owned()), ..guarded.options() };
    let error = failed(Client::new(options).unwrap().read(&Read::Version).await);
    assert_eq!(error.category, Category::Tls, "{error:?}");
}

#[tokio::test]
async fn any_certificate_will_do_when_the_operator_says_so() {
    let guarded = Guarded::start().await;
    let options = Options { insecure: true, ..guarded.options() };
    let reply = Client::new(options).unwrap().read(&Read::Version).await;
    assert_eq!(reply, Reply::Text("3.7.3".into()));
}
