//! Field cases: what people who run MAAS and its clients reported, as far as calls to MAAS are concerned.

use std::time::{Duration, SystemTime};

use capmaas_core::maas::Status;
use capmaas_core::policy::{AllocateConstraints, Constraints};
use capmaas_core::{Category, Read, Reply};
use maas_sim::{CallFault, Inventory};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::common::{
    HTML, JSON, MARK, Region, TEXT, allocate, client, deploy, failed, machine, machines,
};

/// The simulator checks the signature as MAAS does.
#[tokio::test]
async fn b013_b043_every_tag_and_the_pool_arrive_under_a_good_signature() {
    let text = "
pools: [p1]
machines:
  - {hostname: two-tags, cores: 4, memory: 8192, pool: p1, tags: [gpu, nvme]}
  - {hostname: no-pool, cores: 4, memory: 8192, tags: [gpu, rack-7, nvme]}
  - {hostname: right, cores: 8, memory: 16384, pool: p1, tags: [gpu, rack-7, nvme]}
";
    let region = Region::with(Inventory::from_yaml(text).unwrap()).await;
    let strings = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
    let constraints = Constraints {
        pools: strings(&["p1"]),
        tags: strings(&["gpu", "rack-7", "nvme"]),
        ..Constraints::default()
    };
    let wanted = AllocateConstraints { constraints, ..AllocateConstraints::default() };
    assert_eq!(machine(region.perform(allocate(wanted)).await).hostname, "right");
    let call = region.last_call();
    let sent = |name: &str| -> Vec<String> {
        call.params.iter().filter(|(k, _)| k == name).map(|(_, v)| v.clone()).collect()
    };
    assert_eq!((call.status, sent("pool")), (200, strings(&["p1"])));
    assert_eq!(sent("tags"), strings(&["gpu", "rack-7", "nvme"]));
}

#[tokio::test]
async fn b021_large_and_fractional_sizes_are_read() {
    let region = Region::start().await;
    let shown = r#"{"system_id": "abc123", "hostname": "n1", "cpu_count": 64.0, "memory": 2097152.0,
        "storage": 128032178176.5, "swap_size": 3221094400.0}"#;
    region.answers(|a| CallFault::on("GET", "^/machines/abc123/$", a), (200, JSON, shown));
    let seen = machine(region.read(Read::Machine("abc123".into())).await);
    assert_eq!((seen.cpu_count, seen.memory), (64, 2_097_152));
    assert_eq!((seen.storage, seen.swap_size), (128_032_178_176, Some(3_221_094_400)));
    let record = r#"{"id": 7.0, "fqdn": "a.maas", "address_ttl": 10.0,
        "ip_addresses": [{"ip": "10.0.0.1", "alloc_type": 4.0}]}"#;
    region.answers(|a| CallFault::on("GET", "^/dnsresources/7/$", a), (200, JSON, record));
    let Reply::Dns(records) = region.read(Read::DnsResource(7)).await else {
        panic!("no record");
    };
    assert!(records[0].ttl == Some(10) && records[0].addresses[0].reserved, "{records:?}");
}

/// Only who wants to deploy to memory asks for the version at all.
#[tokio::test]
async fn b023_a_version_that_cannot_be_read_stops_nothing_else() {
    let region = Region::start().await;
    let login = (401, HTML, "<html>Please log in</html>");
    region.answers(|a| CallFault::on("GET", "/version/", a), login);
    let error = failed(region.read(Read::Version).await);
    assert_eq!((error.category, error.status), (Category::Unauthorized, Some(401)));
    let all = machines(region.read_patiently(Read::Candidates(Box::default())).await);
    assert!(!all.is_empty());
    let took = machine(region.perform(allocate(Default::default())).await);
    assert_eq!(took.status, Status::Allocated);
    let page = (200, HTML, "<html>MAAS</html>");
    region.maas.clear_faults();
    region.answers(|a| CallFault::on("GET", "/version/", a), page);
    let error = failed(region.read_patiently(Read::Version).await);
    assert!(error.category == Category::Malformed && error.message.contains("not JSON"));
    assert_eq!(machines(region.read(Read::Candidates(Box::default())).await).len(), all.len() - 1);
}

#[tokio::test]
async fn b029_one_machine_among_2500_is_found() {
    let line = |n| format!("  - {{hostname: n{n}, cores: 4, memory: 8192}}\n");
    let text: String = std::iter::once("machines:\n".into()).chain((1..=2500).map(line)).collect();
    let region = Region::with(Inventory::from_yaml(&text).unwrap()).await;
    let ours = region.allocated("n2450").await.system_id().to_owned();
    let marked = machines(region.read(Read::MachinesByMark(MARK.into())).await);
    assert_eq!(marked.iter().map(|m| m.system_id.as_str()).collect::<Vec<_>>(), [ours.as_str()]);
    let free = machines(region.read(Read::Candidates(Box::default())).await);
    assert_eq!(free.len(), 2499, "all of them, on one page");
    // One alone, then many that are asked for together.
    let ids: Vec<String> = [1, 700, 2100, 2450, 2500].map(|n| region.id(&format!("n{n}"))).into();
    let asked = ids.iter().map(|id| region.read(Read::Machine(id.clone())));
    for (reply, id) in futures::future::join_all(asked).await.into_iter().zip(&ids) {
        assert_eq!(machine(reply).system_id, *id);
    }
}

/// A server that refuses everything, and whose clock is ahead by so much.
async fn refuses_with_clock(ahead: i64) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/MAAS", listener.local_addr().unwrap());
    let far = Duration::from_secs(ahead.unsigned_abs());
    let theirs = if ahead < 0 { SystemTime::now() - far } else { SystemTime::now() + far };
    let head = format!(
        "HTTP/1.1 401 Unauthorized\r\nDate: {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        httpdate::fmt_http_date(theirs)
    );
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut vec![0; 8192]).await;
            let _ = stream.write_all(head.as_bytes()).await;
        }
    });
    url
}

#[tokio::test]
async fn b031_clocks_that_disagree_are_told_with_the_difference() {
    let rows = [
        (1200, "expired timestamp: the clock of MAAS is 20 min ahead of ours"),
        (-600, "expired timestamp: the clock of MAAS is 10 min behind ours"),
        (30, "the API key is not accepted"),
    ];
    for (ahead, words) in rows {
        let url = refuses_with_clock(ahead).await;
        let error = failed(client(&url, "consumer:token:secret").read(&Read::WhoAmI).await);
        assert_eq!((error.category, error.message.as_str()), (Category::Unauthorized, words));
    }
}

#[tokio::test]
async fn b033_each_answer_counts_for_itself() {
    let region = Region::start().await;
    let busy = (409, HTML, "<html>conflict</html>");
    let broken = (500, TEXT, "deadlock detected");
    region.answers(|a| CallFault::on_op("allocate", a).times(1), busy);
    region.answers(|a| CallFault::on_op("allocate", a).after(1).times(1), broken);
    let tried = failed(region.perform(allocate(Default::default())).await);
    assert_eq!((tried.category, tried.ambiguous()), (Category::Conflict, false));
    let tried = failed(region.perform(allocate(Default::default())).await);
    assert_eq!((tried.category, tried.ambiguous()), (Category::Server, true));
    let took = machine(region.perform(allocate(Default::default())).await);
    assert_eq!(took.status, Status::Allocated);
}

/// A Secret holds at most 1 MiB, so nothing larger comes to us. Whatever it is, not a byte of it changes.
#[tokio::test]
async fn b063_bootstrap_data_of_every_size_arrives_as_it_is() {
    use base64::Engine;
    let hosts = ["az1-small-1", "az1-small-2", "az1-medium-1"];
    let region = Region::start().await;
    for (host, kib) in hosts.into_iter().zip([10, 64, 1023]) {
        // Begins as gzip does, and is no text.
        let bytes = [0x1f, 0x8b, 0x08].into_iter().chain((0u32..).map(|n| (n % 251) as u8));
        let bytes: Vec<u8> = bytes.take(kib << 10).collect();
        let data = base64::engine::general_purpose::STANDARD.encode(bytes);
        let owned = region.allocated(host).await;
        let reply = region.client.perform(&deploy(&owned, false), Some(&data)).await;
        assert_eq!(machine(reply).status, Status::Deploying, "{kib} KiB");
        let arrived = region.maas.machine(owned.system_id()).unwrap().user_data;
        assert!(arrived.as_deref() == Some(data.as_str()), "{kib} KiB");
    }
}

#[tokio::test]
async fn b069_a_machine_without_a_host_name_goes_by_its_full_name_or_its_id() {
    let region = Region::start().await;
    let rows = [
        (r#""hostname": "", "fqdn": "node7.maas""#, "node7"),
        (r#""fqdn": "node7.maas""#, "node7"),
        (r#""hostname": null, "fqdn": null"#, "abc123"),
        (r#""hostname": "short", "fqdn": "node7.maas""#, "short"),
    ];
    for (names, wanted) in rows {
        let body = format!(r#"{{"system_id": "abc123", {names}}}"#);
        region.maas.clear_faults();
        region.answers(|a| CallFault::on("GET", "^/machines/abc123/$", a), (200, JSON, &body));
        assert_eq!(machine(region.read(Read::Machine("abc123".into())).await).hostname, wanted);
    }
}

#[tokio::test]
async fn b131_a_maas_at_an_ipv6_address_is_reached() {
    let region = Region::start().await;
    let listener = TcpListener::bind("[::1]:0").await.unwrap();
    let url = format!("http://{}/MAAS", listener.local_addr().unwrap());
    assert!(url.starts_with("http://[::1]:"), "{url}");
    let behind = region.maas.address();
    tokio::spawn(async move {
        while let Ok((mut outside, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut inside = TcpStream::connect(behind).await?;
                tokio::io::copy_bidirectional(&mut outside, &mut inside).await
            });
        }
    });
    let reply = client(&url, &region.maas.api_key()).read(&Read::Version).await;
    assert_eq!(reply, Reply::Text("3.7.3".into()));
}

/// What MAAS's own web server says when it has no rack controller for a power call.
#[tokio::test]
async fn b019_without_a_rack_the_words_are_told_and_whether_it_was_done_is_open() {
    let region = Region::start().await;
    let owned = region.allocated("az1-small-1").await;
    let words = "No rack controllers can access the BMC of node: az1-small-1";
    region.answers(|a| CallFault::on_op("deploy", a).times(3), (503, TEXT, words));
    for _ in 0..3 {
        let reply = region.client.perform(&deploy(&owned, false), Some("I2Nsb3Vk")).await;
        let error = failed(reply);
        assert_eq!((error.category, error.message.as_str()), (Category::Server, words));
        assert!(error.ambiguous() && !error.endpoint_wide(), "others are served meanwhile");
    }
    let reply = region.client.perform(&deploy(&owned, false), Some("I2Nsb3Vk")).await;
    assert_eq!(machine(reply).status, Status::Deploying);
}
