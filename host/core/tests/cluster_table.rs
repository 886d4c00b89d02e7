//! Which addresses the API server's record holds, for every state of a control plane; and whose
//! the record is.

mod world;

use std::collections::BTreeSet;

use capmaas_api::{ApiEndpoint, names};
use capmaas_core::maas::{Power, Status};
use capmaas_core::policy::{Name, Refused};
use capmaas_core::{Read, Step};
use serde_json::json;
use world::{CLUSTER, NAME, NAMESPACE, US, World};

const RECORD: &str = "blue-a1b2c3.maas";
const OTHER: &str = "10.0.0.11";
const OURS: &str = "10.0.0.10";

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
                    all.push(Case {
                        status,
                        power,
                        deleting,
                        present,
                        earlier,
                    });
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
        let seconds = if self.earlier == Earlier::OffJustNow {
            59
        } else {
            0
        };
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

/// A cluster whose generated name is settled and published.
fn named_cluster() -> World {
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
fn control_plane(world: &mut World, name: &str, id: &str, ip: &str) {
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

fn addresses(world: &World) -> Vec<String> {
    world
        .maas
        .records
        .values()
        .next()
        .map(|r| r.ips())
        .unwrap_or_default()
}

fn endpoint(world: &mut World, host: &str) {
    let endpoint = ApiEndpoint {
        host: host.into(),
        port: 6443,
    };
    world
        .kube
        .cluster
        .as_mut()
        .unwrap()
        .spec
        .control_plane_endpoint = Some(endpoint);
}

#[test]
fn every_status_and_power_puts_an_address_in_or_out_or_leaves_it() {
    let (mut count, mut statuses) = (0, BTreeSet::new());
    for case in cases() {
        let mut world = case.world(true);
        let told = world.reconcile_cluster();
        let wanted: &[&str] = if case.belongs() {
            &[OURS, OTHER]
        } else {
            &[OTHER]
        };
        assert_eq!(addresses(&world), wanted, "{case:?}");
        let calls: &[&str] = if case.belongs() == case.present {
            &[]
        } else {
            &["set addresses"]
        };
        assert_eq!(told.words(), calls, "{case:?}");
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
    let case = cases()
        .into_iter()
        .find(|c| c.status == Status::Deployed && c.present && !c.deleting);
    let mut world = case.clone().unwrap().world(true);
    let told = world.reconcile_cluster_with(|_, _, step| match step {
        Step::Read(Read::Machine(_)) => world::Turn::Fails(capmaas_core::Category::Server, false),
        _ => world::Turn::Answered,
    });
    assert_eq!(
        (told.words().len(), addresses(&world)),
        (0, vec![OURS.to_owned(), OTHER.into()])
    );
    world.maas.hosts.remove("aaa111");
    world.reconcile_cluster();
    assert_eq!(addresses(&world), [OTHER]);
}

#[test]
fn a_machine_taken_by_somebody_else_is_out() {
    let case = cases()
        .into_iter()
        .find(|c| c.status == Status::Deployed && c.present && !c.deleting);
    let mut world = case.unwrap().world(true);
    world.maas.host("aaa111").shown.owner = Some("somebody".into());
    world.reconcile_cluster();
    assert_eq!(addresses(&world), [OTHER]);
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

#[test]
fn an_endpoint_outside_the_domain_means_no_dns_step_at_all() {
    for host in ["192.0.2.7", "fd00::7", "api.example.com", "maas"] {
        let mut world = World::with_cluster();
        endpoint(&mut world, host);
        control_plane(&mut world, NAME, "aaa111", OURS);
        let mut told = vec![world.reconcile_cluster(), world.reconcile_cluster()];
        assert!(
            world.kube.maas_cluster().unwrap().status.unwrap().ready,
            "{host}"
        );
        let published = world
            .kube
            .maas_cluster()
            .unwrap()
            .spec
            .control_plane_endpoint
            .unwrap();
        assert_eq!(published.host, host);
        world.kube.delete("MaasMachine", NAME);
        world.kube.edit(
            "MaasMachine",
            NAME,
            &json!({ "metadata": { "finalizers": null } }),
        );
        world.kube.delete("MaasCluster", CLUSTER);
        told.push(world.reconcile_cluster());
        assert!(world.kube.maas_cluster().is_none(), "{host}");
        for told in told {
            let dns = told
                .words()
                .iter()
                .any(|w| w.contains("record") || w.contains("address"));
            let looked = told.steps.iter().any(|s| {
                matches!(
                    s,
                    Step::Ask(_)
                        | Step::Read(Read::DnsByName(_) | Read::DnsResource(_) | Read::Suffix)
                )
            });
            assert!(!dns && !looked, "{host}: {:?}", told.steps);
        }
    }
}

#[test]
fn a_name_the_user_gave_is_filled_and_never_deleted() {
    for existed in [true, false] {
        let mut world = World::with_cluster();
        endpoint(&mut world, "api.maas");
        if existed {
            world.maas.add_record("api.maas", &[]);
        }
        control_plane(&mut world, NAME, "aaa111", OURS);
        let told = world.reconcile_cluster();
        assert!(!told.asked(), "the name is given");
        assert_eq!(addresses(&world), [OURS]);
        world.kube.delete("MaasCluster", CLUSTER);
        world.kube.delete("MaasMachine", NAME);
        for _ in 0..8 {
            world.reconcile_cluster();
            if world.kube.maas_machine(NAME).is_some() {
                world.reconcile(NAME);
            }
            world.maas.time_passes();
            world.now += 15;
            if world.kube.maas_cluster().is_none() {
                break;
            }
        }
        assert!(world.kube.maas_cluster().is_none());
        assert_eq!(world.maas.records.len(), 1, "the user's record stays");
        assert!(addresses(&world).is_empty());
    }
}

#[test]
fn the_generated_record_goes_with_its_cluster_and_a_foreign_one_by_that_name_stays() {
    for ours in [true, false] {
        let mut world = World::with_cluster();
        world.reconcile_cluster();
        assert_eq!(world.maas.records.len(), 1);
        if !ours {
            let name = world.maas.records[&1].fqdn.clone();
            world.maas.add_record(&name, &["10.9.9.9"]);
            world.maas.records.remove(&1);
        }
        world.kube.delete("MaasCluster", CLUSTER);
        world.reconcile_cluster();
        assert!(world.kube.maas_cluster().is_none());
        assert_eq!(world.maas.records.is_empty(), ours);
    }
}

#[test]
fn an_externally_managed_cluster_and_a_paused_one_are_left_alone() {
    for deleting in [false, true] {
        for key in [
            names::MANAGED_BY_ANNOTATION,
            names::PAUSED_ANNOTATION,
            names::DELETE_FOR_MOVE_ANNOTATION,
        ] {
            let mut world = named_cluster();
            let change = json!({ "metadata": { "annotations": { key: "" } } });
            world.kube.edit("MaasCluster", CLUSTER, &change);
            if deleting {
                world.kube.delete("MaasCluster", CLUSTER);
            }
            let told = world.reconcile_cluster();
            assert_eq!(told.steps.len(), 1, "{key}");
            let status = told.done().unwrap().status.clone();
            let paused = status.is_some_and(|s| {
                s.conditions
                    .unwrap()
                    .iter()
                    .any(|c| c.kind == "Paused" && c.status == "True")
            });
            assert_eq!(paused, key == names::PAUSED_ANNOTATION, "{key}");
        }
    }
}

#[test]
fn the_port_is_the_clusters_or_6443() {
    for (port, published) in [(None, 6443), (Some(0), 6443), (Some(8443), 8443)] {
        let mut world = World::with_cluster();
        let network = capmaas_api::cluster_api::ClusterNetwork {
            api_server_port: port,
        };
        world.kube.cluster.as_mut().unwrap().spec.cluster_network = Some(network);
        world.reconcile_cluster();
        let endpoint = world
            .kube
            .maas_cluster()
            .unwrap()
            .spec
            .control_plane_endpoint
            .unwrap();
        assert_eq!(endpoint.port, published);
        assert_eq!(endpoint.host, "blue-sufx01.maas");
    }
}

#[test]
fn a_policys_bad_name_or_silence_makes_no_record_and_the_object_says_why() {
    let long = Name {
        label: "-".into(),
        domain: None,
        ttl_seconds: None,
    };
    let foreign = Name {
        label: "api".into(),
        domain: Some("corp".into()),
        ttl_seconds: None,
    };
    for name in [Some(long), Some(foreign), None] {
        let mut world = World::with_cluster();
        match name {
            Some(name) => world.policies.name = Some(name),
            None => world.policies.refusal = Some(Refused::unusable("it trapped")),
        }
        world.reconcile_cluster();
        assert!(world.maas.records.is_empty());
        let status = world.kube.maas_cluster().unwrap().status.unwrap();
        assert!(!status.ready);
        let said = status
            .conditions
            .unwrap()
            .into_iter()
            .find(|c| c.kind == "LoadBalancerReady");
        assert_eq!(said.unwrap().reason.unwrap(), "WaitForDNSName");
    }
}

#[test]
fn zones_that_maas_does_not_have_are_named_and_the_others_published_in_the_served_shape() {
    for v1beta1_only in [true, false] {
        let mut world = World::with_cluster();
        world.v1beta1_only = v1beta1_only;
        let zones = json!({ "spec": { "failureDomains": ["default", "moon"] } });
        world.kube.edit("MaasCluster", CLUSTER, &zones);
        world.reconcile_cluster();
        let status = world.kube.maas_cluster().unwrap().status.unwrap();
        let domains = status.failure_domains.unwrap();
        let map = json!({ "default": { "controlPlane": true } });
        let list = json!([{ "name": "default", "controlPlane": true }]);
        assert_eq!(domains, if v1beta1_only { map } else { list });
        let said = status
            .conditions
            .unwrap()
            .into_iter()
            .find(|c| c.kind == "FailureDomainsValid");
        assert!(said.unwrap().message.unwrap().contains("moon"));
    }
}
