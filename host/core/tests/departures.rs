//! A control plane leaves: its address is out of the record for one TTL before its machine is released.

mod world;

use capmaas_core::maas::Status;
use serde_json::json;
use world::{NAME, World};

const HOST: &str = "aaa111";

fn in_record(world: &World) -> Vec<String> {
    world.maas.records.values().next().map(|r| r.ips()).unwrap_or_default()
}

/// In the record, and Cluster API has not copied its provider id yet.
fn just_attached() -> World {
    let mut world = World::with_machine(true);
    world.reconcile_cluster();
    world.reconcile(NAME);
    world.maas.time_passes();
    world.now += 600;
    world.reconcile(NAME);
    world.reconcile_cluster();
    assert_eq!(in_record(&world), ["10.0.0.10"]);
    world
}

/// Reconciles the machine until it is released; when its address left the record, if not by now, and when it was.
fn released(world: &mut World) -> (u64, u64) {
    let until = world.now + 120;
    let mut left = None;
    while !world.maas.hosts[HOST].shown.status.releasing() {
        if in_record(world).is_empty() {
            left.get_or_insert(world.now);
        }
        world.reconcile(NAME);
        world.now += 1;
        assert!(world.now < until, "it is never released");
        world.reconcile_cluster();
    }
    (left.expect("it has left the record"), world.now)
}

/// Restored from a backup of the moment before Cluster API had copied the provider id: nothing says that the machine has
/// served.
#[test]
fn without_a_status_a_failed_control_plane_leaves_the_record_first() {
    for cluster_first in [true, false] {
        for status in [Status::FailedDeployment, Status::Broken] {
            let mut world = just_attached();
            world.kube.edit("MaasMachine", NAME, &json!({ "status": null }));
            world.maas.host(HOST).shown.status = status;
            if cluster_first {
                world.reconcile_cluster();
            }
            let (left, at) = released(&mut world);
            assert!(at >= left + 10, "released {} s after leaving", at - left);
        }
    }
}

#[test]
fn without_a_status_a_deleted_control_plane_leaves_the_record_first() {
    for cluster_first in [true, false] {
        for status in [Status::FailedDeployment, Status::Broken] {
            let mut world = just_attached();
            world.kube.edit("MaasMachine", NAME, &json!({ "status": null }));
            world.maas.host(HOST).shown.status = status;
            world.kube.delete("MaasMachine", NAME);
            if cluster_first {
                world.reconcile_cluster();
            }
            let (left, at) = released(&mut world);
            assert!(at >= left + 10, "released {} s after leaving", at - left);
        }
    }
}
