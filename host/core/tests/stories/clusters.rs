use capmaas_api::ApiEndpoint;
use capmaas_core::Step;
use capmaas_core::maas::{Power, Status};

use super::Story;
use crate::world::{CLUSTER, NAME, Turn, World};

pub(super) fn stories() -> Vec<Story> {
    vec![
        good_path(),
        endpoint_elsewhere(),
        given_name(),
        name_taken(),
        crash_while_naming(),
        off_twice(),
        cluster_goes(),
    ]
}

/// The user has put this into `Cluster.spec.controlPlaneEndpoint`.
fn endpoint(s: &mut Story, host: &str) {
    let endpoint = ApiEndpoint { host: host.into(), port: 6443 };
    let cluster = s.world.kube.cluster.as_mut().expect("a Cluster");
    cluster.spec.control_plane_endpoint = Some(endpoint);
}

/// Finalizer, name, endpoint, record, and the record's id.
const NAMES: [&str; 5] = ["patch", "patch", "patch", "create record", "patch"];

fn good_path() -> Story {
    let mut s = Story::of(
        "a-cluster-gets-its-name",
        World::with_cluster(),
        "A name is generated and written down before its record exists; the record then follows the \
         control planes; a second look writes nothing.",
    );
    s.cluster(&NAMES);
    s.later(15);
    s.cluster(&[]);
    s.world.kube.add_machine(NAME, true);
    s.world.reconcile(NAME);
    s.later(600);
    s.world.reconcile(NAME);
    s.cluster(&["set addresses"]);
    s.later(15);
    s.cluster(&[]);
    s
}

fn endpoint_elsewhere() -> Story {
    let mut s = Story::of(
        "the-endpoint-is-an-address",
        World::with_cluster(),
        "The user brings a load balancer: its address is published and no DNS is managed.",
    );
    endpoint(&mut s, "192.0.2.7");
    s.cluster(&["patch", "patch"]);
    s.cluster(&[]);
    s
}

fn given_name() -> Story {
    let mut s = Story::of(
        "the-endpoint-is-a-name-in-the-domain",
        World::with_cluster(),
        "The user named the endpoint: no policy is asked, its record is found and filled, and it \
         stays when the cluster goes.",
    );
    endpoint(&mut s, "api.maas");
    s.world.maas.add_record("api.maas", &[]);
    s.cluster(&["patch", "patch", "patch"]);
    s.world.kube.delete("MaasCluster", CLUSTER);
    s.cluster(&["patch"]);
    assert_eq!(s.world.maas.records.len(), 1);
    s
}

fn name_taken() -> Story {
    let mut s = Story::of(
        "the-generated-name-is-taken",
        World::with_cluster(),
        "The proposed name exists in MAAS already: another suffix is tried.",
    );
    s.world.maas.add_record("blue-sufx01.maas", &["10.9.9.9"]);
    s.cluster(&NAMES);
    let published = s.world.kube.maas_cluster().and_then(|c| c.spec.control_plane_endpoint);
    assert_eq!(published.expect("an endpoint").host, "blue-sufx02.maas");
    s
}

fn crash_while_naming() -> Story {
    let mut s = Story::of(
        "a-crash-after-the-record-was-made",
        World::with_cluster(),
        "The record exists and its id was not written down: it is empty and carries the name that \
         was, so it is ours.",
    );
    let mut made = false;
    s.world.reconcile_cluster_with(|_, _, step| {
        if made {
            return Turn::Dies(false);
        }
        made = matches!(step, Step::Do(e) if crate::world::drive::word(e) == "create record");
        Turn::Answered
    });
    s.cluster(&["patch"]);
    assert_eq!(s.world.maas.records.len(), 1);
    s
}

fn off_twice() -> Story {
    let mut world = World::with_machine(true);
    world.kube.add_machine("blue-1", true);
    let mut s = Story::of(
        "a-control-plane-is-off",
        world,
        "Off in one reading changes nothing; off in a second takes the address out; the last \
         address stays as long as its machine is only off.",
    );
    s.meanwhile(8);
    for id in ["aaa111", "bbb222"] {
        s.world.maas.host(id).shown.power = Power::Off;
        s.cluster(&[]);
        let stays_off = |world: &mut World, name: &str| {
            world.reconcile(name);
            world.maas.host(id).shown.power = Power::Off;
            world.now += 30;
        };
        stays_off(&mut s.world, if id == "aaa111" { NAME } else { "blue-1" });
        let last = id == "bbb222";
        s.cluster(if last { &[] } else { &["set addresses"] });
    }
    s.world.maas.host("bbb222").shown.status = Status::Broken;
    s.cluster(&["set addresses"]);
    s
}

fn cluster_goes() -> Story {
    let mut s = Story::of(
        "a-cluster-goes",
        World::with_deployed_machine(true),
        "While machines go their addresses leave the record; then the record goes, then the finalizer.",
    );
    s.world.kube.delete("MaasCluster", CLUSTER);
    s.cluster(&[]);
    s.world.kube.delete("MaasMachine", NAME);
    s.cluster(&["set addresses"]);
    for _ in 0..5 {
        if s.world.kube.maas_machine(NAME).is_some() {
            s.world.reconcile(NAME);
        }
        s.later(15);
    }
    s.cluster(&["delete record", "patch"]);
    assert!(s.world.kube.maas_cluster().is_none());
    assert!(s.world.maas.records.is_empty());
    s
}
