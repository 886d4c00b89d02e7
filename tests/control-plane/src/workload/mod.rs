//! A workload cluster: an API server of its own behind a gate, and the player that makes machines into Nodes.

mod fleet;
mod follow;
mod gate;
mod management;
mod nodes;
mod secrets;
mod simulator;
mod verdict;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use kube::{Client, Config};

pub use fleet::{Fleet, Host};
pub use follow::WorkloadFollower;
pub use verdict::Boot;

use crate::api_server::{ApiServer, wait_ready};
use crate::engine::Gear;
use crate::kubeconfig::{self, Identity, write_private};
use crate::plane::{ManagementPlane, PATIENCE};
use gate::Gate;
use secrets::Certificates;

/// One workload cluster; its API server is killed when this is dropped.
pub struct Workload {
    server: ApiServer,
    config: Config,
    gate: Gate,
    gear: Gear,
    outside: String,
    outside_file: PathBuf,
}

impl Workload {
    /// Starts an API server for one cluster on the etcd of a plane, and a gate in front of it, which is closed. Blocks;
    /// may be called inside a tokio runtime all the same.
    ///
    /// # Errors
    /// When it does not become ready; the message quotes its log.
    pub fn start(plane: &ManagementPlane, name: &str) -> Result<Self> {
        // names may come twice: the second must not see the objects of the first
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = plane.dir().join(format!("workload-{name}-{number}"));
        let prefix = format!("/workload-{name}-{number}");
        let server =
            ApiServer::spawn(plane.nursery(), plane.binaries(), plane.etcd_url(), &prefix, &dir)?;
        let target = server.url.trim_start_matches("https://").to_owned();
        let (inside, watched) = (server.kubeconfig.clone(), vec![server.process.clone()]);
        let (config, gate) = plane.gear().wait(async move {
            let config = ApiServer::config(&inside).await?;
            let client = Client::try_from(config.clone())?;
            wait_ready(&client, &watched, PATIENCE).await?;
            Ok((config, Gate::listen(target).await?))
        })?;
        let outside = kubeconfig::render(
            &format!("https://{}", gate.address()),
            &server.authority.pair().certificate,
            &Identity::Certificate(&server.admin),
            "default",
        )?;
        let outside_file = dir.join("kubeconfig-through-the-gate");
        write_private(&outside_file, &outside)?;
        Ok(Self { server, config, gate, gear: plane.gear(), outside, outside_file })
    }

    /// Creates the Secrets of the cluster (`-ca`, `-etcd`, `-proxy`, `-sa`, `-apiserver-etcd-client`, `-kubeconfig`) in
    /// the management plane. To be done before the Cluster is created, or Cluster API makes its own.
    ///
    /// # Errors
    /// When the management plane refuses.
    pub async fn publish(&self, client: &Client, namespace: &str, cluster: &str) -> Result<()> {
        let etcd_client = self.server.authority.client("apiserver-etcd-client", None)?;
        let certificates = Certificates {
            authority: self.server.authority.pair(),
            service_accounts: &self.server.service_accounts,
            etcd_client: &etcd_client,
        };
        secrets::publish(client, namespace, cluster, &certificates, &self.outside).await
    }

    /// Starts to play the machines of one cluster: see [`WorkloadFollower`]. It looks at the management plane with a
    /// client and a runtime of its own.
    ///
    /// # Errors
    /// When the kubeconfig of the plane cannot be read.
    pub fn follow(
        &self,
        plane: &ManagementPlane,
        fleet: impl Fleet,
        namespace: &str,
        cluster: &str,
    ) -> Result<WorkloadFollower> {
        let kubeconfig = plane.kubeconfig().to_owned();
        let config = self.config.clone();
        let (management, workload) = self.gear.wait(async move {
            let management = ApiServer::config(&kubeconfig).await.context("the plane to follow")?;
            Ok((Client::try_from(management)?, Client::try_from(config)?))
        })?;
        let management = management::Management::new(management, namespace, cluster);
        let nodes = nodes::Nodes::new(workload);
        Ok(follow::start(&self.gear, Arc::new(fleet), management, nodes, self.gate.clone()))
    }

    /// An administrator's kubeconfig that bypasses the gate, for tests to look into the cluster.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.server.kubeconfig
    }

    /// The kubeconfig that is published: it leads through the gate.
    #[must_use]
    pub fn kubeconfig_through_gate(&self) -> &Path {
        &self.outside_file
    }

    /// A new client that bypasses the gate; belongs to the tokio runtime in which this is called.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::try_from(self.config.clone())
            .expect("a client of a configuration that worked before")
    }

    /// Whether the gate is open.
    #[must_use]
    pub fn gate_open(&self) -> bool {
        self.gate.is_open()
    }

    /// Opens or closes the gate by hand, for a workload that nobody follows.
    pub fn set_gate(&self, open: bool) {
        self.gate.set(open);
    }

    /// Resident memory of its API server in MiB.
    #[must_use]
    pub fn memory_mib(&self) -> Option<u64> {
        self.server.process.memory_mib()
    }
}
