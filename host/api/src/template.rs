use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, MaasClusterSpec, MaasMachineSpec};

/// Labels and annotations for what is made from a template.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct TemplateMetadata {
    /// Labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// A template from which Cluster API clones machines.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "MaasMachineTemplate",
    plural = "maasmachinetemplates",
    namespaced,
    status = "MaasMachineTemplateStatus",
    category = "cluster-api"
)]
#[serde(rename_all = "camelCase")]
pub struct MaasMachineTemplateSpec {
    /// The machine to clone.
    pub template: MaasMachineTemplateResource,
}

/// The machine inside a template.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct MaasMachineTemplateResource {
    /// Labels and annotations of the clones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// Specification of the clones.
    pub spec: MaasMachineSpec,
}

/// What a template offers to the cluster autoscaler.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct MaasMachineTemplateStatus {
    /// Quantities as strings (`"4"`, `"16384Mi"`): the autoscaler refuses numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<BTreeMap<String, String>>,
    /// Conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}

/// A template from which a ClusterClass clones clusters.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "MaasClusterTemplate",
    plural = "maasclustertemplates",
    namespaced,
    category = "cluster-api"
)]
#[serde(rename_all = "camelCase")]
pub struct MaasClusterTemplateSpec {
    /// The cluster to clone.
    pub template: MaasClusterTemplateResource,
}

/// The cluster inside a template.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct MaasClusterTemplateResource {
    /// Labels and annotations of the clones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// Specification of the clones.
    pub spec: MaasClusterSpec,
}
