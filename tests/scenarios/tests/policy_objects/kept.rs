//! What is good stays, whatever becomes of its source; and what is bad is the trouble of those alone who named it.

use anyhow::{Result, ensure};
use scenarios::{Machine, Stage, StageOptions, component};

use super::decided;
use crate::support::{rack, stage, stage_with};

async fn is_ready(stage: &Stage<'_>) -> Result<()> {
    let (status, said) = stage.ready().await?;
    ensure!(status == 200, "{said}");
    Ok(())
}

async fn starts_again(stage: &Stage<'_>) -> Result<()> {
    stage.controller.start()?;
    stage.controller.watching().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_goes_bad_while_the_controller_is_down_displaces_nothing() -> Result<()> {
    let cache = tempfile::tempdir()?;
    let inventory = rack(&[
        "{hostname: a, cores: 2, memory: 4096, zone: az1}",
        "{hostname: b, cores: 4, memory: 8192, zone: az2}",
        "{hostname: c, cores: 8, memory: 16384, zone: az3}",
    ]);
    let args = vec![format!("--policy-cache={}", cache.path().join("policies").display())];
    let options = StageOptions { inventory, args, ..Default::default() };
    let stage = stage_with("policy-kept", options).await?;
    let spread = component("allocation-zone-spread")?;
    stage.enforced("p", "Allocation", &spread, ", config: {workers: true}")?;
    let good = stage.policy_ready("p").await?.current.expect("a revision");
    stage.cluster("c", "", ", policies: {allocation: [p]}")?;
    stage.machine("c", &Machine::worker("before"))?;
    stage.provisioned("before").await?;

    // Its configuration, its component, and at last the ConfigMap itself.
    let goes_bad: [(&str, &dyn Fn() -> Result<()>); 3] = [
        ("ConfigInvalid", &|| stage.enforced("p", "Allocation", &spread, ", config: {workers: 7}")),
        ("ComponentRefused", &|| stage.component_in_config_map("p", b"#!/bin/sh")),
        ("SourceUnavailable", &|| stage.delete("configmap", "p")),
    ];
    for (n, (reason, act)) in goes_bad.into_iter().enumerate() {
        stage.controller.kill();
        act()?;
        starts_again(&stage).await?;
        let why = stage.policy_reason("p", "Ready", reason).await?;
        ensure!(why.contains(&format!("the last good revision sha256:{}", good.short_digest)));
        let status = stage.policies().get("p").await?.status.unwrap_or_default();
        ensure!(status.current.map(|c| c.digest).as_ref() == Some(&good.digest));
        is_ready(&stage).await?;
        if n < 2 {
            let name = format!("after-{n}");
            stage.machine("c", &Machine::worker(&name))?;
            stage.provisioned(&name).await?;
            let by = decided(&stage, &name, "allocation").await?;
            ensure!(
                by.digest == good.digest && by.by.as_deref() == Some("policy-kept/p"),
                "{by:?}"
            );
        }
    }
    // One that is made anew by the same name has no past.
    stage.controller.kill();
    stage.delete("maaspolicy", "p")?;
    stage.policy("p", "kind: Allocation, mode: Enforce, source: {configMap: {name: p}}")?;
    starts_again(&stage).await?;
    stage.policy_reason("p", "Ready", "SourceUnavailable").await?;
    let status = stage.policies().get("p").await?.status.unwrap_or_default();
    ensure!(status.current.is_none(), "{status:?}");
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_whose_policies_are_all_bad_is_ready_and_serves_everybody_else() -> Result<()>
{
    let stage = stage("policy-all-bad").await?;
    stage.controller.kill();
    stage.enforced("garbage", "Allocation", b"#!/bin/sh", "")?;
    stage.enforced("strange", "DnsNaming", &wat::parse_str("(component)")?, "")?;
    stage.policy(
        "absent",
        "kind: FailureHandling, mode: Enforce, source: {file: {path: absent.wasm}}",
    )?;
    let policies = ", policies: {allocation: [garbage], failureHandling: absent}";
    stage.cluster("c", "", policies)?;
    stage.cluster("named", "", ", policies: {dnsNaming: strange}")?;
    stage.cluster("calm", "", "")?;
    for cluster in ["c", "calm"] {
        stage.machine(cluster, &Machine::worker(&format!("of-{cluster}")))?;
    }
    starts_again(&stage).await?;
    is_ready(&stage).await?;
    stage.provisioned("of-calm").await?;
    let why = stage.reason("of-c", "MachineDeployed", "AllocationPolicyFailed").await?;
    ensure!(why.contains("policy-all-bad/garbage") && why.contains("not WebAssembly"), "{why}");
    // Naming has a default to fall back to.
    stage.cluster_reason("named", "LoadBalancerReady", "WaitingForControlPlane").await?;
    for (policy, gate) in [("garbage", "Verified"), ("strange", "Verified"), ("absent", "Resolved")]
    {
        let condition = stage.policy_condition(policy, gate).await?;
        ensure!(condition.is_some_and(|c| c.status == "False"), "{policy}: {gate}");
    }
    is_ready(&stage).await?;
    stage.strike().await
}
