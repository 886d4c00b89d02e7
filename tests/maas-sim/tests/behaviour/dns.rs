//! DNS records and the addresses behind them.

use crate::{allocate, deploy, region};
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test]
async fn a_record_of_a_released_machine_turns_null_and_then_points_at_the_next_tenant() {
    let (maas, admin) = region().await;
    let id = allocate(&admin, &[]).await;
    let ip = deploy(&maas, &admin, &id).await;
    let form = [("fqdn", "api.maas"), ("ip_addresses", ip.as_str())];
    let record = admin.post("/dnsresources/", &form).await.json();
    assert_eq!(
        (&record["ip_addresses"][0]["alloc_type"], &record["ip_addresses"][0]["ip"]),
        (&json!(0), &json!(ip))
    );
    admin.post(&format!("/machines/{id}/?op=release"), &[]).await;
    maas.advance(Duration::from_secs(15));
    assert_eq!(maas.dns_records()[0].addresses, [None]);
    let list = admin.get("/dnsresources/?fqdn=api.maas").await.json();
    assert_eq!(list[0]["ip_addresses"][0]["ip"], Value::Null);
    let form = [("system_id", id.as_str())];
    allocate(&admin, &form).await;
    let next = deploy(&maas, &admin, &id).await;
    assert_eq!(maas.dns_records()[0].addresses, [Some(next)]);
}

#[tokio::test]
async fn addresses_of_a_record_are_one_value_with_spaces() {
    let (maas, admin) = region().await;
    let create = |ips: &'static str| [("fqdn", "api.maas"), ("ip_addresses", ips)];
    let comma = admin.post("/dnsresources/", &create("10.20.0.5,10.20.0.6")).await;
    assert_eq!(
        (comma.status, comma.text.as_str()),
        (500, "failed to detect a valid IP address from '10.20.0.5,10.20.0.6'")
    );
    let form = [("fqdn", "api.maas"), ("ip_addresses", "10.20.0.5"), ("ip_addresses", "10.20.0.6")];
    let id = admin.post("/dnsresources/", &form).await.json()["id"].to_string();
    assert_eq!(
        maas.dns_records()[0].addresses,
        [Some("10.20.0.6".into())],
        "the last value counts"
    );
    let double = admin.post("/dnsresources/", &create("10.20.0.7")).await;
    assert_eq!(double.json(), json!({"__all__": ["Labels must be unique within their zone."]}));

    let path = format!("/dnsresources/{id}/");
    admin.put(&path, &[("ip_addresses", "10.20.0.7 10.20.0.8")]).await;
    admin.put(&path, &[("address_ttl", "30")]).await;
    assert_eq!(
        maas.dns_records()[0].addresses,
        [Some("10.20.0.8".into())],
        "all but the last are lost"
    );
    assert_eq!(admin.delete(&path).await.status, 204);
    assert_eq!(
        maas.reserved_addresses(),
        ["10.20.0.6", "10.20.0.7"],
        "what a PUT dropped stays reserved"
    );
    assert_eq!(admin.post("/ipaddresses/?op=release", &[("ip", "10.20.0.6")]).await.status, 204);
    assert_eq!(maas.reserved_addresses(), ["10.20.0.7"]);
    assert_eq!(admin.get("/dnsresources/?fqdn=api.nowhere").await.status, 404);
    assert_eq!(admin.get("/dnsresources/?fqdn=bad_name.maas").await.status, 500);
    assert_eq!(admin.get("/dnsresources/?fqdn=api.maas").await.json(), json!([]));
}
