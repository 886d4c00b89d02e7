//! The samples that read attributes decide by what MAAS and the cluster know.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use maas_sim::OperatorAct;
use scenarios::{Machine, StageOptions, eventually};

use crate::support::{PolicyFolder, rack, stage_with};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_hardware_takes_the_machine_with_the_processor_that_is_wanted() -> Result<()> {
    let config = r#"{"required": [
        {"attribute": "cpu-model", "contains": "epyc"}, {"attribute": "numa-nodes", "atLeast": 2}
    ]}"#;
    let folder = PolicyFolder::new()?
        .policy("allocation", "allocation-by-hardware")?
        .config("allocation", config)?;
    let inventory = rack(&[
        "{hostname: unknown, cores: 2, memory: 4096}",
        "{hostname: small, cores: 4, memory: 8192, hardware: {cpu_model: AMD EPYC 7302P}}",
        "{hostname: right, cores: 8, memory: 16384, hardware: {cpu_model: AMD EPYC 9354P, numa_nodes: 2}}",
    ]);
    let options = StageOptions { inventory, args: folder.flags(), ..Default::default() };
    let stage = stage_with("policy-hardware", options).await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    ensure!(stage.provisioned("w").await?.hostname == "right");
    // There is no second one.
    stage.machine("c", &Machine::worker("waits"))?;
    let message = stage.reason("waits", "MachineDeployed", "NoMachineFits").await?;
    ensure!(message.contains("MAAS does not know its cpu-model"), "{message}");
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prefer_previous_gives_a_cluster_its_host_back() -> Result<()> {
    let folder = PolicyFolder::new()?.policy("allocation", "allocation-prefer-previous")?;
    let inventory = rack(&[
        "{hostname: small, cores: 2, memory: 4096}",
        "{hostname: large, cores: 8, memory: 16384}",
    ]);
    let options = StageOptions { inventory, args: folder.flags(), ..Default::default() };
    let stage = stage_with("policy-previous", options).await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("first"))?;
    ensure!(stage.provisioned("first").await?.hostname == "small", "never held: the smallest");
    stage.machine("c", &Machine::worker("second"))?;
    ensure!(stage.provisioned("second").await?.hostname == "large");
    for name in ["first", "second"] {
        stage.delete("machines.cluster.x-k8s.io", name)?;
        stage.gone(name).await?;
        // The times of deletion are whole seconds.
        tokio::time::sleep(Duration::from_millis(1100)).await;
    }
    let cluster = stage.clusters().get("c").await?;
    let annotations = cluster.metadata.annotations.context("annotations")?;
    let known = annotations.get("capmaas.io/former-hosts").context("the hosts it had")?;
    ensure!(known.matches("systemID").count() == 2, "{known}");
    stage.machine("c", &Machine::worker("third"))?;
    ensure!(stage.provisioned("third").await?.hostname == "large", "the one that it had last");
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quarantine_leaves_a_tagged_host_broken_and_lets_another_cool_down() -> Result<()> {
    let folder = PolicyFolder::new()?.policy("failure-handling", "failure-quarantine")?;
    let inventory = rack(&[
        "{hostname: tagged, cores: 2, memory: 4096, tags: [gpu, quarantine], first_deploys_fail: 9}",
        "{hostname: plain, cores: 4, memory: 8192, first_deploys_fail: 9}",
        "{hostname: good, cores: 8, memory: 16384}",
    ]);
    let options = StageOptions { inventory, args: folder.flags(), ..Default::default() };
    let stage = stage_with("policy-quarantine", options).await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    // Two deployments have to fail first.
    eventually("the third host is taken", 120, async || {
        let host = stage.host("w").await?;
        Ok(host.filter(|h| h.hostname == "good"))
    })
    .await?;
    stage.provisioned("w").await?;
    let status = |name: &str| {
        stage.maas.machine_named(name).map(|m| m.status_name).with_context(|| name.to_owned())
    };
    ensure!(status("tagged")? == "Broken", "{}", status("tagged")?);
    ensure!(status("plain")? == "Ready", "{}", status("plain")?);
    // It stays broken, and in our hands, until MAAS's operators have seen to it.
    let tagged = stage.maas.machine_named("tagged").context("tagged")?.system_id;
    stage.maas.operator(&tagged, OperatorAct::Fix)?;
    stage.maas.operator(&tagged, OperatorAct::Owner(None))?;
    stage.strike().await
}
