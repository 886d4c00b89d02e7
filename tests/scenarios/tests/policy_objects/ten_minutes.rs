//! The ten minutes of `plugins/README.md`: every command of it, word for word, in the order in which it is written.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use scenarios::{Stage, StageOptions, controller_binary, eventually};

use crate::support::stage_with;

/// The cluster that the page begins with. Nothing but Cluster API's own parts stands between `kubectl scale` and a MaasMachine.
const CLUSTER: &str = r"
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: MaasCluster
metadata: {name: my-cluster}
spec: {dnsDomain: maas}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: my-cluster}
spec: {infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: MaasCluster, name: my-cluster}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: MaasMachineTemplate
metadata: {name: my-cluster-md-0}
spec: {template: {spec: {minCPU: 8, minMemory: 16384, image: custom/u-2404-k8s}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: my-cluster-md-0}
spec:
  clusterName: my-cluster
  replicas: 3
  selector: {matchLabels: {cluster.x-k8s.io/cluster-name: my-cluster}}
  template:
    spec:
      clusterName: my-cluster
      version: v1.34.1
      bootstrap: {dataSecretName: workers-bootstrap}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: MaasMachineTemplate, name: my-cluster-md-0}
";

/// Block by block, something that its output says.
const SAID: &[&[&str]] = &[
    &["my-policy is a policy of kind allocation in Rust", "next: capmaas policy check"],
    &[
        "imports    capmaas:policy/types@0.1.0: allowed",
        "my-policy 0.1.0",
        "passes every gate",
        "1 cases passed",
        "MEMORY",
    ],
    &[
        "configmap/my-policy created",
        "maaspolicy.policy.capmaas.io/my-policy condition met",
        "Shadow   True    Ready",
    ],
    &["(in shadow) disagrees: it would have taken", "-medium-"],
    &["answers would have been different"],
    &[
        "Deployed on az",
        "-large-",
        "ten-minutes/my-policy (my-policy 0.1.0, sha256:",
        "because: ranked ",
    ],
    &["my-policy 0.2.0 (sha256:", "is in use"],
    &["maaspolicy.policy.capmaas.io/my-policy patched"],
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What the page tells to type, block by block.
fn blocks() -> Result<Vec<String>> {
    let page = std::fs::read_to_string(root().join("plugins/README.md"))?;
    let fenced = page.split("```console\n").skip(1);
    fenced.map(|rest| Ok(rest.split_once("```").context("an end")?.0.to_owned())).collect()
}

/// The shell of a reader: the playground's tools on the PATH, and a context with a namespace.
fn shell(stage: &Stage<'_>, script: &str) -> Result<Command> {
    let desk = stage.folder().join("desk");
    std::fs::create_dir(&desk)?;
    let plane = stage.plane;
    let mut config: serde_json::Value =
        serde_yaml_ng::from_str(&std::fs::read_to_string(plane.kubeconfig())?)?;
    config["contexts"][0]["context"]["namespace"] = stage.namespace.as_str().into();
    let kubeconfig = stage.folder().join("reader.kubeconfig");
    std::fs::write(&kubeconfig, serde_yaml_ng::to_string(&config)?)?;
    let capmaas = stage.folder().join("bin");
    std::fs::create_dir(&capmaas)?;
    std::os::unix::fs::symlink(controller_binary()?, capmaas.join("capmaas"))?;
    let kubectl = plane.binaries().kubectl.parent().context("a folder")?;
    let path = std::env::var("PATH")?;
    // The libraries are compiled once for all.
    let target = std::env::var_os("CAPMAAS_PLUGINS_TARGET_DIR")
        .map_or_else(|| root().join("plugins/target"), Into::into);
    let mut shell = Command::new("bash");
    shell
        .args(["-euo", "pipefail", "-c", script])
        .current_dir(desk)
        .env("PATH", format!("{}:{}:{path}", capmaas.display(), kubectl.display()))
        .env("KUBECONFIG", kubeconfig)
        .env("DECISIONS", stage.folder().join("decisions.jsonl"))
        .env("XDG_CACHE_HOME", stage.folder().join("cache"))
        .env("CARGO_TARGET_DIR", target.join("scaffold"));
    Ok(shell)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_minutes_lead_from_nothing_to_an_enforced_policy() -> Result<()> {
    let blocks = blocks()?;
    ensure!(blocks.len() == SAID.len(), "the page has {} blocks of commands", blocks.len());
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("decisions.jsonl");
    let args = vec![format!("--decision-log={}", log.display())];
    let stage = stage_with("ten-minutes", StageOptions { args, ..Default::default() }).await?;
    std::os::unix::fs::symlink(&log, stage.folder().join("decisions.jsonl"))?;
    stage.bootstrap_secret("my-cluster", "workers", "#cloud-config\n")?;
    stage.apply(CLUSTER)?;
    eventually("three workers", 120, async || Ok((stage.held().len() == 3).then_some(()))).await?;

    let mut script = String::new();
    for (n, block) in blocks.iter().enumerate() {
        write!(script, "printf '\\n@@ %d\\n' {n}\n{block}")?;
    }
    let mut shell = shell(&stage, &script)?;
    let output = tokio::task::spawn_blocking(move || shell.output()).await??;
    let said = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{said}{complaints}{}", stage.controller.log());
    let parts: Vec<&str> = said.split("\n@@ ").skip(1).collect();
    ensure!(parts.len() == blocks.len(), "{} blocks were run: {said}", parts.len());
    let parts = parts.iter().zip(SAID).enumerate();
    let missing: Vec<_> = parts
        .flat_map(|(n, (part, words))| {
            words.iter().filter(|w| !part.contains(**w)).map(move |w| (n, w))
        })
        .collect();
    ensure!(missing.is_empty(), "block and words that are not said: {missing:?}\n{said}");

    let suspended = stage.policy_reason("my-policy", "Ready", "Suspended").await?;
    ensure!(suspended.contains("spec.suspend is true"), "{suspended}");
    let delete = ["-n", &stage.namespace, "delete", "cluster", "my-cluster", "--wait=false"];
    stage.plane.kubectl(&delete)?;
    eventually("all machines are gone", 180, async || {
        Ok(stage.machine_names().await?.is_empty().then_some(()))
    })
    .await?;
    stage.strike().await
}
