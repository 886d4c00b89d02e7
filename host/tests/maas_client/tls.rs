//! Encrypted connections: whose certificate is trusted.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use capmaas::maas::{Client, Options};
use capmaas_core::{Category, Read, Reply};
use maas_sim::CallFault;
use rcgen::{CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use super::common::{JSON, Region, allocate, crypto, failed, machine, options};

/// A region behind a proxy that speaks TLS, and the authority that vouches for the proxy.
struct Guarded {
    region: Region,
    url: String,
    authority: String,
    shown: Arc<Mutex<TlsAcceptor>>,
    open: Arc<Mutex<Vec<AbortHandle>>>,
}

impl Guarded {
    async fn start() -> Self {
        let region = Region::start().await;
        let (authority, acceptor) = certified();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/MAAS", listener.local_addr().unwrap());
        let behind = region.maas.address();
        let shown = Arc::new(Mutex::new(acceptor));
        let now = shown.clone();
        let open = Arc::<Mutex<Vec<AbortHandle>>>::default();
        let opened = open.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = now.lock().unwrap().clone();
                let connection = tokio::spawn(async move {
                    let mut outside = acceptor.accept(stream).await?;
                    let mut inside = TcpStream::connect(behind).await?;
                    tokio::io::copy_bidirectional(&mut outside, &mut inside).await
                });
                opened.lock().unwrap().push(connection.abort_handle());
            }
        });
        Self { region, url, authority, shown, open }
    }

    /// Another authority vouches for the proxy from now on; its certificate in PEM.
    fn is_vouched_for_anew(&self) -> String {
        let (authority, acceptor) = certified();
        *self.shown.lock().unwrap() = acceptor;
        self.open.lock().unwrap().drain(..).for_each(|connection| connection.abort());
        authority
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
async fn b027_an_unknown_authority_is_a_matter_of_the_certificate() {
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
async fn b027_the_authority_of_the_ca_file_is_trusted() {
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

/// The operator replaces the file and MAAS's certificate; which comes first does not matter.
#[tokio::test]
async fn b027_an_authority_that_is_replaced_in_its_file_is_trusted_without_a_restart() {
    let guarded = Guarded::start().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &guarded.authority).unwrap();
    let options = Options { ca_file: Some(file.path().to_owned()), ..guarded.options() };
    let client = Client::new(options).unwrap();
    assert!(matches!(client.read(&Read::Zones).await, Reply::Names(_)));
    let authority = guarded.is_vouched_for_anew();
    let zones = || client.read(&Read::Zones);
    // The connection that was in use may only break at first.
    while failed(zones().await).category != Category::Tls {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // Half a file is none, and changes nothing.
    std::fs::write(file.path(), &authority[..40]).unwrap();
    assert_eq!(failed(zones().await).category, Category::Tls);
    std::fs::write(file.path(), &authority).unwrap();
    let mut tries = 0;
    while let Reply::Failed(error) = zones().await {
        assert_eq!(error.category, Category::Tls);
        tries += 1;
        assert!(tries < 100, "{error:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// MAAS behind a proxy shows links that begin with http.
#[tokio::test]
async fn b025_every_call_stays_on_https_whatever_links_maas_shows() {
    let guarded = Guarded::start().await;
    let options = Options { insecure: true, ..guarded.options() };
    let client = Client::new(options).unwrap();
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let body = format!(
        r#"{{"system_id": "abc123", "status_name": "Ready",
            "resource_uri": "http://{}/MAAS/api/2.0/machines/abc123/"}}"#,
        elsewhere.local_addr().unwrap()
    );
    let region = &guarded.region;
    region.answers(|a| CallFault::on("GET", "^/machines/abc123/$", a), (200, JSON, &body));
    assert_eq!(machine(client.read(&Read::Machine("abc123".into())).await).system_id, "abc123");
    let took = machine(client.perform(&allocate(Default::default()), None).await);
    machine(client.read(&Read::Machine(took.system_id)).await);
    // All of it went through the proxy, and nobody has called there.
    assert_eq!(region.maas.calls().len(), 3);
    let called = tokio::time::timeout(Duration::from_millis(50), elsewhere.accept()).await;
    assert!(called.is_err(), "somebody followed the link");
}

#[tokio::test]
async fn any_certificate_will_do_when_the_operator_says_so() {
    let guarded = Guarded::start().await;
    let options = Options { insecure: true, ..guarded.options() };
    let reply = Client::new(options).unwrap().read(&Read::Version).await;
    assert_eq!(reply, Reply::Text("3.7.3".into()));
}
