//! Connections that break, servers that are not MAAS, and answers that are not what they should be.

use capmaas_core::maas::Status;
use capmaas_core::{Category, Effect, Read, Reply};
use maas_sim::{CallFault, FaultAction};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::common::{
    HTML, JSON, Region, allocate, client, crypto, failed, machine, machines, options, owned,
    release,
};

const KEY: &str = "consumer:token:secret";

#[tokio::test]
async fn a_reply_that_never_comes_leaves_open_whether_it_was_done() {
    let region = Region::start().await;
    region.read(Read::Zones).await; // the connection is in use already
    region.maas.clear_calls();
    let fault = CallFault::on_op("allocate", FaultAction::DropReply).times(1);
    region.maas.add_fault(fault);
    let error = failed(region.perform(allocate(Default::default())).await);
    assert_eq!((error.category, error.status), (Category::Unknown, None));
    assert!(error.ambiguous());
    assert_eq!(region.maas.calls().len(), 1, "it is not sent again by itself");
    let taken = region.maas.machines().into_iter().filter(|m| m.status_name == "Allocated");
    assert_eq!(taken.count(), 1, "it was done");
}

#[tokio::test]
async fn a_connection_that_closes_leaves_open_whether_it_was_done() {
    let region = Region::start().await;
    let machine = region.allocated("az1-small-1").await;
    let fault = CallFault::on_op("release", FaultAction::CloseBefore).times(1);
    region.maas.add_fault(fault);
    let error = failed(region.perform(release(&machine)).await);
    assert_eq!(error.category, Category::Unknown);
    let view = region.maas.machine(machine.system_id()).unwrap();
    assert_eq!(view.status_name, "Allocated", "it was not done, but nobody can know");
}

#[tokio::test]
async fn where_nobody_listens_nothing_was_done() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/MAAS", listener.local_addr().unwrap());
    drop(listener);
    let nowhere = client(&url, KEY);
    let error = failed(nowhere.perform(&allocate(Default::default()), None).await);
    assert_eq!((error.category, error.status), (Category::Unreachable, None));
    assert!(error.endpoint_wide() && !error.message.is_empty());
    assert!(!error.ambiguous(), "nothing was sent");
    let error = failed(nowhere.read(&Read::Zones).await);
    assert_eq!(error.category, Category::Unreachable);
    assert!(!format!("{error:?}").contains("secret"));
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_unavailable_or_unknown() {
    let region = Region::start().await;
    let fault = CallFault::on("GET", "/zones/", FaultAction::Truncate { bytes: 20 });
    region.maas.add_fault(fault);
    assert_eq!(failed(region.read(Read::Zones).await).category, Category::Unavailable);
    let fault = CallFault::on_op("allocate", FaultAction::Truncate { bytes: 20 });
    region.maas.add_fault(fault);
    let error = failed(region.perform(allocate(Default::default())).await);
    assert_eq!(error.category, Category::Unknown);
    assert!(error.ambiguous());
}

#[tokio::test]
async fn a_page_instead_of_json_is_not_taken_for_an_answer() {
    let region = Region::start().await;
    let page = (200, HTML, "<html>Please log in</html>");
    region.answers(|a| CallFault::on("GET", "/zones/", a), page);
    let error = failed(region.read(Read::Zones).await);
    assert_eq!(error.category, Category::Malformed);
    assert!(error.message.contains("MAAS_ENDPOINT"), "{error:?}");
    region.answers(|a| CallFault::on_op("allocate", a), page);
    let error = failed(region.perform(allocate(Default::default())).await);
    assert_eq!(error.category, Category::Unknown);
}

#[tokio::test]
async fn json_of_another_shape_is_not_taken_for_an_answer() {
    let region = Region::start().await;
    let id = region.id("az1-small-1");
    let shapes = [
        ("/zones/", Read::Zones, r#"{"zones": []}"#),
        ("/machines/", Read::Candidates(Box::default()), r#"{"machines": []}"#),
        ("/machines/", Read::Machine(id.clone()), "[]"),
        ("/machines/", Read::Machine(id.clone()), r#"{"hostname": "no-id"}"#),
        ("/machines/", Read::Machine(id), r#"{"system_id": "abc123"}"#),
        ("/machines/", Read::Machine("abc123".into()), r#"["abc123", "n1", "n1.maas"]"#),
        (
            "/machines/",
            Read::Machine("abc123".into()),
            r#"{"system_id": "abc123", "tag_names": "nvme"}"#,
        ),
        ("/users/", Read::WhoAmI, "{}"),
        ("/users/", Read::WhoAmI, r#"["admin", true]"#),
        ("/users/", Read::WhoAmI, r#"{"username": "", "is_superuser": true}"#),
        ("/dnsresources/", Read::DnsByName("a.maas".into()), r#"[{"id": 1, "fqdn": "b.maas"}]"#),
        ("/dnsresources/", Read::DnsResource(7), r#"{"id": 8, "fqdn": "a.maas"}"#),
        ("/version/", Read::Version, ""),
        ("/dnsresources/", Read::DnsByName("a.maas".into()), "{}"),
    ];
    for (path, read, body) in shapes {
        region.maas.clear_faults();
        region.answers(|a| CallFault::on("GET", path, a), (200, JSON, body));
        let error = failed(region.read(read.clone()).await);
        assert_eq!(error.category, Category::Malformed, "{read:?}: {body}");
    }
    region.answers(|a| CallFault::on_op("allocate", a), (200, JSON, "[]"));
    let error = failed(region.perform(allocate(Default::default())).await);
    assert_eq!(error.category, Category::Unknown, "it was done, whatever it said");
}

/// The least that is a machine, and everything else null, new or unknown.
const SPARSE: &str = r#"{
    "system_id": "abc123", "hostname": null, "fqdn": null, "status_name": "Polishing", "status": 99,
    "status_message": null, "error_description": null, "owner": null, "workload_annotations": null,
    "zone": null, "pool": null, "tag_names": null, "power_state": null, "architecture": null,
    "cpu_count": null, "memory": null, "storage": null, "swap_size": null,
    "ip_addresses": [null, "", "10.0.0.1"], "locked": null, "ephemeral_deploy": null, "pod": null,
    "is_quantum": {"qubits": 3}
}"#;

#[tokio::test]
async fn null_and_unknown_fields_and_states_are_tolerated() {
    let region = Region::start().await;
    region.answers(|a| CallFault::on("GET", "^/machines/abc123/$", a), (200, JSON, SPARSE));
    let seen = machine(region.read(Read::Machine("abc123".into())).await);
    assert_eq!(seen.status, Status::Other("Polishing".into()));
    assert_eq!(seen.ip_addresses, ["10.0.0.1"]);
    assert_eq!((seen.owner, seen.swap_size), (None, None));
    let list = r#"[{"system_id": "abc123"}]"#;
    region.answers(|a| CallFault::on("GET", "/machines/?", a), (200, JSON, list));
    let found = machines(region.read(Read::MachinesByMark("m".into())).await);
    assert_eq!(found[0].system_id, "abc123");
    assert!(found[0].tags.is_empty() && found[0].zone.is_empty());
}

#[tokio::test]
async fn null_fields_of_everything_else_are_tolerated() {
    let region = Region::start().await;
    let bodies = [
        ("/zones/", r#"[{"name": null}, {"name": "z", "color": 1}]"#),
        ("/users/", r#"{"username": "admin", "is_superuser": null}"#),
        ("/boot-resources/", r#"[{"name": null, "architecture": null}]"#),
        ("/events/", r#"{"count": 1, "events": [{"type": null, "description": null}]}"#),
        (
            "/dnsresources/",
            r#"[{"id": 1, "fqdn": null, "address_ttl": null, "ip_addresses": null}]"#,
        ),
        ("/ipaddresses/", r#"[{"ip": null, "alloc_type": null}]"#),
    ];
    for (path, body) in bodies {
        region.answers(|a| CallFault::on("GET", path, a), (200, JSON, body));
    }
    assert_eq!(region.read(Read::Zones).await, Reply::Names(vec!["z".into()]));
    let reads = [
        Read::WhoAmI,
        Read::Images,
        Read::ErrorEvents("abc123".into()),
        Read::DnsByName("a.maas".into()),
        Read::Reservation("10.0.0.1".into()),
    ];
    for read in reads {
        let reply = region.read(read.clone()).await;
        assert!(!matches!(reply, Reply::Failed(_)), "{read:?}: {reply:?}");
    }
}

/// A server that answers everything with a redirect.
async fn redirecting(to: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/MAAS", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 8192];
            let _ = stream.read(&mut request).await;
            let head = format!(
                "HTTP/1.1 307 Temporary Redirect\r\nLocation: {to}\r\nContent-Length: 0\r\n\
                 Connection: close\r\n\r\n"
            );
            let _ = stream.write_all(head.as_bytes()).await;
        }
    });
    url
}

#[tokio::test]
async fn credentials_never_follow_a_redirect() {
    let other = Region::start().await;
    let machine = owned(&other.machine("az1-small-1").await);
    other.maas.clear_calls();
    let url = redirecting(format!("{}/api/2.0/zones/", other.maas.url())).await;
    let sent_away = client(&url, &other.maas.api_key());
    let error = failed(sent_away.read(&Read::Zones).await);
    assert_eq!((error.category, error.status), (Category::Malformed, Some(307)));
    assert!(error.message.contains("MAAS_ENDPOINT"), "{error:?}");
    let off = Effect::PowerOff { machine };
    assert_eq!(failed(sent_away.perform(&off, None).await).status, Some(307));
    assert_eq!(other.maas.calls(), []);
}

#[test]
fn a_ca_file_must_be_there_and_hold_a_certificate() {
    crypto();
    let folder = tempfile::tempdir().unwrap();
    let mut options = options("https://maas.example.com/MAAS", KEY);
    let absent = folder.path().join("absent.pem");
    options.ca_file = Some(absent.clone());
    let error = capmaas::maas::Client::new(options.clone()).err().unwrap();
    assert!(format!("{error:#}").contains(absent.to_str().unwrap()), "{error:#}");
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "this is no certificate\n").unwrap();
    options.ca_file = Some(empty);
    let error = capmaas::maas::Client::new(options).err().expect("no certificate in it");
    assert!(format!("{error:#}").contains("no PEM certificate"), "{error:#}");
}
