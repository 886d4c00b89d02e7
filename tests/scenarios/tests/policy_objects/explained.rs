//! Every decision can be explained afterwards, and asked again of another component.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use scenarios::{Machine, Stage, StageOptions, component, controller_binary};
use serde_json::Value;

use super::{decided, said};
use crate::support::{dist, rack, stage_on, stage_with};

/// Runs a command of the program beside the controller.
fn capmaas(stage: &Stage<'_>, args: &[&str]) -> Result<String> {
    let output = Command::new(controller_binary()?)
        .args(args)
        .env("KUBECONFIG", stage.plane.kubeconfig())
        .output()?;
    let said = String::from_utf8(output.stdout)?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{args:?}: {said}{error}");
    Ok(said)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("paths here are UTF-8")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_is_explained_from_the_object_and_the_log_and_replayed() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("decisions.jsonl");
    let args = vec![format!("--decision-log={}", log.display())];
    let inventory = rack(&[
        "{hostname: a, cores: 2, memory: 4096, zone: az1}",
        "{hostname: b, cores: 4, memory: 8192, zone: az2}",
    ]);
    let stage =
        stage_with("policy-explained", StageOptions { inventory, args, ..Default::default() })
            .await?;
    let config = ", config: {workers: true}";
    stage.enforced("spread", "Allocation", &component("allocation-zone-spread")?, config)?;
    stage.policy_ready("spread").await?;
    stage.cluster("c", "", ", policies: {allocation: [spread]}")?;
    for name in ["one", "two"] {
        stage.machine("c", &Machine::worker(name))?;
        stage.provisioned(name).await?;
    }
    let by = decided(&stage, "two", "allocation").await?;

    let namespace = stage.namespace.clone();
    let told = capmaas(&stage, &["explain", "maasmachine/two", "-n", &namespace])?;
    ensure!(told.starts_with("MaasMachine two of cluster c: Deployed on b ("), "{told}");
    ensure!(
        told.contains("policy-explained/spread (allocation-zone-spread 0.1.0, sha256:"),
        "{told}"
    );
    ensure!(told.contains(&format!("decided: {}", by.answer)), "{told}");
    ensure!(told.contains("because: ranked "), "{told}");
    let file = text(&log)?;
    let args = ["explain", "maasmachine/two", "-n", &namespace, "--decision-log", file];
    let told = capmaas(&stage, &args)?;
    ensure!(told.contains("policy-explained/spread was asked to rank"), "{told}");
    ensure!(told.contains("of 1 machines: b ("), "{told}");
    let told: Value =
        serde_json::from_str(&capmaas(&stage, &[&args[..], &["-o", "json"]].concat())?)?;
    ensure!(told["decisions"][0]["by"] == "policy-explained/spread", "{told}");
    let told = capmaas(&stage, &["explain", "maascluster/c", "-n", &namespace])?;
    ensure!(told.contains("dns-naming: built-in (dns-naming-default"), "{told}");

    // No secret is in the log: bootstrap data, the key, and what leads to MAAS.
    let written = std::fs::read_to_string(&log)?;
    for secret in ["#cloud-config", &crate::support::bootstrap_of("two"), &stage.maas.api_key()] {
        ensure!(!written.contains(secret), "the log holds {secret:?}");
    }
    // Another component is asked the same questions.
    let other = dist().join("refuse-allocation.wasm");
    let told = capmaas(&stage, &["policy", "replay", file, text(&other)?, "-o", "json"])?;
    let told: Value = serde_json::from_str(&told)?;
    ensure!(told["asked"].as_u64() >= Some(4) && told["asked"] == told["different"], "{told}");
    // And the one that decided, with the same settings: nothing differs.
    let settings = folder.path().join("settings.yaml");
    std::fs::write(&settings, "workers: true\n")?;
    let same = dist().join("allocation-zone-spread.wasm");
    let told = capmaas(
        &stage,
        &["policy", "replay", file, text(&same)?, "--config", text(&settings)?, "-o", "json"],
    )?;
    let told: Value = serde_json::from_str(&told)?;
    ensure!(told["asked"].as_u64() >= Some(4) && told["different"] == 0, "{told}");
    stage.strike().await
}

/// For each: an event that names policy and digest, and the decision in the object's status.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_choice_each_name_and_each_answer_to_a_failure_is_told_with_its_policy() -> Result<()>
{
    let stage = stage_on(
        "policy-told",
        &[
            "{hostname: broken, cores: 2, memory: 4096, first_deploys_fail: 9}",
            "{hostname: good, cores: 4, memory: 8192}",
        ],
    )
    .await?;
    let kinds = [
        ("choice", "Allocation", "allocation-default"),
        ("names", "DnsNaming", "dns-naming-default"),
        ("failures", "FailureHandling", "failure-handling-default"),
    ];
    let mut digests = Vec::new();
    for (name, kind, built) in kinds {
        stage.enforced(name, kind, &component(built)?, "")?;
        let current = stage.policy_ready(name).await?.current.expect("a revision");
        digests.push(current.short_digest);
    }
    let policies = "{allocation: [choice], dnsNaming: names, failureHandling: failures}";
    stage.cluster("c", "", &format!(", policies: {policies}"))?;
    stage.machine("c", &Machine::worker("w"))?;
    // The first host fails to deploy.
    stage.provisioned("w").await?;
    for (object, reason, words, digest) in [
        ("w", "MachineAllocated", "allocation-default", &digests[0]),
        ("c", "EndpointNamed", "dns-naming-default", &digests[1]),
        ("w", "FailureHandled", "failure-handling-default", &digests[2]),
    ] {
        let note = said(&stage, object, reason).await?;
        ensure!(note.contains(words) && note.contains(digest), "{reason}: {note}");
    }
    let failed = decided(&stage, "w", "failure-handling").await?;
    ensure!(failed.by.as_deref() == Some("policy-told/failures"), "{failed:?}");
    ensure!(failed.answer.starts_with("deploy: "), "{failed:?}");
    ensure!(failed.reason.is_some_and(|why| !why.is_empty()), "it says what had failed");
    stage.strike().await
}
