use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use capmaas_api::cluster_api::{Cluster, Machine};
use capmaas_api::{MaasCluster, MaasMachine, names};
use capmaas_core::policy::Panel;
use capmaas_core::{Settings, cluster, machine, node};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, Client};

use super::{ClusterApi, Mirror};
use crate::policy::{Book, Hand};

/// Puts the snapshots together: straight from the API server before anything is done, from what the watches have shown
/// where nothing has to be.
#[derive(Clone)]
pub struct Loader {
    /// The management cluster.
    pub client: Client,
    /// Cluster API's kinds.
    pub cluster_api: ClusterApi,
    /// Configuration.
    pub settings: Settings,
    /// What the watches have shown.
    pub mirror: Arc<Mirror>,
    /// Who decides.
    pub policies: Arc<Book>,
}

/// What was seen, and the policies that decide about it until the reconcile is over.
pub struct Seen<S> {
    /// What was seen.
    pub snapshot: S,
    /// The policies' revisions of this moment.
    pub hand: Hand,
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
    ) -> Result<Option<Seen<machine::Snapshot>>, kube::Error> {
        let api: Api<MaasMachine> = Api::namespaced(self.client.clone(), namespace);
        let Some(object) = api.get_opt(name).await? else { return Ok(None) };
        let machine = match owner(&object.metadata, "Machine") {
            Some(owner) => {
                self.cluster_api.get_machine(&self.client, namespace, &owner.name).await?
            }
            None => None,
        };
        let cluster = match cluster_of(&object, machine.as_ref()) {
            Some(name) => self.cluster_api.get_cluster(&self.client, namespace, &name).await?,
            None => None,
        };
        let maas_cluster = match cluster.as_ref().and_then(infrastructure) {
            Some(name) => {
                Api::<MaasCluster>::namespaced(self.client.clone(), namespace).get_opt(name).await?
            }
            None => None,
        };
        Ok(Some(self.dealt(namespace, maas_cluster, |maas_cluster, policies| machine::Snapshot {
            now: now(),
            settings: self.settings.clone(),
            object,
            machine,
            cluster,
            maas_cluster,
            node,
            policies,
        })))
    }

    /// The same as the watches have shown it; `None` when they have not shown all of it, or not what we wrote ourselves.
    pub fn machine_as_watched(
        &self,
        object: &MaasMachine,
        node: Option<node::NodeObservation>,
    ) -> Option<Seen<machine::Snapshot>> {
        let mirror = &self.mirror;
        if !mirror.holds_our_writes(object) {
            return None;
        }
        let namespace = object.metadata.namespace.as_deref()?;
        let owner = owner(&object.metadata, "Machine")?;
        let machine = mirror.core_machines.get(namespace, &owner.name)?;
        let cluster = cluster_of(object, Some(&machine))?;
        let cluster = mirror.core_clusters.get(namespace, &cluster)?;
        let maas_cluster = ObjectRef::new(infrastructure(&cluster)?).within(namespace);
        let maas_cluster = mirror.clusters.get(&maas_cluster)?;
        let maas_cluster = Some((*maas_cluster).clone());
        Some(self.dealt(namespace, maas_cluster, |maas_cluster, policies| machine::Snapshot {
            now: now(),
            settings: self.settings.clone(),
            object: object.clone(),
            machine: Some((*machine).clone()),
            cluster: Some((*cluster).clone()),
            maas_cluster,
            node,
            policies,
        }))
    }

    /// With the policies of the cluster.
    fn dealt<S>(
        &self,
        namespace: &str,
        maas_cluster: Option<MaasCluster>,
        snapshot: impl FnOnce(Option<MaasCluster>, Panel) -> S,
    ) -> Seen<S> {
        let named = maas_cluster.as_ref().and_then(|c| c.spec.policies.as_ref());
        let (panel, hand) = self.policies.deal(namespace, named);
        Seen { snapshot: snapshot(maas_cluster, panel), hand }
    }

    /// A `Cluster` as the watch has shown it, else from the API server.
    ///
    /// # Errors
    /// When the API server does not answer properly.
    pub async fn core_cluster(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<Cluster>>, kube::Error> {
        if let Some(shown) = self.mirror.core_clusters.get(namespace, name) {
            return Ok(Some(shown));
        }
        let found = self.cluster_api.get_cluster(&self.client, namespace, name).await?;
        Ok(found.map(Arc::new))
    }

    /// What is seen of one `MaasCluster`; `None` when it is gone.
    ///
    /// # Errors
    /// When the API server does not answer properly.
    pub async fn cluster(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Seen<cluster::Snapshot>>, kube::Error> {
        let api: Api<MaasCluster> = Api::namespaced(self.client.clone(), namespace);
        let Some(object) = api.get_opt(name).await? else { return Ok(None) };
        let owner = owner(&object.metadata, "Cluster").map(|o| o.name.clone());
        let cluster = match owner {
            Some(owner) => self.cluster_api.get_cluster(&self.client, namespace, &owner).await?,
            None => None,
        };
        let (policies, hand) = self.policies.deal(namespace, object.spec.policies.as_ref());
        let snapshot = cluster::Snapshot {
            now: now(),
            settings: self.settings.clone(),
            object,
            cluster,
            v1beta1_only: self.cluster_api.v1beta1_only,
            policies,
        };
        Ok(Some(Seen { snapshot, hand }))
    }
}

/// The name of a machine's `Cluster`.
fn cluster_of(object: &MaasMachine, machine: Option<&Machine>) -> Option<String> {
    let in_machine = machine.map(|m| m.spec.cluster_name.clone()).filter(|n| !n.is_empty());
    in_machine.or_else(|| label(&object.metadata, names::CLUSTER_NAME_LABEL))
}

/// The name of a cluster's `MaasCluster`.
fn infrastructure(cluster: &Cluster) -> Option<&str> {
    let reference = cluster.spec.infrastructure_ref.as_ref()?;
    reference.name_of(names::INFRASTRUCTURE_GROUP, "MaasCluster")
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

/// Unix seconds.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
