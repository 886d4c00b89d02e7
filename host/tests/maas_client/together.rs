//! Machines that are asked for at the same time, and a MAAS that does not serve us.

use std::sync::atomic::{AtomicUsize, Ordering};

use capmaas_core::{Category, Read, Reply};
use futures::future::join_all;
use maas_sim::{CallFault, FaultAction, OperatorAct};

use super::common::{HTML, Region, allocate, failed, machine};

const HOSTS: [&str; 4] = ["az1-small-1", "az1-small-2", "az1-medium-1", "az1-medium-2"];

/// A fault of every call.
fn every(action: FaultAction) -> CallFault {
    CallFault { method: None, path: None, op: None, skip: 0, count: None, action }
}

/// Asks for all of these at the same time.
async fn at_once(region: &Region, ids: &[String]) -> Vec<Reply> {
    join_all(ids.iter().map(|id| region.read(Read::Machine(id.clone())))).await
}

#[tokio::test]
async fn machines_that_are_asked_for_at_the_same_time_come_in_one_answer() {
    let region = Region::start().await;
    let ids = HOSTS.map(|host| region.id(host));
    // Whoever finds nobody waiting asks for one.
    region.read(Read::Machine(ids[0].clone())).await;
    region.maas.clear_calls();
    let seen = at_once(&region, &ids).await;
    for (reply, host) in seen.into_iter().zip(HOSTS) {
        assert_eq!(machine(reply).hostname, host);
    }
    assert_eq!(region.maas.calls().len(), 1);
}

#[tokio::test]
async fn the_answer_is_never_older_than_the_question() {
    let region = Region::start().await;
    let id = region.id(HOSTS[0]);
    let slow = CallFault::on("GET", "/machines/", FaultAction::DelayReply { ms: 300 }).times(1);
    region.maas.add_fault(slow);
    let early = region.read(Read::Machine(id.clone()));
    let late = async {
        tokio::time::sleep(std::time::Duration::from_millis(150)).await;
        region.maas.operator(&id, OperatorAct::Lock).unwrap();
        machine(region.read(Read::Machine(id.clone())).await)
    };
    let (early, late) = futures::join!(early, late);
    assert!(!machine(early).locked && late.locked);
}

#[tokio::test]
async fn a_machine_that_is_gone_or_cannot_be_read_spoils_no_other() {
    let region = Region::start().await;
    let mut ids = HOSTS.map(|host| region.id(host)).to_vec();
    region.maas.operator(&ids[1], OperatorAct::Remove).unwrap();
    ids.push("zzzzzz".into());
    region.read(Read::Machine(ids[0].clone())).await;
    let seen = at_once(&region, &ids).await;
    assert_eq!((&seen[1], &seen[4]), (&Reply::Absent, &Reply::Absent));
    assert_eq!(machine(seen[0].clone()).hostname, HOSTS[0]);
    assert_eq!(machine(seen[3].clone()).hostname, HOSTS[3]);
    let body = r#"[{"system_id": "ID", "tag_names": 7}, {"hostname": "without-an-id"}]"#;
    let body = body.replace("ID", &ids[0]);
    let list = |a| CallFault::on("GET", "/machines/?id=", a);
    region.answers(list, (200, "application/json", &body));
    let seen = at_once(&region, &ids).await;
    assert_eq!(failed(seen[0].clone()).category, Category::Malformed);
    assert_eq!(machine(seen[3].clone()).hostname, HOSTS[3]);
}

#[tokio::test]
async fn a_list_that_fails_fails_for_all_who_asked() {
    let region = Region::start().await;
    let ids = HOSTS.map(|host| region.id(host));
    region.read(Read::Machine(ids[0].clone())).await;
    region.answers(|a| CallFault::on("GET", "/machines/", a), (500, HTML, "<h1>oops</h1>"));
    region.maas.clear_calls();
    for reply in at_once(&region, &ids).await {
        assert_eq!(failed(reply).category, Category::Server);
    }
    assert_eq!(region.maas.calls().len(), 1);
}

#[tokio::test]
async fn a_region_that_is_down_is_asked_by_one_at_a_time() {
    let region = Region::start().await;
    let page = (502, HTML, "<html>Bad Gateway</html>");
    region.answers(every, page);
    let refused = AtomicUsize::new(0);
    let many = (0..200).map(|_| async {
        let error = failed(region.read(Read::Zones).await);
        assert!(error.endpoint_wide(), "{error:?}");
        refused.fetch_add(1, Ordering::Relaxed);
    });
    join_all(many).await;
    assert_eq!(refused.into_inner(), 200);
    let asked = region.maas.calls().len();
    assert!(asked <= 6, "{asked} calls reached a region that is down");
    // Whatever is held back was certainly not done.
    let error = failed(region.perform(allocate(Default::default())).await);
    assert_eq!(error.category, Category::Unreachable);
    assert!(!error.ambiguous() && error.retry_after.is_some(), "{error:?}");
}

#[tokio::test]
async fn a_region_that_is_up_again_serves_everybody_at_once() {
    let region = Region::start().await;
    let page = (503, HTML, "<html>starting</html>");
    region.answers(|a| CallFault::on("GET", "/zones/", a).times(1), page);
    failed(region.read(Read::Zones).await);
    let again = loop {
        match region.read(Read::Zones).await {
            Reply::Failed(error) => assert_eq!(error.category, Category::Unreachable),
            other => break other,
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    };
    assert!(matches!(again, Reply::Names(_)));
    for reply in join_all((0..20).map(|_| region.read(Read::Pools))).await {
        assert!(matches!(reply, Reply::Names(_)), "{reply:?}");
    }
}

#[tokio::test]
async fn a_read_that_fails_for_one_object_holds_up_no_other() {
    let region = Region::start().await;
    let broken = region.id(HOSTS[0]);
    let path = format!("/machines/{broken}/");
    region.answers(|a| CallFault::on("GET", &path, a), (500, HTML, "<h1>oops</h1>"));
    for _ in 0..6 {
        let error = failed(region.read(Read::Machine(broken.clone())).await);
        assert_eq!(error.category, Category::Server);
        assert_eq!(
            machine(region.read(Read::Machine(region.id(HOSTS[1]))).await).hostname,
            HOSTS[1]
        );
    }
}
