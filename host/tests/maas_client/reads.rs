//! Every question to MAAS is answered with what MAAS shows.

use std::time::Duration;

use capmaas_core::maas::{Hardware, Image, Power, Status, User};
use capmaas_core::policy::{AllocateConstraints, Constraints};
use capmaas_core::{Category, Read, Reply};
use maas_sim::{CallFault, FaultAction, MachineFaults, OperatorAct};

use super::common::{JSON, MARK, Region, claim, client, failed, machine, machines};

#[tokio::test]
async fn a_free_machine_is_shown_as_it_is() {
    let region = Region::start().await;
    let seen = region.machine("az1-medium-2").await;
    assert_eq!(seen.system_id, region.id("az1-medium-2"));
    assert_eq!(seen.hostname, "az1-medium-2");
    assert_eq!(seen.fqdn, "az1-medium-2.maas");
    assert_eq!(seen.status, Status::Ready);
    assert_eq!(seen.owner, None);
    assert!(seen.annotations.is_empty());
    assert_eq!((seen.zone.as_str(), seen.pool.as_str()), ("az1", "workers"));
    assert_eq!(seen.tags, ["nvme"]);
    assert_eq!(seen.power, Power::Off);
    assert_eq!(seen.architecture, "amd64/generic");
    assert_eq!((seen.cpu_count, seen.memory, seen.storage), (8, 32_768, 500_000));
    assert_eq!(seen.swap_size, None);
    assert!(!seen.locked && !seen.ephemeral);
    assert_eq!(seen.vm_host, None);
    let bare = Hardware { numa_nodes: 1, power_type: "ipmi".into(), ..Hardware::default() };
    assert_eq!(seen.hardware, bare, "MAAS knows nothing more");
}

#[tokio::test]
async fn a_listing_shows_what_machines_are_made_of() {
    let region = Region::start().await;
    let all = machines(region.read(Read::Candidates(Box::default())).await);
    let seen = all.into_iter().find(|m| m.hostname == "az1-large-1").unwrap();
    let known = Hardware {
        cpu_model: "AMD EPYC 9354P 32-Core Processor".into(),
        cpu_speed: 3250,
        system_vendor: "Dell Inc.".into(),
        system_product: "PowerEdge R7615".into(),
        numa_nodes: 2,
        power_type: "redfish".into(),
        bios_boot_method: "uefi".into(),
    };
    assert_eq!(seen.hardware, known);
}

/// As MAAS 3.7.3 shows a virtual machine, as an older one may show it, and as nothing should.
#[tokio::test]
async fn what_only_describes_a_machine_never_makes_it_unreadable() {
    let region = Region::start().await;
    let recorded = r#""hardware_info": {"chassis_serial": "Unknown", "cpu_model": "Unknown", "system_product": "Unknown",
        "system_vendor": "Unknown"}, "power_type": "virsh", "cpu_speed": 0, "bios_boot_method": null,
        "numanode_set": [{"cores": [0, 1, 2, 3], "hugepages_set": [], "index": 0, "memory": 8192}]"#;
    let virtual_one = Hardware { numa_nodes: 1, power_type: "virsh".into(), ..Hardware::default() };
    let nulls =
        r#""hardware_info": null, "power_type": null, "cpu_speed": null, "numanode_set": null"#;
    let partly =
        r#""hardware_info": {"cpu_model": null, "system_vendor": "HPE"}, "cpu_speed": 2400.0"#;
    let hpe = Hardware { system_vendor: "HPE".into(), cpu_speed: 2400, ..Hardware::default() };
    let odd = r#""hardware_info": ["Xeon"], "power_type": 7, "cpu_speed": "fast", "numanode_set": 2,
        "bios_boot_method": {}"#;
    let cases = [
        (recorded, virtual_one),
        (nulls, Hardware::default()),
        (partly, hpe),
        (odd, Hardware::default()),
        (r#""cpu_speed": -1"#, Hardware::default()),
    ];
    for (fields, expected) in cases {
        let shown = format!(r#"{{"system_id": "abc123", "hostname": "n1", {fields}}}"#);
        region.answers(
            |a| CallFault::on("GET", "^/machines/abc123/$", a).times(1),
            (200, JSON, &shown),
        );
        let seen = machine(region.read(Read::Machine("abc123".into())).await);
        assert_eq!(seen.hardware, expected, "{fields}");
    }
}

#[tokio::test]
async fn a_deployed_machine_shows_owner_address_power_and_lock() {
    let region = Region::start().await;
    let owned = region.deployed("az1-small-1").await;
    let id = owned.system_id();
    region.maas.operator(id, OperatorAct::Lock).unwrap();
    region.maas.operator(id, OperatorAct::Swap(Some(0))).unwrap();
    let stamp = OperatorAct::Annotate(claim().annotations());
    region.maas.operator(id, stamp).unwrap();
    let seen = region.machine("az1-small-1").await;
    assert_eq!(seen.status, Status::Deployed);
    assert_eq!(seen.owner.as_deref(), Some("admin"));
    assert_eq!(seen.annotations, claim().annotations());
    let view = region.maas.machine(id).unwrap();
    assert_eq!(seen.ip_addresses.len(), 1);
    assert_eq!(seen.ip_addresses, view.ip_addresses);
    assert_eq!(seen.power, Power::On);
    assert_eq!(seen.swap_size, Some(0));
    assert!(seen.locked);
}

#[tokio::test]
async fn a_machine_that_maas_does_not_have_is_absent() {
    let region = Region::start().await;
    assert_eq!(region.read(Read::Machine("zzzzzz".into())).await, Reply::Absent);
    let id = region.id("az1-small-1");
    region.maas.operator(&id, OperatorAct::Remove).unwrap();
    assert_eq!(region.read(Read::Machine(id)).await, Reply::Absent);
}

#[tokio::test]
async fn a_machine_is_found_again_by_its_mark() {
    let region = Region::start().await;
    let by_mark = Read::MachinesByMark(MARK.into());
    assert_eq!(machines(region.read(by_mark.clone()).await), []);
    let owned = region.allocated("az2-medium-1").await;
    let found = machines(region.read(by_mark).await);
    let ids: Vec<&str> = found.iter().map(|m| m.system_id.as_str()).collect();
    assert_eq!(ids, [owned.system_id()]);
}

#[tokio::test]
async fn candidates_are_the_free_machines_within_the_constraints() {
    let region = Region::start().await;
    region.allocated("az1-large-1").await;
    let constraints = Constraints {
        min_cpu_cores: 8,
        min_memory_mib: 16_384,
        zones: vec!["az1".into(), "az2".into()],
        pools: vec!["workers".into()],
        tags: vec!["nvme".into()],
        not_tags: vec!["control-plane".into()],
        ..Constraints::default()
    };
    let within = AllocateConstraints { constraints, ..AllocateConstraints::default() };
    let found = machines(region.read(Read::Candidates(Box::new(within))).await);
    let mut names: Vec<&str> = found.iter().map(|m| m.hostname.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["az1-medium-2", "az2-large-1", "az2-medium-2"]);
    let call = region.last_call();
    let mut asked: Vec<&str> = call.path.split(['?', '&']).collect();
    asked.sort_unstable();
    assert_eq!(
        asked,
        [
            "/machines/",
            "cpu_count=8",
            "mem=16384",
            "not_tags=control-plane",
            "pool=workers",
            "status=ready",
            "tags=nvme",
            "zone=az1",
            "zone=az2",
        ]
    );
}

#[tokio::test]
async fn names_come_sorted() {
    let region = Region::start().await;
    let names = [
        (Read::Zones, vec!["az1", "az2", "default"]),
        (Read::Pools, vec!["default", "workers"]),
        (Read::Tags, vec!["control-plane", "gpu", "nvme"]),
        (Read::Domains, vec!["maas"]),
    ];
    for (read, expected) in names {
        let reply = region.read(read.clone()).await;
        let Reply::Names(names) = reply else {
            panic!("{read:?}: {reply:?}");
        };
        let ours: Vec<&str> =
            names.iter().map(String::as_str).filter(|n| expected.contains(n)).collect();
        assert_eq!(ours, expected, "{read:?}");
        assert!(names.is_sorted(), "{read:?}: {names:?}");
    }
}

#[tokio::test]
async fn the_key_says_who_we_are() {
    let region = Region::start().await;
    let admin = User { name: "admin".into(), admin: true };
    assert_eq!(region.read(Read::WhoAmI).await, Reply::User(admin));
    let plain = client(&region.maas.url(), &region.maas.user_api_key());
    let user = User { name: "user".into(), admin: false };
    assert_eq!(plain.read(&Read::WhoAmI).await, Reply::User(user));
}

#[tokio::test]
async fn version_and_images_are_shown() {
    let region = Region::start().await;
    assert_eq!(region.read(Read::Version).await, Reply::Text("3.7.3".into()));
    let Reply::Images(images) = region.read(Read::Images).await else {
        panic!("no images");
    };
    let image = |name: &str, architecture: &str| Image {
        name: name.into(),
        architecture: architecture.into(),
    };
    assert!(images.contains(&image("ubuntu/noble", "arm64/ga-24.04")), "{images:?}");
    assert!(images.contains(&image("u-2404-k8s", "amd64/generic")), "{images:?}");
}

#[tokio::test]
async fn the_events_of_a_machine_are_its_newest_errors() {
    let region = Region::start().await;
    let id = region.id("az1-small-1");
    let faults = MachineFaults {
        first_deploys_fail: 1,
        deploy_error: Some("the disk has no sectors".into()),
        ..MachineFaults::default()
    };
    region.maas.operator(&id, OperatorAct::Faults(faults)).unwrap();
    let events = region.read(Read::ErrorEvents(id.clone())).await;
    assert_eq!(events, Reply::Events(vec![]));
    region.deployed("az1-small-1").await;
    let Reply::Events(events) = region.read(Read::ErrorEvents(id)).await else {
        panic!("no events");
    };
    assert_eq!(events.len(), 1, "errors alone: {events:?}");
    assert_eq!(events[0].kind, "Marking node failed");
    assert!(events[0].description.contains("the disk has no sectors"), "{events:?}");
}

#[tokio::test]
async fn what_changes_rarely_is_asked_once_a_minute() {
    let region = Region::start().await;
    for read in [Read::WhoAmI, Read::Version, Read::Images] {
        region.maas.clear_calls();
        let first = region.read(read.clone()).await;
        assert_eq!(region.read(read.clone()).await, first);
        assert_eq!(region.maas.calls().len(), 1, "{read:?}");
    }
    region.maas.clear_calls();
    region.read(Read::Zones).await;
    region.read(Read::Zones).await;
    assert_eq!(region.maas.calls().len(), 2, "everything else is asked each time");
}

#[tokio::test]
async fn what_was_kept_is_forgotten_when_the_key_is_refused() {
    let region = Region::start().await;
    region.read(Read::WhoAmI).await;
    region.read(Read::Version).await;
    region.maas.replace_key("admin").unwrap();
    let error = failed(region.read(Read::Zones).await);
    assert_eq!(error.category, Category::Unauthorized);
    let error = failed(region.read(Read::WhoAmI).await);
    assert_eq!(error.category, Category::Unauthorized);
    region.maas.set_version("3.8.0");
    assert_eq!(region.read_patiently(Read::Version).await, Reply::Text("3.8.0".into()));
}

#[tokio::test]
async fn a_failure_is_not_kept() {
    let region = Region::start().await;
    let fault = CallFault::on("GET", "/version/", FaultAction::CloseBefore).times(1);
    region.maas.add_fault(fault);
    assert!(matches!(region.read(Read::Version).await, Reply::Failed(_)));
    assert_eq!(region.read(Read::Version).await, Reply::Text("3.7.3".into()));
}

#[tokio::test]
async fn a_question_that_is_not_for_maas_never_reaches_it() {
    let region = Region::start().await;
    assert_eq!(failed(region.read(Read::Mark).await).category, Category::Malformed);
    assert_eq!(region.maas.calls(), []);
}

#[tokio::test]
async fn an_id_that_is_no_system_id_never_becomes_another_path() {
    let region = Region::start().await;
    let ids =
        ["", "../users", "abc123/", "abc123?op=release", "abc%2F123", "abc 123", "äbc123", "."];
    for id in ids {
        let error = failed(region.read(Read::Machine(id.into())).await);
        assert_eq!(error.category, Category::BadRequest, "{id:?}");
    }
    assert_eq!(region.maas.calls(), []);
}

#[tokio::test]
async fn a_region_is_never_asked_more_than_six_things_at_once() {
    let region = Region::start().await;
    let slow = CallFault::on("GET", "/zones/", FaultAction::Delay { ms: 200 });
    region.maas.add_fault(slow);
    let asking = futures::future::join_all((0..20).map(|_| region.read(Read::Zones)));
    tokio::pin!(asking);
    let mut most = 0;
    let replies = loop {
        tokio::select! {
            replies = &mut asking => break replies,
            () = tokio::time::sleep(Duration::from_millis(10)) => {}
        }
        let running = region.maas.calls().iter().filter(|c| c.status == 0).count();
        most = most.max(running);
    };
    assert!((1..=6).contains(&most), "{most} at once");
    assert_eq!(replies.len(), 20);
    assert!(replies.iter().all(|r| matches!(r, Reply::Names(_))));
}

#[tokio::test]
async fn a_body_that_comes_slowly_is_read_to_its_end() {
    let region = Region::start().await;
    let fault = CallFault::on("GET", "/machines/", FaultAction::SlowBody { ms: 300 });
    region.maas.add_fault(fault);
    assert_eq!(region.machine("az1-small-1").await.hostname, "az1-small-1");
    let all = machines(region.read(Read::Candidates(Box::default())).await);
    assert_eq!(all.len(), 11, "all but somebody else's");
    let owned = machine(region.perform(super::common::allocate(Default::default())).await);
    assert_eq!(owned.status, Status::Allocated);
}
