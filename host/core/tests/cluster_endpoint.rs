//! How the API server is called, whose the record is, and what becomes of it in the end.

mod world;

use capmaas_api::names;
use capmaas_core::policy::{Name, Question, Refused};
use capmaas_core::{Read, Step};
use serde_json::json;
use world::clusters::{OURS, addresses, control_plane, endpoint, named_cluster};
use world::{CLUSTER, NAME, World};

#[test]
fn a_policy_may_also_use_the_domain_that_the_operator_gave() {
    let mut world = World::with_cluster();
    world.settings.dns_domain = Some("corp.example".into());
    let told = world.reconcile_cluster();
    let asked = told.steps.iter().find_map(|step| match step {
        Step::Ask(ask) => Some(&ask.question),
        _ => None,
    });
    let Some(Question::Name(request)) = asked else { panic!("{asked:?}") };
    assert_eq!(request.allowed_domains, ["maas", "corp.example"]);
}

#[test]
fn an_endpoint_outside_the_domain_means_no_dns_step_at_all() {
    for host in ["192.0.2.7", "fd00::7", "api.example.com", "maas", " api.maas", "a\nb.maas"] {
        let mut world = World::with_cluster();
        endpoint(&mut world, host);
        control_plane(&mut world, NAME, "aaa111", OURS);
        let mut told = vec![world.reconcile_cluster(), world.reconcile_cluster()];
        assert!(world.kube.maas_cluster().unwrap().status.unwrap().ready, "{host}");
        let published = world.kube.maas_cluster().unwrap().spec.control_plane_endpoint.unwrap();
        assert_eq!(published.host, host);
        world.kube.delete("MaasMachine", NAME);
        world.kube.edit("MaasMachine", NAME, &json!({ "metadata": { "finalizers": null } }));
        world.kube.delete("MaasCluster", CLUSTER);
        told.push(world.reconcile_cluster());
        assert!(world.kube.maas_cluster().is_none(), "{host}");
        for told in told {
            let dns = told.words().iter().any(|w| w.contains("record") || w.contains("address"));
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

/// Somebody's record leads elsewhere: it is never touched, and whoever frees the name ends the wait.
#[test]
fn a_given_name_that_serves_somebody_is_left_as_it_is() {
    for freed in [true, false] {
        let mut world = World::with_cluster();
        endpoint(&mut world, "api.maas");
        world.maas.add_record("api.maas", &["10.9.9.9"]);
        control_plane(&mut world, NAME, "aaa111", OURS);
        let told = world.reconcile_cluster();
        let status = told.done().unwrap().status.clone().unwrap();
        assert!(!status.ready);
        let said = status.conditions.unwrap().into_iter().find(|c| c.kind == "LoadBalancerReady");
        let said = said.unwrap();
        assert_eq!(said.reason.as_deref(), Some("EndpointNameTaken"));
        let message = said.message.unwrap();
        assert!(message.contains("api.maas") && message.contains("10.9.9.9"), "{message}");
        assert_eq!(addresses(&world), ["10.9.9.9"]);
        if freed {
            world.maas.records.values_mut().for_each(|r| r.addresses.clear());
            world.reconcile_cluster();
            assert_eq!(addresses(&world), [OURS]);
            assert!(world.kube.maas_cluster().unwrap().status.unwrap().ready);
            continue;
        }
        world.kube.delete("MaasMachine", NAME);
        world.kube.delete("MaasCluster", CLUSTER);
        world.reconcile_cluster();
        world.kube.edit("MaasMachine", NAME, &json!({ "metadata": { "finalizers": null } }));
        world.reconcile_cluster();
        assert!(world.kube.maas_cluster().is_none());
        assert_eq!(addresses(&world), ["10.9.9.9"]);
    }
}

/// As the Go provider leaves it: the record leads to the cluster's own machines, and to one that is gone.
#[test]
fn a_record_that_leads_to_our_control_planes_is_taken_over() {
    for deleting in [false, true] {
        let mut world = World::with_cluster();
        endpoint(&mut world, "api.maas");
        world.kube.edit(
            "MaasCluster",
            CLUSTER,
            &json!({ "metadata": { "finalizers": [names::CLUSTER_FINALIZER] } }),
        );
        world.maas.add_record("api.maas", &[OURS, "10.0.0.99"]);
        control_plane(&mut world, NAME, "aaa111", OURS);
        if deleting {
            world.kube.delete("MaasMachine", NAME);
            world.kube.delete("MaasCluster", CLUSTER);
        }
        world.reconcile_cluster();
        let wanted: &[&str] = if deleting { &[] } else { &[OURS] };
        assert_eq!(addresses(&world), wanted);
        let object = world.kube.maas_cluster().unwrap();
        let id = object.metadata.annotations.unwrap()[names::DNS_RESOURCE_ANNOTATION].clone();
        assert_eq!(id, "1");
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
                s.conditions.unwrap().iter().any(|c| c.kind == "Paused" && c.status == "True")
            });
            assert_eq!(paused, key == names::PAUSED_ANNOTATION, "{key}");
        }
    }
}

#[test]
fn the_port_is_the_clusters_or_6443() {
    for (port, published) in [(None, 6443), (Some(0), 6443), (Some(8443), 8443)] {
        let mut world = World::with_cluster();
        let network = capmaas_api::cluster_api::ClusterNetwork { api_server_port: port };
        world.kube.cluster.as_mut().unwrap().spec.cluster_network = Some(network);
        world.reconcile_cluster();
        let endpoint = world.kube.maas_cluster().unwrap().spec.control_plane_endpoint.unwrap();
        assert_eq!(endpoint.port, published);
        assert_eq!(endpoint.host, "blue-sufx01.maas");
    }
}

#[test]
fn a_policys_bad_name_or_silence_makes_no_record_and_the_object_says_why() {
    let long = Name { label: "-".into(), domain: None, ttl_seconds: None };
    let foreign = Name { label: "api".into(), domain: Some("corp".into()), ttl_seconds: None };
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
        let said = status.conditions.unwrap().into_iter().find(|c| c.kind == "LoadBalancerReady");
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
        let said = status.conditions.unwrap().into_iter().find(|c| c.kind == "FailureDomainsValid");
        assert!(said.unwrap().message.unwrap().contains("moon"));
    }
}

/// The endpoint is written into the spec, which is a generation more; nobody would look again for minutes only to say so.
#[test]
fn the_status_speaks_of_the_generation_that_the_endpoint_was_written_in() {
    let mut world = World::with_cluster();
    let before = json!({ "metadata": { "generation": 1 } });
    world.kube.edit("MaasCluster", CLUSTER, &before);
    world.reconcile_cluster();
    let object = world.kube.maas_cluster().expect("it is there");
    assert_eq!(object.metadata.generation, Some(2));
    let conditions = object.status.and_then(|s| s.conditions).expect("conditions");
    assert!(conditions.iter().all(|c| c.observed_generation == Some(2)), "{conditions:?}");
}
