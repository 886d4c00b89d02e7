//! The API server's name, its record, and the zones.

use capmaas_api::{ApiEndpoint, cluster_api, names};
use capmaas_core::maas::{DnsAddress, Power};
use capmaas_core::{Category, Effect, Read, Step};
use serde_json::json;

use super::world::clusters::addresses;
use super::world::{CLUSTER, NAME, Turn, World};

const HOSTS: [&str; 3] = ["aaa111", "bbb222", "ccc333"];

/// Three control planes that serve, all of them in the record.
fn three_control_planes() -> World {
    let mut world = World::with_machine(true);
    world.kube.add_machine("blue-1", true);
    world.kube.add_machine("blue-2", true);
    world.rounds(10);
    assert_eq!(addresses(&world).len(), 3);
    world
}

fn power(world: &mut World, power: Power) {
    for id in HOSTS {
        world.maas.host(id).shown.power = power;
    }
}

#[test]
fn b001_control_planes_that_all_read_off_for_a_moment_keep_their_name() {
    let mut world = three_control_planes();
    let full = addresses(&world);
    power(&mut world, Power::Off);
    let first = world.reconcile_cluster();
    power(&mut world, Power::On);
    world.now += 15;
    let second = world.reconcile_cluster();
    assert!(first.effects().chain(second.effects()).next().is_none(), "one reading is none");
    assert_eq!(addresses(&world), full);
}

/// Off for good, as when the BMCs of a whole rack are unreachable: clients that retry need the name all the same.
#[test]
fn b001_control_planes_that_all_stay_off_keep_their_name_too() {
    let mut world = three_control_planes();
    let full = addresses(&world);
    for _ in 0..40 {
        power(&mut world, Power::Off);
        for name in world.kube.names() {
            world.reconcile_with(&name, |_, _, step| match step {
                Step::Do(Effect::PowerOn { .. }) => Turn::Fails(Category::Server, false),
                _ => Turn::Answered,
            });
            assert_eq!(super::said(&world, &name).0, "MachinePoweredOff", "it is said");
        }
        let told = world.reconcile_cluster();
        let emptied = |e: &Effect| matches!(e, Effect::SetDnsAddresses { addresses, .. } if addresses.is_empty());
        assert!(!told.effects().any(emptied) && !addresses(&world).is_empty());
        world.now += 15;
    }
    power(&mut world, Power::On);
    world.rounds(10);
    assert_eq!(addresses(&world), full, "nothing that was remembered stands in the way");
}

#[test]
fn b003_a_cluster_that_is_looked_at_a_hundred_times_writes_its_record_once() {
    let mut world = World::with_deployed_machine(true);
    world.maas.records.values_mut().for_each(|r| r.addresses.clear());
    let mut writes = 0;
    for _ in 0..100 {
        let told = world.reconcile_cluster();
        writes += told.effects().count();
        world.now += 15;
    }
    assert_eq!(writes, 1);
    assert_eq!(addresses(&world), ["10.0.0.10"]);
}

/// Somebody added an address to our record that another record holds as well. MAAS keeps one row for both.
#[test]
fn b005_an_address_that_leaves_our_record_stays_in_everybody_elses() {
    const SHARED: &str = "10.9.9.9";
    for deleting in [false, true] {
        let mut world = World::with_deployed_machine(true);
        let ours = *world.maas.records.keys().next().unwrap();
        let shared = DnsAddress { ip: SHARED.into(), reserved: true };
        world.maas.records.get_mut(&ours).unwrap().addresses.push(shared.clone());
        world.maas.reserved.insert(SHARED.into());
        let theirs = world.maas.add_record("theirs.maas", &[]);
        world.maas.records.get_mut(&theirs).unwrap().addresses.push(shared);
        if deleting {
            world.kube.delete("MaasMachine", NAME);
            world.kube.delete("MaasCluster", CLUSTER);
        }
        world.rounds(8);
        assert_eq!(world.kube.maas_cluster().is_none(), deleting);
        let left = world.maas.records.get(&ours).map(|r| r.ips()).unwrap_or_default();
        assert!(!left.contains(&SHARED.to_owned()), "{left:?}");
        assert_eq!(world.maas.records[&theirs].ips(), [SHARED]);
    }
}

#[test]
fn b007_an_endpoint_of_ones_own_without_a_port_gets_6443_and_no_record() {
    let mut world = World::with_cluster();
    let given = ApiEndpoint { host: "api.example.test".into(), port: 0 };
    world.kube.cluster.as_mut().unwrap().spec.control_plane_endpoint = Some(given);
    let told = world.reconcile_cluster();
    let object = world.kube.maas_cluster().unwrap();
    let published = ApiEndpoint { host: "api.example.test".into(), port: 6443 };
    assert_eq!(object.spec.control_plane_endpoint, Some(published));
    assert!(object.status.unwrap().ready);
    let dns = |s: &Step<_>| matches!(s, Step::Read(Read::DnsByName(_) | Read::DnsResource(_)));
    assert!(!told.steps.iter().any(dns) && world.maas.records.is_empty(), "{:?}", told.steps);
}

/// An object that another version wrote in the other shape, under a newer or an older Cluster API.
#[test]
fn b081_failure_domains_of_the_other_shape_are_put_right() {
    let map = json!({ "default": { "controlPlane": true } });
    let list = json!([{ "name": "default", "controlPlane": true }]);
    for (v1beta1_only, stored, wanted) in [(false, &map, &list), (true, &list, &map)] {
        let mut world = World::with_cluster();
        world.v1beta1_only = v1beta1_only;
        let object = json!({
            "spec": { "failureDomains": ["default"] },
            "status": { "ready": true, "failureDomains": stored },
        });
        world.kube.edit("MaasCluster", CLUSTER, &object);
        world.reconcile_cluster();
        let status = world.kube.maas_cluster().unwrap().status.unwrap();
        assert_eq!(status.failure_domains.as_ref(), Some(wanted));
        assert!(status.ready);
    }
}

/// A ClusterClass makes the Cluster first, and everything that it refers to later.
#[test]
fn b099_a_cluster_of_nothing_but_a_topology_is_waited_for() {
    let bare = json!({ "spec": { "topology": { "classRef": { "name": "c" }, "version": "v1" } } });
    let bare: cluster_api::Cluster = serde_json::from_value(bare).unwrap();
    let mut world = World::with_machine(true);
    world.kube.cluster = Some(bare.clone());
    let mut seen = world.machine_snapshot(NAME).unwrap();
    seen.maas_cluster = None;
    let told = world.reconcile_seen(NAME, seen.clone(), |_, _, _| Turn::Answered);
    assert_eq!(told.steps.len(), 1);
    assert_eq!(super::said(&world, NAME).0, "WaitingForClusterInfrastructure");
    seen.cluster = None;
    let told = world.reconcile_seen(NAME, seen, |_, _, _| Turn::Answered);
    assert_eq!(told.effects().count(), 0);

    let mut ownerless = world.machine_snapshot(NAME).unwrap();
    ownerless.machine = None;
    let told = world.reconcile_seen(NAME, ownerless, |_, _, _| Turn::Answered);
    assert_eq!((told.steps.len(), told.effects().count()), (1, 0));
    // Its infrastructure comes up under the label's name, whatever else is not there yet.
    let label = json!({ "metadata": { "labels": { names::CLUSTER_NAME_LABEL: CLUSTER } } });
    world.kube.edit("MaasCluster", CLUSTER, &label);
    world.reconcile_cluster();
    assert!(world.kube.maas_cluster().unwrap().status.unwrap().ready);
}
