use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use maas_sim::MachineView;
use serde_json::json;

use crate::stage::{Stage, eventually, through_gate};

/// Plays the kubelet of a host, with the management cluster's API server for a workload cluster: so the calls
/// about Nodes pass the stage's gate, too.
pub struct Kubelet;

impl Kubelet {
    /// Publishes the kubeconfig of a workload cluster that is reached through the gate.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn invite(stage: &Stage<'_>, cluster: &str) -> Result<()> {
        let namespace = &stage.namespace;
        stage.apply(&format!(
            r"
apiVersion: v1
kind: ServiceAccount
metadata: {{name: workload}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: workload-of-{namespace}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}}
subjects: [{{kind: ServiceAccount, name: workload, namespace: {namespace}}}]
"
        ))?;
        let direct = stage.folder().join("workload-direct.kubeconfig");
        stage.plane.service_account_kubeconfig(namespace, "workload", &direct)?;
        let led = through_gate(&stage.gate, &direct, &stage.folder().join("workload.kubeconfig"))?;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
            "metadata": {
                "name": format!("{cluster}-kubeconfig"),
                "labels": { "cluster.x-k8s.io/cluster-name": cluster },
            },
            "stringData": { "value": std::fs::read_to_string(led)? },
        });
        stage.apply(&secret.to_string())
    }

    /// The host's Node registers.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn register(stage: &Stage<'_>, host: &MachineView) -> Result<()> {
        let node: Node = serde_json::from_value(json!({
            "metadata": { "name": host.hostname },
            "spec": {},
        }))?;
        let nodes: Api<Node> = Api::all(stage.client.clone());
        nodes.create(&PostParams::default(), &node).await.map(drop).context("a Node")
    }

    /// The Node of a machine carries the provider id that the machine names.
    ///
    /// # Errors
    /// When it does not.
    pub async fn carries_provider_id(stage: &Stage<'_>, machine: &str) -> Result<()> {
        let host = stage.host(machine).await?.context("a host")?;
        let wanted = stage.machines().get(machine).await?.spec.provider_id;
        let nodes: Api<Node> = Api::all(stage.client.clone());
        let node = nodes.get(&host.hostname).await?;
        let shown = node.spec.and_then(|s| s.provider_id);
        ensure!(shown == wanted, "the Node shows {shown:?}, the machine {wanted:?}");
        Ok(())
    }

    /// The Nodes of a stage go with it: they belong to no namespace.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn leave(stage: &Stage<'_>) -> Result<()> {
        let nodes: Api<Node> = Api::all(stage.client.clone());
        for host in stage.maas.machines() {
            if nodes.get_opt(&host.hostname).await?.is_some() {
                nodes.delete(&host.hostname, &DeleteParams::default()).await?;
            }
        }
        eventually("the Nodes are gone", 30, async || {
            let left = nodes.list(&Default::default()).await?.items;
            let front = format!("{}-", stage.namespace);
            let ours = |n: &Node| n.metadata.name.as_deref().is_some_and(|n| n.starts_with(&front));
            Ok((!left.iter().any(ours)).then_some(()))
        })
        .await
    }
}
