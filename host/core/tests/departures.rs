//! Machines leave: the address of a control plane is out of the record for one TTL before it is released, and whatever becomes
//! of a release, it is known whose the machine is.

mod world;

use capmaas_api::names;
use capmaas_core::maas::Status;
use capmaas_core::{Category, Effect, Step};
use serde_json::json;
use world::{NAME, Turn, US, World};

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

/// Taken, and MAAS has refused to annotate it.
fn not_annotated() -> World {
    let mut world = World::with_machine(false);
    world.reconcile_cluster();
    world.reconcile_with(NAME, refused_annotations);
    let host = &world.maas.hosts[HOST].shown;
    assert!(host.status == Status::Allocated && host.annotations.is_empty());
    world.kube.delete("MaasMachine", NAME);
    world
}

fn refused_annotations<S>(_: &mut World, _: &[capmaas_core::Reply], step: &Step<S>) -> Turn {
    match step {
        Step::Do(Effect::Annotate { .. }) => Turn::Fails(Category::BadRequest, false),
        _ => Turn::Answered,
    }
}

fn releases(told: &world::drive::ToldMachine) -> usize {
    told.words().iter().filter(|word| **word == "release").count()
}

/// MAAS clears the mark when a release begins; without annotations nothing would tell whose the machine is when it fails.
#[test]
fn a_machine_that_lacks_its_annotations_gets_them_before_it_is_released() {
    let mut world = not_annotated();
    assert_eq!(releases(&world.reconcile(NAME)), 1);
    // The BMC does not answer.
    world.maas.host(HOST).shown.status = Status::ReleasingFailed;
    world.now += 3600;
    assert_eq!(releases(&world.reconcile(NAME)), 1);
    world.maas.time_passes();
    world.now += 60;
    world.reconcile(NAME);
    assert!(world.kube.maas_machine(NAME).is_none());
    assert_eq!(world.maas.hosts[HOST].shown.owner, None);
}

#[test]
fn a_machine_that_may_not_have_annotations_is_released_all_the_same() {
    let mut world = not_annotated();
    assert_eq!(releases(&world.reconcile_with(NAME, refused_annotations)), 1);
    assert!(world.maas.hosts[HOST].shown.status.releasing());
}

/// It is known by its provider id alone, and has no mark that annotations could hold.
#[test]
fn a_machine_of_the_go_provider_is_released_without_being_annotated() {
    let mut world = World::with_machine(false);
    let host = world.maas.host("bbb222");
    host.shown.status = Status::Deployed;
    host.shown.owner = Some(US.into());
    let object = json!({
        "metadata": { "finalizers": [names::MACHINE_FINALIZER] },
        "spec": { "providerID": "maas:///default/bbb222" },
    });
    world.kube.edit("MaasMachine", NAME, &object);
    world.kube.delete("MaasMachine", NAME);
    assert_eq!(world.reconcile(NAME).words(), ["release"]);
}
