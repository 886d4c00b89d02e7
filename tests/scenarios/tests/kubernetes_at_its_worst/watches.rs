//! Watches that expire, break and fall silent.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use gate::{Act, Call, Rule, Side};
use scenarios::{Machine, StageOptions, eventually};

use super::one_machine_came_of_it;
use crate::support::{stage, stage_with};

fn watch(call: &Call) -> bool {
    call.target.contains("watch=true") || call.target.contains("watch=1")
}

fn expired() -> Act {
    let body = r#"{"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version", "reason": "Expired", "code": 410}"#;
    let headers = vec![("content-type", "application/json".to_owned())];
    Act::Answer { status: 410, headers, body: body.into() }
}

/// The same in an event, as the server says it of a watch that it had let in.
fn expired_later() -> Act {
    let event = r#"{"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1", "metadata": {},
        "status": "Failure", "message": "too old resource version", "reason": "Expired", "code": 410}}"#;
    let headers = vec![("content-type", "application/json".to_owned())];
    Act::Answer { status: 200, headers, body: event.replace('\n', " ") + "\n" }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b127_a_watch_that_has_expired_begins_anew() -> Result<()> {
    begins_anew("kube-expired", expired()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b127_a_watch_that_expires_in_the_middle_begins_anew() -> Result<()> {
    begins_anew("kube-expired-later", expired_later()).await
}

/// Everything the watches knew has expired: it is listed anew, and what came meanwhile is seen.
async fn begins_anew(namespace: &str, told: Act) -> Result<()> {
    let stage = stage(namespace).await?;
    stage.cluster("c", "", "")?;
    stage.cluster_reason("c", "MaasAvailable", "MaasAvailable").await?;
    // A listing in pages may expire between two of them as well.
    let list = |call: &Call| call.method == "GET" && !watch(call) && call.target.contains("limit=");
    stage.gate.add(Rule::when(Side::Kubernetes, watch, told).times(8));
    stage.gate.add(Rule::when(Side::Kubernetes, list, expired()).times(4));
    stage.gate.cut_streams();
    stage.machine("c", &Machine::worker("w"))?;
    let provisioned = eventually("it is provisioned", 120, async || {
        let said = stage.condition("w", "MachineDeployed").await?;
        Ok(said.filter(|c| c.status == "True"))
    })
    .await;
    provisioned.with_context(|| format!("{:?}", stage.gate.calls().len()))?;
    one_machine_came_of_it(&stage, "w").await?;
    let struck = stage.gate.calls().iter().filter(|c| c.act == Some("answer")).count();
    ensure!(struck >= 4, "{struck} calls were told that they expired");
    stage.gate.clear_rules();
    stage.strike().await
}

/// The API server restarts while a machine is being deployed: it is found where it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_the_api_server_is_survived() -> Result<()> {
    let options = StageOptions { speed: 30.0, ..StageOptions::default() };
    let stage = stage_with("kube-restart", options).await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    eventually("the deployment runs", 60, async || {
        Ok(stage.held().pop().filter(|m| m.status_name == "Deploying"))
    })
    .await?;
    stage.gate.add(Rule::on(Side::Kubernetes, "", "", Act::CloseBefore));
    stage.gate.cut_streams();
    let refused = || stage.gate.calls().iter().filter(|c| c.act == Some("close-before")).count();
    eventually("it has tried", 40, async || Ok((refused() >= 6).then_some(()))).await?;
    stage.controller.check()?;
    stage.gate.clear_rules();
    eventually("it is provisioned", 90, async || {
        let said = stage.condition("w", "MachineDeployed").await?;
        Ok(said.filter(|c| c.status == "True"))
    })
    .await?;
    one_machine_came_of_it(&stage, "w").await?;
    stage.strike().await
}

/// A firewall has forgotten the watches: nothing comes over them any more, and what changes is noticed all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b125_what_happens_while_the_watches_are_silent_is_noticed() -> Result<()> {
    let stage = stage("kube-silent").await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("going"))?;
    stage.provisioned("going").await?;
    stage.gate.silence_streams();
    stage.machine("c", &Machine::worker("coming"))?;
    stage.delete("machines.cluster.x-k8s.io", "going")?;
    // The controller gives up a silent watch after 75 seconds. The rest is patience: the watch is opened and everything listed
    // anew, and then the machine is deployed, all on a computer that may be busy with other scenarios.
    eventually("the new machine is provisioned", 150, async || {
        let said = stage.condition("coming", "MachineDeployed").await?;
        Ok(said.filter(|c| c.status == "True"))
    })
    .await?;
    stage.gone("going").await?;
    tokio::time::sleep(Duration::from_millis(100)).await;
    ensure!(stage.held().len() == 1, "{:?}", stage.held());
    stage.strike().await
}
