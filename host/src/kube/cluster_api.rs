use anyhow::{Result, bail};
use capmaas_api::cluster_api::{Cluster, Machine};
use capmaas_api::{MaasMachine, MaasPolicy, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIGroup;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, Resource, ResourceExt};
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
    /// Asks the server which versions it serves, and whether it serves our own kinds.
    ///
    /// # Errors
    /// When the API server does not answer, Cluster API is not installed, or our definitions are not applied.
    pub async fn discover(client: &Client) -> Result<Self> {
        let groups = client.list_api_groups().await?.groups;
        let (versions, kinds) = (["v1beta2", "v1beta1"], ["Cluster", "Machine"]);
        let found = served(client, &groups, names::CLUSTER_GROUP, &versions, &kinds).await?;
        let Some(version) = found else {
            bail!(
                "the API server serves no Cluster and Machine in cluster.x-k8s.io/v1beta2 or v1beta1: install Cluster API"
            );
        };
        own_definitions(client, &groups).await?;
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

/// Fails unless our own kinds are served.
async fn own_definitions(client: &Client, groups: &[APIGroup]) -> Result<()> {
    let (infrastructure, policy) = (MaasMachine::version(&()), MaasPolicy::version(&()));
    let ours = [
        (names::INFRASTRUCTURE_GROUP, infrastructure, &["MaasCluster", "MaasMachine"][..]),
        (names::POLICY_GROUP, policy, &["MaasPolicy"][..]),
    ];
    for (group, version, kinds) in ours {
        if served(client, groups, group, &[version.as_ref()], kinds).await?.is_none() {
            bail!(
                "the API server serves no {} in {group}/{version}: apply the definitions of capmaas (crds/)",
                kinds.join(" and "),
            );
        }
    }
    Ok(())
}

/// The first of these versions that the server serves, if it serves all these kinds in it.
async fn served<'v>(
    client: &Client,
    groups: &[APIGroup],
    group: &str,
    versions: &[&'v str],
    kinds: &[&str],
) -> Result<Option<&'v str>> {
    let known = groups.iter().filter(|g| g.name == group).flat_map(|g| &g.versions);
    let known: Vec<&str> = known.map(|v| v.version.as_str()).collect();
    let Some(version) = versions.iter().find(|v| known.contains(v)) else {
        return Ok(None);
    };
    let there = client.list_api_group_resources(&format!("{group}/{version}")).await?.resources;
    let all = kinds.iter().all(|kind| there.iter().any(|r| r.kind == *kind));
    Ok(all.then_some(version))
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
