//! How a machine goes, whatever stands in the way.

use capmaas_core::maas::Status;
use capmaas_core::policy::Refused;
use capmaas_core::{Category, Effect, Step};
use serde_json::json;

use super::world::{CLUSTER, NAME, Turn, US, World};

fn exists(world: &World) -> bool {
    world.kube.maas_machine(NAME).is_some()
}

fn held(world: &World) -> Vec<&str> {
    let ours = world.maas.hosts.values().filter(|h| h.shown.owner.as_deref() == Some(US));
    ours.map(|h| h.shown.system_id.as_str()).collect()
}

/// Reconciles what is left until the object is gone; MAAS works meanwhile.
fn until_gone(world: &mut World) {
    for _ in 0..40 {
        if exists(world) {
            world.reconcile(NAME);
        }
        if world.kube.maas_cluster().is_some() {
            world.reconcile_cluster();
        }
        world.maas.time_passes();
        world.now += 15;
    }
    assert!(!exists(world), "{:?}", world.kube.maas_machine(NAME));
}

/// A machine of ours whose release has begun.
fn leaving() -> World {
    let mut world = World::with_deployed_machine(false);
    world.kube.delete("MaasMachine", NAME);
    assert_eq!(world.reconcile(NAME).words(), ["release"]);
    world
}

#[test]
fn b053_erasing_disks_for_forty_five_minutes_is_waited_for() {
    let mut world = leaving();
    world.maas.host("aaa111").shown.status = Status::DiskErasing;
    for _ in 0..45 {
        world.now += 60;
        assert_eq!(world.reconcile(NAME).effects().count(), 0);
        assert!(exists(&world), "the host is still ours");
        assert_eq!(super::said(&world, NAME).0, "Deleted");
    }
    world.maas.free("aaa111");
    world.reconcile(NAME);
    assert!(!exists(&world));
}

#[test]
fn b053_disks_that_cannot_be_erased_are_not_taken_for_erased() {
    for failed in [Status::FailedDiskErasing, Status::ReleasingFailed] {
        let mut world = leaving();
        world.maas.host("aaa111").shown.status = failed.clone();
        world.now += 60;
        assert_eq!(world.reconcile(NAME).words(), ["release"], "{failed}: it is tried again");
        assert!(exists(&world), "{failed}");
        until_gone(&mut world);
        assert_eq!(held(&world), [""; 0], "{failed}");
    }
}

#[test]
fn b071_a_machine_can_be_deleted_in_each_of_its_phases() {
    let at = |phase: &str, carried_out: bool| {
        let phase = phase.to_owned();
        move |world: &mut World| {
            world.reconcile_with(NAME, |_, _, step| match step {
                Step::Do(effect) if super::world::drive::word(effect) == phase => {
                    Turn::Dies(carried_out)
                }
                _ => Turn::Answered,
            });
        }
    };
    let named = |id: &'static str| {
        move |world: &mut World| {
            world.reconcile(NAME);
            world.kube.edit("MaasMachine", NAME, &json!({ "spec": { "providerID": id } }));
        }
    };
    let shown = |status: Status| {
        move |world: &mut World| {
            world.reconcile(NAME);
            world.maas.host("aaa111").shown.status = status.clone();
        }
    };
    let gone = |world: &mut World| {
        world.reconcile(NAME);
        world.maas.hosts.remove("aaa111");
    };
    type Phase = Box<dyn Fn(&mut World)>;
    let phases: [(&str, Phase); 10] = [
        ("before it was allocated", Box::new(at("allocate", false))),
        ("allocated, and nobody heard of it", Box::new(at("allocate", true))),
        ("allocated", Box::new(at("deploy", false))),
        ("deploying", Box::new(at("deploy", true))),
        ("its id was taken away", Box::new(named(""))),
        ("its id is no id", Box::new(named("nonsense"))),
        ("its id is half of one", Box::new(named("maas:///default/"))),
        ("its deployment failed", Box::new(shown(Status::FailedDeployment))),
        ("broken", Box::new(shown(Status::Broken))),
        ("gone from MAAS", Box::new(gone)),
    ];
    for (phase, come_to) in phases {
        let mut world = World::with_machine(false);
        come_to(&mut world);
        world.kube.delete("MaasMachine", NAME);
        until_gone(&mut world);
        assert_eq!(held(&world), [""; 0], "{phase}");
    }
}

/// Whatever hangs or traps: what goes is released all the same.
#[test]
fn b123_no_policy_holds_a_deletion_up() {
    for control_plane in [false, true] {
        let mut world = World::with_deployed_machine(control_plane);
        world.policies.refusal = Some(Refused::unusable("it did not answer in time"));
        world.kube.delete("MaasMachine", NAME);
        world.kube.delete("MaasCluster", CLUSTER);
        let mut refused = 0;
        for _ in 0..60 {
            if world.kube.maas_cluster().is_some() {
                world.reconcile_cluster();
            }
            if exists(&world) {
                // Even the failure that a policy should deal with is only tried again.
                world.reconcile_with(NAME, |_, _, step| match step {
                    Step::Do(Effect::Release { .. }) if refused < 3 => {
                        refused += 1;
                        Turn::Fails(Category::Server, false)
                    }
                    _ => Turn::Answered,
                });
            }
            world.maas.time_passes();
            world.now += 30;
        }
        assert_eq!(refused, 3);
        assert!(!exists(&world) && world.kube.maas_cluster().is_none());
        assert!(held(&world).is_empty() && world.maas.records.is_empty());
    }
}
