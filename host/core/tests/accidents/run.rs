//! Lets things happen, then lets the dust settle, then counts.

use capmaas_api::{MaasMachine, MaasMachineStatus, names};
use capmaas_core::maas::{Power, Status};
use capmaas_core::ownership::annotation;
use capmaas_core::policy::{Constraints, Panel, Ranking, Seat, Shortlisting};
use capmaas_core::{Done, Effect, Reply, Step, cluster, machine};
use serde::Serialize;
use serde_json::json;

use crate::guard::{Guard, Memory, ours};
use crate::happenings::{Accident, CarriedOut, Company, Happening, Meddling, When};
use crate::world::drive::word;
use crate::world::{CLUSTER, Destiny, Host, Policies, Turn, US, World, tell};

const OBJECTS: [&str; 2] = ["blue-0", "blue-1"];

pub(crate) struct Run {
    world: World,
    memory: Memory,
    earlier: [Option<machine::Snapshot>; 2],
    /// The objects as they last were, to know their marks when they are gone.
    objects: [Option<MaasMachine>; 2],
}

impl Run {
    pub(crate) fn new() -> Self {
        let mut world = World::with_machine(true);
        world.kube.add_machine(OBJECTS[1], true);
        for id in ["ddd444", "eee555", "fff666", "ggg777"] {
            world.maas.hosts.insert(id.into(), Host::free(id));
        }
        Self { world, memory: Memory::default(), earlier: [None, None], objects: [None, None] }
    }

    /// Other policies decide than the built-in ones, or beside them.
    pub(crate) fn decided_by(&mut self, company: Company) {
        let seat = |shadow, use_default| Seat {
            policy: "team/p".into(),
            shadow,
            use_default,
            ..Seat::default()
        };
        let (seat, policies) = match company {
            Company::BuiltIn => return,
            Company::InShadow => (seat(true, true), ranking()),
            Company::Ranking => (seat(false, true), ranking()),
            Company::Failing => {
                let refusal = Some(capmaas_core::policy::Refused::unusable("drawn"));
                (seat(false, true), Policies { refusal, ..Policies::default() })
            }
        };
        self.world.policies.named.insert(seat.policy.clone(), policies);
        self.world.panel = Panel {
            allocation: vec![seat.clone()],
            dns_naming: vec![seat.clone()],
            failure_handling: vec![seat],
        };
    }

    pub(crate) fn happens(&mut self, happening: &Happening) {
        match happening {
            Happening::Machine { which, outdated, accident } => {
                self.reconcile(*which, *outdated, accident.as_ref())
            }
            Happening::Cluster { accident } => self.reconcile_cluster(accident.as_ref()),
            Happening::Time(seconds) => self.time(*seconds),
            Happening::Meddled(which, meddling) => meddle(&mut self.world, *which, meddling),
            Happening::Deleted(which) => self.world.kube.delete("MaasMachine", OBJECTS[*which]),
            Happening::ClusterGoes => {
                for name in OBJECTS {
                    self.world.kube.delete("MaasMachine", name);
                }
                self.world.kube.delete("MaasCluster", CLUSTER);
            }
            Happening::StatusWiped(which) => {
                let wiped = json!({ "status": null });
                self.world.kube.edit("MaasMachine", OBJECTS[*which], &wiped);
            }
            Happening::Paused(which, paused) => {
                let value = if *paused { json!("") } else { json!(null) };
                let change =
                    json!({ "metadata": { "annotations": { names::PAUSED_ANNOTATION: value } } });
                self.world.kube.edit("MaasMachine", OBJECTS[*which], &change);
            }
            Happening::Unhealthy(which) => self.health(*which, "False"),
            Happening::PolicySays(action) => self.world.policies.action = action.clone(),
            Happening::PolicyRefuses(refuses) => {
                let refusal = capmaas_core::policy::Refused::unusable("drawn");
                self.world.policies.refusal = refuses.then_some(refusal);
            }
            Happening::ClusterApiFollows => self.world.kube.cluster_api_follows(),
        }
    }

    fn health(&mut self, which: usize, status: &str) {
        let machine = self.world.kube.machines.get_mut(OBJECTS[which]).expect("a Machine");
        machine.status.conditions = vec![capmaas_api::Condition {
            kind: "HealthCheckSucceeded".into(),
            status: status.into(),
            ..Default::default()
        }];
    }

    /// A call that went unanswered is carried out within 100 seconds, or never.
    fn time(&mut self, seconds: u64) {
        self.world.now += seconds.min(100);
        for (_, effect) in std::mem::take(&mut self.memory.late) {
            self.world.answer(&Step::<()>::Do(effect));
        }
        self.world.now += seconds.saturating_sub(100);
        self.world.maas.time_passes();
    }

    fn reconcile(&mut self, which: usize, outdated: bool, accident: Option<&(When, Accident)>) {
        let name = OBJECTS[which];
        let Some(fresh) = self.world.machine_snapshot(name) else {
            return;
        };
        let earlier = self.earlier[which].replace(fresh.clone()).filter(|_| outdated);
        let earlier = earlier.map(|e| machine::Snapshot { now: fresh.now, ..e });
        let looked = earlier.and_then(|e| Some((self.looks_only(&e)?, e)));
        let (done, snapshot) = match looked {
            Some((done, earlier)) => (Some(done), earlier),
            None => (self.tell(Some(which), fresh.clone(), machine::next, accident), fresh),
        };
        let paused = is_paused(&snapshot.object);
        if let Some(done) = done {
            let waits =
                done.requeue.is_some() || paused || waits_for_a_watch(&snapshot, &self.world, name);
            assert!(waits, "nobody looks again: {done:?}");
            self.write("MaasMachine", name, &done, accident);
        }
        self.objects[which] = self.world.kube.maas_machine(name).or(self.objects[which].take());
    }

    /// By what was seen earlier nothing is done: before a first effect everything is read anew, and the reconcile begins
    /// again with that.
    fn looks_only(&mut self, earlier: &machine::Snapshot) -> Option<Done<MaasMachineStatus>> {
        let told = tell(&mut self.world, earlier.clone(), machine::next, |_, _, step| match step {
            Step::Do(_) => Turn::Dies(false),
            _ => Turn::Answered,
        });
        told.done().cloned()
    }

    fn reconcile_cluster(&mut self, accident: Option<&(When, Accident)>) {
        let Some(snapshot) = self.world.cluster_snapshot() else {
            return;
        };
        if let Some(done) = self.tell(None, snapshot, cluster::next, accident) {
            let gone = self.world.kube.maas_cluster().is_none();
            let waits = done.requeue.is_some() || gone;
            assert!(waits, "nobody looks again: {done:?}");
            self.write("MaasCluster", CLUSTER, &done, accident);
        }
    }

    fn tell<N, S: Clone + PartialEq + Serialize + std::fmt::Debug>(
        &mut self,
        which: Option<usize>,
        snapshot: N,
        next: impl Fn(&N, &[Reply]) -> Step<S>,
        accident: Option<&(When, Accident)>,
    ) -> Option<Done<S>> {
        let (mut guard, memory) = (Guard::default(), &mut self.memory);
        let told = tell(&mut self.world, snapshot, next, |world, replies, step| {
            guard.answered(world, replies);
            let met = |when: &When| match (when, step) {
                (When::Step(at), _) => *at == replies.len(),
                (When::Change(change), Step::Do(effect)) => word(effect) == *change,
                _ => false,
            };
            let mine = accident.filter(|(when, _)| met(when)).map(|(_, a)| a);
            if let Some(Accident::Meddled(meddling) | Accident::MeddledAndDies(meddling)) = mine {
                meddle(world, which.unwrap_or(0), meddling);
            }
            guard.judge(world, memory, which.map(|w| OBJECTS[w]), step);
            match mine {
                Some(Accident::Fails(category, carried_out)) => {
                    if let (CarriedOut::Later, Step::Do(effect @ Effect::Allocate { .. })) =
                        (carried_out, step)
                    {
                        memory.late.push((OBJECTS[which.unwrap_or(0)].to_owned(), effect.clone()));
                    }
                    Turn::Fails(*category, *carried_out == CarriedOut::AtOnce)
                }
                Some(Accident::Dies(carried_out)) => Turn::Dies(*carried_out),
                Some(Accident::MeddledAndDies(_)) => Turn::Dies(true),
                _ => Turn::Answered,
            }
        });
        told.done().cloned()
    }

    fn write<S: Serialize>(
        &mut self,
        kind: &str,
        name: &str,
        done: &Done<S>,
        accident: Option<&(When, Accident)>,
    ) {
        if !matches!(accident, Some((_, Accident::StatusLost))) {
            self.world.write(kind, name, Some(done));
        }
    }

    /// No more accidents; what hinders is cleared away; then everybody does their part.
    pub(crate) fn calms_down(&mut self) {
        self.time(200);
        self.world.policies = Default::default();
        self.world.maas.hosts.insert("zzz999".into(), Host::free("zzz999"));
        for which in 0..OBJECTS.len() {
            self.happens(&Happening::Paused(which, false));
            self.health(which, "True");
        }
        for host in self.world.maas.hosts.values_mut() {
            calm(host);
        }
        self.all_do_their_part(40);
    }

    pub(crate) fn all_do_their_part(&mut self, rounds: usize) {
        for _ in 0..rounds {
            for which in 0..OBJECTS.len() {
                self.world.kube.cluster_api_follows();
                self.reconcile_cluster(None);
                self.reconcile(which, false, None);
            }
            self.time(200);
        }
    }

    /// One machine for every object, and none for one that is gone.
    pub(crate) fn check_what_is_held(&self) {
        for (which, name) in OBJECTS.iter().enumerate() {
            let now = self.world.kube.maas_machine(name);
            let Some(object) = now.as_ref().or(self.objects[which].as_ref()) else {
                continue;
            };
            let held: Vec<&str> = self
                .world
                .maas
                .hosts
                .iter()
                .filter(|(id, h)| ours(h, object) && !self.memory.broken.contains(*id))
                .map(|(id, _)| id.as_str())
                .collect();
            let Some(object) = &now else {
                assert!(held.is_empty(), "{name} is gone, and MAAS still holds {held:?}");
                continue;
            };
            let named = object.spec.provider_id.as_deref().and_then(|p| p.rsplit('/').next());
            // Taken by somebody directly before we annotated it: a person has to say whose it is.
            let disputed = named.and_then(|id| self.world.maas.hosts.get(id)).is_some_and(|h| {
                let mark = object
                    .metadata
                    .annotations
                    .as_ref()
                    .and_then(|a| a.get(names::MARK_ANNOTATION));
                h.shown.owner.as_deref().is_some_and(|o| o != US)
                    && mark.is_some()
                    && h.shown.annotations.get(annotation::MARK) == mark
            });
            if disputed {
                continue;
            }
            assert!(
                object.metadata.deletion_timestamp.is_none(),
                "{name} is never gone: {object:?}"
            );
            assert!(held.len() <= 1, "{name} holds {held:?}");
            let status = object.status.clone().unwrap_or_default();
            let lost = status.failure_reason.is_some();
            if lost {
                continue;
            }
            assert!(status.ready, "{name} is never ready: {object:?}");
            assert_eq!(held, [named.unwrap_or_default()], "{name}");
        }
    }

    /// Once settled, another look writes nothing at all.
    pub(crate) fn check_that_nothing_more_is_written(&mut self) {
        for name in OBJECTS {
            let Some(object) = self.world.kube.maas_machine(name) else {
                continue;
            };
            if object.status.as_ref().is_some_and(|s| s.ready) {
                let told = self.world.reconcile(name);
                assert_eq!(told.effects().count(), 0, "{:?}", told.steps);
                assert_eq!(told.done().unwrap().status, object.status);
            }
        }
        let Some(before) = self.world.kube.maas_cluster() else {
            let left = &self.world.maas.records;
            assert!(left.is_empty(), "the cluster is gone, and {left:?} is not");
            return;
        };
        let told = self.world.reconcile_cluster();
        assert_eq!(told.effects().count(), 0, "{:?}", told.steps);
        assert_eq!(told.done().unwrap().status, before.status);
    }
}

fn is_paused(object: &MaasMachine) -> bool {
    let annotations = object.metadata.annotations.as_ref();
    annotations.is_some_and(|a| a.contains_key(names::PAUSED_ANNOTATION))
}

/// A change of an object brings us back: it is gone, or its cluster is not ready yet.
fn waits_for_a_watch(seen: &machine::Snapshot, world: &World, name: &str) -> bool {
    let gone = world.kube.maas_machine(name).is_none();
    let freed = seen.object.metadata.deletion_timestamp.is_some()
        && !seen.object.metadata.finalizers.iter().flatten().any(|f| f == names::MACHINE_FINALIZER);
    gone || freed
}

/// What others do to the machine that the object names.
/// Wants to see the machines, and takes the first; answers like the built-in ones otherwise.
fn ranking() -> Policies {
    Policies {
        shortlisting: Shortlisting::Inspect(Constraints::default()),
        ranking: Ranking { order: vec![0], rejected: vec![] },
        ..Policies::default()
    }
}

fn meddle(world: &mut World, which: usize, meddling: &Meddling) {
    let object = world.kube.maas_machine(OBJECTS[which]);
    let id = object.and_then(|o| o.spec.provider_id);
    let Some(id) = id.as_deref().and_then(|p| p.rsplit('/').next()).map(str::to_owned) else {
        return;
    };
    if !world.maas.hosts.contains_key(&id) {
        return;
    }
    match meddling {
        Meddling::Status(Status::Ready) => world.maas.free(&id),
        Meddling::Status(Status::New) => {
            world.maas.free(&id);
            world.maas.host(&id).shown.status = Status::New;
        }
        Meddling::Status(status) => {
            let host = world.maas.host(&id);
            if status.releasing() {
                host.agent_name.clear();
            }
            host.shown.status = status.clone();
        }
        Meddling::Power(power) => world.maas.host(&id).shown.power = *power,
        Meddling::Stolen | Meddling::TakenByAnotherObject => {
            world.maas.free(&id);
            let host = world.maas.host(&id);
            host.shown.status = Status::Deployed;
            host.shown.power = Power::On;
            host.shown.owner = Some("somebody".into());
            if matches!(meddling, Meddling::TakenByAnotherObject) {
                host.agent_name = "another-mark".into();
                host.shown.owner = Some(US.into());
                let stamp = [(annotation::MARK, "another-mark"), (annotation::MACHINE, "green-0")];
                host.shown.annotations =
                    stamp.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            }
        }
        Meddling::Deleted => {
            world.maas.free(&id);
            world.maas.hosts.remove(&id);
        }
        Meddling::Locked(locked) => world.maas.host(&id).shown.locked = *locked,
        Meddling::Destiny(destiny) => world.maas.host(&id).destiny = *destiny,
    }
}

/// Whatever an operator did to the machine is over.
fn calm(host: &mut Host) {
    host.shown.locked = false;
    host.destiny = Destiny::Deploys;
    let lasting = host.shown.status.releasable() && host.shown.status != Status::Reserved
        || matches!(host.shown.status, Status::Ready | Status::New | Status::Releasing);
    if host.shown.status == Status::DiskErasing {
        host.shown.status = Status::Releasing;
    } else if !lasting {
        host.shown.status = Status::Deployed;
    }
    if host.shown.owner.is_some() && host.shown.status == Status::Deployed {
        host.shown.power = Power::On;
    }
    // A free machine that stays on keeps its successor waiting, by intent.
    if host.shown.owner.is_none() {
        host.shown.power = Power::Off;
    }
}
