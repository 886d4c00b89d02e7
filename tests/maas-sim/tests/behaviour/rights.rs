//! Who may do what, and keys.

use crate::common::{Caller, plaintext, send};
use crate::{allocate, deploy, names, region};
use maas_sim::OperatorAct;

#[tokio::test]
async fn a_plain_user_may_little() {
    let (maas, admin) = region().await;
    let user = Caller::new(&maas.url(), &maas.user_api_key());
    let id = allocate(&user, &[]).await;
    let put = user.put(&format!("/machines/{id}/"), &[("swap_size", "0")]).await;
    assert_eq!((put.status, put.text.as_str()), (403, ""), "even for its own machine");
    assert_eq!(admin.put(&format!("/machines/{id}/"), &[("swap_size", "0")]).await.status, 200);
    assert_eq!(maas.machine(&id).expect("it").swap_size, Some(0));
    let dns = user.post("/dnsresources/", &[("fqdn", "x.maas")]).await;
    assert_eq!((dns.status, dns.text.as_str()), (403, "This method is reserved for admin users."));
    let taken = maas.machine_named("az1-taken-1").expect("it").system_id;
    assert_eq!(user.get(&format!("/machines/{taken}/")).await.status, 403);
    assert!(!names(&user.get("/machines/").await.json()).contains(&"az1-taken-1".to_owned()));
    assert!(names(&admin.get("/machines/").await.json()).contains(&"az1-taken-1".to_owned()));
}

#[tokio::test]
async fn a_locked_machine_is_forbidden_without_a_word() {
    let (maas, admin) = region().await;
    let id = allocate(&admin, &[]).await;
    let early = admin.post(&format!("/machines/{id}/?op=lock"), &[]).await;
    assert_eq!(
        (early.status, early.text.as_str()),
        (409, "Can't lock, node is not deployed or deploying")
    );
    deploy(&maas, &admin, &id).await;
    maas.operator(&id, OperatorAct::Lock).expect("a lock");
    for op in ["release", "power_off", "abort", "mark_broken"] {
        let answer = admin.post(&format!("/machines/{id}/?op={op}"), &[]).await;
        assert_eq!((answer.status, answer.text.as_str()), (403, ""), "{op}");
    }
    assert_eq!(admin.machine(&id).await["locked"], true);
    assert_eq!(admin.post(&format!("/machines/{id}/?op=unlock"), &[]).await.status, 200);
    assert_eq!(
        admin.post(&format!("/machines/{id}/?op=unlock"), &[]).await.text,
        "Machine is not locked"
    );
}

#[tokio::test]
async fn only_the_owner_annotates_and_marks_broken() {
    let (maas, admin) = region().await;
    let other = Caller::new(&maas.url(), &maas.other_admin_api_key());
    let id = allocate(&admin, &[]).await;
    let path = format!("/machines/{id}/?op=set_workload_annotations");
    assert_eq!(other.post(&path, &[("a", "1")]).await.status, 409);
    assert_eq!(
        admin.post(&path, &[("example.com/a", "1")]).await.text,
        "Invalid character in key name"
    );
    let broken = format!("/machines/{id}/?op=mark_broken");
    assert_eq!(other.post(&broken, &[]).await.status, 403);
    assert_eq!(
        admin.post(&broken, &[("comment", "smoke")]).await.str("error_description"),
        "smoke"
    );
    assert_eq!(
        admin.post(&format!("/machines/{id}/?op=mark_fixed"), &[]).await.str("status_name"),
        "Ready"
    );
}

#[tokio::test]
async fn keys_can_be_replaced_and_nonces_not_used_twice() {
    let (maas, admin) = region().await;
    let header = plaintext(&admin.key);
    let url = format!("{}/api/2.0/users/?op=whoami", maas.url());
    let once = || admin.client.get(&url).header("Authorization", &header);
    assert_eq!(send(once()).await.expect("a reply").status, 200);
    let again = send(once()).await.expect("a reply");
    assert!(again.text.starts_with("Authorization Error: 'Nonce already used: "), "{}", again.text);
    let key = maas.replace_key("admin").expect("a key");
    let refused = admin.get("/users/?op=whoami").await;
    assert_eq!(
        (refused.status, refused.text.as_str()),
        (401, "Authorization Error: Invalid API key.")
    );
    assert_eq!(
        Caller::new(&maas.url(), &key).get("/users/?op=whoami").await.str("username"),
        "admin"
    );
}
