//! Allocation, deployment, release.

use crate::common::Caller;
use crate::{allocate, deploy, region};
use maas_sim::{ClockMode, Inventory, Options, Simulator};
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test]
async fn a_deployment_takes_its_time_and_shows_its_address_late() {
    let (maas, admin) = region().await;
    let id = allocate(&admin, &[("zone", "az1"), ("tags", "nvme"), ("agent_name", "mark-1")]).await;
    let before = maas.machine(&id).expect("the machine");
    assert_eq!(
        (before.status_name.as_str(), before.owner.as_deref()),
        ("Allocated", Some("admin"))
    );
    assert_eq!(before.hostname, "az1-medium-1", "the cheapest one that fits");

    let user_data = "I2Nsb3VkLWNvbmZpZwo=";
    let form = [("user_data", user_data), ("distro_series", "custom/u-2404-k8s")];
    let answer = admin.post(&format!("/machines/{id}/?op=deploy"), &form).await;
    assert_eq!(
        answer.json()["ip_addresses"],
        json!(before.ip_addresses),
        "the reply is older than the address"
    );
    assert_eq!(answer.str("power_state"), "off");
    let read = admin.machine(&id).await;
    assert_ne!(read["ip_addresses"], json!(before.ip_addresses), "the next read has it");

    maas.advance(Duration::from_secs(30));
    let read = admin.machine(&id).await;
    assert_eq!((&read["status_name"], &read["power_state"]), (&json!("Deploying"), &json!("on")));
    maas.advance(Duration::from_secs(269));
    assert_eq!(admin.machine(&id).await["status_name"], "Deploying");
    maas.advance(Duration::from_secs(1));
    let read = admin.machine(&id).await;
    assert_eq!((&read["status_name"], &read["osystem"]), (&json!("Deployed"), &json!("custom")));
    assert_eq!(read["distro_series"], "u-2404-k8s");
    assert_eq!(maas.machine(&id).expect("it").user_data.as_deref(), Some(user_data), "verbatim");
}

#[tokio::test]
async fn a_release_takes_the_mark_first_and_the_annotations_last() {
    let (maas, admin) = region().await;
    let id = allocate(&admin, &[("agent_name", "mark-2")]).await;
    let before = maas.machine(&id).expect("the machine");
    deploy(&maas, &admin, &id).await;
    let form = [("cluster", "c1")];
    admin.post(&format!("/machines/{id}/?op=set_workload_annotations"), &form).await;
    let answer = admin.post(&format!("/machines/{id}/?op=release"), &[]).await;
    assert_eq!(
        (answer.str("status_name"), answer.str("osystem")),
        ("Releasing".into(), String::new())
    );
    let releasing = maas.machine(&id).expect("it");
    assert_eq!(releasing.agent_name, "", "the mark goes when the release begins");
    assert_eq!(
        releasing.workload_annotations["cluster"], "c1",
        "the annotations only when it ends"
    );
    assert_eq!(releasing.owner.as_deref(), Some("admin"));
    maas.advance(Duration::from_secs(15));
    let read = admin.machine(&id).await;
    assert_eq!((&read["status_name"], &read["owner"]), (&json!("Ready"), &Value::Null));
    assert_eq!(read["workload_annotations"], json!({}));
    assert_eq!(read["ip_addresses"], json!(before.ip_addresses), "the old lease is back");
}

#[tokio::test]
async fn the_mark_can_be_searched_for_but_not_read() {
    let (_maas, admin) = region().await;
    let id = allocate(&admin, &[("agent_name", "mark-7")]).await;
    let found = admin.get("/machines/?agent_name=mark-7").await.json();
    assert_eq!(found.as_array().map(Vec::len), Some(1));
    assert_eq!(found[0]["system_id"], json!(id));
    assert!(found[0].get("agent_name").is_none());
}

#[tokio::test]
async fn two_callers_never_get_the_same_machine() {
    let (maas, admin) = region().await;
    let other = Caller::new(&maas.url(), &maas.other_admin_api_key());
    let mut calls = vec![];
    for i in 0..14 {
        let caller = if i % 2 == 0 { admin.clone() } else { other.clone() };
        calls.push(tokio::spawn(async move { caller.post("/machines/?op=allocate", &[]).await }));
    }
    let (mut ids, mut refused) = (std::collections::BTreeSet::new(), 0);
    for call in calls {
        let answer = call.await.expect("the task");
        match answer.status {
            200 => assert!(ids.insert(answer.str("system_id")), "given twice"),
            status => {
                assert_eq!((status, answer.text.as_str()), (409, "No machine available."));
                refused += 1;
            }
        }
    }
    assert_eq!((ids.len(), refused), (11, 3));
}

#[tokio::test]
async fn abort_gives_the_machine_back_to_its_owner() {
    let (maas, admin) = region().await;
    let id = allocate(&admin, &[]).await;
    admin.post(&format!("/machines/{id}/?op=deploy"), &[]).await;
    assert_eq!(admin.post(&format!("/machines/{id}/?op=abort"), &[]).await.status, 200);
    maas.advance(Duration::from_secs(600));
    let machine = maas.machine(&id).expect("it");
    assert_eq!((machine.status_name.as_str(), machine.power_state.as_str()), ("Allocated", "off"));
    assert_eq!(machine.owner.as_deref(), Some("admin"));
    let again = admin.post(&format!("/machines/{id}/?op=abort"), &[]).await;
    assert_eq!(
        again.text,
        format!("Cannot abort in current state: node {id} is in state Allocated.")
    );
}

#[tokio::test]
async fn a_fast_clock_runs_by_itself() {
    let options = Options { clock: ClockMode::Speed(3000.0), ..Options::default() };
    let maas = Simulator::start(Inventory::default(), options).await.expect("a region");
    let admin = Caller::new(&maas.url(), &maas.api_key());
    let id = allocate(&admin, &[]).await;
    admin.post(&format!("/machines/{id}/?op=deploy"), &[]).await;
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert_eq!(admin.machine(&id).await["status_name"], "Deployed");
}

#[tokio::test]
async fn no_address_left_takes_the_deployment_back() {
    let yaml = "subnets: [{name: tiny, cidr: 192.0.2.0/24, auto: 192.0.2.10-192.0.2.10}]\n\
                machines:\n  - {hostname: a, cores: 1, memory: 1024}\n  - {hostname: b, cores: 1, memory: 1024}\n";
    let maas = Simulator::start(Inventory::from_yaml(yaml).expect("yaml"), Options::default())
        .await
        .expect("a region");
    let admin = Caller::new(&maas.url(), &maas.api_key());
    let (a, b) = (allocate(&admin, &[]).await, allocate(&admin, &[]).await);
    deploy(&maas, &admin, &a).await;
    let answer = admin.post(&format!("/machines/{b}/?op=deploy"), &[]).await;
    assert_eq!(
        (answer.status, answer.text.as_str()),
        (503, "No more IPs available in subnet: 192.0.2.0/24.")
    );
    assert_eq!(maas.machine(&b).expect("it").status_name, "Allocated");
}
