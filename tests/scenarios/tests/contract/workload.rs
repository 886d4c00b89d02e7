//! The workload cluster: its Nodes get their provider id, and when it is dead nothing waits for it.

use std::sync::Arc;

use anyhow::{Result, ensure};
use scenarios::{Machine, Stage};

use crate::support::stage;

/// The workload cluster's kubeconfig leads here.
fn api_server_at(stage: &Stage<'_>, server: &str) -> Result<()> {
    let kubeconfig = format!(
        "{{apiVersion: v1, kind: Config, current-context: c, \
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}], \
         clusters: [{{name: c, cluster: {{server: '{server}'}}}}], \
         users: [{{name: u, user: {{token: t}}}}]}}"
    );
    stage.apply(&format!(
        "apiVersion: v1\nkind: Secret\ntype: cluster.x-k8s.io/secret\n\
         metadata: {{name: c-kubeconfig, labels: {{cluster.x-k8s.io/cluster-name: c}}}}\n\
         stringData: {{value: \"{kubeconfig}\"}}\n"
    ))
}

/// A workload cluster that never answers delays neither provisioning nor deletion.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b011_b089_a_dead_workload_cluster_holds_nothing_up() -> Result<()> {
    let stage = stage("workload-dead").await?;
    // Accepts connections and never says a word.
    let silent = Arc::new(tokio::net::TcpListener::bind("127.0.0.1:0").await?);
    let address = silent.local_addr()?;
    let listener = Arc::clone(&silent);
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok(connection) = listener.accept().await {
            held.push(connection);
        }
    });
    api_server_at(&stage, &format!("http://{address}"))?;
    stage.cluster("c", "", "")?;
    for name in ["one", "two", "three"] {
        stage.machine("c", &Machine::worker(name))?;
    }
    for name in ["one", "two", "three"] {
        stage.provisioned(name).await?;
    }
    stage.reason("one", "NodeProviderIDSet", "ConnectionDown").await?;
    let node = stage.condition("one", "NodeProviderIDSet").await?;
    ensure!(node.is_some_and(|c| c.status == "Unknown"));
    let ready = stage.condition("one", "Ready").await?;
    ensure!(ready.is_some_and(|c| c.status == "True"), "a host is ready whatever its cluster does");
    // The management cluster's DNS knows nothing of the MAAS domain: another trouble, and another cure.
    api_server_at(&stage, "https://c-a1b2c3.maas.invalid:6443")?;
    let message = stage.reason("one", "NodeProviderIDSet", "EndpointUnresolvable").await?;
    ensure!(message.contains("does not resolve from the controller"), "{message}");
    stage.delete("machines.cluster.x-k8s.io", "two")?;
    stage.gone("two").await?;
    stage.strike().await
}
