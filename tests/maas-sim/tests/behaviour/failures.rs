//! Machines on which something goes wrong.

use crate::{allocate, deploy, small_region};
use maas_sim::{MachineFaults, OperatorAct};
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn a_failed_deployment_says_why_and_the_next_one_works() {
    let (maas, admin, id) =
        small_region("first_deploys_fail: 1, deploy_error: the disk is full").await;
    allocate(&admin, &[]).await;
    admin.post(&format!("/machines/{id}/?op=deploy"), &[]).await;
    maas.advance(Duration::from_secs(300));
    let read = admin.machine(&id).await;
    assert_eq!(
        (&read["status_name"], &read["power_state"]),
        (&json!("Failed deployment"), &json!("on"))
    );
    assert_eq!(read["error_description"], "the disk is full");
    let events = admin.get(&format!("/events/?op=query&level=ERROR&id={id}")).await.json();
    assert_eq!(events["events"][0]["type"], "Marking node failed");
    assert_eq!(events["events"][0]["description"], "the disk is full");
    let again = admin.post(&format!("/machines/{id}/?op=deploy"), &[]).await;
    assert_eq!(again.text, "Can't deploy a machine that is in the 'Failed deployment' state");
    admin.post(&format!("/machines/{id}/?op=release"), &[]).await;
    maas.advance(Duration::from_secs(15));
    allocate(&admin, &[]).await;
    deploy(&maas, &admin, &id).await;
    assert_eq!(
        admin.machine(&id).await["error_description"],
        "the disk is full",
        "it outlives all of that"
    );
}

#[tokio::test]
async fn a_deployment_that_hangs_ends_after_an_hour() {
    let (maas, admin, id) = small_region("first_deploys_hang: 1").await;
    allocate(&admin, &[]).await;
    admin.post(&format!("/machines/{id}/?op=deploy"), &[]).await;
    maas.advance(Duration::from_secs(3599));
    assert_eq!(admin.machine(&id).await["status_name"], "Deploying");
    maas.advance(Duration::from_secs(1));
    let read = admin.machine(&id).await;
    assert_eq!(read["status_name"], "Failed deployment");
    assert_eq!(read["error_description"], "time-out during deployment");
    assert_eq!(read["owner"], "admin");
}

#[tokio::test]
async fn a_release_that_the_bmc_refuses_leaves_the_machine_deployed_and_blank() {
    let (maas, admin, id) = small_region("first_releases_refused: 1").await;
    allocate(&admin, &[]).await;
    let ip = deploy(&maas, &admin, &id).await;
    let refused = admin.post(&format!("/machines/{id}/?op=release"), &[]).await;
    assert_eq!((refused.status, refused.content_type.as_str()), (500, "text/plain; charset=utf-8"));
    let read = admin.machine(&id).await;
    assert_eq!(
        (&read["status_name"], &read["osystem"], &read["owner"]),
        (&json!("Deployed"), &json!(""), &json!("admin"))
    );
    assert_eq!(read["ip_addresses"], json!([ip]));
    assert_eq!(admin.post(&format!("/machines/{id}/?op=release"), &[]).await.status, 200);
    maas.advance(Duration::from_secs(15));
    assert_eq!(maas.machine(&id).expect("it").status_name, "Ready");
}

#[tokio::test]
async fn a_release_may_end_in_new_or_fail_or_erase() {
    let (maas, admin, id) = small_region("new_after_release: true").await;
    allocate(&admin, &[]).await;
    assert_eq!(
        admin.post(&format!("/machines/{id}/?op=release"), &[]).await.str("status_name"),
        "New",
        "it was off"
    );
    assert_eq!(admin.post(&format!("/machines/{id}/?op=release"), &[]).await.status, 409);
    drop(maas);

    let (maas, admin, id) = small_region("erase_on_release: true").await;
    allocate(&admin, &[]).await;
    deploy(&maas, &admin, &id).await;
    let answer = admin.post(&format!("/machines/{id}/?op=release"), &[]).await;
    assert_eq!(answer.str("status_name"), "Disk erasing");
    let again = admin.post(&format!("/machines/{id}/?op=release"), &[]).await;
    assert_eq!(again.text, "Machine cannot be released in its current state ('Disk erasing').");
    maas.advance(Duration::from_secs(120));
    assert_eq!(admin.machine(&id).await["status_name"], "Releasing");
    maas.advance(Duration::from_secs(15));
    assert_eq!(admin.machine(&id).await["status_name"], "Ready");

    maas.operator(
        &id,
        OperatorAct::Faults(MachineFaults { release_hangs: true, ..MachineFaults::default() }),
    )
    .expect("faults");
    allocate(&admin, &[]).await;
    deploy(&maas, &admin, &id).await;
    admin.post(&format!("/machines/{id}/?op=release"), &[]).await;
    maas.advance(Duration::from_secs(300));
    assert_eq!(admin.machine(&id).await["status_name"], "Releasing failed");
}
