//! What the gate does to calls; the simulator is the server on both sides, as the gate does not care.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use gate::{Act, Gate, Rule, Side, Upstream};
use maas_sim::{ClockMode, Inventory, Options, Simulator};

const VERSION: &str = "/MAAS/api/2.0/version/";

struct Around {
    maas: Simulator,
    gate: Gate,
    client: reqwest::Client,
}

async fn around() -> Result<Around> {
    let options = Options { clock: ClockMode::Speed(1.0), ..Options::default() };
    let maas = Simulator::start(Inventory::default(), options).await?;
    let url = format!("http://{}", maas.address());
    let upstream = || Upstream { url: &url, ca_pem: None };
    let gate = Gate::open(upstream(), upstream()).await?;
    let authority = reqwest::Certificate::from_pem(gate.certificate().as_bytes())?;
    let client = reqwest::Client::builder().tls_certs_only([authority]).no_proxy().build()?;
    Ok(Around { maas, gate, client })
}

impl Around {
    async fn version(&self) -> reqwest::Result<String> {
        let url = format!("{}{VERSION}", self.gate.maas_url());
        self.client.get(url).send().await?.error_for_status()?.text().await
    }

    /// How many calls the server has seen.
    fn reached(&self) -> usize {
        self.maas.calls().len()
    }
}

#[tokio::test]
async fn what_passes_is_written_down_with_its_answer() -> Result<()> {
    let around = around().await?;
    assert!(around.version().await?.contains("3.7"));
    let url = format!("{}{VERSION}?a=1&b=2", around.gate.kubernetes_url());
    around.client.post(url).body("text").send().await?;
    let calls = around.gate.calls();
    assert_eq!(calls.len(), 2);
    assert_eq!((calls[0].side, calls[0].method.as_str()), (Side::Maas, "GET"));
    assert_eq!((calls[0].target.as_str(), calls[0].status), (VERSION, Some(200)));
    assert_eq!((calls[1].side, calls[1].path()), (Side::Kubernetes, VERSION));
    assert_eq!((calls[1].parameter("b"), &calls[1].body[..]), (Some("2"), &b"text"[..]));
    assert!(calls[1].writes() && calls[1].number == 1);
    Ok(())
}

#[tokio::test]
async fn the_chosen_call_is_answered_by_the_gate_and_no_other() -> Result<()> {
    let around = around().await?;
    let headers = vec![("retry-after", "7".to_owned())];
    let answer = Act::Answer { status: 503, headers, body: "busy".into() };
    around.gate.add(Rule::on(Side::Maas, "GET", "/version*", answer).after(1).times(1));
    assert!(around.version().await.is_ok());
    assert_eq!(around.version().await.unwrap_err().status().map(|s| s.as_u16()), Some(503));
    assert!(around.version().await.is_ok());
    assert_eq!(around.reached(), 2);
    let calls = around.gate.calls();
    assert_eq!((calls[1].act, calls[1].status), (Some("answer"), None));
    Ok(())
}

#[tokio::test]
async fn a_connection_closes_before_or_after_the_work() -> Result<()> {
    let around = around().await?;
    around.gate.add(Rule::on(Side::Maas, "", "", Act::CloseBefore).times(1));
    around.gate.add(Rule::on(Side::Maas, "", "", Act::DropReply).after(1).times(1));
    assert!(around.version().await.is_err());
    assert_eq!(around.reached(), 0);
    assert!(around.version().await.is_err());
    assert_eq!(around.reached(), 1);
    assert!(around.version().await.is_ok());
    Ok(())
}

#[tokio::test]
async fn a_body_is_cut_half_way() -> Result<()> {
    let around = around().await?;
    around.gate.add(Rule::on(Side::Maas, "", "", Act::Truncate(5)));
    let error = around.version().await.unwrap_err();
    assert!(error.is_body() || error.is_decode() || error.is_request(), "{error:?}");
    Ok(())
}

#[tokio::test]
async fn a_call_goes_on_when_its_client_has_given_up() -> Result<()> {
    let around = around().await?;
    around.gate.add(Rule::on(Side::Maas, "", "", Act::Delay(Duration::from_millis(400))));
    let url = format!("{}{VERSION}", around.gate.maas_url());
    let early = around.client.get(url).timeout(Duration::from_millis(50)).send().await;
    assert!(early.unwrap_err().is_timeout());
    assert_eq!(around.reached(), 0);
    while around.reached() == 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

#[tokio::test]
async fn the_controller_is_dead_before_the_call_is_made_or_once_it_was() -> Result<()> {
    for (act, reached) in [(Act::KillBefore, 0), (Act::KillAfter, 1)] {
        let around = around().await?;
        let killed = Arc::new(AtomicBool::new(false));
        let flag = killed.clone();
        around.gate.kills_with(move || flag.store(true, Ordering::SeqCst));
        around.gate.add(Rule::on(Side::Maas, "", "", act).times(1));
        let mut kills = around.gate.kills();
        assert!(around.version().await.is_err());
        kills.wait_for(|kills| *kills == 1).await?;
        assert!(killed.load(Ordering::SeqCst));
        assert_eq!(around.reached(), reached);
    }
    Ok(())
}

#[tokio::test]
async fn a_server_that_is_gone_shows_as_a_closed_connection() -> Result<()> {
    let none = Upstream { url: "http://127.0.0.1:1", ca_pem: None };
    let gate = Gate::open(Upstream { ..none }, none).await?;
    assert!(reqwest::get(format!("{}{VERSION}", gate.maas_url())).await.is_err());
    assert_eq!(gate.count(), 1);
    Ok(())
}
