//! A cluster and its machines, as Cluster API leaves them for an infrastructure provider.

use anyhow::{Context, Result};
use base64::{Engine, engine::general_purpose::STANDARD};
use futures::{StreamExt, TryStreamExt};
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

pub(crate) const NAMESPACE: &str = "bench";
pub(crate) const CLUSTER: &str = "c";
pub(crate) const IMAGE: &str = "custom/u-2404-k8s";
const CORE: &str = "cluster.x-k8s.io";
const OURS: &str = "infrastructure.cluster.x-k8s.io";

/// Makes objects in the namespace.
#[derive(Clone)]
pub(crate) struct Maker(Client);

impl Maker {
    pub(crate) fn new(client: Client) -> Self {
        Self(client)
    }

    fn api(&self, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.0.clone(), NAMESPACE, &resource)
    }

    async fn create(&self, group: &str, version: &str, kind: &str, object: Value) -> Result<Value> {
        let object: DynamicObject = serde_json::from_value(object)?;
        let made = self.api(group, version, kind).create(&PostParams::default(), &object).await;
        let made = made.with_context(|| format!("create {kind} {}", object.name_any()))?;
        Ok(owner(group, version, kind, &made))
    }

    /// The Cluster with its MaasCluster; returns the Cluster as an owner.
    pub(crate) async fn cluster(&self) -> Result<Value> {
        let labels = json!({ "cluster.x-k8s.io/cluster-name": CLUSTER });
        let object = json!({
            "apiVersion": format!("{CORE}/v1beta2"), "kind": "Cluster",
            "metadata": { "name": CLUSTER, "labels": labels },
            "spec": { "infrastructureRef": { "apiGroup": OURS, "kind": "MaasCluster", "name": CLUSTER } },
        });
        let cluster = self.create(CORE, "v1beta2", "Cluster", object).await?;
        let object = json!({
            "apiVersion": format!("{OURS}/v1beta1"), "kind": "MaasCluster",
            "metadata": { "name": CLUSTER, "labels": labels, "ownerReferences": [cluster] },
            "spec": { "dnsDomain": "maas" },
        });
        self.create(OURS, "v1beta1", "MaasCluster", object).await?;
        let status =
            json!({ "status": { "initialization": { "infrastructureProvisioned": true } } });
        self.api(CORE, "v1beta2", "Cluster")
            .patch_status(CLUSTER, &PatchParams::default(), &Patch::Merge(status))
            .await?;
        Ok(cluster)
    }

    /// Machines with their MaasMachines and bootstrap data.
    pub(crate) async fn machines(&self, cluster: &Value, count: usize) -> Result<()> {
        futures::stream::iter((0..count).map(|i| self.machine(cluster, format!("m-{i:04}"))))
            .buffer_unordered(16)
            .try_collect::<Vec<()>>()
            .await
            .map(drop)
    }

    async fn machine(&self, cluster: &Value, name: String) -> Result<()> {
        let labels = json!({ "cluster.x-k8s.io/cluster-name": CLUSTER });
        let data =
            STANDARD.encode(format!("#cloud-config\n# {name}\n{}", "# filler\n".repeat(400)));
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
            "metadata": { "name": name, "labels": labels }, "data": { "value": data },
        });
        self.create("", "v1", "Secret", secret).await?;
        let machine = json!({
            "apiVersion": format!("{CORE}/v1beta2"), "kind": "Machine",
            "metadata": { "name": name, "labels": labels, "ownerReferences": [cluster] },
            "spec": {
                "clusterName": CLUSTER, "version": "v1.34.1", "bootstrap": { "dataSecretName": name },
                "infrastructureRef": { "apiGroup": OURS, "kind": "MaasMachine", "name": name },
            },
        });
        let mut owner = self.create(CORE, "v1beta2", "Machine", machine).await?;
        owner["controller"] = true.into();
        let ours = json!({
            "apiVersion": format!("{OURS}/v1beta1"), "kind": "MaasMachine",
            "metadata": { "name": name, "labels": labels, "ownerReferences": [owner] },
            "spec": { "minCPU": 2, "minMemory": 4096, "image": IMAGE },
        });
        self.create(OURS, "v1beta1", "MaasMachine", ours).await.map(drop)
    }
}

fn owner(group: &str, version: &str, kind: &str, object: &DynamicObject) -> Value {
    json!({
        "apiVersion": format!("{group}/{version}"), "kind": kind,
        "name": object.name_any(), "uid": object.uid().unwrap_or_default(),
    })
}
