//! A part of the crash matrix, of which `make crash` runs all: each write at which most is at stake.

use anyhow::{Result, ensure};
use gate::Side;
use scenarios::matrix::{Blow, Boundary, Story, run};

/// Tells a story with one blow, which must fall, and of which nothing must come.
async fn survives(name: &str, story: Story, side: Side, call: &str, blow: Blow) -> Result<()> {
    let boundary = Boundary { side, call: call.to_owned(), ordinal: 0 };
    let namespace = format!("blow-{}", name.replace('_', "-"));
    let outcome = run(crate::plane(), &namespace, story, Some((&boundary, blow))).await;
    ensure!(outcome.reached, "{boundary} was not reached; seen: {:#?}", outcome.seen);
    ensure!(outcome.faults.is_empty(), "{boundary}, {}: {:#?}", blow.name(), outcome.faults);
    Ok(())
}

macro_rules! survives {
    ($($name:ident: $story:ident, $side:ident, $call:literal, $blow:ident;)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() -> Result<()> {
            survives(stringify!($name), Story::$story, Side::$side, $call, Blow::$blow).await
        }
    )*};
}

survives! {
    allocated: Provision, Maas, "POST machines op=allocate", KillAfter;
    allocating: Provision, Maas, "POST machines op=allocate", KillBefore;
    annotated: Provision, Maas, "POST machines/{} op=set_workload_annotations", KillAfter;
    swap_is_off: Provision, Maas, "PUT machines/{}", KillAfter;
    deployed: Provision, Maas, "POST machines/{} op=deploy", KillAfter;
    record_made: Provision, Maas, "POST dnsresources", KillAfter;
    record_written: Provision, Maas, "PUT dnsresources/{}", KillAfter;
    node_named: Provision, Kubernetes, "PATCH nodes/{} spec.providerID", KillAfter;
    host_written_down:
        Provision, Kubernetes,
        "PATCH maasmachines/{} -allocating-since,spec.providerID,spec.systemID", KillBefore;
    released: ScaleDown, Maas, "POST machines/{} op=release", KillAfter;
    let_go: ScaleDown, Kubernetes, "PATCH maasmachines/{} -finalizers", Drop;
    failure_remembered:
        Replacement, Kubernetes, "PATCH maasmachines/{} failed-hosts", KillAfter;
    failed_host_released: Replacement, Maas, "POST machines/{} op=release", KillAfter;
    record_deleted: ClusterEnd, Maas, "DELETE dnsresources/{}", KillAfter;
    policy_in_use: PolicySwap, Kubernetes, "PATCH maaspolicies/{}/status", KillBefore;
}
