//! The story of one object in words: from its status, and from the decision log if there is one.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use capmaas_api::{Condition, Decision, MaasCluster, MaasMachine, names};
use clap::Args;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, ResourceExt};
use serde::Serialize;
use serde_json::Value;

use super::replay::lines;
use super::words::{told, word};
use super::{Output, Printing, print_json};
use crate::kube::connect;

/// An object to be explained.
#[derive(Args, Debug)]
pub struct ExplainArgs {
    /// maasmachine/NAME or maascluster/NAME, also as `kubectl get -o name` prints it.
    pub object: String,
    /// Its namespace; without it, that of the kubeconfig's context.
    #[arg(long, short)]
    pub namespace: Option<String>,
    /// A file of the controller's --decision-log, for what the object itself no longer tells. May be given several times.
    #[arg(long, value_name = "FILE")]
    pub decision_log: Vec<PathBuf>,
    /// What to print, and how.
    #[command(flatten)]
    pub printing: Printing,
}

/// What is known of an object.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Story {
    object: String,
    cluster: String,
    state: String,
    conditions: Vec<Condition>,
    decisions: Vec<Decision>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_hosts: Option<Value>,
    logged: Vec<Logged>,
}

/// A question of the decision log, and its answer.
#[derive(Serialize)]
struct Logged {
    at: u64,
    policy: String,
    question: &'static str,
    told: Vec<String>,
}

/// Tells the story.
///
/// # Errors
/// When the object cannot be read.
pub async fn explain(args: &ExplainArgs) -> Result<ExitCode> {
    let (kind, name) = args.object.split_once('/').with_context(|| {
        format!("{:?} is no object: give maasmachine/NAME or maascluster/NAME", args.object)
    })?;
    let kind = kind.split('.').next().unwrap_or_default();
    let client = connect().await?.calls;
    let namespace = args.namespace.as_deref().unwrap_or(client.default_namespace()).to_owned();
    let mut story = match kind.to_ascii_lowercase().trim_end_matches('s') {
        "maasmachine" | "mm" => of_machine(&Api::namespaced(client, &namespace).get(name).await?),
        "maascluster" | "mc" => of_cluster(&Api::namespaced(client, &namespace).get(name).await?),
        other => bail!("{other} has no story: give maasmachine/NAME or maascluster/NAME"),
    };
    for log in &args.decision_log {
        for line in lines(log)? {
            let line = line?;
            let (kind, its_namespace, of) = line.object();
            let ours = story.object.starts_with(kind) && !kind.is_empty();
            if !ours || its_namespace != namespace || of != name {
                continue;
            }
            for (ask, given) in line.asked() {
                let policy = if ask.policy.is_empty() { "built-in" } else { &ask.policy };
                let told = match &given {
                    Ok(answer) => told(&ask.question, answer),
                    Err(refused) => vec![refused.to_string()],
                };
                let (at, policy, question) = (line.at, policy.to_owned(), word(&ask.question));
                story.logged.push(Logged { at, policy, question, told });
            }
        }
    }
    match args.printing.output {
        Output::Json => print_json(&story)?,
        Output::Text => tell(&story),
    }
    Ok(ExitCode::SUCCESS)
}

fn of_machine(object: &MaasMachine) -> Story {
    let status = object.status.clone().unwrap_or_default();
    let id = object.spec.system_id.clone().unwrap_or_default();
    let state = match &status.hostname {
        Some(host) => format!(
            "{} on {host} ({id}), zone {}",
            status.machine_state.as_deref().unwrap_or("unknown"),
            status.failure_domain.as_deref().unwrap_or("unknown")
        ),
        None => "holds no machine".into(),
    };
    let failed = object.annotations().get(names::FAILED_HOSTS_ANNOTATION);
    Story {
        object: format!("MaasMachine {}", object.name_any()),
        cluster: object.labels().get(names::CLUSTER_NAME_LABEL).cloned().unwrap_or_default(),
        state,
        conditions: status.conditions.unwrap_or_default(),
        decisions: status.decisions.unwrap_or_default(),
        failed_hosts: failed.and_then(|text| serde_json::from_str(text).ok()),
        logged: vec![],
    }
}

fn of_cluster(object: &MaasCluster) -> Story {
    let status = object.status.clone().unwrap_or_default();
    let network = status.network.unwrap_or_default();
    let addresses = network.addresses.unwrap_or_default();
    let state = match network.dns_name {
        Some(name) => format!("{name} leads to {}", listed(&addresses)),
        None => "has no name yet".into(),
    };
    Story {
        object: format!("MaasCluster {}", object.name_any()),
        cluster: object.labels().get(names::CLUSTER_NAME_LABEL).cloned().unwrap_or_default(),
        state,
        conditions: status.conditions.unwrap_or_default(),
        decisions: status.decisions.unwrap_or_default(),
        failed_hosts: None,
        logged: vec![],
    }
}

fn listed(addresses: &[String]) -> String {
    if addresses.is_empty() { "nothing yet".into() } else { addresses.join(", ") }
}

fn when(at: i64) -> String {
    Timestamp::from_second(at).map_or_else(|_| at.to_string(), |t| t.to_string())
}

fn tell(story: &Story) {
    let Story { object, cluster, state, conditions, decisions, failed_hosts, logged } = story;
    println!("{object} of cluster {cluster}: {state}");
    let open = conditions.iter().filter(|c| c.status != "True");
    for c in open.filter(|c| !["Ready", "Paused", "Deleting"].contains(&c.kind.as_str())) {
        let message = c.message.as_deref().unwrap_or_default();
        println!(
            "  waits: {} is {} ({}): {message}",
            c.kind,
            c.status,
            c.reason.as_deref().unwrap_or_default()
        );
    }
    for d in decisions {
        let by = d.by.as_deref().unwrap_or("built-in");
        let digest = d.digest.strip_prefix("sha256:").unwrap_or(&d.digest);
        let digest = digest.get(..12).unwrap_or(digest);
        println!(
            "  {} {}: {by} ({}, sha256:{digest}) decided: {}",
            when(d.at),
            d.kind,
            d.policy,
            d.answer
        );
        if let Some(reason) = &d.reason {
            println!("      because: {reason}");
        }
    }
    for host in failed_hosts.iter().filter_map(Value::as_array).flatten() {
        println!("  failed before: {host}");
    }
    for l in logged {
        let at = when(i64::try_from(l.at).unwrap_or(i64::MAX));
        println!("  {at} {} was asked to {}:", l.policy, l.question);
        l.told.iter().for_each(|line| println!("      {line}"));
    }
    if decisions.is_empty() && logged.is_empty() {
        println!("  no policy was asked yet");
    }
}
