//! Encrypted connections: whose certificate is trusted, and for how long.

use std::time::Duration;

use capmaas::maas::{Client, Options};
use capmaas_core::{CallError, Category, Read, Reply};
use gate::{Authority, TlsFront};
use maas_sim::CallFault;
use rcgen::CertificateParams;
use tokio::net::TcpListener;

use super::common::{JSON, Region, allocate, crypto, failed, machine, options};

/// A region behind a proxy that speaks TLS, and the authority that vouches for the proxy.
struct Guarded {
    region: Region,
    authority: Authority,
    front: TlsFront,
    folder: tempfile::TempDir,
}

impl Guarded {
    async fn start() -> Self {
        crypto();
        let region = Region::start().await;
        let authority = Authority::new().unwrap();
        let shown = authority.vouch().unwrap();
        let front = TlsFront::of(region.maas.address(), shown).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        Self { region, authority, front, folder }
    }

    /// Shows a certificate of this authority from now on.
    fn show(&self, of: &Authority) {
        self.front.show(of.vouch().unwrap());
    }

    /// Shows a certificate that has something special.
    fn show_with(&self, special: impl FnOnce(&mut CertificateParams)) {
        self.front.show(self.authority.vouch_with(special).unwrap());
    }

    /// Writes into the CA file that this authority is to be trusted, as an operator does.
    fn trust(&self, authority: &Authority) {
        authority.give_to(&self.ca_file()).unwrap();
    }

    fn options(&self) -> Options {
        options(&format!("{}/MAAS", self.front.url()), &self.region.maas.api_key())
    }

    fn ca_file(&self) -> std::path::PathBuf {
        self.folder.path().join("ca.crt")
    }

    /// A client that trusts whom the CA file names, for now the proxy's authority.
    fn client(&self) -> Client {
        self.trust(&self.authority);
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
    let reply = guarded.client().read(&Read::Version).await;
    assert_eq!(reply, Reply::Text("3.7.3".into()));
}

#[tokio::test]
async fn the_authority_of_another_ca_file_is_not() {
    let guarded = Guarded::start().await;
    let client = guarded.client();
    guarded.trust(&Authority::new().unwrap());
    let error = failed(client.read(&Read::Version).await);
    assert_eq!(error.category, Category::Tls, "{error:?}");
}

#[tokio::test]
async fn b027_a_new_authority_takes_the_place_of_the_old_one_when_the_file_changes() {
    let guarded = Guarded::start().await;
    let client = guarded.client();
    serves(&client).await;
    let new = Authority::new().unwrap();
    guarded.show(&new);
    refuses(&client).await;
    guarded.trust(&new);
    serves(&client).await;
    // Whoever still has the old one's signature is not MAAS any more.
    guarded.show(&guarded.authority);
    refuses(&client).await;
}

#[tokio::test]
async fn an_authority_that_is_taken_away_is_not_trusted_for_longer() {
    let guarded = Guarded::start().await;
    let client = guarded.client();
    serves(&client).await;
    // MAAS shows the same certificate, over a connection that is open: only the file has changed.
    guarded.trust(&Authority::new().unwrap());
    refuses(&client).await;
}

#[tokio::test]
async fn a_file_that_cannot_be_used_leaves_the_last_good_authority_and_is_told() {
    let guarded = Guarded::start().await;
    let client = guarded.client();
    serves(&client).await;
    std::fs::write(guarded.ca_file(), "-----BEGIN CERT").unwrap();
    guarded.show(&guarded.authority);
    serves(&client).await;
    std::fs::remove_file(guarded.ca_file()).unwrap();
    guarded.show(&guarded.authority);
    serves(&client).await;

    let new = Authority::new().unwrap();
    guarded.show(&new);
    let error = refuses(&client).await;
    assert!(error.message.contains("ca.crt"), "{error:?}");
    guarded.trust(&new);
    serves(&client).await;
    guarded.show(&Authority::new().unwrap());
    let error = refuses(&client).await;
    assert!(!error.message.contains("ca.crt"), "the file is good again: {error:?}");
}

#[tokio::test]
async fn a_certificate_that_has_expired_is_said_to_have() {
    let guarded = Guarded::start().await;
    let client = guarded.client();
    let date = rcgen::date_time_ymd;
    guarded.show_with(|p| p.not_after = date(2020, 1, 1));
    let error = refuses(&client).await;
    assert!(error.message.contains("certificate expired"), "{error:?}");
    guarded.show_with(|p| p.not_before = date(3000, 1, 1));
    is_refused_with(&client, "not valid yet").await;
    let names = CertificateParams::new(["maas.example".to_owned()]).unwrap().subject_alt_names;
    guarded.show_with(|p| p.subject_alt_names = names);
    is_refused_with(&client, "not valid for name").await;
    guarded.show(&guarded.authority);
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
