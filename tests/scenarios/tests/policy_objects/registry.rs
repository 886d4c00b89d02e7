//! Policies from a real registry: what we push and what others push, pinned, with credentials and an authority of its own.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use control_plane::{Registry, RegistryOptions};
use scenarios::{Machine, Stage, StageOptions, component, controller_binary, eventually};

use super::decided;
use super::hostile::{misbehaves, six};
use crate::support::{dist, stage, stage_with};

fn start(options: RegistryOptions) -> Result<Registry> {
    tokio::task::block_in_place(|| Registry::start(options))
}

/// Pushes a component with our own tool, as an author would; returns the digest to pin.
fn push(registry: &Registry, folder: &Path, name: &str, to: &str) -> Result<String> {
    let config = folder.join("docker");
    std::fs::create_dir_all(&config)?;
    std::fs::write(config.join("config.json"), registry.dockerconfigjson())?;
    let mut command = Command::new(controller_binary()?);
    command.args(["policy", "push", "--output", "json"]).env("DOCKER_CONFIG", &config);
    match registry.ca_pem() {
        Some(pem) => {
            std::fs::write(folder.join("ca.crt"), pem)?;
            command.arg("--ca-file").arg(folder.join("ca.crt"));
        }
        None => drop(command.arg("--plain-http")),
    }
    let reference = format!("{}/{to}", registry.host());
    let output = command.arg(dist().join(format!("{name}.wasm"))).arg(reference).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    Ok(said["digest"].as_str().context("a digest")?.to_owned())
}

/// The Secrets that lead to a registry.
fn secrets(stage: &Stage<'_>, registry: &Registry) -> Result<()> {
    let config = STANDARD.encode(registry.dockerconfigjson());
    let ca = STANDARD.encode(registry.ca_pem().unwrap_or_default());
    stage.apply(&format!(
        "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/dockerconfigjson\nmetadata: {{name: pull}}\n\
         data: {{.dockerconfigjson: '{config}'}}\n---\napiVersion: v1\nkind: Secret\n\
         metadata: {{name: ca}}\ndata: {{ca.crt: '{ca}'}}\n"
    ))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_we_push_is_enforced_by_its_digest_and_a_restart_needs_no_registry() -> Result<()> {
    let user = Some(("team".to_owned(), "pa:ss word".to_owned()));
    let mut registry = start(RegistryOptions { user, tls: true, ..RegistryOptions::default() })?;
    let folder = tempfile::tempdir()?;
    let digest = push(&registry, folder.path(), "allocation-zone-spread", "team/spread:1")?;
    let args = vec![format!("--policy-cache={}", folder.path().join("cache").display())];
    let stage = stage_with("policy-oci", StageOptions { args, ..Default::default() }).await?;
    let image = format!("{}/team/spread", registry.host());
    let spec = |more: &str| {
        format!(
            "kind: Allocation, mode: Enforce, config: {{workers: true}}, \
             source: {{oci: {{image: '{image}', digest: '{digest}'{more}}}}}"
        )
    };
    // Each thing that is missing is named.
    stage.policy("spread", &spec(""))?;
    stage.policy_says("spread", "Resolved", &["spec.source.oci", "tls", "CA bundle"]).await?;
    stage.policy("spread", &spec(", caSecret: {name: ca}"))?;
    stage
        .policy_says("spread", "Resolved", &["caSecret: there is no Secret policy-oci/ca"])
        .await?;
    secrets(&stage, &registry)?;
    stage.policy_says("spread", "Resolved", &["unauthorized"]).await?;
    stage.policy("spread", &spec(", caSecret: {name: ca}, pullSecrets: [{name: pull}]"))?;
    stage.policy_ready("spread").await?;
    stage.cluster("c", "", ", policies: {allocation: [spread]}")?;
    stage.machine("c", &Machine::worker("before"))?;
    stage.provisioned("before").await?;

    tokio::task::block_in_place(|| registry.stop());
    stage.controller.kill();
    stage.controller.start()?;
    stage.controller.watching().await?;
    stage.machine("c", &Machine::worker("after"))?;
    stage.provisioned("after").await?;
    let by = decided(&stage, "after", "allocation").await?;
    ensure!(by.by.as_deref() == Some("policy-oci/spread"), "{by:?}");
    for secret in ["pa:ss word", &STANDARD.encode("team:pa:ss word")] {
        ensure!(!stage.controller.log().contains(secret), "the log holds credentials");
    }
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tag_that_others_pushed_is_resolved_once_and_written_down() -> Result<()> {
    let registry = start(RegistryOptions::default())?;
    let folder = tempfile::tempdir()?;
    let oras = |name: &str| -> Result<()> {
        std::fs::copy(dist().join(format!("{name}.wasm")), folder.path().join("policy.wasm"))?;
        let target = format!("{}/team/choice:live", registry.host());
        let layer = "policy.wasm:application/wasm";
        let push =
            ["push", &target, layer, "--config", "config.json:application/vnd.wasm.config.v0+json"];
        std::fs::write(folder.path().join("config.json"), "{}")?;
        tokio::task::block_in_place(|| registry.oras(folder.path(), &push)).map(drop)
    };
    oras("allocation-default")?;
    let stage = stage("policy-tag").await?;
    let image = format!("{}/team/choice:live", registry.host());
    let spec = |more: &str| {
        format!("kind: Allocation, source: {{oci: {{image: '{image}', plainHttp: true}}}}{more}")
    };
    stage.policy("choice", &spec(""))?;
    let first = stage.policy_ready("choice").await?;
    let resolved = first.resolved.context("what the tag was resolved to")?;
    ensure!(resolved.image == image && resolved.digest.starts_with("sha256:"), "{resolved:?}");
    // The tag moves. Nobody here has decided that.
    oras("allocation-zone-spread")?;
    stage.controller.kill();
    stage.controller.start()?;
    stage.controller.watching().await?;
    eventually("it is loaded again", 40, async || {
        Ok((stage.metric(&["capmaas_policy_info", "policy-tag/choice"]).await? > 0.0).then_some(()))
    })
    .await?;
    let again = stage.policy_ready("choice").await?;
    ensure!(again.resolved.as_ref() == Some(&resolved), "{again:?}");
    ensure!(again.current.map(|c| c.name).as_deref() == Some("allocation-default"));
    // An edit of the object decides it.
    stage.policy("choice", &spec(", onFailure: UseDefault"))?;
    eventually("the tag is resolved again", 40, async || {
        let status = stage.policies().get("choice").await?.status.unwrap_or_default();
        let name = status.current.map(|c| c.name).unwrap_or_default();
        Ok((name == "allocation-zone-spread" && status.resolved != Some(resolved.clone()))
            .then_some(()))
    })
    .await?;
    stage.strike().await
}

/// B117: whoever rotates a pull secret need do nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b117_a_pull_secret_that_is_replaced_is_used_at_the_next_try() -> Result<()> {
    let user = Some(("team".to_owned(), "new password".to_owned()));
    let registry = start(RegistryOptions { user, ..RegistryOptions::default() })?;
    let folder = tempfile::tempdir()?;
    let digest = push(&registry, folder.path(), "allocation-default", "team/choice:1")?;
    let stage = stage("policy-rotated").await?;
    let secret = |config: &str| {
        stage.apply(&format!(
            "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/dockerconfigjson\nmetadata: {{name: pull}}\n\
             data: {{.dockerconfigjson: '{}'}}\n",
            STANDARD.encode(config)
        ))
    };
    let old = registry
        .dockerconfigjson()
        .replace(&STANDARD.encode("team:new password"), &STANDARD.encode("team:old password"));
    secret(&old)?;
    let image = format!("{}/team/choice", registry.host());
    stage.policy(
        "choice",
        &format!(
            "kind: Allocation, mode: Enforce, source: {{oci: {{image: '{image}', digest: '{digest}', \
             plainHttp: true, pullSecrets: [{{name: pull}}]}}}}"
        ),
    )?;
    stage.policy_says("choice", "Resolved", &["unauthorized"]).await?;
    secret(&registry.dockerconfigjson())?;
    stage.policy_ready("choice").await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_component_from_a_registry_concerns_nobody_else() -> Result<()> {
    let registry = start(RegistryOptions::default())?;
    let folder = tempfile::tempdir()?;
    ensure!(component("hostile").is_ok(), "it is built");
    let digest = push(&registry, folder.path(), "hostile", "team/hostile:1")?;
    let options = StageOptions { inventory: six(), ..Default::default() };
    let stage = stage_with("policy-hostile-oci", options).await?;
    let image = format!("{}/team/hostile", registry.host());
    misbehaves(&stage, &format!("oci: {{image: '{image}', digest: '{digest}', plainHttp: true}}"))
        .await?;
    stage.strike().await
}

/// A place that takes every connection and never says a word, and how many it has.
async fn silent() -> Result<(String, Arc<AtomicUsize>)> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let (host, count) = (listener.local_addr()?.to_string(), Arc::new(AtomicUsize::new(0)));
    let counted = count.clone();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((socket, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            open.push(socket);
        }
    });
    Ok((host, count))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn registries_that_say_nothing_hold_up_no_other_policy() -> Result<()> {
    const SILENT: usize = 20;
    let stage = stage("policy-silent").await?;
    let (host, asked) = silent().await?;
    for n in 0..SILENT {
        let source = format!("{{oci: {{image: '{host}/team/p{n}:1', plainHttp: true}}}}");
        stage.policy(&format!("silent-{n}"), &format!("kind: Allocation, source: {source}"))?;
    }
    eventually("the first are asked for", 60, async || {
        Ok((asked.load(Ordering::SeqCst) > 0).then_some(()))
    })
    .await?;
    stage.enforced("p", "Allocation", &component("allocation-default")?, "")?;
    stage.policy_ready("p").await?;
    // Each is waited for for fifteen seconds: had this one stood in their line, all of them would have had their turn.
    let so_far = asked.load(Ordering::SeqCst);
    ensure!(so_far < SILENT, "{so_far} of {SILENT} came first");
    stage.component_in_config_map("p", &component("allocation-zone-spread")?)?;
    eventually("it is swapped", 60, async || {
        let status = stage.policies().get("p").await?.status.unwrap_or_default();
        Ok(status.current.filter(|c| c.name == "allocation-zone-spread"))
    })
    .await?;
    ensure!(asked.load(Ordering::SeqCst) < SILENT);
    let why = stage.policy_reason("silent-0", "Resolved", "SourceUnavailable").await?;
    ensure!(why.contains("spec.source.oci"), "{why}");
    stage.strike().await
}
