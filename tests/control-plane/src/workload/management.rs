//! What the player reads from the management plane.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Client, ResourceExt};

const CLUSTER_API: (&str, &str) = ("cluster.x-k8s.io", "v1beta2");
const INFRASTRUCTURE: (&str, &str) = ("infrastructure.cluster.x-k8s.io", "v1beta1");

/// A reader of one cluster's objects.
pub(super) struct Management {
    client: Client,
    namespace: String,
    cluster: String,
}

/// A MaasMachine that has a provider id.
#[derive(Clone, Debug)]
pub(super) struct OwnedMachine {
    /// Its name.
    pub(super) name: String,
    /// The Machine that owns it.
    pub(super) machine: Option<String>,
    pub(super) control_plane: bool,
    pub(super) deleting: bool,
}

/// What a Machine wants its host to start with.
pub(super) struct Bootstrap {
    /// The bootstrap data, if the Secret that the Machine names exists.
    pub(super) data: Option<Vec<u8>>,
    /// The Kubernetes version, like `v1.34.1`.
    pub(super) version: Option<String>,
}

impl Management {
    pub(super) fn new(client: Client, namespace: &str, cluster: &str) -> Self {
        Self { client, namespace: namespace.to_owned(), cluster: cluster.to_owned() }
    }

    /// The host of the cluster's endpoint: the Cluster's own word, else that of its MaasCluster.
    pub(super) async fn endpoint_host(&self) -> Result<Option<String>> {
        let Some(cluster) = found(self.api(CLUSTER_API, "Cluster").get(&self.cluster).await)?
        else {
            return Ok(None);
        };
        if let Some(host) = host(&cluster) {
            return Ok(Some(host));
        }
        let reference = cluster.data.pointer("/spec/infrastructureRef/name");
        let Some(name) = reference.and_then(|name| name.as_str()) else {
            return Ok(None);
        };
        let infrastructure = found(self.api(INFRASTRUCTURE, "MaasCluster").get(name).await)?;
        Ok(infrastructure.as_ref().and_then(host))
    }

    /// The MaasMachines of the cluster by the system id with which their provider id ends.
    pub(super) async fn machines(&self) -> Result<BTreeMap<String, OwnedMachine>> {
        let selector = format!("cluster.x-k8s.io/cluster-name={}", self.cluster);
        let api = self.api(INFRASTRUCTURE, "MaasMachine");
        let listed = found(api.list(&ListParams::default().labels(&selector)).await)?;
        let mut machines = BTreeMap::new();
        for object in listed.into_iter().flatten() {
            let provider_id = object.data.pointer("/spec/providerID").and_then(|id| id.as_str());
            let system_id = provider_id.and_then(|id| id.rsplit('/').next());
            let Some(system_id) = system_id.filter(|id| !id.is_empty()) else {
                continue;
            };
            let machine = owned(&object);
            // A host that was released for one machine may serve the next one before the first is gone.
            let newer = machines.get(system_id).is_none_or(|other: &OwnedMachine| other.deleting);
            if newer {
                machines.insert(system_id.to_owned(), machine);
            }
        }
        Ok(machines)
    }

    /// The bootstrap data of a Machine; nothing if there is no such Machine.
    pub(super) async fn bootstrap(&self, machine: &str) -> Result<Option<Bootstrap>> {
        let Some(machine) = found(self.api(CLUSTER_API, "Machine").get(machine).await)? else {
            return Ok(None);
        };
        let text = |pointer: &str| machine.data.pointer(pointer).and_then(|v| v.as_str());
        let mut data = None;
        if let Some(name) = text("/spec/bootstrap/dataSecretName") {
            let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
            let secret = found(secrets.get(name).await)?;
            data = secret.and_then(|s| s.data).and_then(|mut d| d.remove("value")).map(|v| v.0);
        }
        Ok(Some(Bootstrap { data, version: text("/spec/version").map(str::to_owned) }))
    }

    fn api(&self, (group, version): (&str, &str), kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
    }
}

fn owned(object: &DynamicObject) -> OwnedMachine {
    let owner = object.owner_references().iter().find(|owner| {
        owner.kind == "Machine" && owner.api_version.starts_with("cluster.x-k8s.io/")
    });
    OwnedMachine {
        name: object.name_any(),
        machine: owner.map(|owner| owner.name.clone()),
        control_plane: object.labels().contains_key("cluster.x-k8s.io/control-plane"),
        deleting: object.metadata.deletion_timestamp.is_some(),
    }
}

fn host(object: &DynamicObject) -> Option<String> {
    let host = object.data.pointer("/spec/controlPlaneEndpoint/host")?.as_str()?;
    (!host.is_empty()).then(|| host.to_owned())
}

/// Makes "not found" (of an object, or of a kind that is not installed) no error.
fn found<T>(result: kube::Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
        Err(error) => Err(error).context("read the management plane"),
    }
}
