use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Condition;

/// A policy: where its component comes from, how it is configured, and what it may do.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[kube(
    group = "policy.capmaas.io",
    version = "v1alpha1",
    kind = "MaasPolicy",
    plural = "maaspolicies",
    namespaced,
    status = "MaasPolicyStatus",
    category = "cluster-api",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct MaasPolicySpec {
    /// What the policy decides. Immutable.
    pub kind: PolicyKind,
    /// Where the component comes from: exactly one of the three.
    pub source: PolicySource,
    /// Settings of the policy, checked against its own JSON Schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Value>,
    /// `Shadow`: asked, compared, and counted, but not obeyed. `Enforce`: obeyed.
    #[serde(default)]
    pub mode: PolicyMode,
    /// When the policy gives no answer. `Fail`: nothing is done until it does. `UseDefault`: as if it were not named.
    /// Without a word here an allocation policy fails, and the others use the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
    /// What one call may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<PolicyLimits>,
    /// True: the policy is not asked, as if it were not named.
    #[serde(default)]
    pub suspend: bool,
}

/// What a policy decides.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PolicyKind {
    /// Which machine to take.
    Allocation,
    /// How to name a cluster's endpoint.
    DnsNaming,
    /// What to do when something fails.
    FailureHandling,
}

/// Whether answers are obeyed.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PolicyMode {
    /// Asked beside the live policy, and compared with it.
    #[default]
    Shadow,
    /// Obeyed.
    Enforce,
}

/// What happens when a policy gives no answer.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnFailure {
    /// Nothing is done until it does.
    Fail,
    /// As if the policy were not named.
    UseDefault,
}

/// Where a component comes from.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicySource {
    /// A file of the controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<FileSource>,
    /// A ConfigMap in the policy's namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map: Option<ConfigMapSource>,
    /// An artifact in an OCI registry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oci: Option<OciSource>,
}

/// A file below the controller's `--policy-dir`.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct FileSource {
    /// Its path, relative to the folder.
    pub path: String,
    /// `sha256:…` of the component. With it, no other content is loaded; without it, a new content of the file is taken up
    /// at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// A key in `binaryData` of a ConfigMap.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapSource {
    /// Name of the ConfigMap.
    pub name: String,
    /// The key in `binaryData`. Without it, the ConfigMap has one key only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// `sha256:…` of the component. With it, no other content is loaded; without it, a new content of the ConfigMap is
    /// taken up at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// An artifact in an OCI registry, laid out as the CNCF's guidance for WebAssembly has it.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct OciSource {
    /// For example `registry.example.com/team/policy` or `registry.example.com/team/policy:1.2`.
    pub image: String,
    /// `sha256:…` of the manifest, as `oras push` and `capmaas policy push` print it. Needed to enforce. Without it, the tag
    /// is resolved once, and again when this object's spec changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Secrets in the policy's namespace, of type `kubernetes.io/dockerconfigjson` or `kubernetes.io/dockercfg`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_secrets: Option<Vec<NameReference>>,
    /// A Secret in the policy's namespace whose key `ca.crt` holds certificate authorities to trust for this registry (PEM).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_secret: Option<NameReference>,
    /// True: the registry is spoken to without TLS.
    #[serde(default)]
    pub plain_http: bool,
}

/// The name of an object in the same namespace.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct NameReference {
    /// The name.
    pub name: String,
}

/// What one call may use.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyLimits {
    /// From instantiation to the answer, `10ms` to `10s`; `250ms` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// All memories of the component together, `1Mi` to `256Mi`; `64Mi` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
}

/// What has become of the policy.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct MaasPolicyStatus {
    /// The `metadata.generation` this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Whether answers are obeyed now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_mode: Option<PolicyMode>,
    /// The revision that is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<PolicyRevision>,
    /// The one before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous: Option<PolicyRevision>,
    /// What a tag was resolved to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved: Option<ResolvedTag>,
    /// `Resolved`, `Verified`, `Loaded`, `ConfigValid`, `Ready`, `Degraded`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}

/// One loaded component.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PolicyRevision {
    /// `sha256:…` of the component.
    pub digest: String,
    /// Its first twelve digits.
    pub short_digest: String,
    /// The name the component gives itself.
    pub name: String,
    /// The version it gives itself.
    pub version: String,
    /// The interface it speaks, for example `capmaas:policy@0.1.0`.
    pub interface: String,
    /// RFC 3339, whole seconds.
    pub loaded_at: String,
    /// From the bytes to the first call, milliseconds.
    pub load_millis: i64,
}

/// A tag as it was resolved, once.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedTag {
    /// The image with its tag.
    pub image: String,
    /// `sha256:…` of the manifest.
    pub digest: String,
}

/// Which policies a cluster's decisions are made by: names of `MaasPolicy` objects in the cluster's own namespace. A kind for
/// which nothing is named follows the controller's defaults.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterPolicies {
    /// Which machine to take: asked in this order, each narrows what the ones before have left.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allocation: Vec<String>,
    /// How to name the endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_naming: Option<String>,
    /// What to do when something fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_handling: Option<String>,
    /// Policies of any kind that are asked beside those, in shadow whatever their own mode.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shadow: Vec<String>,
}
