//! The fields that Cluster API reads, and those that users may not change.

use anyhow::{Context, Result, ensure};
use scenarios::{Machine, eventually};
use serde_json::{Value, json};

use crate::support::stage;

/// Both generations of the contract are served, and Cluster API acts on it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_api_finds_what_it_looks_for() -> Result<()> {
    let stage = stage("contract-fields").await?;
    stage.cluster("c", "", ", failureDomains: [az1, az2]")?;
    stage.machine("c", &Machine::worker("w"))?;
    let host = stage.provisioned("w").await?;
    let get = |kind: &str, name: &str| -> Result<Value> {
        let args = ["-n", &stage.namespace, "get", kind, name, "-o", "json"];
        Ok(serde_json::from_str(&stage.plane.kubectl(&args)?)?)
    };
    for (kind, name) in [("maascluster", "c"), ("maasmachine", "w")] {
        let status = get(kind, name)?["status"].clone();
        ensure!(status["ready"] == true, "{status}");
        ensure!(status["initialization"]["provisioned"] == true, "{status}");
    }
    let cluster = eventually("the Cluster has the failure domains", 60, async || {
        let cluster = get("clusters.cluster.x-k8s.io", "c")?;
        Ok(cluster["status"]["failureDomains"].is_array().then_some(cluster))
    })
    .await?;
    let domains: Vec<&str> = cluster["status"]["failureDomains"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|d| d["controlPlane"] == true)
        .filter_map(|d| d["name"].as_str())
        .collect();
    ensure!(domains == ["az1", "az2"], "{domains:?}");
    let machine = eventually("the Machine knows its host", 60, async || {
        let machine = get("machines.cluster.x-k8s.io", "w")?;
        Ok(machine["status"]["addresses"].is_array().then_some(machine))
    })
    .await?;
    let id = format!("maas:///{}/{}", host.zone, host.system_id);
    ensure!(machine["spec"]["providerID"] == id.as_str(), "{}", machine["spec"]);
    let addresses = machine["status"]["addresses"].to_string();
    ensure!(host.ip_addresses.iter().all(|ip| addresses.contains(ip)), "{addresses}");
    ensure!(machine["status"]["initialization"]["infrastructureProvisioned"] == true);
    stage.strike().await
}

/// The finalizers come once the owner is set, under the names that users know.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_objects_carry_finalizers_while_they_hold_something() -> Result<()> {
    let stage = stage("contract-finalizers").await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    stage.provisioned("w").await?;
    let machine = stage.machines().get("w").await?.metadata.finalizers.context("finalizers")?;
    ensure!(machine.contains(&"maasmachine.infrastructure.cluster.x-k8s.io".to_owned()));
    let cluster = stage.clusters().get("c").await?.metadata.finalizers.context("finalizers")?;
    ensure!(cluster.contains(&"maascluster.infrastructure.cluster.x-k8s.io".to_owned()));
    stage.strike().await
}

/// What cannot be changed without another machine is immutable, and the API server says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_machine_is_made_of_cannot_be_changed() -> Result<()> {
    let stage = stage("contract-immutable").await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    stage.provisioned("w").await?;
    let changes = [
        ("maasmachine", "w", "image", json!("custom/other")),
        ("maasmachine", "w", "minCPU", json!(16)),
        ("maasmachine", "w", "minMemory", json!(65536)),
        ("maascluster", "c", "dnsDomain", json!("elsewhere")),
    ];
    for (kind, name, field, value) in changes {
        let patch = json!({ "spec": { field: value } }).to_string();
        let args = ["-n", &stage.namespace, "patch", kind, name, "--type=merge", "-p", &patch];
        let refusal = stage.plane.kubectl(&args).err().context("it was accepted")?;
        let text = format!("{refusal:#}");
        ensure!(text.contains(&format!("{field} is immutable")), "{text}");
    }
    stage.strike().await
}
