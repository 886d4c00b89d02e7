use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Condition, Initialization};

/// What the user wants of one machine.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "MaasMachine",
    plural = "maasmachines",
    namespaced,
    status = "MaasMachineStatus",
    category = "cluster-api",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct MaasMachineSpec {
    /// MAAS zone by name; wins over the Machine's failure domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_domain: Option<String>,
    /// MAAS system id of the host. Written by the controller.
    #[serde(default, rename = "systemID", skip_serializing_if = "Option::is_none")]
    pub system_id: Option<String>,
    /// `maas:///<zone>/<system id>`. Written by the controller.
    #[serde(default, rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// System id of an LXD host; accepted for compatibility.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// MAAS resource pool by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_pool: Option<String>,
    /// Minimum number of cores. Immutable.
    #[serde(rename = "minCPU")]
    pub min_cpu: u32,
    /// Minimum memory in MiB. Immutable.
    pub min_memory: u32,
    /// Minimum disk in GB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_disk_size: Option<u32>,
    /// MAAS tags, all of which the machine must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// `custom/<name>`, `<os>/<series>` or a bare name. Immutable.
    pub image: String,
    /// Run from memory, without touching the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deploy_in_memory: Option<bool>,
    /// LXD virtual machine settings; accepted for compatibility.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lxd: Option<LxdMachine>,
    /// Static address of Palette builds; accepted for compatibility.
    #[serde(default, rename = "staticIP", skip_serializing_if = "Option::is_none")]
    pub static_ip: Option<StaticIp>,
}

/// LXD virtual machine settings of the Go provider; stored, not acted upon.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct LxdMachine {
    /// Create the machine as an LXD virtual machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Settings of the virtual machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm_config: Option<LxdVmConfig>,
}

/// Settings of an LXD virtual machine.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct LxdVmConfig {
    /// Start with the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_start: Option<bool>,
    /// Disk in GB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_size: Option<u32>,
    /// Link mode by interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface_link_modes: Option<BTreeMap<String, String>>,
    /// Network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// Storage pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_pool: Option<String>,
}

/// Static address of Palette builds.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct StaticIp {
    /// Prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cidr: Option<String>,
    /// Gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// Address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// Name servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nameservers: Option<Vec<String>>,
}

/// What the controller reports of one machine.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct MaasMachineStatus {
    /// The v1beta1 contract's "infrastructure is ready": Deployed and usable.
    #[serde(default)]
    pub ready: bool,
    /// The v1beta2 contract's latch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
    /// MAAS's own word for the state (`Deployed`, `Failed deployment`, …).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_state: Option<String>,
    /// Whether MAAS last showed the machine powered on; absent while MAAS does not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_powered: Option<bool>,
    /// Host name in MAAS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Control planes: whether the address is in the API server's record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns_attached: Option<bool>,
    /// The zone in which the machine really is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_domain: Option<String>,
    /// Names and addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<Vec<MachineAddress>>,
    /// The running or last deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment: Option<Deployment>,
    /// The failure that is being dealt with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureState>,
    /// The last few decisions of policies, newest last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decisions: Option<Vec<Decision>>,
    /// Newest state of each aspect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
    /// Set only when a once-provisioned host is lost, or a policy gave up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Sentence that belongs to `failureReason`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
    /// Unknown fields of other versions of the provider survive a read.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: BTreeMap<String, Value>,
}

/// One name or address of a machine.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct MachineAddress {
    /// `Hostname`, `ExternalIP`, `InternalIP`, `ExternalDNS` or `InternalDNS`.
    #[serde(rename = "type")]
    pub kind: String,
    /// 1 to 256 characters, or Cluster API refuses the whole Machine.
    pub address: String,
}

/// A deployment.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Deployment {
    /// System id of the host.
    #[serde(rename = "systemID")]
    pub system_id: String,
    /// Unix seconds of the deploy call; the deploy time-out counts from here.
    pub started_at: i64,
    /// Unix seconds at which the condition last took over what MAAS says of its progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress_at: Option<i64>,
}

/// A failure that is being dealt with.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct FailureState {
    /// `allocate`, `prepare`, `deploy`, `power` or `release`.
    pub stage: String,
    /// `timeout`, `no-capacity`, `rejected`, `machine-failed` or `unreachable`.
    pub category: String,
    /// Unix seconds.
    pub first_seen: i64,
    /// Unix seconds of the last occurrence.
    #[serde(default)]
    pub last_seen: i64,
    /// How often in a row.
    pub occurrences: u32,
    /// A policy gave up; nothing more is tried.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gave_up: bool,
    /// Unix seconds before which nothing is tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<i64>,
}

/// One decision of a policy.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// `allocation`, `dns-naming` or `failure-handling`.
    pub kind: String,
    /// Namespace and name of the `MaasPolicy`; absent for the built-in policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Name and version of the component.
    pub policy: String,
    /// `sha256:…` of the component.
    pub digest: String,
    /// What it answered, in short.
    pub answer: String,
    /// Why, in its own words where it gave any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Unix seconds.
    pub at: i64,
}
