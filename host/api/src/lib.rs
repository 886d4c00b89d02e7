//! The Kubernetes kinds of capmaas: `MaasCluster`, `MaasMachine` and their templates, and `MaasPolicy`.
//!
//! Field for field what the Go provider v0.9 accepts in group `infrastructure.cluster.x-k8s.io`,
//! version `v1beta1`; what is ours is optional. [`cluster_api`] holds the few fields of Cluster
//! API's own kinds that the provider reads, in a shape that takes `v1beta1` and `v1beta2` alike.
//!
//! The crate derives schemas and nothing else: it can name no client.

pub mod cluster_api;
mod condition;
mod crd;
mod maas_cluster;
mod maas_machine;
mod maas_policy;
pub mod names;
mod template;

pub use condition::Condition;
pub use crd::{all as custom_resource_definitions, yaml as custom_resource_definitions_yaml};
pub use maas_cluster::{
    ApiEndpoint, Initialization, LxdConfig, MaasCluster, MaasClusterSpec, MaasClusterStatus,
    Network,
};
pub use maas_machine::{
    Decision, Deployment, FailureState, LxdMachine, LxdVmConfig, MaasMachine, MaasMachineSpec,
    MaasMachineStatus, MachineAddress, StaticIp,
};
pub use maas_policy::{
    ClusterPolicies, ConfigMapSource, FileSource, MaasPolicy, MaasPolicySpec, MaasPolicyStatus,
    NameReference, OciSource, OnFailure, PolicyKind, PolicyLimits, PolicyMode, PolicyRevision,
    PolicySource, ResolvedTag,
};
pub use template::{
    MaasClusterTemplate, MaasClusterTemplateResource, MaasClusterTemplateSpec, MaasMachineTemplate,
    MaasMachineTemplateResource, MaasMachineTemplateSpec, MaasMachineTemplateStatus,
    TemplateMetadata,
};
