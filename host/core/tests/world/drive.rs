use capmaas_api::{MaasClusterStatus, MaasMachineStatus};
use capmaas_core::{CallError, Category, Done, Effect, Reply, Step, cluster, machine};
use serde::Serialize;

use super::{CLUSTER, World};

/// How far a reconcile may go.
const MOST_STEPS: usize = 60;

/// One reconcile from its first step to its last.
#[derive(Clone, Debug)]
pub(crate) struct Told<N, S> {
    pub(crate) snapshot: N,
    pub(crate) replies: Vec<Reply>,
    pub(crate) steps: Vec<Step<S>>,
}

pub(crate) type ToldMachine = Told<machine::Snapshot, MaasMachineStatus>;
pub(crate) type ToldCluster = Told<cluster::Snapshot, MaasClusterStatus>;

impl<N, S> Told<N, S> {
    /// The end; `None` after a crash.
    pub(crate) fn done(&self) -> Option<&Done<S>> {
        match self.steps.last() {
            Some(Step::Done(done)) => Some(done),
            _ => None,
        }
    }

    /// What was changed, in order, in one word each.
    pub(crate) fn words(&self) -> Vec<&'static str> {
        self.effects().map(word).collect()
    }

    /// Whether a policy was asked.
    pub(crate) fn asked(&self) -> bool {
        self.steps.iter().any(|s| matches!(s, Step::Ask(_)))
    }

    /// What was changed, in order.
    pub(crate) fn effects(&self) -> impl Iterator<Item = &Effect> {
        self.steps.iter().filter_map(|s| match s {
            Step::Do(effect) => Some(effect),
            _ => None,
        })
    }
}

/// The effect in one word.
pub(crate) fn word(effect: &Effect) -> &'static str {
    match effect {
        Effect::Allocate { .. } => "allocate",
        Effect::Annotate { .. } => "annotate",
        Effect::SwapOff { .. } => "swap off",
        Effect::Deploy { .. } => "deploy",
        Effect::Release { .. } => "release",
        Effect::MarkBroken { .. } => "mark broken",
        Effect::PowerOn { .. } => "power on",
        Effect::PowerOff { .. } => "power off",
        Effect::CreateDns { .. } => "create record",
        Effect::SetDnsAddresses { .. } => "set addresses",
        Effect::DeleteDns { .. } => "delete record",
        Effect::ReleaseAddress { .. } => "release address",
        Effect::Patch { .. } => "patch",
        Effect::SetNodeProviderId { .. } => "set node",
    }
}

/// What becomes of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It is answered.
    Answered,
    /// It fails; an effect may have been carried out all the same.
    Fails(Category, bool),
    /// The controller dies, before or after the call was carried out.
    Dies(bool),
}

/// Tells one reconcile: step, answer, step, answer, until it is over.
pub(crate) fn tell<N, S: Clone + PartialEq + std::fmt::Debug>(
    world: &mut World,
    snapshot: N,
    next: impl Fn(&N, &[Reply]) -> Step<S>,
    mut turn: impl FnMut(&mut World, &[Reply], &Step<S>) -> Turn,
) -> Told<N, S> {
    let (mut replies, mut steps) = (Vec::new(), Vec::new());
    loop {
        let step = next(&snapshot, &replies);
        assert_eq!(step, next(&snapshot, &replies), "the same replies, another step");
        steps.push(step.clone());
        assert!(steps.len() <= MOST_STEPS, "a reconcile does not end");
        if matches!(step, Step::Done(_)) {
            break;
        }
        let reply = match turn(world, &replies, &step) {
            Turn::Answered => world.answer(&step),
            Turn::Fails(category, carried_out) => {
                if carried_out {
                    world.answer(&step);
                }
                failed(category)
            }
            Turn::Dies(carried_out) => {
                if carried_out {
                    world.answer(&step);
                }
                break;
            }
        };
        replies.push(reply);
    }
    Told { snapshot, replies, steps }
}

pub(crate) fn failed(category: Category) -> Reply {
    Reply::Failed(CallError {
        category,
        status: None,
        message: format!("{category:?}"),
        retry_after: None,
    })
}

impl World {
    /// Reconciles a `MaasMachine` without accidents, and writes its status.
    pub(crate) fn reconcile(&mut self, name: &str) -> ToldMachine {
        self.reconcile_with(name, |_, _, _| Turn::Answered)
    }

    pub(crate) fn reconcile_with(
        &mut self,
        name: &str,
        turn: impl FnMut(&mut World, &[Reply], &Step<MaasMachineStatus>) -> Turn,
    ) -> ToldMachine {
        let snapshot = self.machine_snapshot(name).expect("the object exists");
        self.reconcile_seen(name, snapshot, turn)
    }

    /// Reconciles what was seen earlier, which may be out of date by now.
    pub(crate) fn reconcile_seen(
        &mut self,
        name: &str,
        snapshot: machine::Snapshot,
        turn: impl FnMut(&mut World, &[Reply], &Step<MaasMachineStatus>) -> Turn,
    ) -> ToldMachine {
        let told = tell(self, snapshot, machine::next, turn);
        self.write("MaasMachine", name, told.done());
        told
    }

    /// Reconciles the `MaasCluster` without accidents, and writes its status.
    pub(crate) fn reconcile_cluster(&mut self) -> ToldCluster {
        self.reconcile_cluster_with(|_, _, _| Turn::Answered)
    }

    pub(crate) fn reconcile_cluster_with(
        &mut self,
        turn: impl FnMut(&mut World, &[Reply], &Step<MaasClusterStatus>) -> Turn,
    ) -> ToldCluster {
        let snapshot = self.cluster_snapshot().expect("the object exists");
        let told = tell(self, snapshot, cluster::next, turn);
        self.write("MaasCluster", CLUSTER, told.done());
        told
    }

    pub(crate) fn write<S: Serialize>(&mut self, kind: &str, name: &str, done: Option<&Done<S>>) {
        let Some(done) = done else { return };
        if let Some(status) = &done.status {
            let status = serde_json::to_value(status).expect("a status is JSON");
            self.kube.write_status(kind, name, &done.resource_version, status);
        }
    }
}
