//! Every change of a machine does what it says, with exactly the parameters it needs.

use std::collections::BTreeMap;
use std::time::Duration;

use capmaas_core::maas::{Power, Status};
use capmaas_core::policy::{AllocateConstraints, Constraints};
use capmaas_core::{Category, Effect, ObjectRef, Reply};
use maas_sim::{Inventory, OperatorAct};

use super::common::{
    MARK, Region, allocate, assert_call, claim, deploy, failed, machine, owned, release,
};

const DATA: &str = "I2Nsb3VkLWNvbmZpZwpydW5jbWQ6IFtdCg==";

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|s| (*s).to_owned()).collect()
}

#[tokio::test]
async fn allocate_sends_every_constraint_and_never_asks_for_a_new_vm() {
    let region = Region::start().await;
    let constraints = Constraints {
        min_cpu_cores: 16,
        min_memory_mib: 65_536,
        zones: strings(&["az1", "az2"]),
        pools: strings(&["default", "workers"]),
        tags: strings(&["gpu", "nvme"]),
        not_zones: strings(&["default"]),
        not_pools: vec![],
        not_tags: strings(&["control-plane", "arm"]),
    };
    let wanted = AllocateConstraints { system_id: None, constraints, min_disk_gb: Some(1000) };
    let got = machine(region.perform(allocate(wanted)).await);
    assert!(got.hostname.ends_with("-large-1"), "{}", got.hostname);
    assert_eq!(got.status, Status::Allocated);
    assert_eq!(got.owner.as_deref(), Some("admin"));
    assert_eq!(region.maas.machine(&got.system_id).unwrap().agent_name, MARK);
    let sent = [
        ("cpu_count", "16"),
        ("mem", "65536"),
        ("zone", "az1"),
        ("zone", "az2"),
        ("pool", "default"),
        ("pool", "workers"),
        ("tags", "gpu"),
        ("tags", "nvme"),
        ("not_in_zone", "default"),
        ("not_tags", "control-plane"),
        ("not_tags", "arm"),
        ("storage", "1000"),
        ("agent_name", MARK),
        ("comment", "for default/blue-1"),
        ("not_pod_type", "lxd"),
        ("not_pod_type", "virsh"),
    ];
    assert_call(&region.last_call(), "POST", "/machines/?op=allocate", &sent);
}

#[tokio::test]
async fn allocate_takes_the_very_machine_that_was_named() {
    let region = Region::start().await;
    let id = region.id("az2-large-1");
    let wanted = AllocateConstraints { system_id: Some(id.clone()), ..Default::default() };
    assert_eq!(machine(region.perform(allocate(wanted)).await).system_id, id);
    let sent = [
        ("system_id", id.as_str()),
        ("cpu_count", "0"),
        ("mem", "0"),
        ("agent_name", MARK),
        ("comment", "for default/blue-1"),
        ("not_pod_type", "lxd"),
        ("not_pod_type", "virsh"),
    ];
    assert_call(&region.last_call(), "POST", "/machines/?op=allocate", &sent);
}

#[tokio::test]
async fn annotations_are_set_and_removed() {
    let region = Region::start().await;
    let machine_owned = region.allocated("az1-small-1").await;
    let annotate = |annotations| Effect::Annotate { machine: machine_owned.clone(), annotations };
    let seen = machine(region.perform(annotate(claim().annotations())).await);
    assert_eq!(seen.annotations, claim().annotations());
    let path = format!("/machines/{}/?op=set_workload_annotations", machine_owned.system_id());
    let sent = [
        ("capmaas-cluster", "blue"),
        ("capmaas-machine", "blue-1"),
        ("capmaas-mark", MARK),
        ("capmaas-namespace", "default"),
    ];
    assert_call(&region.last_call(), "POST", &path, &sent);
    let blank: BTreeMap<String, String> =
        claim().annotations().into_keys().map(|k| (k, String::new())).collect();
    let seen = machine(region.perform(annotate(blank)).await);
    assert!(seen.annotations.is_empty(), "{:?}", seen.annotations);
}

#[tokio::test]
async fn swap_is_turned_off_by_a_zero() {
    let region = Region::start().await;
    let machine_owned = region.allocated("az1-small-1").await;
    let path = format!("/machines/{}/", machine_owned.system_id());
    let seen = machine(region.perform(Effect::SwapOff { machine: machine_owned }).await);
    assert_eq!(seen.swap_size, Some(0));
    assert_call(&region.last_call(), "PUT", &path, &[("swap_size", "0")]);
}

#[tokio::test]
async fn deploy_sends_image_and_bootstrap_data_as_they_are() {
    let region = Region::start().await;
    let machine_owned = region.allocated("az1-small-1").await;
    let reply = region.client.perform(&deploy(&machine_owned, false), Some(DATA)).await;
    let seen = machine(reply);
    assert_eq!(seen.status, Status::Deploying);
    assert!(!seen.ephemeral);
    let path = format!("/machines/{}/?op=deploy", machine_owned.system_id());
    let sent =
        [("agent_name", MARK), ("distro_series", "custom/u-2404-k8s"), ("user_data", "<36 bytes>")];
    assert_call(&region.last_call(), "POST", &path, &sent);
    let view = region.maas.machine(machine_owned.system_id()).unwrap();
    assert_eq!(view.user_data.as_deref(), Some(DATA));
}

#[tokio::test]
async fn deploy_to_memory_is_asked_for_only_then() {
    let region = Region::start().await;
    let machine_owned = region.allocated("az1-small-1").await;
    let reply = region.client.perform(&deploy(&machine_owned, true), Some(DATA)).await;
    assert_eq!(machine(reply).status, Status::Deploying);
    let path = format!("/machines/{}/?op=deploy", machine_owned.system_id());
    let sent = [
        ("agent_name", MARK),
        ("distro_series", "custom/u-2404-k8s"),
        ("ephemeral_deploy", "true"),
        ("user_data", "<36 bytes>"),
    ];
    assert_call(&region.last_call(), "POST", &path, &sent);
    assert!(region.machine("az1-small-1").await.ephemeral);
}

#[tokio::test]
async fn nothing_is_deployed_without_bootstrap_data() {
    let region = Region::start().await;
    let machine_owned = region.allocated("az1-small-1").await;
    region.maas.clear_calls();
    let error = failed(region.perform(deploy(&machine_owned, false)).await);
    assert_eq!(error.category, Category::BadRequest);
    assert_eq!(region.maas.calls(), []);
}

#[tokio::test]
async fn release_says_why_and_never_speaks_of_erasing() {
    let region = Region::start().await;
    let machine_owned = region.deployed("az1-small-1").await;
    let seen = machine(region.perform(release(&machine_owned)).await);
    assert_eq!(seen.status, Status::Releasing);
    let path = format!("/machines/{}/?op=release", machine_owned.system_id());
    let sent = [("comment", "not needed any more")];
    assert_call(&region.last_call(), "POST", &path, &sent);
    region.maas.advance(Duration::from_secs(60));
    let seen = region.machine("az1-small-1").await;
    assert_eq!((seen.status, seen.owner), (Status::Ready, None));
}

#[tokio::test]
async fn a_broken_machine_keeps_the_reason() {
    let region = Region::start().await;
    let machine_owned = region.allocated("az1-small-1").await;
    let path = format!("/machines/{}/?op=mark_broken", machine_owned.system_id());
    let comment = "three deployments failed".to_owned();
    let broken = Effect::MarkBroken { machine: machine_owned, comment };
    assert_eq!(machine(region.perform(broken).await).status, Status::Broken);
    assert_call(&region.last_call(), "POST", &path, &[("comment", "three deployments failed")]);
    let seen = region.machine("az1-small-1").await;
    assert_eq!(seen.error_description, "three deployments failed");
}

#[tokio::test]
async fn power_goes_off_and_on_again_with_the_bootstrap_data() {
    let region = Region::start().await;
    let machine_owned = region.deployed("az1-small-1").await;
    let path = |op: &str| format!("/machines/{}/?op={op}", machine_owned.system_id());
    let off = Effect::PowerOff { machine: machine_owned.clone() };
    assert!(matches!(region.perform(off).await, Reply::Machine(_)));
    assert_call(&region.last_call(), "POST", &path("power_off"), &[]);
    region.maas.advance(Duration::from_secs(60));
    assert_eq!(region.machine("az1-small-1").await.power, Power::Off);

    let user_data_digest = Some("digest".to_owned());
    let on = Effect::PowerOn { machine: machine_owned.clone(), user_data_digest };
    assert!(matches!(region.client.perform(&on, Some(DATA)).await, Reply::Machine(_)));
    assert_call(&region.last_call(), "POST", &path("power_on"), &[("user_data", "<36 bytes>")]);
    let view = region.maas.machine(machine_owned.system_id()).unwrap();
    assert_eq!(view.user_data.as_deref(), Some(DATA));
    region.maas.advance(Duration::from_secs(60));
    assert_eq!(region.machine("az1-small-1").await.power, Power::On);

    let bare = Effect::PowerOn { machine: machine_owned.clone(), user_data_digest: None };
    assert!(matches!(region.perform(bare).await, Reply::Machine(_)));
    assert_call(&region.last_call(), "POST", &path("power_on"), &[]);
}

#[tokio::test]
async fn a_machine_without_a_bmc_answers_nothing_and_that_is_fine() {
    let text = "machines: [{hostname: desk, cores: 4, memory: 8192, power_type: manual}]";
    let region = Region::with(Inventory::from_yaml(text).unwrap()).await;
    let id = region.id("desk");
    region.maas.operator(&id, OperatorAct::Owner(Some("admin".into()))).unwrap();
    region.maas.operator(&id, OperatorAct::Status("Deployed".into())).unwrap();
    let desk = owned(&region.machine("desk").await);
    assert_eq!(region.perform(Effect::PowerOff { machine: desk }).await, Reply::Completed);
}

#[tokio::test]
async fn an_effect_on_kubernetes_never_reaches_maas() {
    let region = Region::start().await;
    let object = ObjectRef {
        kind: "MaasMachine".into(),
        namespace: "default".into(),
        name: "blue-1".into(),
    };
    let patch = Effect::Patch { object, patch: Default::default() };
    assert_eq!(failed(region.perform(patch).await).category, Category::Malformed);
    assert_eq!(region.maas.calls(), []);
}

#[tokio::test]
async fn a_proof_for_an_odd_id_never_becomes_another_path() {
    let region = Region::start().await;
    let mut odd = region.machine("az1-small-1").await;
    region.maas.clear_calls();
    for id in ["", "..", "abc123/../../users", "abc123/?op=deploy#", "abc%2e"] {
        odd.system_id = id.into();
        let proof = owned(&odd);
        let effects = [
            release(&proof),
            Effect::SwapOff { machine: proof.clone() },
            Effect::PowerOff { machine: proof },
        ];
        for effect in effects {
            let error = failed(region.perform(effect).await);
            assert_eq!(error.category, Category::BadRequest, "{id:?}");
        }
    }
    assert_eq!(region.maas.calls(), []);
}
