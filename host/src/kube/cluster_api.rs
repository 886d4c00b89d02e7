use anyhow::{Result, bail};
use capmaas_api::cluster_api::{Cluster, Machine};
use capmaas_api::names;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;

/// Cluster API as it is served here: its `Cluster` and `Machine`, in the newest version we read.
#[derive(Clone)]
pub struct ClusterApi {
    /// `Cluster`.
    pub cluster: ApiResource,
    /// `Machine`.
    pub machine: ApiResource,
    /// Nothing newer than `v1beta1` is served.
    pub v1beta1_only: bool,
}

impl ClusterApi {
    /// Asks the server which versions it serves.
    ///
    /// # Errors
    /// When the API server does not answer, or Cluster API is not installed.
    pub async fn discover(client: &Client) -> Result<Self> {
        let groups = client.list_api_groups().await?;
        let group = groups.groups.iter().find(|g| g.name == names::CLUSTER_GROUP);
        let served: Vec<&str> =
            group.iter().flat_map(|g| &g.versions).map(|v| v.version.as_str()).collect();
        let Some(version) = ["v1beta2", "v1beta1"].into_iter().find(|v| served.contains(v)) else {
            bail!(
                "the API server serves no cluster.x-k8s.io/v1beta2 or v1beta1: install Cluster API"
            );
        };
        let kind = |kind: &str| {
            ApiResource::from_gvk(&GroupVersionKind::gvk(names::CLUSTER_GROUP, version, kind))
        };
        Ok(Self {
            cluster: kind("Cluster"),
            machine: kind("Machine"),
            v1beta1_only: version == "v1beta1",
        })
    }

    /// One `Cluster`, or `None`.
    ///
    /// # Errors
    /// When the API server does not answer properly.
    pub async fn get_cluster(
        &self,
        client: &Client,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Cluster>, kube::Error> {
        let found = get(client, &self.cluster, namespace, name).await?;
        found.as_ref().map(Self::read_cluster).transpose()
    }

    /// One `Machine`, or `None`.
    ///
    /// # Errors
    /// When the API server does not answer properly.
    pub async fn get_machine(
        &self,
        client: &Client,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Machine>, kube::Error> {
        let found = get(client, &self.machine, namespace, name).await?;
        found.as_ref().map(Self::read_machine).transpose()
    }

    /// What matters of a `Cluster`.
    ///
    /// # Errors
    /// When a field is not of the type that Cluster API documents.
    pub fn read_cluster(object: &DynamicObject) -> Result<Cluster, kube::Error> {
        Ok(Cluster {
            name: object.name_any(),
            deleting: object.metadata.deletion_timestamp.is_some(),
            ..parse(object)?
        })
    }

    /// What matters of a `Machine`.
    ///
    /// # Errors
    /// When a field is not of the type that Cluster API documents.
    pub fn read_machine(object: &DynamicObject) -> Result<Machine, kube::Error> {
        Ok(Machine {
            name: object.name_any(),
            deleting: object.metadata.deletion_timestamp.is_some(),
            control_plane: object.labels().contains_key(names::CONTROL_PLANE_LABEL),
            ..parse(object)?
        })
    }
}

async fn get(
    client: &Client,
    resource: &ApiResource,
    namespace: &str,
    name: &str,
) -> Result<Option<DynamicObject>, kube::Error> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, resource);
    api.get_opt(name).await
}

fn parse<T: DeserializeOwned>(object: &DynamicObject) -> Result<T, kube::Error> {
    serde_json::from_value(object.data.clone()).map_err(kube::Error::SerdeError)
}
