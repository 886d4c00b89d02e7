//! The fields of Cluster API's own kinds that the provider reads.
//!
//! One shape for `v1beta1` and `v1beta2`: every field may be absent, unknown ones are ignored, and
//! where the versions differ both are taken. Nothing here is ever written.

use serde::{Deserialize, Serialize};

use crate::{ApiEndpoint, Condition, Initialization};

/// Part of `Cluster.spec` and `.status`.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Cluster {
    /// Object name; filled from the metadata.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Deletion has begun; filled from the metadata.
    #[serde(skip_serializing_if = "is_false")]
    pub deleting: bool,
    /// Desired state.
    pub spec: ClusterSpec,
    /// Observed state.
    pub status: ClusterStatus,
}

/// Part of `Cluster.spec`.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterSpec {
    /// No controller may act on anything of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Wins over the infrastructure's endpoint once valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<ApiEndpoint>,
    /// Network settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_network: Option<ClusterNetwork>,
    /// The `MaasCluster`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure_ref: Option<ObjectReference>,
}

/// Part of `Cluster.spec.clusterNetwork`.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterNetwork {
    /// TCP port of the API server; 6443 when absent or 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_server_port: Option<i32>,
}

/// Part of `Cluster.status`.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterStatus {
    /// v1beta1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure_ready: Option<bool>,
    /// v1beta2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization: Option<ClusterInitialization>,
}

/// `Cluster.status.initialization` of v1beta2.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterInitialization {
    /// The infrastructure was ready once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure_provisioned: Option<bool>,
    /// The API server answered once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_initialized: Option<bool>,
}

impl Cluster {
    /// Whether Cluster API holds the cluster's infrastructure for ready, in either version's words.
    pub fn infrastructure_ready(&self) -> bool {
        let v1beta2 =
            self.status.initialization.as_ref().and_then(|i| i.infrastructure_provisioned);
        v1beta2.or(self.status.infrastructure_ready).unwrap_or(false)
    }

    /// Whether the whole cluster is paused.
    pub fn paused(&self) -> bool {
        self.spec.paused.unwrap_or(false)
    }

    /// The API server's port: `clusterNetwork.apiServerPort`, else 6443.
    pub fn api_server_port(&self) -> i32 {
        let port = self.spec.cluster_network.as_ref().and_then(|n| n.api_server_port);
        port.filter(|p| *p != 0).unwrap_or(6443)
    }

    /// The host name or address that the user (or, later, Cluster API) put into the endpoint.
    pub fn endpoint_host(&self) -> Option<&str> {
        let host = self.spec.control_plane_endpoint.as_ref().map(|e| e.host.as_str());
        host.filter(|h| !h.is_empty())
    }
}

/// A reference in either version's shape; without a name it counts as absent.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectReference {
    /// v1beta2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// v1beta1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl ObjectReference {
    /// The name, if the reference is to `kind` in `group`.
    pub fn name_of(&self, group: &str, kind: &str) -> Option<&str> {
        let versioned = self.api_version.as_deref().and_then(|v| v.split('/').next());
        let its_group = self.api_group.as_deref().or(versioned)?;
        let fits = its_group == group && self.kind.as_deref() == Some(kind);
        self.name.as_deref().filter(|n| fits && !n.is_empty())
    }
}

/// Part of `Machine.spec` and `.status`.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Machine {
    /// Object name; filled from the metadata.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Deletion has begun; filled from the metadata.
    #[serde(skip_serializing_if = "is_false")]
    pub deleting: bool,
    /// Carries the control-plane label; filled from the metadata.
    #[serde(skip_serializing_if = "is_false")]
    pub control_plane: bool,
    /// Desired state.
    pub spec: MachineSpec,
    /// Observed state.
    pub status: MachineStatus,
}

/// Part of `Machine.spec`.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineSpec {
    /// The cluster's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster_name: String,
    /// Where the bootstrap data is.
    pub bootstrap: Bootstrap,
    /// Zone that Cluster API asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_domain: Option<String>,
    /// Set by Cluster API once the infrastructure was provisioned.
    #[serde(rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// Kubernetes version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The `MaasMachine`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure_ref: Option<ObjectReference>,
}

/// Part of `Machine.spec.bootstrap`.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Bootstrap {
    /// Name of the Secret that holds the user-data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_secret_name: Option<String>,
}

/// Part of `Machine.status`.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineStatus {
    /// Conditions of either version.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// v1beta2: progress that is never taken back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
}

impl Machine {
    /// A MachineHealthCheck wants the machine replaced: then that is left to Cluster API.
    ///
    /// Both conditions exist under the same names in v1beta1 and v1beta2 and are set by the
    /// MachineHealthCheck controller alone.
    pub fn marked_for_remediation(&self) -> bool {
        self.status.conditions.iter().any(|c| {
            matches!(c.kind.as_str(), "HealthCheckSucceeded" | "OwnerRemediated")
                && c.status == "False"
        })
    }
}

fn is_false(b: &bool) -> bool {
    !*b
}
