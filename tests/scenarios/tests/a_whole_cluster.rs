//! A user applies a Cluster with a KubeadmControlPlane and a MachineDeployment.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use control_plane::{Boot, Workload};
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use scenarios::{
    ClusterShape, Stage, StageOptions, component, eventually, kubeadm_cluster, scalable,
};

use crate::support::story;

const SHAPE: ClusterShape<'static> = ClusterShape {
    name: "whole",
    control_planes: 3,
    workers: 2,
    zones: &["az1", "az2"],
    image: "custom/u-2404-k8s",
    control_plane_size: (4, 8192),
    worker_size: (8, 16384),
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b093_a_cluster_comes_up_grows_is_saved_and_goes_and_leaves_nothing() -> Result<()> {
    let plane = super::plane();
    let stage = Stage::set(plane, "whole-cluster", StageOptions::default()).await?;
    let workload = Workload::start(plane, "whole")?;
    workload.publish(&stage.client, &stage.namespace, SHAPE.name).await?;
    let follower = workload.follow(plane, Arc::clone(&stage.maas), &stage.namespace, SHAPE.name)?;
    stage.apply(&kubeadm_cluster(&SHAPE))?;

    running(&stage, 5, 240).await?;
    ensure!(stage.held().len() == 5, "{:?}", stage.held());
    let records = stage.maas.dns_records();
    ensure!(records.len() == 1 && records[0].ttl == Some(10), "{records:?}");
    ensure!(records[0].fqdn.starts_with("whole-") && records[0].fqdn.ends_with(".maas"));
    eventually("three addresses in the record", 30, async || {
        Ok((stage.maas.dns_records()[0].addresses.len() == 3).then_some(()))
    })
    .await?;
    let boots = follower.boots();
    let inits = boots.values().filter(|b| **b == Boot::Init).count();
    ensure!(inits == 1 && boots.len() == 5, "{boots:?}");
    every_node_has_its_provider_id(&workload, 5).await?;

    let scale = ["-n", &stage.namespace, "scale", &scalable(SHAPE.name), "--replicas=3"];
    plane.kubectl(&scale)?;
    running(&stage, 6, 90).await?;
    let held: std::collections::BTreeSet<_> =
        stage.held().into_iter().map(|m| m.system_id).collect();
    ensure!(held.len() == 6, "{held:?}");
    ensure!(follower.violations().is_empty(), "{:?}", follower.violations());
    is_saved(&stage).await?;

    plane.kubectl(&["-n", &stage.namespace, "delete", "cluster", "whole", "--wait=false"])?;
    eventually("all machines are gone", 180, async || {
        Ok(stage.machine_names().await?.is_empty().then_some(()))
    })
    .await?;
    stage.strike().await?;
    follower.stop();
    Ok(())
}

/// `clusterctl move` finds every object of ours, the bootstrap data beside them, and the component that a policy comes from,
/// if its ConfigMap is labelled; MAAS hears nothing of it.
async fn is_saved(stage: &Stage<'_>) -> Result<()> {
    // As `clusterctl init` labels Cluster API's kinds; ours bring the label along.
    let label = "clusterctl.cluster.x-k8s.io=";
    for group in ["cluster-api", "bootstrap-kubeadm", "control-plane-kubeadm"] {
        let of = format!("cluster.x-k8s.io/provider={group}");
        stage.plane.kubectl(&["label", "--overwrite", "crd", "-l", &of, label])?;
    }
    stage.component_in_config_map("spread", &component("allocation-zone-spread")?)?;
    stage.policy("spread", "kind: Allocation, source: {configMap: {name: spread}}")?;
    let along = "clusterctl.cluster.x-k8s.io/move=";
    stage.plane.kubectl(&["-n", &stage.namespace, "label", "configmap", "spread", along])?;
    stage.maas.clear_calls();
    let folder = stage.folder().join("moved");
    std::fs::create_dir(&folder)?;
    let path = folder.to_str().context("a path in UTF-8")?;
    stage.plane.clusterctl(&["move", "-n", &stage.namespace, "--to-directory", path])?;
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&folder)? {
        files.push(entry?.file_name().to_string_lossy().into_owned());
    }
    let ours = ours(stage)?;
    ensure!(ours.iter().filter(|o| o.starts_with("maasmachine.")).count() == 6, "{ours:?}");
    for object in &ours {
        let name = object.rsplit('/').next().context("a name")?;
        let file = |f: &&String| f.starts_with("Maas") && f.ends_with(&format!("_{name}.yaml"));
        ensure!(files.iter().any(|f| file(&f)), "{object} was left behind: {files:?}");
    }
    let source = |f: &String| f.starts_with("ConfigMap_") && f.ends_with("_spread.yaml");
    ensure!(files.iter().any(source), "the component was left behind: {files:?}");
    let secrets = files.iter().filter(|f| f.starts_with("Secret_")).count();
    ensure!(secrets >= 6, "bootstrap data was left behind: {files:?}");
    running(stage, 6, 120).await?;
    let wrote: Vec<String> = story(stage);
    ensure!(wrote.is_empty() && stage.held().len() == 6, "{wrote:?}");
    Ok(())
}

/// Kinds and names of all objects of ours, in order.
fn ours(stage: &Stage<'_>) -> Result<Vec<String>> {
    let kinds = "maasclusters,maasmachines,maasmachinetemplates,maasclustertemplates,maaspolicies";
    let text = stage.plane.kubectl(&["-n", &stage.namespace, "get", kinds, "-o", "name"])?;
    Ok(text.lines().map(str::to_owned).collect())
}

async fn running(stage: &Stage<'_>, wanted: usize, seconds: u64) -> Result<()> {
    eventually(&format!("{wanted} machines run"), seconds, async || {
        let args = ["-n", &stage.namespace, "get", "machines.cluster.x-k8s.io", "-o"];
        let path = "jsonpath={range .items[*]}{.status.phase}{\"\\n\"}{end}";
        let phases = stage.plane.kubectl(&[&args[..], &[path]].concat())?;
        Ok((phases.lines().filter(|p| *p == "Running").count() == wanted).then_some(()))
    })
    .await
}

async fn every_node_has_its_provider_id(workload: &Workload, count: usize) -> Result<()> {
    let nodes: Api<Node> = Api::all(workload.client());
    let list = nodes.list(&ListParams::default()).await?.items;
    ensure!(list.len() == count);
    for node in &list {
        let id = node.spec.as_ref().and_then(|s| s.provider_id.as_deref());
        ensure!(id.is_some_and(|id| id.starts_with("maas:///")), "{}: {id:?}", node.name_any());
    }
    Ok(())
}
