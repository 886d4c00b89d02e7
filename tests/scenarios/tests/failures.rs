//! Hosts that fail: what is tried, what is remembered, and when it ends.

use anyhow::{Context, Result, ensure};
use maas_sim::{Call, CallFault, FaultAction, Inventory, OperatorAct};
use scenarios::{Machine, Stage, StageOptions, eventually};
use serde_json::Value;

use crate::support::{impatient, params, rack, stage_on, stage_with, story};

/// The hosts that an object remembers as failed.
async fn remembered(stage: &Stage<'_>, machine: &str) -> Result<Vec<Value>> {
    let object = stage.machines().get(machine).await?;
    let annotations = object.metadata.annotations.unwrap_or_default();
    let text = annotations.get("capmaas.io/failed-hosts").map_or("[]", String::as_str);
    Ok(serde_json::from_str(text)?)
}

/// Powering off takes `power_off` simulated seconds.
fn slow_to_power_off(machines: &[&str], power_off: f64) -> Inventory {
    let mut inventory = rack(machines);
    inventory.timings.power_off = power_off;
    inventory.timings.release_timeout = 2.0 * power_off;
    inventory
}

/// The failed host is remembered, released and seen off before another one is taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_fails_to_deploy_is_replaced_by_another() -> Result<()> {
    let inventory = slow_to_power_off(
        &[
            "{hostname: bad, cores: 2, memory: 4096, zone: az1, first_deploys_fail: 9, \
             deploy_error: 'Installation failed: the disk is dying'}",
            "{hostname: good, cores: 4, memory: 8192, zone: az1}",
        ],
        800.0,
    );
    let stage =
        stage_with("fail-replace", StageOptions { inventory, ..Default::default() }).await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let host = stage.provisioned("w").await?;
    ensure!(host.hostname == "good", "{host:?}");
    let bad = stage.maas.machine_named("bad").context("in the rack")?;
    ensure!(bad.status_name == "Ready" && bad.owner.is_none() && bad.deploys == 1, "{bad:?}");

    let hosts = remembered(&stage, "w").await?;
    ensure!(hosts.len() == 1 && hosts[0]["systemID"] == bad.system_id.as_str(), "{hosts:?}");
    let reason = hosts[0]["reason"].as_str().unwrap_or_default();
    ensure!(reason.contains("the disk is dying"), "{hosts:?}");
    let (allocations, release) = (stage.calls("allocate"), stage.calls("release"));
    ensure!(allocations.len() == 2 && release.len() == 1, "{:?}", story(&stage));
    ensure!(params(&allocations[1], "system_id") == [host.system_id.as_str()], "{allocations:?}");
    // 800 simulated seconds pass until the failed host is off: several looks in real time.
    ensure!(allocations[1].at - release[0].at >= 800.0, "{:?}, {:?}", release, allocations);
    let events = stage.events("w").await?;
    ensure!(events.iter().any(|(r, _)| r == "FailedHostLetGo"), "{events:?}");
    stage.strike().await
}

/// A deployment that hangs is ended by our own time-out, and its host replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_hangs_is_replaced_when_its_time_is_up() -> Result<()> {
    let inventory = rack(&[
        "{hostname: hangs, cores: 2, memory: 4096, zone: az1, first_deploys_hang: 9}",
        "{hostname: works, cores: 4, memory: 8192, zone: az1}",
    ]);
    let args = vec!["--deploy-timeout=8".to_owned()];
    let options = StageOptions { inventory, args, ..Default::default() };
    let stage = stage_with("fail-timeout", options).await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    ensure!(stage.provisioned("w").await?.hostname == "works");
    let hosts = remembered(&stage, "w").await?;
    let reason = hosts[0]["reason"].as_str().unwrap_or_default();
    ensure!(reason.contains("still deploying after 8 s"), "{hosts:?}");
    stage.strike().await
}

/// When as many hosts failed as may fail, the Machine is given up, and says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b097_after_the_last_attempt_the_machine_is_given_up() -> Result<()> {
    let bad =
        |n: u32| format!("{{hostname: bad-{n}, cores: 2, memory: 4096, first_deploys_fail: 9}}");
    let rack: Vec<String> = (1..=3).map(bad).collect();
    let inventory = crate::support::rack(&rack.iter().map(String::as_str).collect::<Vec<_>>());
    let args = vec!["--max-replacements=1".to_owned()];
    let options = StageOptions { inventory, args, ..Default::default() };
    let stage = stage_with("fail-limit", options).await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let status = eventually("it is given up", 60, async || {
        let status = stage.machines().get("w").await?.status.unwrap_or_default();
        Ok(status.failure_reason.is_some().then_some(status))
    })
    .await?;
    ensure!(status.failure_reason.as_deref() == Some("CreateError"), "{status:?}");
    let message = status.failure_message.unwrap_or_default();
    ensure!(message.contains("given up") && message.contains("the limit"), "{message}");
    let allocations = stage.calls("allocate").len();
    ensure!(allocations == 2, "{:?}", story(&stage));
    // The last host stays held for whoever wants to look at it, and no other is taken.
    stage.maas.clear_calls();
    eventually("it is looked at again", 60, async || {
        let looked = stage.maas.calls().iter().any(|c| c.path.starts_with("/machines/"));
        Ok(looked.then_some(()))
    })
    .await?;
    ensure!(stage.writes().is_empty() && stage.held().len() == 1, "{:?}", story(&stage));
    stage.strike().await
}

/// A BMC that refuses a release leaves the machine deployed and ours: it is tried again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_the_bmc_refuses_is_tried_again() -> Result<()> {
    let folder = impatient()?;
    let stubborn = "{hostname: stubborn, cores: 4, memory: 8192, first_releases_refused: 2}";
    let (inventory, args) = (rack(&[stubborn]), folder.flags());
    let options = StageOptions { inventory, args, ..Default::default() };
    let stage = stage_with("fail-release", options).await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let host = stage.provisioned("w").await?;
    stage.delete("machines.cluster.x-k8s.io", "w")?;
    let message = stage.reason("w", "MachineDeployed", "ReleaseFailed").await?;
    ensure!(message.contains("stubborn could not be released"), "{message}");
    stage.gone("w").await?;
    let after = stage.maas.machine(&host.system_id).context("it exists")?;
    ensure!(after.releases == 1 && after.owner.is_none(), "{after:?}");
    let statuses: Vec<u16> = stage.calls("release").iter().map(|c: &Call| c.status).collect();
    ensure!(statuses == [500, 500, 200], "{statuses:?}");
    stage.strike().await
}

/// A machine whose release never ends is not given back to Kubernetes as released.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b077_a_release_that_fails_later_is_tried_again() -> Result<()> {
    let stage = stage_on("fail-releasing", &["{hostname: slow, cores: 4, memory: 8192}"]).await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let host = stage.provisioned("w").await?;
    let hangs = maas_sim::MachineFaults { release_hangs: true, ..Default::default() };
    stage.maas.operator(&host.system_id, OperatorAct::Faults(hangs))?;
    stage.delete("machines.cluster.x-k8s.io", "w")?;
    eventually("MAAS gives the release up", 60, async || {
        let view = stage.maas.machine(&host.system_id).context("it exists")?;
        Ok((view.status_name == "Releasing failed").then_some(()))
    })
    .await?;
    ensure!(stage.machines().get_opt("w").await?.is_some(), "the object must stay");
    // It may wake up and run what was on it: nobody else gets it.
    stage.machine("c", &Machine::worker("next"))?;
    stage.reason("next", "MachineDeployed", "NoMachineFound").await?;
    let works = maas_sim::MachineFaults::default();
    stage.maas.operator(&host.system_id, OperatorAct::Faults(works))?;
    stage.gone("w").await?;
    ensure!(stage.calls("release").len() >= 2, "{:?}", story(&stage));
    stage.strike().await
}

/// What cannot even be prepared is tried a few times before another host is taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_cannot_be_deployed_at_all_is_replaced_after_some_tries() -> Result<()> {
    let folder = impatient()?;
    let inventory = rack(&[
        "{hostname: unplugged, cores: 2, memory: 4096, no_network: true}",
        "{hostname: plugged, cores: 4, memory: 8192}",
    ]);
    let options = StageOptions { inventory, args: folder.flags(), ..Default::default() };
    let stage = stage_with("fail-prepare", options).await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    ensure!(stage.provisioned("w").await?.hostname == "plugged");
    let hosts = remembered(&stage, "w").await?;
    let reason = hosts[0]["reason"].as_str().unwrap_or_default();
    ensure!(reason.contains("does not deploy") && reason.contains("network"), "{hosts:?}");
    let tries = stage.calls("deploy").iter().filter(|c| c.status == 400).count();
    ensure!(tries > 1, "{:?}", story(&stage));
    stage.strike().await
}

/// A power path that is down for a while: MAAS's words stand on the object, and nothing is left of the tries.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b019_without_a_rack_for_its_bmc_a_host_is_replaced_after_some_tries() -> Result<()> {
    let folder = impatient()?;
    let inventory = rack(&[
        "{hostname: unreachable, cores: 2, memory: 4096}",
        "{hostname: reachable, cores: 4, memory: 8192}",
    ]);
    let options = StageOptions { inventory, args: folder.flags(), ..Default::default() };
    let stage = stage_with("fail-rack", options).await?;
    let unreachable = stage.maas.machine_named("unreachable").context("in the rack")?.system_id;
    let words = "No rack controllers can access the BMC of node: unreachable";
    let refusal = FaultAction::Answer {
        status: 503,
        content_type: "text/plain".into(),
        body: words.into(),
        retry_after: None,
    };
    let path = format!("/machines/{unreachable}/?op=deploy");
    stage.maas.add_fault(CallFault::on("POST", &path, refusal));
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let message = stage.reason("w", "MachineDeployed", "MachineDeployFailed").await?;
    ensure!(message.contains(words), "{message}");
    ensure!(stage.provisioned("w").await?.hostname == "reachable");
    let tries = stage.calls("deploy").iter().filter(|c| c.status == 503).count();
    ensure!(tries >= 3, "{:?}", story(&stage));
    ensure!(stage.held().len() == 1, "{:?}", stage.held());
    stage.strike().await
}

/// A Machine that a MachineHealthCheck has marked is Cluster API's to replace, not ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_is_marked_for_remediation_is_left_to_cluster_api() -> Result<()> {
    let machines =
        ["{hostname: bad, cores: 2, memory: 4096}", "{hostname: other, cores: 4, memory: 8192}"];
    let options = StageOptions { inventory: rack(&machines), speed: 1.0, ..Default::default() };
    let stage = stage_with("fail-remediation", options).await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    stage.reason("w", "MachineDeployed", "MachineDeploying").await?;
    let host = stage.host("w").await?.context("a host")?;
    let path = format!("/machines/{}/", host.system_id);
    let looks = || stage.maas.calls().iter().filter(|c| c.path.starts_with(&path)).count();
    mark_unhealthy(&stage, "w")?;
    stage.maas.clear_calls();
    // A reconcile that began before may not have seen the mark.
    eventually("the mark is seen", 60, async || Ok((looks() >= 2).then_some(()))).await?;
    let failure = OperatorAct::FailDeployment("no boot device".into());
    stage.maas.operator(&host.system_id, failure)?;
    stage.maas.clear_calls();
    let message = stage.reason("w", "MachineDeployed", "MachineDeployFailed").await?;
    ensure!(message.contains("Failed deployment"), "{message}");
    eventually("it is looked at twice more", 90, async || Ok((looks() >= 3).then_some(()))).await?;
    ensure!(stage.writes().is_empty(), "{:?}", story(&stage));
    ensure!(remembered(&stage, "w").await?.is_empty());
    // Cluster API replaces it by deleting the Machine.
    stage.delete("machines.cluster.x-k8s.io", "w")?;
    eventually("the release has begun", 60, async || Ok(stage.calls("release").pop())).await?;
    stage.maas.advance(std::time::Duration::from_secs(60));
    stage.gone("w").await?;
    stage.strike().await
}

/// What the MachineHealthCheck controller writes.
fn mark_unhealthy(stage: &Stage<'_>, machine: &str) -> Result<()> {
    let path = "jsonpath={.status.conditions}";
    let kind = "machines.cluster.x-k8s.io";
    let get = ["-n", &stage.namespace, "get", kind, machine, "-o", path];
    let mut conditions: Vec<Value> = serde_json::from_str(&stage.plane.kubectl(&get)?)?;
    conditions.push(serde_json::json!({
        "type": "HealthCheckSucceeded", "status": "False", "reason": "NodeStartupTimeout",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }));
    let patch = serde_json::json!({ "status": { "conditions": conditions } }).to_string();
    let args = ["patch", kind, machine, "--subresource=status", "--type=merge", "-p", &patch];
    stage.plane.kubectl(&[&["-n", &stage.namespace][..], &args].concat()).map(drop)
}

/// A replacement is deployed with the bootstrap data of its own time: tokens expire.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_host_gets_the_newest_bootstrap_data() -> Result<()> {
    let machines =
        ["{hostname: bad, cores: 2, memory: 4096}", "{hostname: good, cores: 4, memory: 8192}"];
    let options = StageOptions { inventory: rack(&machines), speed: 1.0, ..Default::default() };
    let stage = stage_with("fail-fresh-data", options).await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    stage.reason("w", "MachineDeployed", "MachineDeploying").await?;
    stage.bootstrap_secret("c", "w", "#cloud-config\n# of later\n")?;
    let host = stage.host("w").await?.context("a host")?;
    let failure = OperatorAct::FailDeployment("no boot device".into());
    stage.maas.operator(&host.system_id, failure)?;
    eventually("the failed host is being released", 60, async || Ok(stage.calls("release").pop()))
        .await?;
    stage.maas.advance(std::time::Duration::from_secs(30));
    let second = eventually("the other host is being deployed", 60, async || {
        let good = stage.maas.machine_named("good").context("in the rack")?;
        Ok((good.status_name == "Deploying").then_some(good))
    })
    .await?;
    ensure!(second.user_data == Some(crate::support::bootstrap_of("later")), "{second:?}");
    stage.maas.operator(&second.system_id, OperatorAct::FinishDeployment)?;
    stage.provisioned("w").await?;
    stage.delete("machines.cluster.x-k8s.io", "w")?;
    eventually("it is being released", 60, async || {
        Ok((stage.calls("release").len() == 2).then_some(()))
    })
    .await?;
    stage.maas.advance(std::time::Duration::from_secs(60));
    stage.strike().await
}
