//! What happens behind the back of a client, and the control API.

use crate::common::send;
use crate::{allocate, deploy, region};
use maas_sim::OperatorAct;
use serde_json::{Value, json};

#[tokio::test]
async fn an_operator_interferes() {
    let (maas, admin) = region().await;
    let id = allocate(&admin, &[]).await;
    deploy(&maas, &admin, &id).await;
    maas.operator(&id, OperatorAct::PowerOff).expect("off");
    let read = admin.machine(&id).await;
    assert_eq!((&read["power_state"], &read["status_name"]), (&json!("off"), &json!("Deployed")));
    maas.operator(&id, OperatorAct::Owner(Some("somebody-else".into()))).expect("owner");
    assert_eq!(admin.machine(&id).await["owner"], "somebody-else");
    maas.operator(&id, OperatorAct::Zone("az2".into())).expect("zone");
    assert_eq!(admin.machine(&id).await["zone"]["name"], "az2");
    assert!(maas.operator(&id, OperatorAct::Zone("az9".into())).is_err());
    maas.operator(&id, OperatorAct::Break("by hand".into())).expect("broken");
    assert_eq!(admin.machine(&id).await["status_name"], "Broken");
    let ip = admin.machine(&id).await["ip_addresses"][0].as_str().expect("an address").to_owned();
    admin.post("/dnsresources/", &[("fqdn", "gone.maas"), ("ip_addresses", &ip)]).await;
    maas.operator(&id, OperatorAct::Remove).expect("gone");
    assert_eq!(
        admin.get(&format!("/machines/{id}/")).await.text,
        "No Machine matches the given query."
    );
    assert!(maas.dns_records().is_empty(), "a record whose only row goes, goes with it");
}

#[tokio::test]
async fn the_control_api_does_what_the_library_does() {
    let (maas, admin) = region().await;
    let root = maas.url().replace("/MAAS", "/sim");
    let post =
        |path: &str, body: Value| admin.client.post(format!("{root}{path}")).body(body.to_string());
    let id = allocate(&admin, &[]).await;
    admin.post(&format!("/machines/{id}/?op=deploy"), &[("user_data", "QQ==")]).await;
    send(post("/clock", json!({"advance": 300}))).await.expect("a reply");
    let view =
        send(admin.client.get(format!("{root}/machines/{id}"))).await.expect("a reply").json();
    assert_eq!((&view["status_name"], &view["user_data"]), (&json!("Deployed"), &json!("QQ==")));
    let acted =
        send(post(&format!("/machines/{id}"), json!({"power": "error"}))).await.expect("a reply");
    assert_eq!(acted.str("power_state"), "error");
    let fault = json!({"op": "release", "count": 1, "action": {"answer": {"status": 503, "content_type": "text/plain", "body": "no"}}});
    assert_eq!(send(post("/faults", fault)).await.expect("a reply").status, 200);
    assert_eq!(admin.post(&format!("/machines/{id}/?op=release"), &[]).await.status, 503);
    send(post("/version", json!({"version": "3.5.1"}))).await.expect("a reply");
    assert_eq!(admin.get("/version/").await.str("version"), "3.5.1");
    send(post("/images", json!({"name": "custom/new"}))).await.expect("a reply");
    assert!(admin.get("/boot-resources/").await.text.contains("\"new\""));
    let calls = send(admin.client.get(format!("{root}/calls"))).await.expect("a reply").json();
    let shown = calls
        .as_array()
        .into_iter()
        .flatten()
        .find(|c| c["op"] == "deploy")
        .expect("the deployment");
    assert_eq!(shown["params"], json!([["user_data", "<4 bytes>"]]));
    let wrong =
        send(post(&format!("/machines/{id}"), json!({"nonsense": 1}))).await.expect("a reply");
    assert_eq!(wrong.status, 400);
}
