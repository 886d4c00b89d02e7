//! Every call gets an answer that is none.

use anyhow::{Context, Result, ensure};
use gate::{Act, Rule, Side};
use maas_sim::{CallFault, FaultAction};
use scenarios::{Machine, Stage, eventually};

use crate::support::{bootstrap_of, stage, story};

/// From now on this is what becomes of every call to MAAS.
fn everything(stage: &Stage<'_>, act: Act) {
    stage.gate.clear_rules();
    stage.gate.add(Rule::on(Side::Maas, "", "", act));
}

fn answer(status: u16, kind: &str, body: &str) -> Act {
    let headers = vec![("content-type", kind.to_owned())];
    Act::Answer { status, headers, body: body.into() }
}

/// A cluster with a control plane stays as it is through bad answers of each kind, says so, and recovers from each.
async fn survives(namespace: &str, bad: Vec<(Act, &[&str], &str)>) -> Result<()> {
    let stage = stage(namespace).await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::control_plane("cp"))?;
    stage.reason("cp", "DNSAttached", "DNSAttached").await?;
    let (host, records) = (stage.provisioned("cp").await?, stage.maas.dns_records());
    stage.maas.clear_calls();
    for (act, reasons, words) in bad {
        everything(&stage, act.clone());
        let message = eventually(&format!("{act:?} is reported"), 40, async || {
            let said =
                stage.cluster_condition("c", "MaasAvailable").await?.context("it is there")?;
            let reason = said.reason.unwrap_or_default();
            Ok(reasons.contains(&reason.as_str()).then_some(said.message.unwrap_or_default()))
        })
        .await?;
        ensure!(message.contains(words), "{act:?}: {message}");
        let machine = stage.machines().get("cp").await?.status.context("a status")?;
        ensure!(machine.ready && machine.failure_reason.is_none(), "{act:?}: {machine:?}");
        ensure!(stage.clusters().get("c").await?.status.context("a status")?.ready, "{act:?}");
        stage.gate.clear_rules();
        stage.cluster_reason("c", "MaasAvailable", "MaasAvailable").await?;
    }
    ensure!(stage.writes().is_empty(), "{:?}", story(&stage));
    ensure!(stage.maas.dns_records() == records && stage.held().len() == 1);
    stage.machine("c", &Machine::worker("w"))?;
    stage.provisioned("w").await?;
    ensure!(stage.provisioned("cp").await?.system_id == host.system_id);
    stage.strike().await
}

const HTML: &str = "text/html";
const PAGE: &str = "<html><h1>Bad Gateway</h1></html>";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_a_proxy_are_survived() -> Result<()> {
    let headers = vec![("content-type", HTML.to_owned()), ("retry-after", "2".to_owned())];
    let busy = Act::Answer { status: 503, headers, body: PAGE.into() };
    let unavailable: &[&str] = &["MaasUnavailable"];
    let error: &[&str] = &["MaasError", "MaasUnavailable"];
    let bad = vec![
        (busy, unavailable, "check MAAS_ENDPOINT"),
        (answer(502, HTML, PAGE), unavailable, "HTTP 502"),
        (answer(500, HTML, PAGE), error, "HTTP 500"),
        (answer(200, HTML, PAGE), error, "is MAAS_ENDPOINT a MAAS?"),
    ];
    survives("worst-pages", bad).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_are_garbled_are_survived() -> Result<()> {
    let error: &[&str] = &["MaasError", "MaasUnavailable"];
    let json = "application/json";
    let bad = vec![
        (Act::Truncate(7), error, "MAAS"),
        (answer(200, json, ""), error, "MAAS answered"),
        (answer(200, json, "null"), error, "MAAS answered"),
        (answer(200, json, "[]"), error, "MAAS answered"),
        (answer(200, json, "{\"username\": null}"), error, "MAAS answered"),
    ];
    survives("worst-garbled", bad).await
}

/// Bodies that trickle in are waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_bodies_are_waited_for() -> Result<()> {
    let stage = stage("worst-slow").await?;
    for method in ["GET", "POST", "PUT"] {
        let slow = FaultAction::SlowBody { ms: 1500 };
        stage.maas.add_fault(CallFault::on(method, "/machines/", slow));
    }
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let host = stage.provisioned("w").await?;
    ensure!(host.deploys == 1 && host.user_data == Some(bootstrap_of("w")), "{host:?}");
    ensure!(stage.calls("allocate").len() == 1, "{:?}", story(&stage));
    stage.maas.clear_faults();
    stage.strike().await
}
