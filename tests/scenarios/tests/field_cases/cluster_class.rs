//! A ClusterClass on MAAS.

use anyhow::{Context, Result, ensure};
use scenarios::eventually;

use crate::support::stage;

const TEMPLATES: &str = r"
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: MaasClusterTemplate
metadata: {name: class}
spec: {template: {spec: {dnsDomain: maas, failureDomains: [az1]}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: MaasMachineTemplate
metadata: {name: class}
spec: {template: {spec: {minCPU: 2, minMemory: 4096, image: custom/u-2404-k8s}}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlaneTemplate
metadata: {name: class}
spec:
  template:
    spec:
      kubeadmConfigSpec: {initConfiguration: {nodeRegistration: {taints: []}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: class}
spec:
  infrastructure:
    templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: MaasClusterTemplate, name: class}
  controlPlane:
    templateRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlaneTemplate, name: class}
    machineInfrastructure:
      templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: MaasMachineTemplate, name: class}
";
const CLUSTER: &str = r"
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: topo}
spec:
  clusterNetwork: {pods: {cidrBlocks: [192.168.0.0/16]}, services: {cidrBlocks: [10.96.0.0/12]}}
  topology: {classRef: {name: class}, version: v1.34.1, controlPlane: {replicas: 1}}
";

/// The templates are cloned into a cluster that is ready, and Cluster API may try a change of them before it makes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b103_the_templates_of_a_cluster_class_can_be_applied_and_tried() -> Result<()> {
    let stage = stage("field-class").await?;
    stage.apply(TEMPLATES)?;
    let changed = TEMPLATES.split("---").nth(1).context("the machine's")?.replace("4096", "8192");
    let file = stage.folder().join("changed.yaml");
    std::fs::write(&file, changed)?;
    let file = file.to_str().context("a path in UTF-8")?;
    let dry = ["apply", "--server-side", "--dry-run=server", "--force-conflicts", "-f", file];
    let owner = ["-n", &stage.namespace, "--field-manager=capi-topology"];
    stage.plane.kubectl(&[&owner[..], &dry].concat())?;

    stage.apply(CLUSTER)?;
    let object = eventually("the cluster's infrastructure is ready", 90, async || {
        let all = stage.clusters().list(&Default::default()).await?.items;
        Ok(all.into_iter().find(|c| c.status.as_ref().is_some_and(|s| s.ready)))
    })
    .await?;
    let labels = object.metadata.labels.context("labels")?;
    ensure!(labels.contains_key("topology.cluster.x-k8s.io/owned"), "{labels:?}");
    ensure!(object.spec.failure_domains == Some(vec!["az1".into()]), "{:?}", object.spec);
    let of = "topology.cluster.x-k8s.io/owned";
    let cloned = ["-n", &stage.namespace, "get", "maasmachinetemplates", "-l", of, "-o", "name"];
    ensure!(!stage.plane.kubectl(&cloned)?.is_empty(), "the machine's template was not cloned");
    eventually("a host is taken for it", 90, async || Ok(stage.held().first().map(drop))).await?;
    stage.strike().await
}
