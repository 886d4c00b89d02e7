//! A MAAS that does not serve us.

use anyhow::{Context, Result, ensure};
use maas_sim::{CallFault, FaultAction};
use scenarios::{Machine, Stage, StageOptions, eventually};

use crate::support::{stage, stage_with};

/// The controller is given another key, as when its Secret is corrected.
async fn restart_with_key(stage: &Stage<'_>, key: &str) -> Result<()> {
    stage.controller.kill();
    stage.use_key(key);
    stage.controller.start()?;
    stage.controller.watching().await
}

/// The message with which a cluster waits for MAAS; nothing may have been done.
async fn unusable(stage: &Stage<'_>, reason: &str) -> Result<String> {
    stage.cluster("c", "", "")?;
    let message = stage.cluster_reason("c", "MaasAvailable", reason).await?;
    let status = stage.clusters().get("c").await?.status.context("a status")?;
    ensure!(!status.ready, "{status:?}");
    let done = stage.writes().into_iter().any(|c| c.status < 300);
    ensure!(!done && stage.maas.dns_records().is_empty(), "{:?}", stage.writes());
    Ok(message)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_key_is_said_to_be_wrong_and_never_shown() -> Result<()> {
    let key = |_: &maas_sim::Simulator| "aaaa:bbbb:not-the-secret".to_owned();
    let options = StageOptions { key: Some(key), ..Default::default() };
    let stage = stage_with("bad-key", options).await?;
    let message = unusable(&stage, "MaasUnauthorized").await?;
    ensure!(message.contains("check MAAS_API_KEY"), "{message}");
    ensure!(!stage.controller.log().contains("not-the-secret"), "the log shows the secret");
    let key = stage.maas.api_key();
    restart_with_key(&stage, &key).await?;
    stage.cluster_reason("c", "MaasAvailable", "MaasAvailable").await?;
    stage.machine("c", &Machine::worker("w"))?;
    stage.provisioned("w").await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b049_a_key_without_administrator_rights_is_told_what_it_lacks() -> Result<()> {
    let options =
        StageOptions { key: Some(maas_sim::Simulator::user_api_key), ..Default::default() };
    let stage = stage_with("bad-rights", options).await?;
    let message = unusable(&stage, "MaasNotAdministrator").await?;
    ensure!(
        message.contains("\"user\"") && message.contains("administrator's API key"),
        "{message}"
    );
    let key = stage.maas.api_key();
    restart_with_key(&stage, &key).await?;
    stage.machine("c", &Machine::worker("w"))?;
    stage.provisioned("w").await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_revoked_loses_no_machine() -> Result<()> {
    let stage = stage("bad-revoked").await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let host = stage.provisioned("w").await?;
    let key = stage.maas.replace_key("admin")?;
    stage.machine("c", &Machine::worker("later"))?;
    stage.reason("later", "MachineDeployed", "MaasUnauthorized").await?;
    let status = stage.machines().get("w").await?.status.context("a status")?;
    ensure!(status.ready && status.failure_reason.is_none(), "nothing is known of it: {status:?}");
    ensure!(stage.held().len() == 1, "{:?}", stage.held());
    restart_with_key(&stage, &key).await?;
    stage.provisioned("later").await?;
    ensure!(stage.provisioned("w").await?.system_id == host.system_id);
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b031_clocks_that_disagree_are_not_taken_for_a_wrong_key() -> Result<()> {
    let stage = stage("bad-clock").await?;
    stage.maas.add_fault(CallFault {
        method: None,
        path: None,
        op: None,
        skip: 0,
        count: None,
        action: FaultAction::Answer {
            status: 401,
            content_type: "text/html; charset=utf-8".into(),
            body: "Authorization Error: 'Expired timestamp: given 1 and now 1000 has a greater \
                   difference than threshold 300'"
                .into(),
            retry_after: None,
        },
    });
    let message = unusable(&stage, "MaasClockSkew").await?;
    ensure!(message.contains("set the clocks"), "{message}");
    stage.maas.clear_faults();
    stage.machine("c", &Machine::worker("w"))?;
    stage.provisioned("w").await?;
    stage.strike().await
}

/// Every connection ends without an answer, as when MAAS is down.
fn cut(stage: &Stage<'_>) {
    let action = FaultAction::CloseBefore;
    let (method, path, op) = (None, None, None);
    stage.maas.add_fault(CallFault { method, path, op, skip: 0, count: None, action });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_maas_is_away_everything_stays_as_it_is() -> Result<()> {
    let stage = stage("bad-away").await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::control_plane("cp"))?;
    stage.reason("cp", "DNSAttached", "DNSAttached").await?;
    let record = stage.maas.dns_records();
    cut(&stage);
    let message = stage.cluster_reason("c", "MaasAvailable", "MaasUnavailable").await?;
    ensure!(message.contains("check MAAS_ENDPOINT and that MAAS is up"), "{message}");
    stage.machine("c", &Machine::worker("later"))?;
    stage.reason("later", "MachineDeployed", "MaasUnavailable").await?;
    let status = stage.machines().get("cp").await?.status.context("a status")?;
    ensure!(status.ready && status.failure_reason.is_none(), "{status:?}");
    let cluster = stage.clusters().get("c").await?.status.context("a status")?;
    ensure!(cluster.ready, "a provisioned cluster stays so: {cluster:?}");

    stage.maas.clear_faults();
    stage.provisioned("later").await?;
    ensure!(stage.maas.dns_records() == record, "{:?}", stage.maas.dns_records());
    ensure!(stage.held().len() == 2, "{:?}", stage.held());
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_goes_while_maas_is_away_is_released_later() -> Result<()> {
    let stage = stage("bad-away-delete").await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    stage.provisioned("w").await?;
    cut(&stage);
    stage.delete("machines.cluster.x-k8s.io", "w")?;
    let message = stage.reason("w", "MachineDeployed", "MaasUnavailable").await?;
    ensure!(message.contains("cannot be released until then"), "{message}");
    ensure!(stage.held().len() == 1, "{:?}", stage.held());
    stage.maas.clear_faults();
    stage.gone("w").await?;
    eventually("the machine is free", 30, async || Ok(stage.held().is_empty().then_some(())))
        .await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_where_nobody_listens_is_named_as_such() -> Result<()> {
    let stage = stage("bad-endpoint").await?;
    stage.controller.kill();
    let key = stage.maas.api_key();
    let nobody = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        format!("http://{}/MAAS", listener.local_addr()?)
    };
    stage.controller.use_maas(&nobody, &key);
    stage.controller.start()?;
    stage.controller.watching().await?;
    let message = unusable(&stage, "MaasUnavailable").await?;
    ensure!(message.contains("check MAAS_ENDPOINT"), "{message}");
    restart_with_key(&stage, &key).await?;
    stage.cluster_reason("c", "MaasAvailable", "MaasAvailable").await?;
    stage.strike().await
}
