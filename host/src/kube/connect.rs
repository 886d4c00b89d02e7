use std::time::Duration;

use anyhow::{Context, Result};
use kube::{Client, Config};

/// Clients of the management cluster.
#[derive(Clone)]
pub struct Clients {
    /// For calls: an answer that takes longer than half a minute is not waited for.
    pub calls: Client,
    /// For watches, which answer when something happens.
    pub watches: Client,
}

/// Connects to the management cluster: `KUBECONFIG`, `~/.kube/config`, else the pod's account.
///
/// # Errors
/// When none of them is usable.
pub async fn connect() -> Result<Clients> {
    let config = Config::infer().await.context(
        "no way to reach Kubernetes: set KUBECONFIG, or run in a cluster with a service account",
    )?;
    // Watches end by themselves after a minute.
    Ok(Clients {
        calls: client(config.clone(), Duration::from_secs(30))?,
        watches: client(config, Duration::from_secs(75))?,
    })
}

fn client(mut config: Config, patience: Duration) -> Result<Client> {
    config.connect_timeout = Some(Duration::from_secs(10));
    config.read_timeout = Some(patience);
    config.write_timeout = Some(Duration::from_secs(30));
    Client::try_from(config).context("cannot set up the Kubernetes client")
}
