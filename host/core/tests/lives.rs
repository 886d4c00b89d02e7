//! Whole lives, with the accidents that happen in them.

mod world;

use capmaas_core::maas::{Power, Status};
use capmaas_core::ownership::annotation;
use capmaas_core::policy::Action;
use capmaas_core::{Category, Effect, Step};
use serde_json::json;
use world::{CLUSTER, NAME, Turn, World};

/// Addresses in the first record of MAAS.
fn in_record(world: &World) -> Vec<String> {
    world.maas.records.values().next().map(|r| r.ips()).unwrap_or_default()
}

fn reason(world: &World, name: &str) -> String {
    let status = world.kube.maas_machine(name).unwrap().status.unwrap();
    let deployed = status.conditions.unwrap().into_iter().find(|c| c.kind == "MachineDeployed");
    deployed.unwrap().reason.unwrap()
}

#[test]
fn a_worker_is_taken_deployed_and_released() {
    let mut world = World::with_machine(false);
    world.reconcile(NAME);
    assert_eq!(world.maas.hosts["aaa111"].shown.status, Status::Deploying);
    world.rounds(3);
    assert!(world.kube.maas_machine(NAME).unwrap().status.unwrap().ready);
    world.kube.delete("MaasMachine", NAME);
    world.rounds(3);
    assert!(world.kube.maas_machine(NAME).is_none());
    let host = &world.maas.hosts["aaa111"];
    assert_eq!(host.shown.status, Status::Ready);
    assert!(host.shown.annotations.is_empty());
}

/// MAAS takes a free machine for whoever deploys it: one that somebody released between our reading and our call is
/// held all the same, and has to show it; also when nobody hears of it.
#[test]
fn a_machine_that_is_released_a_moment_before_its_deployment_is_still_known_as_ours() {
    let turns: [fn() -> Turn; 3] =
        [|| Turn::Answered, || Turn::Dies(true), || Turn::Fails(Category::Unknown, true)];
    for turn in turns {
        released_before_its_deployment(turn);
    }
}

fn released_before_its_deployment(turn: fn() -> Turn) {
    let mut world = World::with_machine(false);
    world.reconcile_with(NAME, |world, _, step| {
        if matches!(step, Step::Do(Effect::Deploy { .. })) {
            world.maas.free("aaa111");
            return turn();
        }
        Turn::Answered
    });
    assert_eq!(world.maas.hosts["aaa111"].shown.status, Status::Deploying);
    world.reconcile(NAME);
    let host = &world.maas.hosts["aaa111"];
    assert_eq!(host.shown.annotations[annotation::MACHINE], NAME);
    assert!(host.shown.annotations.contains_key(annotation::MARK));
    world.rounds(3);
    assert!(world.kube.maas_machine(NAME).unwrap().status.unwrap().ready);
    world.kube.delete("MaasMachine", NAME);
    world.rounds(3);
    assert!(world.maas.hosts.values().all(|h| h.shown.owner.is_none()));
}

#[test]
fn a_control_plane_enters_the_record_and_leaves_it_one_ttl_before_its_release() {
    let mut world = World::with_deployed_machine(true);
    assert_eq!(in_record(&world), ["10.0.0.10"]);
    world.kube.delete("MaasMachine", NAME);
    world.reconcile(NAME);
    world.reconcile_cluster();
    let left = world.now;
    assert!(in_record(&world).is_empty());
    while world.maas.hosts["aaa111"].shown.status == Status::Deployed {
        world.now += 1;
        world.reconcile(NAME);
        assert!(world.now < left + 60, "it is never released");
    }
    assert!(world.now >= left + 10, "released {} s after leaving", world.now - left);
}

/// The cluster attaches the address; before the machine has noticed, it is deleted.
#[test]
fn the_ttl_is_waited_for_even_when_the_machine_never_saw_itself_attached() {
    let mut world = World::with_machine(true);
    world.rounds(1);
    world.kube.cluster_api_follows();
    world.reconcile(NAME);
    world.now += 600;
    world.reconcile_cluster();
    assert_eq!(in_record(&world), ["10.0.0.10"]);
    world.kube.delete("MaasMachine", NAME);
    world.reconcile_cluster();
    let left = world.now;
    assert!(in_record(&world).is_empty());
    world.reconcile(NAME);
    assert_eq!(world.maas.hosts["aaa111"].shown.status, Status::Deployed);
    while world.maas.hosts["aaa111"].shown.status == Status::Deployed {
        world.now += 1;
        world.reconcile(NAME);
        assert!(world.now < left + 60, "it is never released");
    }
    assert!(world.now >= left + 10, "released {} s after leaving", world.now - left);
}

#[test]
fn a_machine_of_the_go_provider_is_taken_over_without_being_touched() {
    let mut world = World::with_machine(true);
    let host = world.maas.host("bbb222");
    host.shown.status = Status::Deployed;
    host.shown.power = Power::On;
    host.shown.owner = Some(world::US.into());
    host.shown.ip_addresses = vec!["10.0.0.11".into()];
    world.kube.edit(
        "MaasMachine",
        NAME,
        &json!({
            "metadata": { "finalizers": [capmaas_api::names::MACHINE_FINALIZER] },
            "spec": { "providerID": "maas:///default/bbb222", "systemID": "bbb222" },
            "status": { "ready": true },
        }),
    );
    let mut done = Vec::new();
    for _ in 0..4 {
        world.kube.cluster_api_follows();
        let told = world.reconcile(NAME);
        done.extend(told.effects().cloned());
        world.reconcile_cluster();
        world.now += 15;
    }
    assert_eq!(reason(&world, NAME), "MachineDeployed");
    let host = &world.maas.hosts["bbb222"];
    assert_eq!(host.shown.annotations.get(annotation::MACHINE).unwrap(), NAME);
    assert!(
        done.iter().all(|e| matches!(e, Effect::Patch { .. } | Effect::Annotate { .. })),
        "{done:?}"
    );
    assert_eq!(in_record(&world), ["10.0.0.11"]);
}

#[test]
fn the_last_address_stays_while_its_machine_is_only_off() {
    let mut world = World::with_deployed_machine(true);
    for _ in 0..10 {
        // Every power-on is accepted, and none helps.
        world.maas.host("aaa111").shown.power = Power::Off;
        world.rounds(1);
        assert_eq!(in_record(&world), ["10.0.0.10"]);
    }
    world.maas.host("aaa111").shown.status = Status::Broken;
    world.rounds(1);
    assert!(in_record(&world).is_empty());
}

#[test]
fn an_address_leaves_when_its_machine_stays_off_whatever_hinders_powering_it_on() {
    for hindrance in ["locked", "given up", "no policy"] {
        let mut world = World::with_machine(true);
        world.kube.add_machine("blue-1", true);
        world.rounds(8);
        assert_eq!(in_record(&world), ["10.0.0.10", "10.0.0.11"]);
        world.maas.host("aaa111").shown.power = Power::Off;
        match hindrance {
            "locked" => world.maas.host("aaa111").shown.locked = true,
            "given up" => world.policies.action = Some(Action::GiveUp("enough".into())),
            _ => {
                let refusal = capmaas_core::policy::Refused::unusable("trap");
                world.policies.refusal = Some(refusal);
            }
        }
        for _ in 0..8 {
            world.reconcile_with(NAME, |_, _, step| match step {
                Step::Do(Effect::PowerOn { .. }) => Turn::Fails(Category::Server, false),
                _ => Turn::Answered,
            });
            world.reconcile_cluster();
            world.now += 15;
        }
        assert_eq!(in_record(&world), ["10.0.0.11"], "{hindrance}");
    }
}

#[test]
fn nothing_more_is_tried_after_a_policy_has_given_up_on_powering_on() {
    let mut world = World::with_deployed_machine(false);
    world.maas.host("aaa111").shown.power = Power::Off;
    world.policies.action = Some(Action::GiveUp("enough".into()));
    let mut tries = 0;
    for _ in 0..5 {
        world.reconcile_with(NAME, |_, _, step| match step {
            Step::Do(Effect::PowerOn { .. }) => {
                tries += 1;
                Turn::Fails(Category::Server, false)
            }
            _ => Turn::Answered,
        });
        world.now += 300;
    }
    assert_eq!(tries, 1);
}

/// What was seen is out of date: the object has a machine already. Another one that MAAS holds
/// under the same mark goes back; the one the object names stays.
#[test]
fn an_outdated_view_never_gives_back_the_machine_that_the_object_names() {
    let mut world = World::with_machine(false);
    // The first allocate is carried out, and dies.
    world.reconcile_with(NAME, |_, _, step| match step {
        Step::Do(Effect::Patch { patch, .. }) if !patch.spec.is_empty() => Turn::Dies(false),
        _ => Turn::Answered,
    });
    let outdated = world.machine_snapshot(NAME).unwrap();
    // A second one under the same mark, named by the object.
    let mark = world.maas.hosts["aaa111"].agent_name.clone();
    let host = world.maas.host("bbb222");
    host.shown.status = Status::Allocated;
    host.shown.owner = Some(world::US.into());
    host.agent_name = mark;
    let id = json!({ "spec": { "providerID": "maas:///default/bbb222" } });
    world.kube.edit("MaasMachine", NAME, &id);
    world.reconcile_seen(NAME, outdated, |_, _, _| Turn::Answered);
    assert_eq!(world.maas.hosts["bbb222"].shown.status, Status::Allocated);
    assert_eq!(world.maas.hosts["aaa111"].shown.status, Status::Releasing);
}

#[test]
fn a_domain_that_is_gone_holds_no_deletion_up() {
    let mut world = World::with_deployed_machine(true);
    world.maas.domains.clear();
    world.maas.records.clear();
    world.kube.delete("MaasMachine", NAME);
    world.kube.delete("MaasCluster", CLUSTER);
    world.rounds(6);
    assert!(world.kube.maas_machine(NAME).is_none());
    assert!(world.kube.maas_cluster().is_none());
}

/// MAAS reserves an address that it does not know; the reservation outlives the record.
#[test]
fn a_crash_while_the_record_goes_leaves_no_reservation_behind() {
    let mut world = World::with_deployed_machine(true);
    // MAAS has learnt nothing of this address, so it reserved it for the record.
    let address = "10.0.0.10".to_owned();
    world.maas.reserved.insert(address.clone());
    for record in world.maas.records.values_mut() {
        record.addresses[0].reserved = true;
    }
    world.kube.delete("MaasCluster", CLUSTER);
    world.kube.delete("MaasMachine", NAME);
    let mut died = false;
    for _ in 0..10 {
        if world.kube.maas_cluster().is_some() {
            world.reconcile_cluster_with(|_, _, step| match step {
                Step::Do(Effect::ReleaseAddress { .. }) if !died => {
                    died = true;
                    Turn::Dies(false)
                }
                _ => Turn::Answered,
            });
        }
        if world.kube.maas_machine(NAME).is_some() {
            world.reconcile(NAME);
        }
        world.maas.time_passes();
        world.now += 15;
    }
    assert!(died);
    assert!(world.kube.maas_cluster().is_none());
    assert!(world.maas.records.is_empty());
    assert!(world.maas.reserved.is_empty(), "{:?}", world.maas.reserved);
}

#[test]
fn a_cluster_is_ready_only_when_its_record_can_exist() {
    let mut world = World::with_cluster();
    let endpoint = capmaas_api::ApiEndpoint { host: "api.maas".into(), port: 6443 };
    world.kube.cluster.as_mut().unwrap().spec.control_plane_endpoint = Some(endpoint);
    world.maas.domains.clear();
    world.reconcile_cluster();
    assert!(!world.kube.maas_cluster().unwrap().status.unwrap().ready);
    world.maas.domains = vec!["maas".into()];
    world.reconcile_cluster();
    assert!(world.kube.maas_cluster().unwrap().status.unwrap().ready);
}

#[test]
fn a_deployment_that_maas_keeps_refusing_is_reported_and_not_repeated_at_once() {
    let mut world = World::with_machine(false);
    let told = world.reconcile_with(NAME, |_, _, step| match step {
        Step::Do(Effect::Deploy { .. }) => Turn::Fails(Category::State, false),
        _ => Turn::Answered,
    });
    assert!(told.done().unwrap().requeue.unwrap() >= 15);
    assert_eq!(reason(&world, NAME), "MachineDeployFailed");
}

#[test]
fn a_reserved_machine_is_waited_for() {
    let mut world = World::with_machine(false);
    world.reconcile_with(NAME, |_, _, step| match step {
        Step::Do(Effect::Deploy { .. }) => Turn::Dies(false),
        _ => Turn::Answered,
    });
    world.maas.host("aaa111").shown.status = Status::Reserved;
    assert_eq!(world.reconcile(NAME).effects().count(), 0);
    assert_eq!(reason(&world, NAME), "MachineStateUndefined");
}

/// The object was removed by force and made anew while its machine was being taken.
#[test]
fn a_new_object_by_the_same_name_does_not_inherit_the_machine() {
    let mut world = World::with_machine(false);
    world.reconcile_with(NAME, |world, _, step| {
        if matches!(step, Step::Do(Effect::Patch { patch, .. }) if !patch.spec.is_empty()) {
            let anew = json!({ "metadata": { "uid": "another", "annotations": null } });
            world.kube.edit("MaasMachine", NAME, &anew);
        }
        Turn::Answered
    });
    assert_eq!(world.maas.hosts["aaa111"].shown.status, Status::Releasing);
    assert_eq!(world.kube.maas_machine(NAME).unwrap().spec.provider_id, None);
}

#[test]
fn a_machine_that_is_to_run_from_memory_has_16_gib_at_least() {
    let mut world = World::with_machine(false);
    let spec = json!({ "spec": { "deployInMemory": true, "minMemory": 2048 } });
    world.kube.edit("MaasMachine", NAME, &spec);
    world.maas.host("aaa111").shown.memory = 16383;
    world.maas.host("bbb222").shown.memory = 16384;
    world.reconcile(NAME);
    let host = &world.maas.hosts["bbb222"].shown;
    assert!(host.status == Status::Deploying && host.ephemeral);
}

/// MAAS took longer over a lost allocate than it ever should.
#[test]
fn a_second_holder_of_the_mark_that_turns_up_late_is_given_back() {
    let mut world = World::with_machine(false);
    world.reconcile(NAME);
    let mark = world.maas.hosts["aaa111"].agent_name.clone();
    let second = world.maas.host("bbb222");
    second.agent_name = mark;
    second.shown.status = Status::Allocated;
    second.shown.owner = Some(world::US.into());
    world.maas.time_passes();
    world.now += 600;
    world.reconcile(NAME);
    assert_eq!(world.maas.hosts["bbb222"].shown.status, Status::Releasing);
    assert_eq!(world.maas.hosts["aaa111"].shown.status, Status::Deployed);
}

/// Each change of the text would be a write, for every machine that is being deployed.
#[test]
fn what_maas_says_of_a_deployment_is_followed_at_a_measured_pace() {
    let mut world = World::with_machine(false);
    world.maas.host("aaa111").destiny = world::Destiny::Hangs;
    world.reconcile(NAME);
    let told_after = |world: &mut World, seconds: u64, text: &str| {
        world.now += seconds;
        world.maas.host("aaa111").shown.status_message = text.into();
        world.reconcile(NAME);
        let status = world.kube.maas_machine(NAME).unwrap().status.unwrap();
        let deployed = status.conditions.unwrap().into_iter().find(|c| c.kind == "MachineDeployed");
        deployed.unwrap().message.unwrap()
    };
    let nothing_yet = told_after(&mut world, 3, "Performing PXE boot");
    assert!(!nothing_yet.contains("PXE"), "{nothing_yet}");
    let first = told_after(&mut world, 12, "Installing OS");
    assert!(first.ends_with(": Installing OS"), "{first}");
    assert_eq!(told_after(&mut world, 5, "Configuring OS"), first);
    let second = told_after(&mut world, 10, "Rebooting");
    assert!(second.ends_with(": Rebooting"), "{second}");
}

/// A definition that is not served for a moment looks like an object that is gone; no watch tells when it is back.
#[test]
fn a_finalizer_that_cannot_be_removed_is_tried_again_even_if_the_object_seems_gone() {
    let mut world = World::with_machine(false);
    world.reconcile(NAME);
    world.kube.delete("MaasMachine", NAME);
    world.reconcile(NAME);
    world.maas.time_passes();
    let told = world.reconcile_with(NAME, |_, _, step| match step {
        Step::Do(Effect::Patch { .. }) => Turn::Fails(Category::NotFound, false),
        _ => Turn::Answered,
    });
    assert!(told.done().unwrap().requeue.is_some());
}
