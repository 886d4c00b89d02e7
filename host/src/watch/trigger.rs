//! Which changes of our own objects ask for a reconcile: those that somebody else made.

use std::hash::{DefaultHasher, Hash, Hasher};

use capmaas_api::{MaasCluster, MaasMachine, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

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
    let theirs = format!("{}{:?}{:?}", spec.dns_domain, spec.failure_domains, spec.lxd_config);
    Some(digest(&object.metadata, &theirs, names::CLUSTER_FINALIZER))
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
