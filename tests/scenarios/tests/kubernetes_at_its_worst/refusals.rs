//! Writes that are refused, or late.

use std::time::Duration;

use anyhow::{Result, ensure};
use gate::{Act, Call, Rule, Side};
use scenarios::{Machine, Stage, eventually};
use serde_json::json;

use super::one_machine_came_of_it;
use crate::support::stage;

/// A refusal in the words of the API server.
fn refusal(code: u16, reason: &str, retry_after: Option<u32>) -> Act {
    let mut body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "refused by the scenario", "reason": reason, "code": code,
    });
    let mut headers = vec![("content-type", "application/json".to_owned())];
    if let Some(seconds) = retry_after {
        body["details"] = json!({ "retryAfterSeconds": seconds });
        headers.push(("retry-after", seconds.to_string()));
    }
    Act::Answer { status: code, headers, body: body.to_string() }
}

/// Of the writes to our objects, two of three.
fn most_writes(act: Act) -> Rule {
    let mut count = 0;
    let ours = move |call: &Call| {
        let write = call.method != "GET" && call.target.contains("/maas");
        count += usize::from(write);
        write && count % 3 != 0
    };
    Rule::when(Side::Kubernetes, ours, act)
}

fn refused(stage: &Stage<'_>) -> usize {
    stage.gate.calls().iter().filter(|c| c.act == Some("answer")).count()
}

/// The whole life of a control plane while most writes are refused.
async fn lives_through(namespace: &str, act: Act) -> Result<()> {
    let stage = stage(namespace).await?;
    stage.gate.add(most_writes(act));
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::control_plane("cp"))?;
    eventually("it is attached", 120, async || {
        let said = stage.condition("cp", "DNSAttached").await?;
        Ok(said.filter(|c| c.status == "True"))
    })
    .await?;
    one_machine_came_of_it(&stage, "cp").await?;
    ensure!(stage.maas.dns_records().len() == 1, "{:?}", stage.maas.dns_records());
    stage.delete("machines.cluster.x-k8s.io", "cp")?;
    stage.gone("cp").await?;
    ensure!(refused(&stage) >= 5, "hardly anything was refused");
    stage.gate.clear_rules();
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_conflicts_costs_no_machine() -> Result<()> {
    lives_through("kube-conflict", refusal(409, "Conflict", None)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_too_many_requests_is_asked_again() -> Result<()> {
    lives_through("kube-throttled", refusal(429, "TooManyRequests", Some(1))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_without_a_leader_is_waited_for() -> Result<()> {
    lives_through("kube-etcd", refusal(500, "InternalError", None)).await
}

/// Admission that takes its time makes everything slow, and nothing wrong.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_admission_is_waited_for() -> Result<()> {
    let stage = stage("kube-slow").await?;
    let write = |call: &Call| call.method != "GET" && call.target.contains("/maas");
    let slow = Act::Delay(Duration::from_secs(2));
    stage.gate.add(Rule::when(Side::Kubernetes, write, slow));
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    eventually("it is provisioned", 120, async || {
        let said = stage.condition("w", "MachineDeployed").await?;
        Ok(said.filter(|c| c.status == "True"))
    })
    .await?;
    one_machine_came_of_it(&stage, "w").await?;
    stage.gate.clear_rules();
    stage.strike().await
}
