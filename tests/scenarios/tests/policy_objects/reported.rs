//! What people reported of hosts of policies: a status that lies, one policy compiled many times, digests that nobody
//! checks, changes that start everything anew.

use anyhow::{Result, ensure};
use capmaas_api::{MaasPolicyStatus, PolicyMode};
use scenarios::{Machine, Stage, StageOptions, component, eventually};

use super::decided;
use crate::support::{PolicyFolder, stage, stage_with};

/// How often the controller has compiled a component that is not built in, since it was started.
async fn compiled(stage: &Stage<'_>) -> Result<f64> {
    stage.metric(&["capmaas_policy_compile_seconds_count"]).await
}

/// How many revisions it has loaded.
async fn loads(stage: &Stage<'_>) -> Result<f64> {
    stage.metric(&["capmaas_policy_loads_total", "result=\"ok\""]).await
}

async fn status(stage: &Stage<'_>, policy: &str) -> Result<MaasPolicyStatus> {
    Ok(stage.policies().get(policy).await?.status.unwrap_or_default())
}

/// Ready is what is asked now and is what the object means; everything else says what it is, and which revision is asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b105_a_policy_is_ready_only_while_what_its_object_means_is_asked() -> Result<()> {
    let stage = stage("policy-b105").await?;
    stage.enforced("p", "Allocation", &component("allocation-default")?, "")?;
    let good = stage.policy_ready("p").await?;
    ensure!(good.observed_mode == Some(PolicyMode::Enforce), "{good:?}");
    let asked = good.current.expect("a revision").digest;
    stage.cluster("c", "", ", policies: {allocation: [p]}")?;

    // The object means something else now, and that cannot be had.
    let source = "kind: Allocation, mode: Enforce, source: {configMap: {name: absent}}";
    stage.policy("p", source)?;
    let why = stage.policy_reason("p", "Ready", "SourceUnavailable").await?;
    ensure!(why.contains("policy-b105/absent") && why.contains("last good revision"), "{why}");
    let broken = status(&stage, "p").await?;
    let generation = stage.policies().get("p").await?.metadata.generation;
    ensure!(broken.observed_generation == generation && broken.observed_mode.is_none());
    ensure!(broken.current.is_some_and(|c| c.digest == asked), "and this one is asked");
    // It is the truth: that revision decides, and the machine's own status names it.
    stage.machine("c", &Machine::worker("w"))?;
    stage.provisioned("w").await?;
    ensure!(decided(&stage, "w", "allocation").await?.digest == asked);
    let told = ["capmaas_policy_info", "policy-b105/p", asked.as_str()];
    ensure!(stage.metric(&told).await? >= 1.0, "{}", stage.metrics().await?);

    // Without any revision it is not ready either, and says that nothing is asked.
    stage.policy("q", source)?;
    stage.policy_reason("q", "Ready", "SourceUnavailable").await?;
    let empty = status(&stage, "q").await?;
    ensure!(empty.current.is_none() && empty.observed_mode.is_none(), "{empty:?}");
    // The controller itself is well all the same.
    stage.controller.check()?;
    stage.strike().await
}

/// Twenty objects, each with settings of its own, of one component of the largest sort.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b113_twenty_policies_of_one_component_are_compiled_once_and_kept_once() -> Result<()> {
    let folder = PolicyFolder::new()?.file("fit.wasm", &component("allocation-best-fit")?)?;
    let options = StageOptions { args: folder.flags(), ..Default::default() };
    let stage = stage_with("policy-b113", options).await?;
    let policy = |n: u32| {
        let config = format!("config: {{coreWeight: {n}}}");
        let spec = format!("kind: Allocation, source: {{file: {{path: fit.wasm}}}}, {config}");
        stage.policy(&format!("p{n}"), &spec)
    };
    policy(1)?;
    // Compiling Python takes ten seconds of a processor, which here has many to serve.
    eventually("p1 is in use", 240, async || {
        Ok(status(&stage, "p1").await?.current.is_some().then_some(()))
    })
    .await?;
    let (one, _) = stage.controller.resident_mib()?;
    (2..=20).try_for_each(policy)?;
    for n in 2..=20 {
        stage.policy_ready(&format!("p{n}")).await?;
    }
    let (twenty, _) = stage.controller.resident_mib()?;
    println!("measured: {one} MiB with one policy, {twenty} MiB with twenty");
    ensure!(compiled(&stage).await? == 1.0 && loads(&stage).await? == 20.0);
    // Compiled, it is some 30 MiB; nineteen more of these would be hundreds.
    ensure!(twenty < one + 100, "{one} MiB with one policy, {twenty} MiB with twenty");
    stage.strike().await
}

/// A digest is that of the component's bytes; one that is wrong is told with the right one, and with what runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b119_a_digest_that_is_wrong_by_one_digit_is_told_and_so_is_what_runs() -> Result<()> {
    let stage = stage("policy-b119").await?;
    let wasm = component("allocation-default")?;
    stage.enforced("p", "Allocation", &wasm, "")?;
    let right = stage.policy_ready("p").await?.current.expect("a revision");
    let digit = if right.digest.ends_with('0') { '1' } else { '0' };
    let wrong = format!("{}{digit}", &right.digest[..right.digest.len() - 1]);
    let spec = |digest: &str| {
        let source = format!("{{configMap: {{name: p, digest: '{digest}'}}}}");
        format!("kind: Allocation, mode: Enforce, source: {source}")
    };
    stage.policy("p", &spec(&wrong))?;
    let why = stage.policy_reason("p", "Verified", "ComponentRefused").await?;
    ensure!(why.contains(&wrong) && why.contains(&right.digest), "both are named: {why}");
    let why = stage.policy_reason("p", "Ready", "ComponentRefused").await?;
    ensure!(why.contains(&format!("sha256:{} stays", right.short_digest)), "{why}");
    ensure!(status(&stage, "p").await?.current.as_ref() == Some(&right));
    stage.policy("p", &spec(&right.digest))?;
    stage.policy_ready("p").await?;
    // Pinned, other content is not taken, whoever may write the ConfigMap.
    stage.component_in_config_map("p", &component("refuse-allocation")?)?;
    let why = stage.policy_reason("p", "Verified", "ComponentRefused").await?;
    ensure!(why.contains(&right.digest), "{why}");
    ensure!(status(&stage, "p").await?.current.as_ref() == Some(&right));
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b121_other_settings_compile_nothing_and_touch_no_other_policy() -> Result<()> {
    let stage = stage("policy-b121").await?;
    let spread = component("allocation-zone-spread")?;
    stage.enforced("p", "Allocation", &spread, ", config: {workers: false}")?;
    stage.enforced("other", "DnsNaming", &component("dns-naming-default")?, "")?;
    stage.policy_ready("p").await?;
    let other = stage.policy_ready("other").await?;
    let before = (compiled(&stage).await?, loads(&stage).await?);
    stage.enforced("p", "Allocation", &spread, ", config: {workers: true}")?;
    stage.policy_ready("p").await?;
    let after = (compiled(&stage).await?, loads(&stage).await?);
    ensure!(after == (before.0, before.1 + 1.0), "{before:?}, then {after:?}");
    ensure!(status(&stage, "other").await?.current == other.current, "loaded at the same moment");
    // The settings are those of the next decision.
    stage.cluster("c", "", ", policies: {allocation: [p]}")?;
    stage.machine("c", &Machine::worker("w"))?;
    stage.provisioned("w").await?;
    let by = decided(&stage, "w", "allocation").await?;
    ensure!(by.reason.is_some_and(|r| r.starts_with("ranked ")), "workers are spread, too");
    // Its mode, and whether it is asked at all, load nothing.
    let spec =
        "kind: Allocation, suspend: true, source: {configMap: {name: p}}, config: {workers: true}";
    stage.policy("p", spec)?;
    stage.policy_reason("p", "Ready", "Suspended").await?;
    ensure!(loads(&stage).await? == after.1);
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b121_after_a_restart_nothing_is_compiled_again() -> Result<()> {
    let cache = tempfile::tempdir()?;
    let folder = PolicyFolder::new()?.file("spread.wasm", &component("allocation-zone-spread")?)?;
    let mut args = folder.flags();
    args.push(format!("--policy-cache={}", cache.path().display()));
    let stage = stage_with("policy-restart", StageOptions { args, ..Default::default() }).await?;
    stage
        .policy("spread", "kind: Allocation, mode: Enforce, source: {file: {path: spread.wasm}}")?;
    let first = stage.policy_ready("spread").await?.current.expect("a revision");
    ensure!(compiled(&stage).await? == 1.0);
    stage.controller.start()?;
    stage.controller.watching().await?;
    stage.cluster("c", "", ", policies: {allocation: [spread]}")?;
    stage.machine("c", &Machine::worker("w"))?;
    stage.provisioned("w").await?;
    ensure!(decided(&stage, "w", "allocation").await?.digest == first.digest);
    ensure!(compiled(&stage).await? == 0.0, "{}", stage.metrics().await?);
    let again = stage.policy_ready("spread").await?.current.expect("a revision");
    println!(
        "measured: loaded in {} ms, after a restart in {} ms",
        first.load_millis, again.load_millis
    );
    stage.strike().await
}
