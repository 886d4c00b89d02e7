use std::time::{SystemTime, UNIX_EPOCH};

use capmaas_api::{MaasCluster, MaasMachine, names};
use capmaas_core::{Settings, cluster, machine, node};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Api, Client};

use super::ClusterApi;

/// Puts the snapshots together: every object straight from the API server, so that nothing is
/// decided on what a cache missed.
#[derive(Clone)]
pub struct Loader {
    /// The management cluster.
    pub client: Client,
    /// Cluster API's kinds.
    pub cluster_api: ClusterApi,
    /// Configuration.
    pub settings: Settings,
}

impl Loader {
    /// What is seen of one `MaasMachine`; `None` when it is gone.
    ///
    /// # Errors
    /// When the API server does not answer properly.
    pub async fn machine(
        &self,
        namespace: &str,
        name: &str,
        node: Option<node::NodeObservation>,
    ) -> Result<Option<machine::Snapshot>, kube::Error> {
        let api: Api<MaasMachine> = Api::namespaced(self.client.clone(), namespace);
        let Some(object) = api.get_opt(name).await? else { return Ok(None) };
        let owner = owner(&object.metadata, "Machine").map(|o| o.name.clone());
        let machine = match owner {
            Some(owner) => self.cluster_api.get_machine(&self.client, namespace, &owner).await?,
            None => None,
        };
        let label = label(&object.metadata, names::CLUSTER_NAME_LABEL);
        let in_machine = machine.as_ref().map(|m| m.spec.cluster_name.clone());
        let cluster = match in_machine.filter(|n| !n.is_empty()).or(label) {
            Some(name) => self.cluster_api.get_cluster(&self.client, namespace, &name).await?,
            None => None,
        };
        let infrastructure = cluster.as_ref().and_then(|c| {
            let reference = c.spec.infrastructure_ref.as_ref()?;
            reference.name_of(names::INFRASTRUCTURE_GROUP, "MaasCluster").map(str::to_owned)
        });
        let maas_cluster = match infrastructure {
            Some(name) => {
                Api::<MaasCluster>::namespaced(self.client.clone(), namespace)
                    .get_opt(&name)
                    .await?
            }
            None => None,
        };
        let settings = self.settings.clone();
        Ok(Some(machine::Snapshot {
            now: now(),
            settings,
            object,
            machine,
            cluster,
            maas_cluster,
            node,
        }))
    }

    /// What is seen of one `MaasCluster`; `None` when it is gone.
    ///
    /// # Errors
    /// When the API server does not answer properly.
    pub async fn cluster(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<cluster::Snapshot>, kube::Error> {
        let api: Api<MaasCluster> = Api::namespaced(self.client.clone(), namespace);
        let Some(object) = api.get_opt(name).await? else { return Ok(None) };
        let owner = owner(&object.metadata, "Cluster").map(|o| o.name.clone());
        let cluster = match owner {
            Some(owner) => self.cluster_api.get_cluster(&self.client, namespace, &owner).await?,
            None => None,
        };
        Ok(Some(cluster::Snapshot {
            now: now(),
            settings: self.settings.clone(),
            object,
            cluster,
            v1beta1_only: self.cluster_api.v1beta1_only,
        }))
    }
}

/// The owner of a kind in Cluster API's group, whatever its version: it depends on the age of
/// Cluster API.
fn owner<'a>(meta: &'a ObjectMeta, kind: &str) -> Option<&'a OwnerReference> {
    meta.owner_references
        .iter()
        .flatten()
        .find(|o| o.kind == kind && o.api_version.split('/').next() == Some(names::CLUSTER_GROUP))
}

fn label(meta: &ObjectMeta, name: &str) -> Option<String> {
    meta.labels.as_ref()?.get(name).filter(|v| !v.is_empty()).cloned()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
