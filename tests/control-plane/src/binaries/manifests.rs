//! The manifests of Cluster API, rendered once from its Go module.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::cache::Entry;
use super::progress::Progress;
use super::{go, modules};

const COMPONENTS: [(&str, &str); 3] = [
    ("core.yaml", "core/config/default"),
    ("bootstrap-kubeadm.yaml", "bootstrap/kubeadm/config/default"),
    ("control-plane-kubeadm.yaml", "controlplane/kubeadm/config/default"),
];

/// The folder of the manifests in the entry of Cluster API.
pub(super) fn folder(entry: &Entry) -> PathBuf {
    entry.path("manifests")
}

/// Whether they are there; they come all at once, by a rename.
pub(super) fn complete(entry: &Entry) -> bool {
    folder(entry).is_dir()
}

/// Renders them as the releases of Cluster API do.
pub(super) fn render(kubectl: &Path, entry: &Entry, progress: &Progress) -> Result<()> {
    let step = progress.step("rendering the manifests of Cluster API", "about 5 seconds");
    let source = go::module_folder(modules::cluster_api(), "sigs.k8s.io/cluster-api")?;
    let temporary = tempfile::Builder::new().prefix(".rendering-").tempdir_in(entry.folder())?;
    let target = temporary.path().join("manifests");
    std::fs::create_dir(&target)?;
    for (name, config) in COMPONENTS {
        let output = Command::new(kubectl)
            .arg("kustomize")
            .arg(source.join(config))
            .output()
            .with_context(|| format!("run {}", kubectl.display()))?;
        if !output.status.success() {
            bail!(
                "`kubectl kustomize {config}` failed: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        std::fs::write(target.join(name), output.stdout)?;
    }
    let metadata = std::fs::read(source.join("metadata.yaml"))
        .context("read the metadata.yaml of Cluster API")?;
    std::fs::write(target.join("metadata.yaml"), metadata)?;
    std::fs::rename(&target, folder(entry))?;
    step.done();
    Ok(())
}
