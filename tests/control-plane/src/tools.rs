//! The real kubectl, Helm and clusterctl, as the administrator of a plane.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::plane::ManagementPlane;

impl ManagementPlane {
    /// Runs kubectl: its output, or an error with what it said.
    ///
    /// # Errors
    /// When it cannot be run, or fails.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        run(self.kubectl_command(), "kubectl", arguments, None)
    }

    /// Applies manifests with kubectl; those that name no namespace go to the given one.
    ///
    /// # Errors
    /// When kubectl cannot be run, or the server refuses.
    pub fn apply(&self, namespace: &str, yaml: &str) -> Result<String> {
        let arguments = ["--namespace", namespace, "apply", "-f", "-"];
        run(self.kubectl_command(), "kubectl", &arguments, Some(yaml))
    }

    /// Runs helm; its own files stay in the run folder.
    ///
    /// # Errors
    /// When it cannot be run, or fails; then with what it said.
    pub fn helm(&self, arguments: &[&str]) -> Result<String> {
        let home = self.dir().join("helm");
        let mut command = Command::new(&self.binaries().helm);
        command
            .env("KUBECONFIG", self.kubeconfig())
            .env("HOME", &home)
            .env("HELM_CACHE_HOME", home.join("cache"))
            .env("HELM_CONFIG_HOME", home.join("config"))
            .env("HELM_DATA_HOME", home.join("data"));
        run(command, "helm", arguments, None)
    }

    /// Installs a chart (with the definitions in its `crds/`) into a namespace, which is created if need be. Values are
    /// written as after `--set`; no pod is waited for, because none ever runs here.
    ///
    /// # Errors
    /// When helm refuses.
    pub fn helm_install(
        &self,
        chart_dir: &Path,
        release: &str,
        namespace: &str,
        values: &[(&str, &str)],
    ) -> Result<String> {
        let chart = chart_dir.to_str().context("a chart folder that is no UTF-8")?;
        let settings: Vec<String> =
            values.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let mut arguments =
            vec!["install", release, chart, "--namespace", namespace, "--create-namespace"];
        for setting in &settings {
            arguments.extend(["--set", setting]);
        }
        self.helm(&arguments)
    }

    /// Runs clusterctl; it keeps its own files in the run folder and asks nobody for newer versions.
    ///
    /// # Errors
    /// When it cannot be run, or fails; then with what it said.
    pub fn clusterctl(&self, arguments: &[&str]) -> Result<String> {
        let home = self.dir().join("clusterctl");
        let mut command = Command::new(&self.binaries().clusterctl);
        command
            .env("KUBECONFIG", self.kubeconfig())
            .env("HOME", &home)
            .env("XDG_CONFIG_HOME", &home)
            .env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true");
        run(command, "clusterctl", arguments, None)
    }

    fn kubectl_command(&self) -> Command {
        let mut command = Command::new(&self.binaries().kubectl);
        // its caches of what the server offers would otherwise go to the user's home folder
        command
            .arg(format!("--cache-dir={}", self.dir().join("kubectl-cache").display()))
            .env("KUBECONFIG", self.kubeconfig())
            .env("HOME", self.dir());
        command
    }
}

fn run(
    mut command: Command,
    name: &str,
    arguments: &[&str],
    input: Option<&str>,
) -> Result<String> {
    let mut child = command
        .args(arguments)
        .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("run {name}"))?;
    if let (Some(mut pipe), Some(input)) = (child.stdin.take(), input) {
        // it reads everything before it says anything; should it end early, what it said matters more
        let _ = pipe.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().with_context(|| format!("run {name}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!(
            "`{name} {}` failed: {}{said}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(said)
}
