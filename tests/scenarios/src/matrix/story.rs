//! The stories that are interrupted everywhere.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use maas_sim::{Inventory, MachineView, OperatorAct};

use super::strangers;
use crate::kubelet::Kubelet;
use crate::machine::Machine;
use crate::policies::{component, rebuilt};
use crate::stage::{Stage, eventually};

/// Seconds for one expectation; a crash and its aftermath lie in between.
const PATIENCE: u64 = 600;
const MACHINE: &str = "machines.cluster.x-k8s.io";

/// What the user does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Story {
    /// A cluster with a control plane machine, up to its Node.
    Provision,
    /// One of two control planes is deleted.
    ScaleDown,
    /// A host fails to deploy and is replaced by another.
    Replacement,
    /// A cluster with a control plane and a worker is deleted.
    ClusterEnd,
    /// The policies are objects, and one is swapped between two machines.
    PolicySwap,
}

impl Story {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Provision, Self::ScaleDown, Self::Replacement, Self::ClusterEnd, Self::PolicySwap];

    /// What it is called on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Provision => "provision",
            Self::ScaleDown => "scale-down",
            Self::Replacement => "replacement",
            Self::ClusterEnd => "cluster-end",
            Self::PolicySwap => "policy-swap",
        }
    }

    /// The effects that core must perform for it.
    pub fn effects(self) -> &'static [&'static str] {
        match self {
            Self::Provision => &[
                "Allocate",
                "Patch",
                "Annotate",
                "SwapOff",
                "Deploy",
                "CreateDns",
                "SetDnsAddresses",
                "SetNodeProviderId",
            ],
            Self::ScaleDown => &["SetDnsAddresses", "Release", "Patch"],
            Self::Replacement => &["Release", "Patch", "Allocate", "Annotate", "SwapOff", "Deploy"],
            Self::ClusterEnd => &["SetDnsAddresses", "Release", "DeleteDns", "Patch"],
            Self::PolicySwap => {
                &["CreateDns", "Allocate", "Patch", "Annotate", "SwapOff", "Deploy"]
            }
        }
    }

    /// Machines that MAAS is to give, and to deploy, in all.
    pub fn given(self) -> usize {
        if self == Self::Provision { 1 } else { 2 }
    }

    /// Most machines that are held at any time.
    pub fn most_held(self) -> usize {
        match self {
            Self::Provision | Self::Replacement => 1,
            Self::ScaleDown | Self::ClusterEnd | Self::PolicySwap => 2,
        }
    }

    /// Its rack. Host names are those of Nodes, so no two stages may share them.
    ///
    /// # Errors
    /// When it is not well-formed.
    pub fn inventory(self, stage: &str) -> Result<Inventory> {
        let hangs = if self == Self::Replacement { ", first_deploys_hang: 9" } else { "" };
        let mut machines = vec![
            format!("{{hostname: {stage}-1, cores: 2, memory: 4096{hangs}}}"),
            format!("{{hostname: {stage}-2, cores: 4, memory: 8192}}"),
            format!("{{hostname: {stage}-3, cores: 8, memory: 16384}}"),
        ];
        machines.extend(strangers::machines(stage));
        let list: String = machines.iter().map(|m| format!("  - {m}\n")).collect();
        Inventory::from_yaml(&format!(
            "images: [{{name: custom/u-2404-k8s, filetype: root-tgz}}]\nmachines:\n{list}"
        ))
    }

    /// What is there before anything goes wrong.
    ///
    /// # Errors
    /// When it does not come to that.
    pub async fn begin(self, stage: &Stage<'_>) -> Result<()> {
        match self {
            Self::Provision => return Kubelet::invite(stage, "c").await,
            Self::PolicySwap => return Ok(()),
            _ => stage.cluster("c", "", "")?,
        }
        match self {
            Self::ScaleDown => {
                stage.machine("c", &Machine::control_plane("cp-1"))?;
                stage.machine("c", &Machine::control_plane("cp-2"))?;
                is_true(stage, "cp-1", "DNSAttached").await?;
                is_true(stage, "cp-2", "DNSAttached").await
            }
            Self::ClusterEnd => {
                stage.machine("c", &Machine::control_plane("cp"))?;
                stage.machine("c", &Machine::worker("w"))?;
                is_true(stage, "cp", "DNSAttached").await?;
                is_true(stage, "w", "MachineDeployed").await
            }
            Self::Replacement | Self::Provision | Self::PolicySwap => {
                stage.machine("c", &Machine::worker("w"))?;
                eventually("a host deploys", PATIENCE, async || {
                    Ok(stage.held().pop().filter(|m| m.status_name == "Deploying"))
                })
                .await
                .map(drop)
            }
        }
    }

    /// What is interrupted: what the user does, until the user sees what was wanted.
    ///
    /// # Errors
    /// When it does not come to that.
    pub async fn tell(self, stage: &Stage<'_>) -> Result<()> {
        match self {
            Self::Provision => {
                stage.cluster("c", "", "")?;
                stage.machine("c", &Machine::control_plane("cp"))?;
                let host = eventually("the host is deployed", PATIENCE, async || {
                    Ok(stage.host("cp").await?.filter(|h| h.status_name == "Deployed"))
                })
                .await?;
                Kubelet::register(stage, &host).await?;
                is_true(stage, "cp", "DNSAttached").await?;
                is_true(stage, "cp", "NodeProviderIDSet").await
            }
            Self::ScaleDown => {
                stage.delete(MACHINE, "cp-1")?;
                no_object(stage, &["cp-1"]).await
            }
            Self::Replacement => {
                let bad = stage.held().pop().context("the host that deploys")?.system_id;
                let failure = OperatorAct::FailDeployment("the disk is dying".into());
                stage.maas.operator(&bad, failure)?;
                is_true(stage, "w", "MachineDeployed").await
            }
            Self::ClusterEnd => {
                stage.delete("clusters.cluster.x-k8s.io", "c")?;
                no_object(stage, &["cp", "w"]).await?;
                eventually("the MaasCluster is gone", PATIENCE, async || {
                    Ok(stage.clusters().get_opt("c").await?.is_none().then_some(()))
                })
                .await
            }
            Self::PolicySwap => swapped(stage).await,
        }
    }

    /// The objects that remain.
    fn remaining(self) -> &'static [&'static str] {
        match self {
            Self::Provision => &["cp"],
            Self::ScaleDown => &["cp-2"],
            Self::Replacement => &["w"],
            Self::ClusterEnd => &[],
            Self::PolicySwap => &["w-1", "w-2"],
        }
    }

    /// Held is what the remaining objects name, and nothing else; DNS holds the control plane, and nothing else.
    ///
    /// # Errors
    /// When it is otherwise.
    pub async fn judge(self, stage: &Stage<'_>) -> Result<()> {
        let mut wanted = BTreeSet::new();
        let mut served = Vec::new();
        for name in self.remaining() {
            let host = stage.host(name).await?.with_context(|| format!("{name} has a host"))?;
            ensure!(host.status_name == "Deployed" && host.deploys == 1, "{host:?}");
            if name.starts_with("cp") {
                served.clone_from(&host.ip_addresses);
            }
            wanted.insert(host.system_id);
        }
        let held: BTreeSet<String> = stage.held().into_iter().map(|m| m.system_id).collect();
        ensure!(held == wanted, "held are {held:?}, wanted {wanted:?}");
        let records = stage.maas.dns_records();
        let ours: Vec<_> = records.iter().filter(|r| r.fqdn != strangers::RECORD).collect();
        let addresses: Vec<String> =
            ours.iter().flat_map(|r| r.addresses.iter().flatten().cloned()).collect();
        let kept = usize::from(self != Self::ClusterEnd);
        ensure!(ours.len() == kept && addresses == served, "{ours:?}, wanted {served:?}");
        if self == Self::Provision {
            Kubelet::carries_provider_id(stage, "cp").await?;
        }
        let free: Vec<MachineView> =
            stage.maas.machines().into_iter().filter(|m| m.owner.is_none()).collect();
        let clean = |m: &MachineView| m.status_name == "Ready" && m.workload_annotations.is_empty();
        ensure!(free.iter().all(clean), "{free:?}");
        Ok(())
    }
}

/// The second machine is chosen by the second build of a component.
async fn swapped(stage: &Stage<'_>) -> Result<()> {
    let choice = component("allocation-zone-spread")?;
    stage.enforced("choice", "Allocation", &choice, ", config: {workers: true}")?;
    stage.enforced("names", "DnsNaming", &component("dns-naming-default")?, "")?;
    stage.cluster("c", "", ", policies: {allocation: [choice], dnsNaming: names}")?;
    stage.machine("c", &Machine::worker("w-1"))?;
    is_true(stage, "w-1", "MachineDeployed").await?;
    let in_use = async || {
        let status = stage.policies().get("choice").await?.status.unwrap_or_default();
        anyhow::Ok(status.current.map(|current| current.digest))
    };
    let before = in_use().await?;
    stage.component_in_config_map("choice", &rebuilt(&choice, b'b'))?;
    let now = eventually("the second build is in use", PATIENCE, async || {
        let now = in_use().await?;
        Ok(now.filter(|now| Some(now) != before.as_ref()))
    })
    .await?;
    stage.machine("c", &Machine::worker("w-2"))?;
    is_true(stage, "w-2", "MachineDeployed").await?;
    let status = stage.machines().get("w-2").await?.status.unwrap_or_default();
    let by = status.decisions.into_iter().flatten().find(|d| d.kind == "allocation");
    // A crash may cost the note of who chose; it may never be a wrong one.
    ensure!(by.as_ref().is_none_or(|by| by.digest == now), "{by:?}");
    Ok(())
}

async fn is_true(stage: &Stage<'_>, machine: &str, kind: &str) -> Result<()> {
    let mut last = String::new();
    let found = eventually(&format!("{machine}: {kind}"), PATIENCE, async || {
        let condition = stage.condition(machine, kind).await?;
        last = format!("{condition:?}");
        Ok(condition.filter(|c| c.status == "True").map(drop))
    })
    .await;
    found.with_context(|| format!("last seen: {last}{}", stage.story()))
}

async fn no_object(stage: &Stage<'_>, names: &[&str]) -> Result<()> {
    eventually(&format!("{names:?} are gone"), PATIENCE, async || {
        let left = stage.machine_names().await?;
        Ok((!left.iter().any(|l| names.contains(&l.as_str()))).then_some(()))
    })
    .await
    .with_context(|| stage.story())
}
