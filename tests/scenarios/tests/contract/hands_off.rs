//! What must be left alone: paused, externally managed, filtered, ownerless, elsewhere.

use anyhow::{Result, ensure};
use maas_sim::OperatorAct;
use scenarios::{Machine, Stage, StageOptions, eventually};
use serde_json::json;

use crate::support::{stage, stage_with, story};

const PAUSED: &str = "cluster.x-k8s.io/paused";

fn kubectl(stage: &Stage<'_>, args: &[&str]) -> Result<String> {
    stage.plane.kubectl(&[&["-n", &stage.namespace][..], args].concat())
}

fn pause_cluster(stage: &Stage<'_>, paused: bool) -> Result<()> {
    let patch = json!({ "spec": { "paused": paused } }).to_string();
    kubectl(stage, &["patch", "clusters.cluster.x-k8s.io", "c", "--type=merge", "-p", &patch])
        .map(drop)
}

async fn said_to_be_paused(stage: &Stage<'_>, machine: &str, paused: bool) -> Result<()> {
    let (reason, status) = if paused { ("Paused", "True") } else { ("NotPaused", "False") };
    stage.reason(machine, "Paused", reason).await?;
    let condition = stage.condition(machine, "Paused").await?;
    ensure!(condition.is_some_and(|c| c.status == status));
    Ok(())
}

/// Lets twice the time pass in which a settled machine is looked at.
async fn time_passes(stage: &Stage<'_>) -> Result<()> {
    let start = std::time::Instant::now();
    eventually("time has passed", 60, async || {
        stage.check()?;
        Ok((start.elapsed().as_secs() >= 11).then_some(()))
    })
    .await
}

/// Pausing the Cluster stops everything: a machine that is off stays off, until it is resumed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b095_a_paused_cluster_is_left_alone() -> Result<()> {
    let stage = stage("hands-off-paused").await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::control_plane("cp"))?;
    stage.reason("cp", "DNSAttached", "DNSAttached").await?;
    let host = stage.provisioned("cp").await?;
    pause_cluster(&stage, true)?;
    said_to_be_paused(&stage, "cp", true).await?;
    stage.cluster_reason("c", "Paused", "Paused").await?;
    stage.maas.clear_calls();
    stage.maas.operator(&host.system_id, OperatorAct::PowerOff)?;
    time_passes(&stage).await?;
    ensure!(stage.writes().is_empty(), "{:?}", story(&stage));
    pause_cluster(&stage, false)?;
    said_to_be_paused(&stage, "cp", false).await?;
    eventually("it is powered on", 60, async || Ok(stage.calls("power_on").pop())).await?;
    stage.provisioned("cp").await?;
    stage.strike().await
}

/// Paused is asked before deleted: `clusterctl move` deletes paused objects, and their machines
/// must live on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_machine_that_is_deleted_keeps_its_host() -> Result<()> {
    let stage = stage("hands-off-delete").await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    stage.provisioned("w").await?;
    kubectl(&stage, &["annotate", "maasmachine", "w", &format!("{PAUSED}=true")])?;
    said_to_be_paused(&stage, "w", true).await?;
    stage.maas.clear_calls();
    kubectl(&stage, &["delete", "maasmachine", "w", "--wait=false"])?;
    time_passes(&stage).await?;
    ensure!(stage.writes().is_empty() && stage.held().len() == 1, "{:?}", story(&stage));
    ensure!(stage.machines().get_opt("w").await?.is_some(), "the finalizer holds it");
    kubectl(&stage, &["annotate", "maasmachine", "w", &format!("{PAUSED}-")])?;
    stage.gone("w").await?;
    ensure!(stage.calls("release").len() == 1, "{:?}", story(&stage));
    stage.strike().await
}

/// `cluster.x-k8s.io/managed-by`: somebody else makes the infrastructure.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_somebody_else_manages_is_left_alone() -> Result<()> {
    let stage = stage("hands-off-managed").await?;
    stage.apply(
        "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\n\
         kind: MaasCluster\n\
         metadata: {name: c, annotations: {cluster.x-k8s.io/managed-by: somebody}}\n\
         spec: {dnsDomain: maas}\n",
    )?;
    stage.cluster("other", "", "")?;
    stage.apply(
        "apiVersion: cluster.x-k8s.io/v1beta2\n\
         kind: Cluster\n\
         metadata: {name: c}\n\
         spec:\n\
         \x20 infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: MaasCluster, name: c}\n",
    )?;
    eventually("Cluster API owns both", 60, async || {
        let managed = stage.clusters().get("c").await?.metadata.owner_references;
        let named = stage.maas.dns_records().len() == 1;
        Ok((managed.is_some() && named).then_some(()))
    })
    .await?;
    time_passes(&stage).await?;
    let object = stage.clusters().get("c").await?;
    let ours = |f: &String| f.starts_with("maascluster.");
    ensure!(!object.metadata.finalizers.unwrap_or_default().iter().any(ours));
    ensure!(object.status.is_none_or(|s| !s.ready && s.conditions.is_none()));
    ensure!(stage.maas.dns_records().len() == 1, "{:?}", stage.maas.dns_records());
    stage.strike().await
}

/// With `--watch-filter` only labelled objects are ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_lacks_the_watch_filter_label_is_left_alone() -> Result<()> {
    let args = vec!["--watch-filter=mine".to_owned()];
    let stage = stage_with("hands-off-filter", StageOptions { args, ..Default::default() }).await?;
    let cluster = |name: &str, labels: &str| {
        format!(
            "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\n\
             kind: MaasCluster\n\
             metadata: {{name: {name}, labels: {{{labels}}}}}\n\
             spec: {{dnsDomain: maas}}\n\
             ---\n\
             apiVersion: cluster.x-k8s.io/v1beta2\n\
             kind: Cluster\n\
             metadata: {{name: {name}}}\n\
             spec:\n\
             \x20 infrastructureRef: {{apiGroup: infrastructure.cluster.x-k8s.io, kind: MaasCluster, name: {name}}}\n"
        )
    };
    stage.apply(&cluster("theirs", "cluster.x-k8s.io/watch-filter: other"))?;
    stage.apply(&cluster("nobodys", ""))?;
    stage.apply(&cluster("ours", "cluster.x-k8s.io/watch-filter: mine"))?;
    stage.cluster_reason("ours", "MaasAvailable", "MaasAvailable").await?;
    time_passes(&stage).await?;
    for name in ["theirs", "nobodys"] {
        let object = stage.clusters().get(name).await?;
        ensure!(object.status.is_none_or(|s| s.conditions.is_none()), "{name}");
    }
    let records = stage.maas.dns_records();
    ensure!(records.len() == 1 && records[0].fqdn.starts_with("ours-"), "{records:?}");
    stage.strike().await
}

/// With `--namespace` nothing in another namespace is touched.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_namespace_is_left_alone() -> Result<()> {
    let stage = stage("hands-off-here").await?;
    let elsewhere = "hands-off-elsewhere";
    stage.plane.create_namespace(elsewhere)?;
    let yaml = "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\n\
                kind: MaasCluster\n\
                metadata: {name: c}\n\
                spec: {dnsDomain: maas}\n\
                ---\n\
                apiVersion: cluster.x-k8s.io/v1beta2\n\
                kind: Cluster\n\
                metadata: {name: c}\n\
                spec:\n\
                \x20 infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: MaasCluster, name: c}\n";
    stage.plane.apply(elsewhere, yaml)?;
    stage.cluster("here", "", "")?;
    stage.cluster_reason("here", "MaasAvailable", "MaasAvailable").await?;
    time_passes(&stage).await?;
    let path = "jsonpath={.metadata.finalizers}{.status}";
    let text = stage.plane.kubectl(&["-n", elsewhere, "get", "maascluster", "c", "-o", path])?;
    ensure!(!text.contains("maascluster.infrastructure") && !text.contains("ready"), "{text}");
    ensure!(stage.maas.dns_records().len() == 1, "{:?}", stage.maas.dns_records());
    stage.plane.kubectl(&["delete", "namespace", elsewhere, "--wait=false"])?;
    stage.strike().await
}

/// Before Cluster API has set the owner reference nothing is written, not even a finalizer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b099_an_object_without_an_owner_is_left_alone() -> Result<()> {
    let stage = stage("hands-off-ownerless").await?;
    stage.cluster("c", "", "")?;
    stage.apply(
        "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\n\
         kind: MaasMachine\n\
         metadata: {name: lonely, labels: {cluster.x-k8s.io/cluster-name: c}}\n\
         spec: {minCPU: 2, minMemory: 4096, image: custom/u-2404-k8s}\n",
    )?;
    stage.cluster_reason("c", "MaasAvailable", "MaasAvailable").await?;
    time_passes(&stage).await?;
    let object = stage.machines().get("lonely").await?;
    ensure!(object.metadata.finalizers.is_none(), "{:?}", object.metadata);
    ensure!(object.metadata.annotations.unwrap_or_default().keys().all(|k| !k.contains("capmaas")));
    ensure!(object.status.is_none() && stage.calls("allocate").is_empty());
    stage.strike().await
}
