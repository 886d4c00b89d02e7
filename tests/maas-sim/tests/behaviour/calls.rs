//! Calls that go wrong on the way.

use crate::common::send;
use crate::{allocate, region};
use maas_sim::{CallFault, FaultAction};
use std::time::{Duration, Instant};

#[tokio::test]
async fn a_lost_reply_leaves_its_work_behind() {
    let (maas, admin) = region().await;
    maas.add_fault(CallFault::on_op("allocate", FaultAction::DropReply).times(1));
    let form = [("agent_name", "mark-9")];
    assert!(send(admin.request("POST", "/machines/?op=allocate").form(&form)).await.is_err());
    let found = admin.get("/machines/?agent_name=mark-9").await.json();
    assert_eq!(found[0]["status_name"], "Allocated");
    let call = &maas.calls()[0];
    assert!(call.reply_dropped);
    assert_eq!(
        (call.op.as_deref(), call.status, call.user.as_str()),
        (Some("allocate"), 200, "admin")
    );
    allocate(&admin, &[]).await;
}

#[tokio::test]
async fn calls_can_be_refused_cut_and_slowed() {
    let (maas, admin) = region().await;
    maas.add_fault(CallFault::on("GET", "^/version/$", FaultAction::CloseBefore).times(1));
    assert!(send(admin.request("GET", "/version/")).await.is_err());
    assert_eq!(maas.calls()[0].status, 0);
    let page = FaultAction::Answer {
        status: 502,
        content_type: "text/html".into(),
        body: "<html/>".into(),
        retry_after: None,
    };
    maas.add_fault(CallFault::on("GET", "/version/", page).after(1).times(1));
    assert_eq!(admin.get("/version/").await.status, 200);
    assert_eq!(admin.get("/version/").await.status, 502);
    assert_eq!(admin.get("/version/").await.status, 200);
    maas.clear_faults();
    maas.add_fault(CallFault::on("GET", "/machines/", FaultAction::Truncate { bytes: 100 }));
    assert!(
        send(admin.request("GET", "/machines/")).await.is_err(),
        "the announced length is not reached"
    );
    maas.clear_faults();
    for action in [
        FaultAction::SlowBody { ms: 200 },
        FaultAction::Delay { ms: 200 },
        FaultAction::DelayReply { ms: 200 },
    ] {
        maas.add_fault(CallFault::on("GET", "/version/", action).times(1));
        let start = Instant::now();
        assert_eq!(admin.get("/version/").await.status, 200);
        assert!(start.elapsed() >= Duration::from_millis(150));
    }
}

#[tokio::test]
async fn a_region_can_be_told_to_answer_something_else_after_the_work() {
    let (maas, admin) = region().await;
    let action = FaultAction::WorkThenAnswer {
        status: 504,
        content_type: "text/html".into(),
        body: "late".into(),
    };
    maas.add_fault(CallFault::on_op("allocate", action).times(1));
    assert_eq!(admin.post("/machines/?op=allocate", &[]).await.status, 504);
    assert_eq!(maas.machines().iter().filter(|m| m.status_name == "Allocated").count(), 1);
}
