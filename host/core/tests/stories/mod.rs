//! The stories that are kept as transcripts.

mod clusters;
mod endings;
mod failures;
mod policies;
mod provisioning;
mod refusals;

use capmaas_api::{MaasClusterStatus, MaasMachineStatus};
use capmaas_core::{Effect, Reply, Step};
use serde_json::{Value, json};

use crate::world::drive::word;
use crate::world::{NAME, Turn, World};

/// A story: its world, and what was reconciled in it so far.
pub(crate) struct Story {
    pub(crate) name: &'static str,
    tells: &'static str,
    pub(crate) world: World,
    reconciles: Vec<Value>,
}

pub(crate) fn all() -> Vec<Story> {
    let mut all = provisioning::stories();
    all.extend(failures::stories());
    all.extend(endings::stories());
    all.extend(refusals::stories());
    all.extend(clusters::stories());
    all.extend(policies::stories());
    all
}

impl Story {
    fn of(name: &'static str, world: World, tells: &'static str) -> Self {
        Self { name, tells, world, reconciles: vec![] }
    }

    /// The machine is reconciled, and does this in MAAS and Kubernetes.
    fn machine(&mut self, does: &[&str]) {
        self.machine_with(does, |_, _, _| Turn::Answered);
    }

    fn machine_with(
        &mut self,
        does: &[&str],
        turn: impl FnMut(&mut World, &[Reply], &Step<MaasMachineStatus>) -> Turn,
    ) {
        let told = self.world.reconcile_with(NAME, turn);
        assert_eq!(told.words(), does, "{}, reconcile {}", self.name, self.reconciles.len());
        self.reconciles.push(json!({
            "of": "MaasMachine", "snapshot": told.snapshot, "replies": told.replies,
            "steps": told.steps,
        }));
    }

    /// The cluster is reconciled, and does this in MAAS and Kubernetes.
    fn cluster(&mut self, does: &[&str]) {
        self.cluster_with(does, |_, _, _| Turn::Answered);
    }

    fn cluster_with(
        &mut self,
        does: &[&str],
        turn: impl FnMut(&mut World, &[Reply], &Step<MaasClusterStatus>) -> Turn,
    ) {
        let told = self.world.reconcile_cluster_with(turn);
        assert_eq!(told.words(), does, "{}, reconcile {}", self.name, self.reconciles.len());
        self.reconciles.push(json!({
            "of": "MaasCluster", "snapshot": told.snapshot, "replies": told.replies,
            "steps": told.steps,
        }));
    }

    /// Reconciles that belong to no story: the world gets on.
    fn meanwhile(&mut self, rounds: usize) {
        self.world.rounds(rounds);
        self.world.kube.cluster_api_follows();
    }

    /// MAAS gets on with what it does, and so much time passes.
    fn later(&mut self, seconds: u64) {
        self.world.maas.time_passes();
        self.world.now += seconds;
        self.world.kube.cluster_api_follows();
    }

    /// What the machine says is waited for, or is wrong.
    fn says(&self, reason: &str, words: &str) {
        let status = self.world.kube.maas_machine(NAME).expect("it exists").status;
        let conditions = status.and_then(|s| s.conditions).unwrap_or_default();
        let said = conditions.iter().find(|c| c.kind == "MachineDeployed").expect("a word");
        assert_eq!(said.reason.as_deref(), Some(reason), "{}", self.name);
        let message = said.message.as_deref().unwrap_or_default();
        assert!(message.contains(words), "{}: {message}", self.name);
    }

    pub(crate) fn document(&self) -> Value {
        json!({ "name": self.name, "tells": self.tells, "reconciles": self.reconciles })
    }
}

/// The call that a step makes is this one.
fn calls<S>(step: &Step<S>, wanted: &str) -> bool {
    matches!(step, Step::Do(effect) if word(effect) == wanted)
}

/// The patch that writes the provider id.
fn publishes<S>(step: &Step<S>) -> bool {
    matches!(step, Step::Do(Effect::Patch { patch, .. }) if patch.spec.contains_key("providerID"))
}

/// Everything from a free machine to a running deployment.
const TAKES: [&str; 6] = ["patch", "allocate", "patch", "annotate", "swap off", "deploy"];
