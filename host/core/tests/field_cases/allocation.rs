//! Which machine is taken, and what is said when there is none.

use capmaas_core::maas::Status;
use capmaas_core::policy::{AllocateConstraints, Constraints, Ranking, Shortlisting};
use capmaas_core::{CallError, Category, Effect, Reply, Step};
use serde_json::json;

use super::world::drive::ToldMachine;
use super::world::{CLUSTER, World};
use super::{NAME, reconcile_changed, said};

/// What MAAS was asked to allocate.
fn asked(told: &ToldMachine) -> Vec<AllocateConstraints> {
    let asked = told.effects().filter_map(|e| match e {
        Effect::Allocate { constraints, .. } => Some((**constraints).clone()),
        _ => None,
    });
    asked.collect()
}

/// One free machine in each of the zones a, b and c, and a policy that holds b for sick.
fn b_is_sick() -> World {
    let mut world = World::with_machine(true);
    let zones = ["a", "b", "c"].map(str::to_owned);
    for (id, zone) in ["aaa111", "bbb222", "ccc333"].iter().zip(&zones) {
        world.maas.host(id).shown.zone.clone_from(zone);
    }
    world.maas.zones = zones.to_vec();
    let spec = json!({ "spec": { "failureDomains": zones } });
    world.kube.edit("MaasCluster", CLUSTER, &spec);
    let not_zones = vec!["b".to_owned()];
    world.policies.shortlisting =
        Shortlisting::Narrow(Constraints { not_zones, ..Constraints::default() });
    world
}

#[test]
fn b041_no_machine_is_taken_in_a_zone_that_the_policy_excludes() {
    let mut world = b_is_sick();
    for name in ["blue-1", "blue-2"] {
        world.kube.add_machine(name, true);
    }
    world.rounds(6);
    let published = world.kube.maas_cluster().unwrap().status.unwrap().failure_domains.unwrap();
    let all: Vec<_> = ["a", "b", "c"].map(|z| json!({ "name": z, "controlPlane": true })).to_vec();
    assert_eq!(published, json!(all), "which zones there are is not the policy's to say");
    let status = |id: &str| world.maas.hosts[id].shown.status.clone();
    assert_eq!(["aaa111", "ccc333"].map(status), [Status::Deployed, Status::Deployed]);
    assert_eq!(status("bbb222"), Status::Ready);
    assert_eq!(said(&world, "blue-2").0, "NoMachineFound");
}

#[test]
fn b041_a_machine_that_is_pinned_to_an_excluded_zone_waits_and_says_so() {
    let mut world = b_is_sick();
    world.kube.machines.get_mut(NAME).unwrap().spec.failure_domain = Some("b".into());
    world.rounds(4);
    let (reason, message) = said(&world, NAME);
    assert!(
        reason == "NoMachineFits" && message.contains("policy excludes zone b"),
        "{reason}: {message}"
    );
    assert!(world.maas.hosts.values().all(|h| h.shown.status == Status::Ready), "none elsewhere");
}

#[test]
fn b043_the_resource_pool_is_asked_for_whatever_sort_of_machine_it_is() {
    let sorts = [
        ("to disk", json!({})),
        ("to memory", json!({ "deployInMemory": true })),
        ("virtual", json!({ "lxd": { "enabled": true } })),
    ];
    for (sort, spec) in sorts {
        let mut world = World::with_machine(false);
        world.maas.host("ccc333").shown.pool = "p1".into();
        world.kube.edit("MaasMachine", NAME, &json!({ "spec": spec }));
        world.kube.edit("MaasMachine", NAME, &json!({ "spec": { "resourcePool": "p1" } }));
        let asked = asked(&world.reconcile(NAME));
        assert_eq!(asked.len(), 1, "{sort}");
        assert_eq!(asked[0].constraints.pools, ["p1"], "{sort}");
        assert_eq!(world.maas.hosts["ccc333"].shown.status, Status::Deploying, "{sort}");
    }
}

#[test]
fn b047_equal_machines_are_taken_in_the_same_order_however_maas_lists_them() {
    for run in 0..10 {
        let mut world = World::with_machine(false);
        world.policies.shortlisting = Shortlisting::Inspect(Constraints::default());
        world.policies.ranking = Ranking { order: vec![0, 1, 2], rejected: vec![] };
        let told = reconcile_changed(&mut world, NAME, |step, reply| match (step, reply) {
            (Step::Read(_), Reply::Machines(mut listed)) => {
                let by = run % listed.len().max(1);
                listed.rotate_left(by);
                Reply::Machines(listed)
            }
            (_, reply) => reply,
        });
        assert_eq!(asked(&told)[0].system_id.as_deref(), Some("aaa111"), "run {run}");
    }
}

#[test]
fn b051_without_a_free_machine_the_constraints_are_told_readably_and_there_is_no_hurry() {
    let dump = format!("No available machine matches constraints: zone=z9 {}", "x=y ".repeat(150));
    assert!(dump.len() > 600);
    let mut world = World::with_machine(false);
    let told = reconcile_changed(&mut world, NAME, |step, reply| match step {
        Step::Do(Effect::Allocate { .. }) => Reply::Failed(CallError::new(Category::State, &dump)),
        _ => reply,
    });
    let (reason, message) = said(&world, NAME);
    assert_eq!(reason, "NoMachineFound");
    assert!(message.len() <= 1024, "{} bytes", message.len());
    for words in ["no free machine", "zone=z9", "add one, free one, or ask for less"] {
        assert!(message.contains(words), "{message}");
    }
    assert!(told.done().unwrap().requeue.unwrap() >= 15);
    // Whatever wakes it before its time asks nothing.
    assert_eq!(asked(&world.reconcile(NAME)), []);
}
