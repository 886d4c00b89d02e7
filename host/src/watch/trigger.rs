//! Which changes ask for a reconcile: those that somebody else made and that matter to us.

use std::hash::{DefaultHasher, Hash, Hasher};

use capmaas_api::{MaasCluster, MaasMachine, MaasPolicy, cluster_api, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DynamicObject;

/// Everything of a machine that others write. What we write ourselves changes nothing here, or
/// each status would cost another round of MAAS calls.
pub(super) fn machine(object: &MaasMachine) -> Option<u64> {
    let mut spec = object.spec.clone();
    spec.provider_id = None;
    spec.system_id = None;
    Some(digest(&object.metadata, &format!("{spec:?}"), names::MACHINE_FINALIZER))
}

/// Everything of a cluster that others write.
pub(super) fn cluster(object: &MaasCluster) -> Option<u64> {
    let spec = &object.spec;
    let theirs = format!(
        "{}{:?}{:?}{:?}",
        spec.dns_domain, spec.failure_domains, spec.lxd_config, spec.policies
    );
    Some(digest(&object.metadata, &theirs, names::CLUSTER_FINALIZER))
}

/// What a `MaasMachine` depends on in its `Machine`. Cluster API writes that object's status often.
pub(super) fn core_machine(object: &DynamicObject) -> Option<u64> {
    let read: cluster_api::Machine = serde_json::from_value(object.data.clone()).ok()?;
    let mut hasher = DefaultHasher::new();
    read.marked_for_remediation().hash(&mut hasher);
    core(object, &format!("{:?}", read.spec), hasher)
}

/// What our objects depend on in their `Cluster`.
pub(super) fn core_cluster(object: &DynamicObject) -> Option<u64> {
    let read: cluster_api::Cluster = serde_json::from_value(object.data.clone()).ok()?;
    let mut hasher = DefaultHasher::new();
    read.infrastructure_ready().hash(&mut hasher);
    core(object, &format!("{:?}", read.spec), hasher)
}

/// What a cluster's machines depend on in its `MaasCluster`: who decides about them.
pub(super) fn policies(object: &MaasCluster) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    object.metadata.labels.hash(&mut hasher);
    format!("{:?}", object.spec.policies).hash(&mut hasher);
    Some(hasher.finish())
}

/// Everything of a policy that others write.
pub(super) fn policy(object: &MaasPolicy) -> Option<u64> {
    Some(digest(&object.metadata, &format!("{:?}", object.spec), ""))
}

/// What control planes wait for in their `MaasCluster`: the DNS record.
pub(super) fn record(object: &MaasCluster) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    object.metadata.labels.hash(&mut hasher);
    let network = object.status.as_ref().and_then(|s| s.network.as_ref());
    format!("{network:?}").hash(&mut hasher);
    Some(hasher.finish())
}

/// What the DNS record depends on in a `MaasMachine`.
pub(super) fn member(object: &MaasMachine) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    object.metadata.labels.hash(&mut hasher);
    object.metadata.deletion_timestamp.is_some().hash(&mut hasher);
    object.spec.provider_id.hash(&mut hasher);
    let annotations = object.metadata.annotations.as_ref();
    annotations.and_then(|a| a.get(names::FAILED_HOSTS_ANNOTATION)).hash(&mut hasher);
    if let Some(status) = &object.status {
        (status.ready, &status.machine_state, status.machine_powered).hash(&mut hasher);
    }
    Some(hasher.finish())
}

/// That a machine which has a host is being deleted: its cluster remembers the host.
pub(super) fn leaving(object: &MaasMachine) -> Option<u64> {
    let deleting = object.metadata.deletion_timestamp.is_some();
    (deleting && object.spec.provider_id.is_some()).then_some(0)
}

/// What the look at a machine's Node depends on.
pub(super) fn node(object: &MaasMachine) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    let meta = &object.metadata;
    (&meta.uid, &meta.labels, &object.spec.provider_id).hash(&mut hasher);
    meta.deletion_timestamp.is_some().hash(&mut hasher);
    let annotations = meta.annotations.as_ref();
    annotations.is_some_and(|a| a.contains_key(names::PAUSED_ANNOTATION)).hash(&mut hasher);
    if let Some(status) = &object.status {
        (status.ready, &status.hostname).hash(&mut hasher);
        format!("{:?}", status.addresses).hash(&mut hasher);
    }
    Some(hasher.finish())
}

fn core(object: &DynamicObject, spec: &str, mut hasher: DefaultHasher) -> Option<u64> {
    spec.hash(&mut hasher);
    object.metadata.uid.hash(&mut hasher);
    object.metadata.labels.hash(&mut hasher);
    object.metadata.deletion_timestamp.is_some().hash(&mut hasher);
    Some(hasher.finish())
}

fn digest(meta: &ObjectMeta, spec: &str, our_finalizer: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    spec.hash(&mut hasher);
    meta.uid.hash(&mut hasher);
    meta.labels.hash(&mut hasher);
    for (key, value) in meta.annotations.iter().flatten() {
        if !key.starts_with("capmaas.io/") {
            (key, value).hash(&mut hasher);
        }
    }
    for finalizer in meta.finalizers.iter().flatten().filter(|f| *f != our_finalizer) {
        finalizer.hash(&mut hasher);
    }
    for owner in meta.owner_references.iter().flatten() {
        (&owner.kind, &owner.name, &owner.uid).hash(&mut hasher);
    }
    meta.deletion_timestamp.is_some().hash(&mut hasher);
    hasher.finish()
}
