use capmaas_api::{ApiEndpoint, names};
use capmaas_core::maas::{Power, Status};
use serde_json::json;

use super::{CLUSTER, NAMESPACE, US, World};

/// The name of a cluster's record, generated long ago.
pub(crate) const RECORD: &str = "blue-a1b2c3.maas";
/// The address of the machine that a test is about.
pub(crate) const OURS: &str = "10.0.0.10";

/// A cluster whose generated name is settled and published.
pub(crate) fn named_cluster() -> World {
    let mut world = World::with_cluster();
    let change = json!({
        "metadata": {
            "finalizers": [names::CLUSTER_FINALIZER],
            "annotations": { names::DNS_NAME_ANNOTATION: RECORD },
        },
        "spec": { "controlPlaneEndpoint": { "host": RECORD, "port": 6443 } },
    });
    world.kube.edit("MaasCluster", CLUSTER, &change);
    world
}

/// A control plane that its own reconcile has reported as deployed.
pub(crate) fn control_plane(world: &mut World, name: &str, id: &str, ip: &str) {
    world.kube.add_machine(name, true);
    let object = json!({
        "metadata": {
            "finalizers": [names::MACHINE_FINALIZER],
            "annotations": { names::MARK_ANNOTATION: name },
        },
        "spec": { "providerID": format!("maas:///default/{id}") },
        "status": { "ready": true, "initialization": { "provisioned": true } },
    });
    world.kube.edit("MaasMachine", name, &object);
    let host = world.maas.host(id);
    host.shown.owner = Some(US.into());
    host.shown.status = Status::Deployed;
    host.shown.power = Power::On;
    host.shown.ip_addresses = vec![ip.into()];
    let stamp = [
        ("capmaas-cluster", CLUSTER),
        ("capmaas-namespace", NAMESPACE),
        ("capmaas-machine", name),
        ("capmaas-mark", name),
    ];
    host.shown.annotations = stamp.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
}

pub(crate) fn addresses(world: &World) -> Vec<String> {
    world.maas.records.values().next().map(|r| r.ips()).unwrap_or_default()
}

pub(crate) fn endpoint(world: &mut World, host: &str) {
    let endpoint = ApiEndpoint { host: host.into(), port: 6443 };
    world.kube.cluster.as_mut().unwrap().spec.control_plane_endpoint = Some(endpoint);
}
