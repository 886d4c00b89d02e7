//! A small MAAS and a small Kubernetes, in memory, that answer what a reconcile asks.
//!
//! They know the rules that decisions depend on and nothing else: who owns a machine, when MAAS
//! clears a mark and when it wipes annotations, that Kubernetes refuses a write under an old
//! version. So a whole life can be told, one reconcile after the other, with any accident in it.
#![allow(dead_code, unused_imports)] // each test binary uses its own part

pub(crate) mod clusters;
pub(crate) mod drive;
mod kube;
pub(crate) mod maas;
mod policies;

use capmaas_core::policy::Panel;
use capmaas_core::{Effect, Read, Reply, Settings, Step, cluster, machine};

pub(crate) use drive::{Told, Turn, tell};
pub(crate) use kube::{CLUSTER, Kube, NAMESPACE};
pub(crate) use maas::{Destiny, Host, Maas, US};
pub(crate) use policies::Policies;

/// The `MaasMachine` that most stories are about.
pub(crate) const NAME: &str = "blue-0";

/// 2026-11-30, 00:00 UTC.
pub(crate) const MIDNIGHT: u64 = 1_795_996_800;

/// Everything outside of the decisions.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) settings: Settings,
    pub(crate) maas: Maas,
    pub(crate) kube: Kube,
    pub(crate) policies: Policies,
    /// Who is asked; the built-in policies unless a story says otherwise.
    pub(crate) panel: Panel,
    /// Cluster API serves nothing newer than v1beta1.
    pub(crate) v1beta1_only: bool,
    minted: u32,
}

impl World {
    /// A ready cluster with one `MaasMachine`, and three free machines in MAAS.
    pub(crate) fn with_machine(control_plane: bool) -> Self {
        let mut world = Self::with_cluster();
        world.kube.infrastructure_is_ready();
        world.kube.add_machine(NAME, control_plane);
        world
    }

    /// A new cluster without machines, and three free machines in MAAS.
    pub(crate) fn with_cluster() -> Self {
        Self {
            now: MIDNIGHT,
            settings: Settings::default(),
            maas: Maas::with_hosts(&["aaa111", "bbb222", "ccc333"]),
            kube: Kube::with_cluster(),
            policies: Policies::default(),
            panel: Panel::default(),
            v1beta1_only: false,
            minted: 0,
        }
    }

    pub(crate) fn machine_snapshot(&self, name: &str) -> Option<machine::Snapshot> {
        Some(machine::Snapshot {
            now: self.now,
            settings: self.settings.clone(),
            object: self.kube.maas_machine(name)?,
            machine: self.kube.machines.get(name).cloned(),
            cluster: self.kube.cluster.clone(),
            maas_cluster: self.kube.maas_cluster(),
            node: None,
            policies: self.panel.clone(),
        })
    }

    pub(crate) fn cluster_snapshot(&self) -> Option<cluster::Snapshot> {
        Some(cluster::Snapshot {
            now: self.now,
            settings: self.settings.clone(),
            object: self.kube.maas_cluster()?,
            cluster: self.kube.cluster.clone(),
            v1beta1_only: self.v1beta1_only,
            policies: self.panel.clone(),
        })
    }

    /// Answers one step, as MAAS, Kubernetes and the policies would.
    pub(crate) fn answer<S>(&mut self, step: &Step<S>) -> Reply {
        match step {
            Step::Read(read) => self.read(read),
            Step::Ask(ask) => self.policies.answer(ask),
            Step::Do(effect) => self.perform(effect),
            Step::Done(_) => panic!("the end is not answered"),
        }
    }

    fn read(&mut self, read: &Read) -> Reply {
        match read {
            Read::Mark => Reply::Text(format!("mark{}", self.mint())),
            Read::Suffix => Reply::Text(format!("sufx{:02}", self.mint())),
            Read::Object(object) => self.kube.read(object),
            Read::MaasMachines { .. } => Reply::MaasMachines(self.kube.maas_machines()),
            Read::Siblings { .. } => Reply::Siblings(self.kube.siblings().into()),
            Read::BootstrapSecret { name, .. } => Reply::Secret(self.kube.secret(name)),
            Read::Nodes { .. } => Reply::Nodes([].into()),
            in_maas => self.maas.read(in_maas),
        }
    }

    fn perform(&mut self, effect: &Effect) -> Reply {
        match effect {
            Effect::Patch { object, patch } => self.kube.patch(object, patch),
            Effect::SetNodeProviderId { .. } => Reply::Completed,
            in_maas => self.maas.perform(in_maas),
        }
    }

    /// A `MaasMachine` whose host is deployed, and whose cluster has its record.
    pub(crate) fn with_deployed_machine(control_plane: bool) -> Self {
        let mut world = Self::with_machine(control_plane);
        world.rounds(6);
        world
    }

    /// Everybody does their part, some times: Cluster API, we, MAAS.
    pub(crate) fn rounds(&mut self, rounds: usize) {
        for _ in 0..rounds {
            self.kube.cluster_api_follows();
            if self.kube.maas_cluster().is_some() {
                self.reconcile_cluster();
            }
            for name in self.kube.names() {
                self.reconcile(&name);
            }
            self.maas.time_passes();
            self.now += 15;
        }
    }

    fn mint(&mut self) -> u32 {
        self.minted += 1;
        self.minted
    }
}
