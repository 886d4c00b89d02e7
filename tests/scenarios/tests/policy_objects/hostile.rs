//! Components that misbehave arrive as any other does. What they do is contained, told by name, counted, and concerns nobody
//! but the cluster that named them.

use anyhow::{Context, Result, ensure};
use scenarios::{Machine, Stage, StageOptions, component, eventually};

use super::decided;
use crate::support::{PolicyFolder, rack, stage_with};

/// What each does, and what it may be told as: on a busy machine the clock may come first.
const DEEDS: [(&str, &[&str]); 7] = [
    ("spin", &["timeout"]),
    ("recurse", &["memory", "trap", "timeout"]),
    ("grow", &["memory", "timeout"]),
    ("panic", &["trap"]),
    ("flood", &["log", "timeout"]),
    ("list", &["bad-answer", "memory", "timeout"]),
    ("many-names", &["bad-answer"]),
];

/// Does everything in turn, swapped in while it runs, beside a cluster that takes a machine meanwhile.
pub(super) async fn misbehaves(stage: &Stage<'_>, source: &str) -> Result<()> {
    let spec = |config: &str| {
        format!(
            "kind: Allocation, mode: Enforce, source: {{{source}}}, config: {{how: '{config}'}}"
        )
    };
    stage.policy("p", &spec("well c"))?;
    stage.policy_ready("p").await?;
    stage.cluster("c", "", ", policies: {allocation: [p]}")?;
    stage.cluster("calm", "", "")?;
    stage.policy("p", &spec("spin c"))?;
    stage.policy_ready("p").await?;
    stage.machine("c", &Machine::worker("w"))?;
    for (n, (deed, categories)) in DEEDS.iter().enumerate() {
        stage.policy("p", &spec(&format!("{deed} c")))?;
        stage.policy_ready("p").await?;
        let (mut said, what) = (String::new(), format!("{deed} is told"));
        let found = eventually(&what, 60, async || {
            let condition = stage.condition("w", "MachineDeployed").await?;
            said = condition.and_then(|c| c.message).unwrap_or_default();
            let told = |c: &&str| said.contains(&format!("gave no answer ({c})"));
            let ours = said.contains("hostile 0.1.0");
            Ok((ours && categories.iter().any(told)).then_some(()))
        });
        found.await.with_context(|| format!("last said: {said}"))?;
        if n % 3 == 0 {
            let name = format!("calm-{n}");
            stage.machine("calm", &Machine::worker(&name))?;
            stage.provisioned(&name).await?;
            ensure!(decided(stage, &name, "allocation").await?.by.is_none());
        }
    }
    let counted = format!("{}/p", stage.namespace);
    for outcome in ["timeout", "trap", "bad-answer"] {
        let outcome = format!("outcome=\"{outcome}\"");
        let calls = stage.metric(&["capmaas_policy_calls_total", &counted, &outcome]).await?;
        ensure!(calls >= 1.0, "{outcome}: {}", stage.metrics().await?);
    }
    ensure!(stage.host("w").await?.is_none(), "no machine without its word");
    stage.policy("p", &spec("well c"))?;
    stage.provisioned("w").await.map(drop)
}

pub(super) fn six() -> maas_sim::Inventory {
    let machine = |n: u32| format!("{{hostname: n{n}, cores: 2, memory: 4096, zone: az1}}");
    let machines: Vec<String> = (0..6).map(machine).collect();
    rack(&machines.iter().map(String::as_str).collect::<Vec<_>>())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_component_in_a_config_map_concerns_nobody_else() -> Result<()> {
    let options = StageOptions { inventory: six(), ..Default::default() };
    let stage = stage_with("policy-hostile-map", options).await?;
    stage.component_in_config_map("hostile", &component("hostile")?)?;
    misbehaves(&stage, "configMap: {name: hostile}").await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_component_in_a_file_concerns_nobody_else() -> Result<()> {
    let folder = PolicyFolder::new()?.file("hostile.wasm", &component("hostile")?)?;
    let options = StageOptions { inventory: six(), args: folder.flags(), ..Default::default() };
    let stage = stage_with("policy-hostile-file", options).await?;
    misbehaves(&stage, "file: {path: hostile.wasm}").await?;
    stage.strike().await
}
