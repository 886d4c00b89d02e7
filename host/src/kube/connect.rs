use std::time::Duration;

use anyhow::{Context, Result};
use kube::{Client, Config};

/// A client of the management cluster: `KUBECONFIG`, `~/.kube/config`, else the pod's account.
///
/// # Errors
/// When none of them is usable.
pub async fn connect() -> Result<Client> {
    let mut config = Config::infer().await.context(
        "no way to reach Kubernetes: set KUBECONFIG, or run in a cluster with a service account",
    )?;
    config.connect_timeout = Some(Duration::from_secs(10));
    // Watches end by themselves within 290 s (the server's default in kube's watcher).
    config.read_timeout = Some(Duration::from_secs(295));
    config.write_timeout = Some(Duration::from_secs(30));
    Client::try_from(config).context("cannot set up the Kubernetes client")
}
