//! MAAS sends us elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, ensure};
use gate::{Act, Rule, Side};
use scenarios::Machine;
use tokio::net::TcpListener;

use crate::support::{stage, story};

/// The key goes to MAAS_ENDPOINT and nowhere else, whatever an answer says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirect_is_not_followed() -> Result<()> {
    let stage = stage("worst-redirect").await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let elsewhere = format!("http://{}/MAAS/api/2.0/users/?op=whoami", listener.local_addr()?);
    let visits = Arc::new(AtomicUsize::new(0));
    let counted = visits.clone();
    let listening = tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::control_plane("cp"))?;
    stage.reason("cp", "DNSAttached", "DNSAttached").await?;
    stage.maas.clear_calls();
    for status in [301, 302, 307, 308] {
        let headers = vec![("location", elsewhere.clone())];
        let act = Act::Answer { status, headers, body: String::new() };
        // Only what the cluster alone reads: were every call redirected, the machine's looks might have MAAS held off before
        // the cluster sees a redirect itself.
        stage.gate.add(Rule::on(Side::Maas, "GET", "dnsresources", act));
        let message = stage.cluster_reason("c", "MaasAvailable", "MaasError").await?;
        ensure!(message.contains("MAAS redirects: is MAAS_ENDPOINT right"), "{status}: {message}");
        stage.gate.clear_rules();
        stage.cluster_reason("c", "MaasAvailable", "MaasAvailable").await?;
    }
    ensure!(visits.load(Ordering::SeqCst) == 0, "somebody else was called");
    ensure!(stage.writes().is_empty(), "{:?}", story(&stage));
    // It would have been noticed.
    tokio::net::TcpStream::connect(
        elsewhere.trim_start_matches("http://").split('/').next().unwrap_or_default(),
    )
    .await?;
    while visits.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    listening.abort();
    stage.strike().await
}
