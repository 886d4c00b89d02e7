//! What the scenarios share: racks, policy folders, reading MAAS's book of calls.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use maas_sim::{Call, Inventory};
use scenarios::{Stage, StageOptions};

/// A stage like any other.
pub(crate) async fn stage(namespace: &str) -> Result<Stage<'static>> {
    stage_with(namespace, StageOptions::default()).await
}

/// A stage with something special about it.
pub(crate) async fn stage_with(namespace: &str, options: StageOptions) -> Result<Stage<'static>> {
    Stage::set(super::plane(), namespace, options).await
}

/// A stage with a rack of its own.
pub(crate) async fn stage_on(namespace: &str, machines: &[&str]) -> Result<Stage<'static>> {
    let inventory = rack(machines);
    stage_with(namespace, StageOptions { inventory, ..StageOptions::default() }).await
}

/// A rack of three zones and a pool, with these machines (YAML flow mappings).
pub(crate) fn rack(machines: &[&str]) -> Inventory {
    let list: String = machines.iter().map(|m| format!("  - {m}\n")).collect();
    let text = format!(
        "zones: [az1, az2, az3]\n\
         pools: [workers]\n\
         images:\n\
         \x20 - ubuntu/noble\n\
         \x20 - {{name: custom/u-2404-k8s, filetype: root-tgz}}\n\
         machines:\n{list}"
    );
    Inventory::from_yaml(&text).expect("the rack of a scenario is well-formed")
}

/// The values of one parameter of a call, in order.
pub(crate) fn params<'a>(call: &'a Call, name: &str) -> Vec<&'a str> {
    let named = |(key, value): &'a (String, String)| (key == name).then_some(value.as_str());
    call.params.iter().filter_map(named).collect()
}

/// What a write is called in a story: its operation, else method and kind of object.
pub(crate) fn word(call: &Call) -> String {
    let kind = call.path.trim_start_matches('/').split('/').next().unwrap_or_default();
    call.op.clone().unwrap_or_else(|| format!("{} {kind}", call.method))
}

/// The words of the writes that MAAS has seen, in order.
pub(crate) fn story(stage: &Stage<'_>) -> Vec<String> {
    stage.writes().iter().map(word).collect()
}

/// The bootstrap data of a machine made by `Machine::worker` or `Machine::control_plane`.
pub(crate) fn bootstrap_of(machine: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(format!("#cloud-config\n# of {machine}\n"))
}

/// One machine came of it, deployed once and with its own data.
pub(crate) async fn one_machine_came_of_it(stage: &Stage<'_>, machine: &str) -> Result<()> {
    let host = stage.provisioned(machine).await?;
    let held = stage.held();
    ensure!(held.len() == 1 && held[0].system_id == host.system_id, "{held:?}");
    ensure!(host.deploys == 1 && host.user_data == Some(bootstrap_of(machine)), "{host:?}");
    Ok(())
}

/// A folder for `--policy-dir`.
pub(crate) struct PolicyFolder {
    dir: tempfile::TempDir,
    flags: Vec<String>,
}

impl PolicyFolder {
    pub(crate) fn new() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let flags = vec![format!("--policy-dir={}", dir.path().display())];
        Ok(Self { dir, flags })
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Puts a file in; nothing refers to it yet.
    pub(crate) fn file(self, name: &str, bytes: &[u8]) -> Result<Self> {
        std::fs::write(self.dir.path().join(name), bytes)?;
        Ok(self)
    }

    /// Uses a built component for a kind of policy.
    pub(crate) fn policy(mut self, kind: &str, component: &str) -> Result<Self> {
        let file = format!("{component}.wasm");
        let built = dist().join(&file);
        std::fs::copy(&built, self.dir.path().join(&file))
            .with_context(|| format!("{} is missing: run plugins/build.sh", built.display()))?;
        self.flags.push(format!("--policy={kind}={file}"));
        Ok(self)
    }

    /// Configures a kind of policy.
    pub(crate) fn config(mut self, kind: &str, json: &str) -> Result<Self> {
        let file = format!("{kind}.json");
        self.flags.push(format!("--policy-config={kind}={file}"));
        self.file(&file, json.as_bytes())
    }

    /// The controller's flags.
    pub(crate) fn flags(&self) -> Vec<String> {
        self.flags.clone()
    }
}

/// Failures are tried again every second, so that a scenario need not wait.
pub(crate) fn impatient() -> Result<PolicyFolder> {
    let config = r#"{"firstDelaySeconds": 1, "longestDelaySeconds": 1}"#;
    PolicyFolder::new()?.config("failure-handling", config)
}

/// Where `plugins/build.sh` puts components.
pub(crate) fn dist() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins/dist")
}
