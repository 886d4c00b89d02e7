//! Which addresses the API server's record holds, for every state of a control plane.

mod world;

use std::collections::BTreeSet;

use capmaas_api::names;
use capmaas_core::maas::{Power, Status};
use capmaas_core::{Read, Step};
use serde_json::json;
use world::clusters::{OURS, RECORD, addresses, control_plane, named_cluster};
use world::{CLUSTER, NAME, World};

const OTHER: &str = "10.0.0.11";

/// How the machine's own reconcile last saw its power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Earlier {
    On,
    OffJustNow,
    OffForAMinute,
}

#[derive(Clone, Debug)]
struct Case {
    status: Status,
    power: Power,
    deleting: bool,
    present: bool,
    earlier: Earlier,
}

fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for status in Status::all().chain([Status::Other("Polishing".into())]) {
        for power in [Power::On, Power::Off, Power::Unknown, Power::Error] {
            for earlier in [Earlier::On, Earlier::OffJustNow, Earlier::OffForAMinute] {
                for (deleting, present) in
                    [(false, false), (false, true), (true, false), (true, true)]
                {
                    let status = status.clone();
                    all.push(Case { status, power, deleting, present, earlier });
                }
            }
        }
    }
    all
}

impl Case {
    /// In: Deployed and on. Out: leaving, not Deployed, or off twice. Else as it was.
    fn belongs(&self) -> bool {
        if self.deleting || self.status != Status::Deployed {
            return false;
        }
        match (self.power, self.earlier) {
            (Power::On, _) => true,
            (Power::Off, Earlier::OffForAMinute) => false,
            _ => self.present,
        }
    }

    fn world(&self, companion: bool) -> World {
        let mut world = named_cluster();
        control_plane(&mut world, NAME, "aaa111", OURS);
        if companion {
            control_plane(&mut world, "blue-1", "bbb222", OTHER);
        }
        let mut ips = Vec::new();
        if self.present {
            ips.push(OURS);
        }
        if companion {
            ips.push(OTHER);
        }
        let id = world.maas.add_record(RECORD, &ips);
        let change = json!({ "metadata": { "annotations": { names::DNS_RESOURCE_ANNOTATION: id.to_string() } } });
        world.kube.edit("MaasCluster", CLUSTER, &change);
        let host = world.maas.host("aaa111");
        host.shown.status = self.status.clone();
        host.shown.power = self.power;
        let seconds = if self.earlier == Earlier::OffJustNow { 59 } else { 0 };
        if self.earlier != Earlier::On {
            let off = json!({ "status": { "machinePowered": false, "conditions": [{
                "type": "MachineDeployed", "status": "False", "reason": "MachinePoweredOff",
                "lastTransitionTime": format!("2026-11-30T00:00:{seconds:02}Z"),
            }] } });
            world.kube.edit("MaasMachine", NAME, &off);
        }
        world.now += 60;
        if self.deleting {
            world.kube.delete("MaasMachine", NAME);
        }
        world
    }
}

#[test]
fn every_status_and_power_puts_an_address_in_or_out_or_leaves_it() {
    let (mut count, mut statuses) = (0, BTreeSet::new());
    for case in cases() {
        let mut world = case.world(true);
        let told = world.reconcile_cluster();
        let wanted: &[&str] = if case.belongs() { &[OURS, OTHER] } else { &[OTHER] };
        assert_eq!(addresses(&world), wanted, "{case:?}");
        let mut calls = Vec::new();
        if case.belongs() != case.present {
            calls.push("set addresses");
        }
        if case.deleting {
            // Its host is remembered, whatever became of it.
            calls.push("patch");
        }
        assert_eq!(told.words(), calls, "{case:?}");
        assert_eq!(world.reconcile_cluster().words(), [""; 0], "twice: {case:?}");
        count += 1;
        statuses.insert(case.status.label().to_owned());
    }
    println!("{count} situations, {} statuses", statuses.len());
    assert_eq!((count, statuses.len()), (24 * 4 * 3 * 4, 24));
}

#[test]
fn the_last_address_leaves_only_when_its_machine_is_going() {
    for case in cases().into_iter().filter(|c| c.present) {
        let mut world = case.world(false);
        world.reconcile_cluster();
        let going = case.deleting || case.status != Status::Deployed;
        assert_eq!(addresses(&world).is_empty(), going, "{case:?}");
    }
}

#[test]
fn a_machine_that_vanished_from_maas_is_out_and_one_that_cannot_be_read_changes_nothing() {
    let case =
        cases().into_iter().find(|c| c.status == Status::Deployed && c.present && !c.deleting);
    let mut world = case.clone().unwrap().world(true);
    let told = world.reconcile_cluster_with(|_, _, step| match step {
        Step::Read(Read::Machine(_)) => world::Turn::Fails(capmaas_core::Category::Server, false),
        _ => world::Turn::Answered,
    });
    assert_eq!((told.words().len(), addresses(&world)), (0, vec![OURS.to_owned(), OTHER.into()]));
    world.maas.hosts.remove("aaa111");
    world.reconcile_cluster();
    assert_eq!(addresses(&world), [OTHER]);
}

#[test]
fn a_machine_taken_by_somebody_else_is_out() {
    let case =
        cases().into_iter().find(|c| c.status == Status::Deployed && c.present && !c.deleting);
    let mut world = case.unwrap().world(true);
    let taken = world.maas.host("aaa111");
    taken.shown.owner = Some("somebody".into());
    // It was released in between, which wipes them.
    taken.shown.annotations.clear();
    world.reconcile_cluster();
    assert_eq!(addresses(&world), [OTHER]);
}

#[test]
fn a_changed_key_takes_no_address_out() {
    let case =
        cases().into_iter().find(|c| c.status == Status::Deployed && c.present && !c.deleting);
    let mut world = case.unwrap().world(true);
    world.maas.host("aaa111").shown.owner = Some("the-user-of-the-old-key".into());
    world.reconcile_cluster();
    assert_eq!(addresses(&world), [OURS, OTHER]);
}

#[test]
fn a_listing_without_control_planes_takes_no_address_out() {
    let mut world = named_cluster();
    control_plane(&mut world, NAME, "aaa111", OURS);
    world.reconcile_cluster();
    assert_eq!(addresses(&world), [OURS]);
    let unlabelled = json!({ "metadata": { "labels": { names::CONTROL_PLANE_LABEL: null } } });
    world.kube.edit("MaasMachine", NAME, &unlabelled);
    world.reconcile_cluster();
    assert_eq!(addresses(&world), [OURS]);
}

#[test]
fn workers_are_never_in_the_record() {
    let mut world = named_cluster();
    control_plane(&mut world, NAME, "aaa111", OURS);
    let worker = json!({ "metadata": { "labels": { names::CONTROL_PLANE_LABEL: null } } });
    world.kube.edit("MaasMachine", NAME, &worker);
    world.reconcile_cluster();
    assert!(addresses(&world).is_empty());
}
