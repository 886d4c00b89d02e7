//! The player: machines that MAAS shows as deployed become Nodes, if they were given the right data.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::Result;
use tokio::sync::watch;

use super::fleet::{Fleet, Host};
use super::gate::Gate;
use super::management::{Management, OwnedMachine};
use super::nodes::{Birth, Nodes};
use super::verdict::{Boot, decode, judge};
use crate::engine::Gear;

const PERIOD: Duration = Duration::from_millis(300);
/// How many rounds pass between two looks for pods whose Node is gone.
const SWEEP: u32 = 5;

#[derive(Default)]
struct Record {
    violations: Vec<String>,
    boots: BTreeMap<String, Boot>,
    trouble: Option<String>,
}

/// Plays the machines of one cluster until it is stopped or dropped.
///
/// Every 300 ms it opens or closes the gate as the DNS record says, makes Nodes of machines that were deployed with the
/// bootstrap data of their own Machine, and lets Nodes of machines that no longer run become not ready. Cluster API is
/// the one to delete Nodes.
pub struct WorkloadFollower {
    record: Arc<Mutex<Record>>,
    gate: Gate,
    stop: watch::Sender<bool>,
    ended: std::sync::mpsc::Receiver<()>,
}

impl WorkloadFollower {
    /// Stops playing, and returns when the round under way is over. The gate stays as it is.
    pub fn stop(self) {
        self.stop.send_replace(true);
        // an error means that the task has ended
        let _ = self.ended.recv();
    }

    /// What a provider must never do and was seen to do.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        lock(&self.record).violations.clone()
    }

    /// What each machine was told when it was last deployed, by system id.
    #[must_use]
    pub fn boots(&self) -> BTreeMap<String, Boot> {
        lock(&self.record).boots.clone()
    }

    /// Whether the workload cluster can be reached.
    #[must_use]
    pub fn gate_open(&self) -> bool {
        self.gate.is_open()
    }

    /// Why the last round failed, if it did: an API server that is being stopped, for example.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        lock(&self.record).trouble.clone()
    }
}

impl Drop for WorkloadFollower {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

pub(super) fn start(
    gear: &Gear,
    fleet: Arc<dyn Fleet>,
    management: Management,
    nodes: Nodes,
    gate: Gate,
) -> WorkloadFollower {
    let record = Arc::new(Mutex::new(Record::default()));
    let (stop, mut stopped) = watch::channel(false);
    let (end, ended) = std::sync::mpsc::channel();
    let mut player = Player {
        fleet,
        management,
        nodes,
        gate: gate.clone(),
        record: Arc::clone(&record),
        known: BTreeMap::new(),
        round: 0,
    };
    gear.spawn(async move {
        while !*stopped.borrow() {
            let trouble = player.round().await.err().map(|error| format!("{error:#}"));
            if let Some(trouble) = &trouble {
                tracing::warn!(trouble, "a round of the workload player failed");
            }
            lock(&player.record).trouble = trouble;
            let _ = tokio::time::timeout(PERIOD, stopped.changed()).await;
        }
        let _ = end.send(());
    });
    WorkloadFollower { record, gate, stop, ended }
}

/// A machine that has been looked at.
struct Known {
    deploys: u32,
    hostname: String,
    control_plane: bool,
    /// It became a Node.
    good: bool,
    ready: bool,
}

struct Player {
    fleet: Arc<dyn Fleet>,
    management: Management,
    nodes: Nodes,
    gate: Gate,
    record: Arc<Mutex<Record>>,
    known: BTreeMap<String, Known>,
    round: u32,
}

impl Player {
    async fn round(&mut self) -> Result<()> {
        let hosts = self.fleet.hosts();
        // the gate first: it must not stay open because something else fails
        let endpoint = self.management.endpoint_host().await?;
        self.gate.set(self.reachable(&hosts, endpoint.as_deref()));
        let strangers: Vec<&Host> = hosts.iter().filter(|host| self.is_new(host)).collect();
        if !strangers.is_empty() {
            let machines = self.management.machines().await?;
            for host in strangers {
                // a host without a MaasMachine is none of this cluster, or not yet
                if let Some(machine) = machines.get(&host.system_id) {
                    self.meet(host, machine).await?;
                }
            }
            self.gate.set(self.reachable(&hosts, endpoint.as_deref()));
        }
        self.update_readiness(&hosts).await?;
        self.round += 1;
        if self.round.is_multiple_of(SWEEP) {
            self.nodes.sweep().await?;
        }
        Ok(())
    }

    fn is_new(&self, host: &Host) -> bool {
        let known = self.known.get(&host.system_id);
        host.running() && known.is_none_or(|known| known.deploys != host.deploys)
    }

    /// Whether a client that resolves the endpoint finds a running control plane.
    fn reachable(&self, hosts: &[Host], endpoint: Option<&str>) -> bool {
        let Some(endpoint) = endpoint else {
            return false;
        };
        let mut serving = hosts.iter().filter(|host| {
            let known = self.known.get(&host.system_id);
            host.running()
                && known.is_some_and(|k| k.good && k.control_plane && k.deploys == host.deploys)
        });
        if endpoint.parse::<IpAddr>().is_ok() {
            return serving.next().is_some();
        }
        let addresses = self.fleet.addresses(endpoint);
        serving.any(|host| host.ip_addresses.iter().any(|own| addresses.contains(own)))
    }

    /// Looks at a machine that was deployed since the last round.
    async fn meet(&mut self, host: &Host, machine: &OwnedMachine) -> Result<()> {
        if self.adopt(host, machine).await? {
            return Ok(());
        }
        let data = decode(host.user_data.as_deref());
        let boot = data.as_deref().map_or(Boot::Other, Boot::of);
        let bootstrap = match &machine.machine {
            Some(name) => self.management.bootstrap(name).await?,
            None => None,
        };
        let (wanted, version) = match bootstrap {
            Some(bootstrap) => (bootstrap.data, bootstrap.version),
            None => (None, None),
        };
        if wanted.is_none() && machine.deleting {
            // the Secret goes before the machine does: nothing can be said of it any more
            return Ok(());
        }
        let initialised = self.nodes.initialised().await?;
        let verdict =
            judge(machine.control_plane, initialised, boot, data.as_deref(), wanted.as_deref());
        // before there is a Node: whoever sees the Node can read what its host was told
        lock(&self.record).boots.insert(host.system_id.clone(), boot);
        if verdict.is_ok() {
            let version = version.as_deref().unwrap_or("v1.34.1");
            let birth = Birth {
                host,
                control_plane: machine.control_plane,
                version,
                mark: &mark(host, boot),
            };
            self.nodes.create(&birth).await?;
            if boot == Boot::Init {
                self.nodes.initialise(version).await?;
            }
        }
        // last: a round that failed half-way is repeated
        self.remember(host, machine.control_plane, boot, verdict.is_ok());
        if let Err(reason) = verdict {
            let violation = format!(
                "host {} ({}) of MaasMachine {}: {reason}",
                host.system_id, host.hostname, machine.name
            );
            tracing::warn!(violation, "a machine did not become a Node");
            lock(&self.record).violations.push(violation);
        }
        Ok(())
    }

    /// Takes over the Node that an earlier follower made of the same deployment.
    async fn adopt(&mut self, host: &Host, machine: &OwnedMachine) -> Result<bool> {
        let Some(found) = self.nodes.mark(&host.hostname).await? else {
            return Ok(false);
        };
        let boot = [Boot::Init, Boot::Join, Boot::Other]
            .into_iter()
            .find(|boot| mark(host, *boot) == found);
        let Some(boot) = boot else {
            return Ok(false);
        };
        if boot == Boot::Init && !self.nodes.initialised().await? {
            // that earlier round was cut off between the Node and its configuration
            return Ok(false);
        }
        self.remember(host, machine.control_plane, boot, true);
        self.nodes.set_ready(&host.hostname, true).await?;
        Ok(true)
    }

    fn remember(&mut self, host: &Host, control_plane: bool, boot: Boot, good: bool) {
        let known = Known {
            deploys: host.deploys,
            hostname: host.hostname.clone(),
            control_plane,
            good,
            ready: good,
        };
        self.known.insert(host.system_id.clone(), known);
        lock(&self.record).boots.insert(host.system_id.clone(), boot);
    }

    async fn update_readiness(&mut self, hosts: &[Host]) -> Result<()> {
        for (system_id, known) in self.known.iter_mut().filter(|(_, known)| known.good) {
            let host = hosts.iter().find(|host| host.system_id == *system_id);
            let ready = host.is_some_and(|host| host.running() && host.deploys == known.deploys);
            if ready != known.ready {
                self.nodes.set_ready(&known.hostname, ready).await?;
                known.ready = ready;
            }
        }
        Ok(())
    }
}

fn mark(host: &Host, boot: Boot) -> String {
    format!("{}/{}/{}", host.system_id, host.deploys, boot.word())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
