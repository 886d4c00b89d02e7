//! A policy beside the live one: asked, compared, counted, and not obeyed.

use anyhow::{Result, ensure};
use scenarios::{Machine, component, eventually};

use super::{decided, said};
use crate::support::stage_on;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_is_tried_in_shadow_then_enforced_then_put_back() -> Result<()> {
    let rack = [
        "{hostname: first, cores: 2, memory: 4096, zone: az1}",
        "{hostname: second, cores: 2, memory: 4096, zone: az1}",
        "{hostname: elsewhere, cores: 8, memory: 16384, zone: az2}",
        "{hostname: last, cores: 8, memory: 16384, zone: az2}",
    ];
    let stage = stage_on("policy-shadow", &rack).await?;
    let config = ", config: {workers: true}";
    stage.enforced("spread", "Allocation", &component("allocation-zone-spread")?, config)?;
    let spec = |mode: &str| {
        format!("kind: Allocation, mode: {mode}, source: {{configMap: {{name: spread}}}}{config}")
    };
    stage.policy("spread", &spec("Shadow"))?;
    stage.policy_ready("spread").await?;
    stage.cluster("c", "", ", policies: {allocation: [spread]}")?;
    for name in ["one", "two"] {
        stage.machine("c", &Machine::worker(name))?;
        stage.provisioned(name).await?;
    }
    // MAAS takes the smallest: both in the same zone.
    let by = decided(&stage, "two", "allocation").await?;
    ensure!(by.by.is_none(), "nobody obeys a shadow: {by:?}");
    let note = said(&stage, "two", "PolicyDisagrees").await?;
    ensure!(
        note.contains("policy-shadow/spread (in shadow) disagrees: it would have taken"),
        "{note}"
    );
    let disagreed = ["capmaas_policy_comparisons_total", "policy-shadow/spread", "agreed=\"no\""];
    ensure!(stage.metric(&disagreed).await? >= 1.0, "{}", stage.metrics().await?);

    stage.policy("spread", &spec("Enforce"))?;
    let status = stage.policy_ready("spread").await?;
    ensure!(status.observed_mode == Some(capmaas_api::PolicyMode::Enforce));
    stage.machine("c", &Machine::worker("three"))?;
    let host = stage.provisioned("three").await?;
    ensure!(host.zone == "az2", "{host:?}");
    let by = decided(&stage, "three", "allocation").await?;
    ensure!(by.by.as_deref() == Some("policy-shadow/spread"), "{by:?}");
    ensure!(by.reason.is_some_and(|r| r.starts_with("ranked ")), "and says why");

    stage.policy("spread", &spec("Shadow"))?;
    stage.policy_ready("spread").await?;
    stage.machine("c", &Machine::worker("four"))?;
    stage.provisioned("four").await?;
    let by = decided(&stage, "four", "allocation").await?;
    ensure!(by.by.is_none(), "{by:?}");
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_of_every_kind_run_beside_the_live_ones() -> Result<()> {
    let rack = ["{hostname: bad, cores: 2, memory: 4096, first_deploys_fail: 1}"];
    let stage = stage_on("policy-beside", &rack).await?;
    for (name, kind) in [("naming", "DnsNaming"), ("failing", "FailureHandling")] {
        let config = ", config: {how: 'long-replacement c'}";
        stage.enforced(name, kind, &component("hostile")?, config)?;
        stage.policy_ready(name).await?;
    }
    stage.cluster("c", "", ", policies: {shadow: [naming, failing, absent]}")?;
    stage.machine("c", &Machine::worker("w"))?;
    let note = said(&stage, "w", "PolicyDisagrees").await?;
    ensure!(note.contains("policy-beside/failing"), "{note}");
    eventually("both were compared", 60, async || {
        let counted = async |name: &str| {
            stage
                .metric(&["capmaas_policy_comparisons_total", &format!("policy-beside/{name}")])
                .await
        };
        Ok((counted("naming").await? >= 1.0 && counted("failing").await? >= 1.0).then_some(()))
    })
    .await?;
    stage.strike().await
}
