use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ClusterPolicies, Condition, Decision};

/// What the user wants of a cluster on MAAS.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "MaasCluster",
    plural = "maasclusters",
    namespaced,
    status = "MaasClusterStatus",
    category = "cluster-api",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct MaasClusterSpec {
    /// The MAAS domain in which the API server's DNS record lives. Immutable.
    pub dns_domain: String,
    /// Where the API server answers. Filled by the controller when empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<ApiEndpoint>,
    /// MAAS zones over which control-plane machines are spread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_domains: Option<Vec<String>>,
    /// LXD hosting, accepted for compatibility with the Go provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lxd_config: Option<LxdConfig>,
    /// Which policies decide for this cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies: Option<ClusterPolicies>,
}

/// Host and port of an API server. `{"host": "", "port": 0}` means unset.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiEndpoint {
    /// DNS name or IP address.
    pub host: String,
    /// TCP port.
    pub port: i32,
}

impl ApiEndpoint {
    /// Set as Cluster API understands it: both parts present.
    pub fn is_set(&self) -> bool {
        !self.host.is_empty() && self.port != 0
    }
}

/// LXD settings of the Go provider; stored, not acted upon.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct LxdConfig {
    /// Whether control-plane hosts become LXD hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Network bridge of the virtual machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_bridge: Option<String>,
    /// Parent interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nic_parent: Option<String>,
    /// `bridge` or `macvlan`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nic_type: Option<String>,
    /// MAAS resource pool of the LXD host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_pool: Option<String>,
    /// Leave the network as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_network_update: Option<bool>,
    /// Storage driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_backend: Option<String>,
    /// Size in GB, as a string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_size: Option<String>,
    /// MAAS zone of the LXD host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// What the controller reports of a cluster.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct MaasClusterStatus {
    /// The v1beta1 contract's "infrastructure is ready".
    #[serde(default)]
    pub ready: bool,
    /// The v1beta2 contract's "infrastructure is ready".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
    /// The DNS record of the API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// A list (v1beta2 contract) or a map (v1beta1 contract, Go provider up to v0.8).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_domains: Option<Value>,
    /// The last few decisions of policies, newest last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decisions: Option<Vec<Decision>>,
    /// Newest state of each aspect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
    /// Unknown fields of other versions of the provider survive a read.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: BTreeMap<String, Value>,
}

/// Progress that is never taken back.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Initialization {
    /// True once the infrastructure was usable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<bool>,
}

/// The API server's DNS record as last seen.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Network {
    /// Fully qualified name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns_name: Option<String>,
    /// Addresses in the record, sorted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<Vec<String>>,
}
