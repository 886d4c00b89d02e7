//! Encrypted connections: whose certificate is trusted, and for how long.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use capmaas::maas::{Client, Options};
use capmaas_core::{CallError, Category, Read, Reply};
use rcgen::{CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use super::common::{Region, allocate, crypto, failed, options};

/// Who vouches for a region's proxy.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Writes its certificate, as an operator who wants it to be trusted.
    fn write_to(&self, file: &Path) {
        std::fs::write(file, self.0.pem()).unwrap();
    }

    /// A server for 127.0.0.1.
    fn server(&self) -> TlsAcceptor {
        self.server_with(|_| {})
    }

    fn server_with(&self, special: impl FnOnce(&mut CertificateParams)) -> TlsAcceptor {
        crypto();
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        special(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// A region behind a proxy that speaks TLS, and the authority that vouches for the proxy.
struct Guarded {
    region: Region,
    url: String,
    authority: Authority,
    shown: Arc<Mutex<TlsAcceptor>>,
    open: Arc<Mutex<Vec<AbortHandle>>>,
    folder: tempfile::TempDir,
}

impl Guarded {
    async fn start() -> Self {
        let region = Region::start().await;
        let authority = Authority::new();
        let shown = Arc::new(Mutex::new(authority.server()));
        let open = Arc::<Mutex<Vec<AbortHandle>>>::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/MAAS", listener.local_addr().unwrap());
        let behind = region.maas.address();
        let (current, opened) = (shown.clone(), open.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = current.lock().unwrap().clone();
                let connection = tokio::spawn(async move {
                    let mut outside = acceptor.accept(stream).await?;
                    let mut inside = TcpStream::connect(behind).await?;
                    tokio::io::copy_bidirectional(&mut outside, &mut inside).await
                });
                opened.lock().unwrap().push(connection.abort_handle());
            }
        });
        let folder = tempfile::tempdir().unwrap();
        Self { region, url, authority, shown, open, folder }
    }

    /// Shows another certificate from now on, as after a restart.
    fn show(&self, server: TlsAcceptor) {
        *self.shown.lock().unwrap() = server;
        self.open.lock().unwrap().drain(..).for_each(|connection| connection.abort());
    }

    fn options(&self) -> Options {
        options(&self.url, &self.region.maas.api_key())
    }

    fn ca_file(&self) -> std::path::PathBuf {
        self.folder.path().join("ca.crt")
    }

    /// A client that trusts whom the CA file names, for now the proxy's authority.
    fn client(&self) -> Client {
        self.authority.write_to(&self.ca_file());
        Client::new(Options { ca_file: Some(self.ca_file()), ..self.options() }).unwrap()
    }
}

/// Asks until MAAS serves: after a refusal it is left in peace for a moment.
async fn serves(client: &Client) {
    for _ in 0..300 {
        match client.read(&Read::Zones).await {
            Reply::Failed(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            _ => return,
        }
    }
    panic!("{:?}", client.read(&Read::Zones).await);
}

/// Asks until the certificate is refused: a connection that just broke says nothing of it.
async fn refuses(client: &Client) -> CallError {
    for _ in 0..300 {
        match client.read(&Read::Zones).await {
            Reply::Failed(error) if error.category == Category::Tls => return error,
            _ => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
    panic!("{:?}", client.read(&Read::Zones).await);
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
    let reply = guarded.client().read(&Read::Version).await;
    assert_eq!(reply, Reply::Text("3.7.3".into()));
}

#[tokio::test]
async fn the_authority_of_another_ca_file_is_not() {
    let guarded = Guarded::start().await;
    let client = guarded.client();
    Authority::new().write_to(&guarded.ca_file());
    let error = failed(client.read(&Read::Version).await);
    assert_eq!(error.category, Category::Tls, "{error:?}");
}

#[tokio::test]
async fn a_new_authority_takes_the_place_of_the_old_one_when_the_file_changes() {
    let guarded = Guarded::start().await;
    let client = guarded.client();
    serves(&client).await;
    let new = Authority::new();
    guarded.show(new.server());
    refuses(&client).await;
    new.write_to(&guarded.ca_file());
    serves(&client).await;
    // Whoever still has the old one's signature is not MAAS any more.
    guarded.show(guarded.authority.server());
    refuses(&client).await;
}

#[tokio::test]
async fn an_authority_that_is_taken_away_is_not_trusted_for_longer() {
    let guarded = Guarded::start().await;
    let client = guarded.client();
    serves(&client).await;
    // MAAS shows the same certificate, over a connection that is open: only the file has changed.
    Authority::new().write_to(&guarded.ca_file());
    refuses(&client).await;
}

#[tokio::test]
async fn a_file_that_cannot_be_used_leaves_the_last_good_authority_and_is_told() {
    let guarded = Guarded::start().await;
    let client = guarded.client();
    serves(&client).await;
    std::fs::write(guarded.ca_file(), "-----BEGIN CERT").unwrap();
    guarded.show(guarded.authority.server());
    serves(&client).await;
    std::fs::remove_file(guarded.ca_file()).unwrap();
    guarded.show(guarded.authority.server());
    serves(&client).await;

    let new = Authority::new();
    guarded.show(new.server());
    let error = refuses(&client).await;
    assert!(error.message.contains("ca.crt"), "{error:?}");
    new.write_to(&guarded.ca_file());
    serves(&client).await;
    guarded.show(Authority::new().server());
    let error = refuses(&client).await;
    assert!(!error.message.contains("ca.crt"), "the file is good again: {error:?}");
}

#[tokio::test]
async fn a_certificate_that_has_expired_is_said_to_have() {
    let guarded = Guarded::start().await;
    let client = guarded.client();
    let date = rcgen::date_time_ymd;
    guarded.show(guarded.authority.server_with(|p| p.not_after = date(2020, 1, 1)));
    let error = refuses(&client).await;
    assert!(error.message.contains("certificate expired"), "{error:?}");
    guarded.show(guarded.authority.server_with(|p| p.not_before = date(3000, 1, 1)));
    is_refused_with(&client, "not valid yet").await;
    let names = CertificateParams::new(["maas.example".to_owned()]).unwrap().subject_alt_names;
    guarded.show(guarded.authority.server_with(|p| p.subject_alt_names = names));
    is_refused_with(&client, "not valid for name").await;
    guarded.show(guarded.authority.server());
    serves(&client).await;
}

/// Asks until the refusal has these words.
async fn is_refused_with(client: &Client, words: &str) {
    for _ in 0..300 {
        if refuses(client).await.message.contains(words) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{:?}", refuses(client).await);
}

#[tokio::test]
async fn any_certificate_will_do_when_the_operator_says_so() {
    let guarded = Guarded::start().await;
    let options = Options { insecure: true, ..guarded.options() };
    let reply = Client::new(options).unwrap().read(&Read::Version).await;
    assert_eq!(reply, Reply::Text("3.7.3".into()));
}
