//! No machine yet: find the one we already hold, or take one.

use std::collections::BTreeMap;
use std::convert::Infallible;

use capmaas_api::{MaasMachine, names};
use serde_json::{Value, json};

use super::{MachineFlow, Run, failed_hosts, spec_patch, unexpected};
use crate::image;
use crate::maas::{Machine, User, Version};
use crate::ownership::{self, OwnedMachine};
use crate::policy::{
    AllocateConstraints, AllocationRequest, Answer, Answered, Avoided, Candidate, Constraints,
    Delay, Peer, PolicyId, Question, Shortlisting, candidates, choose, narrowed,
};
use crate::provider_id;
use crate::step::{CallError, Category, Effect, EventKind, ObjectPatch, Read, Reply, SecretState};

/// Least memory for a machine that runs from memory, MiB (from the MAAS provider's README: the
/// image is unpacked into RAM).
const IN_MEMORY_MIB: u32 = 16 * 1024;

/// What is to be allocated, in order, and the story of how it was chosen.
struct Choice {
    attempts: Vec<AllocateConstraints>,
    story: String,
}

impl Run<'_> {
    pub(super) fn acquire(mut self, user: &User) -> MachineFlow<Infallible> {
        if self.mark().is_some()
            && let Some((machine, owned)) = self.adopt(user)?
        {
            return self.prepare_or_observe(user, machine, owned);
        }
        self.wait_for_turn()?;
        self.check_request()?;
        let choice = self.choose_host()?;
        self.declare_intent()?;
        self.allocate(user, choice)
    }

    /// Machines that MAAS holds under our mark: the lowest id is ours, every other one goes back.
    fn adopt(&mut self, user: &User) -> MachineFlow<Option<(Machine, OwnedMachine)>> {
        let mut held = self.marked(user)?;
        if held.is_empty() {
            return Ok(None);
        }
        let (machine, owned) = held.remove(0);
        let note = format!(
            "found {} in MAAS under this object's mark",
            machine.hostname
        );
        self.event(EventKind::Normal, "MachineAdopted", "Allocate", note);
        // First the object, which may name another one by now, then the surplus.
        self.publish(&machine, &owned)?;
        if !held.is_empty() {
            self.give_back_all_but(&machine.system_id, user)?;
        }
        Ok(Some((machine, owned)))
    }

    /// Every other machine that MAAS holds under our mark, as seen directly before.
    pub(super) fn give_back_all_but(&mut self, kept: &str, user: &User) -> MachineFlow<()> {
        for (surplus, proof) in self.marked(user)? {
            if surplus.system_id != kept {
                self.give_back(proof, &surplus.system_id)?;
            }
        }
        Ok(())
    }

    /// All machines held under our mark, by system id.
    pub(super) fn marked(&mut self, user: &User) -> MachineFlow<Vec<(Machine, OwnedMachine)>> {
        let Some(mark) = self.mark() else {
            return Ok(Vec::new());
        };
        let claim = self.claim(user);
        match self.read(Read::MachinesByMark(mark))? {
            Ok(Reply::Machines(machines)) => {
                let mut held: Vec<_> = machines
                    .into_iter()
                    .filter_map(|m| ownership::by_mark(&m, &claim).map(|o| (m, o)))
                    .collect();
                held.sort_by(|a, b| a.0.system_id.cmp(&b.0.system_id));
                Ok(held)
            }
            other => Err(self.maas_trouble(&unexpected(other))),
        }
    }

    /// Releases a machine that was taken in excess.
    pub(super) fn give_back(&mut self, owned: OwnedMachine, id: &str) -> MachineFlow<()> {
        let comment = format!(
            "capmaas: taken twice for MaasMachine {}/{}",
            self.namespace(),
            self.name()
        );
        let note = format!("gave back {id}, which was held in addition under this object's mark");
        match self.perform(Effect::Release {
            machine: owned,
            comment,
        })? {
            Ok(_) => {
                self.event(
                    EventKind::Warning,
                    "SurplusMachineReleased",
                    "Release",
                    note,
                );
                Ok(())
            }
            Err(error) => Err(self.maas_trouble(&error)),
        }
    }

    /// Waits while an allocate may still be running, and while a failure holds us back.
    fn wait_for_turn(&mut self) -> MachineFlow<()> {
        if let Some(left) = self.allocation_in_flight() {
            let message = "an allocate call went unanswered; looking for its machine until MAAS \
                           can no longer be working on it";
            let again = left.clamp(1, self.seen.settings.poll.max(1));
            return Err(self.waiting("AllocationUnanswered", message, Some(again)));
        }
        if self.status.failure.as_ref().is_some_and(|f| f.gave_up) {
            let message = self.status.failure_message.clone().unwrap_or_default();
            let drift = self.seen.settings.drift;
            return Err(self.waiting("MachineDeployFailed", &message, Some(drift)));
        }
        let held = self
            .held_back(&["allocate"])
            .into_iter()
            .chain(self.pause_before_next())
            .max();
        match held {
            // The message was set when the failure was met; it stays as it is.
            Some(left) => Err(self.done(Some(left.max(1)))),
            None => Ok(()),
        }
    }

    /// Seconds for which an allocate that we sent may still be carried out by MAAS.
    pub(super) fn allocation_in_flight(&self) -> Option<u64> {
        let since: u64 = self
            .annotations
            .get(names::ALLOCATING_SINCE_ANNOTATION)?
            .parse()
            .ok()?;
        let concluded = self.status.failure.as_ref().is_some_and(|f| {
            f.stage == "allocate"
                && f.category != "unreachable"
                && f.last_seen >= super::signed(since)
        });
        let until = since.saturating_add(self.seen.settings.in_flight);
        (!concluded && until > self.seen.now).then(|| until - self.seen.now)
    }

    /// Everything that can be seen to be impossible before a machine is taken.
    fn check_request(&mut self) -> MachineFlow<()> {
        self.bootstrap_data()?;
        let spec = &self.seen.object.spec;
        if spec.deploy_in_memory == Some(true) {
            let version = match self.read(Read::Version)? {
                Ok(Reply::Text(version)) => version,
                other => return Err(self.maas_trouble(&unexpected(other))),
            };
            if !Version::parse(&version).is_some_and(Version::deploys_to_memory) {
                let message = format!(
                    "spec.deployInMemory needs MAAS 3.5.10, 3.6.3, 3.7.1 or newer, and this is \
                     MAAS {version}: upgrade MAAS or deploy to disk"
                );
                return Err(self.unable("InMemoryUnsupported", &message));
            }
        }
        match self.read(Read::Images)? {
            Ok(Reply::Images(images)) => match image::missing(spec.image.trim(), &images) {
                Some(problem) => Err(self.unable("ImageNotFound", &problem)),
                None => Ok(()),
            },
            other => Err(self.maas_trouble(&unexpected(other))),
        }
    }

    /// Digest of the bootstrap data; stops while there is none.
    pub(super) fn bootstrap_data(&mut self) -> MachineFlow<String> {
        const REASON: &str = "WaitingForBootstrapData";
        let machine = self.seen.machine.as_ref();
        let secret = machine.and_then(|m| m.spec.bootstrap.data_secret_name.clone());
        let Some(name) = secret.filter(|n| !n.is_empty()) else {
            let message = "waiting until Machine.spec.bootstrap.dataSecretName is set";
            return Err(self.waiting(REASON, message, None));
        };
        let namespace = self.namespace().to_owned();
        let state = match self.read(Read::BootstrapSecret {
            namespace,
            name: name.clone(),
        })? {
            Ok(Reply::Secret(state)) => state,
            other => {
                let error = unexpected(other);
                let message = format!("cannot read bootstrap Secret {name:?}: {}", error.message);
                return Err(self.unable(REASON, &message));
            }
        };
        match state {
            SecretState::Present { digest, format } if format == "cloud-config" => Ok(digest),
            SecretState::Present { format, .. } => {
                let message = format!(
                    "bootstrap Secret {name:?} has format {format:?}; MAAS images take cloud-config"
                );
                Err(self.unable("BootstrapFormatUnsupported", &message))
            }
            SecretState::Missing => {
                let message = format!("bootstrap Secret {name:?} does not exist");
                Err(self.unable(REASON, &message))
            }
            SecretState::Empty => {
                let message = format!("bootstrap Secret {name:?} has no data under key \"value\"");
                Err(self.unable(REASON, &message))
            }
        }
    }

    /// What the user asks for. Blank and null mean "no constraint".
    fn wanted(&self) -> AllocateConstraints {
        let spec = &self.seen.object.spec;
        let text = |s: &Option<String>| s.as_deref().map(str::trim).unwrap_or("").to_owned();
        let from_machine = self.seen.machine.as_ref().map(|m| &m.spec.failure_domain);
        let zone = Some(text(&spec.failure_domain))
            .filter(|z| !z.is_empty())
            .or_else(|| from_machine.map(text));
        let list = |value: String| Some(value).filter(|v| !v.is_empty()).into_iter().collect();
        let tags = spec.tags.iter().flatten().map(|t| t.trim().to_owned());
        let floor = if spec.deploy_in_memory == Some(true) {
            IN_MEMORY_MIB
        } else {
            0
        };
        AllocateConstraints {
            system_id: None,
            constraints: Constraints {
                min_cpu_cores: spec.min_cpu,
                min_memory_mib: spec.min_memory.max(floor),
                zones: list(zone.unwrap_or_default()),
                pools: list(text(&spec.resource_pool)),
                tags: tags.filter(|t| !t.is_empty()).collect(),
                ..Constraints::default()
            },
            min_disk_gb: spec.min_disk_size.filter(|gb| *gb > 0),
        }
    }

    /// The other machines of the cluster, and the hosts that failed for any of them.
    fn siblings(&mut self) -> MachineFlow<(Vec<Peer>, Vec<Avoided>)> {
        let namespace = self.namespace().to_owned();
        let cluster = self.cluster_name().to_owned();
        let objects = match self.read(Read::MaasMachines { namespace, cluster })? {
            Ok(Reply::MaasMachines(objects)) => objects,
            other => {
                let error = unexpected(other);
                return Err(self.patch_failed(&error));
            }
        };
        let others: Vec<MaasMachine> = objects
            .into_iter()
            .filter_map(|o| serde_json::from_value::<MaasMachine>(o).ok())
            .filter(|m| m.metadata.name.as_deref() != Some(self.name()))
            .collect();
        let mut peers: Vec<Peer> = others.iter().filter_map(peer).collect();
        peers.sort_by(|a, b| a.machine.cmp(&b.machine));
        let mut failed = self.failed_hosts();
        failed.extend(others.iter().flat_map(failed_hosts::of));
        Ok((peers, failed_hosts::avoided(failed, self.seen.now)))
    }

    /// Asks the allocation policy, and turns its answer into calls.
    fn choose_host(&mut self) -> MachineFlow<Choice> {
        let wanted = self.wanted();
        let (peers, avoid) = self.siblings()?;
        let attempt = self.status.failure.as_ref().map_or(0, |f| f.occurrences);
        let request = AllocationRequest {
            context: self.context("allocation"),
            machine: self.name().to_owned(),
            role: self.role().to_owned(),
            attempt,
            wanted: wanted.constraints.clone(),
            peers,
            avoid,
        };
        let (policy, answer) = self.answer(Question::Shortlist(request.clone()))?;
        let Answer::Shortlisted(shortlisting) = answer else {
            return Err(self.bad_answer(&policy, "it did not answer the question"));
        };
        match shortlisting {
            Shortlisting::Narrow(c) => {
                let within = self.within(&policy, &wanted, &c)?;
                let cheapest = "MAAS takes the smallest machine that fits";
                if request.avoid.is_empty() {
                    let story = format!("policy {policy} left the choice to MAAS: {cheapest}");
                    return Ok(Choice {
                        attempts: vec![within],
                        story,
                    });
                }
                // Allocate cannot exclude a machine, so the host lists and chooses as MAAS would.
                let mut offered = self.offered(&within, &request)?;
                offered.sort_by_key(|c| (c.cpu_cores + c.memory_mib / 1024, c.system_id.clone()));
                let shunned = request.avoid.len();
                let story =
                    format!("policy {policy}; {cheapest}, {shunned} failed host(s) avoided");
                Ok(Choice {
                    attempts: by_id(&within, offered.iter()),
                    story,
                })
            }
            Shortlisting::Inspect(c) => {
                let within = self.within(&policy, &wanted, &c)?;
                let offered = self.offered(&within, &request)?;
                self.rank(request, offered, &within)
            }
            Shortlisting::Defer(delay) => Err(self.deferred(&policy, &delay)),
            Shortlisting::Reject(why) => {
                let message = format!("policy {policy} rejects this machine: {}", bounded(&why));
                Err(self.unable("AllocationRejected", &message))
            }
        }
    }

    fn answer(&mut self, question: Question) -> MachineFlow<(PolicyId, Answer)> {
        match self.transcript.ask(question)? {
            Ok(Answered { policy, answer }) => Ok((policy, answer)),
            Err(refused) => {
                Err(self.unable("AllocationPolicyFailed", &bounded(&refused.to_string())))
            }
        }
    }

    fn bad_answer(&mut self, policy: &PolicyId, problem: &str) -> super::report::End {
        let message = format!("policy {policy} gave an answer that cannot be used: {problem}");
        self.unable("AllocationPolicyFailed", &message)
    }

    fn deferred(&mut self, policy: &PolicyId, delay: &Delay) -> super::report::End {
        let why = bounded(&delay.reason);
        let message = format!("policy {policy} wants to be asked again later: {why}");
        let again = u64::from(delay.seconds).clamp(1, self.seen.settings.max_delay);
        self.waiting("AllocationDeferred", &message, Some(again))
    }

    fn within(
        &mut self,
        policy: &PolicyId,
        wanted: &AllocateConstraints,
        narrower: &Constraints,
    ) -> MachineFlow<AllocateConstraints> {
        match narrowed(&wanted.constraints, narrower) {
            Ok(constraints) => Ok(AllocateConstraints {
                constraints,
                ..wanted.clone()
            }),
            Err(empty) => {
                let message = format!("policy {policy} leaves no machine to take: {empty}");
                Err(self.unable("NoMachineFits", &message))
            }
        }
    }

    fn offered(
        &mut self,
        within: &AllocateConstraints,
        request: &AllocationRequest,
    ) -> MachineFlow<Vec<Candidate>> {
        match self.read(Read::Candidates(Box::new(within.clone())))? {
            Ok(Reply::Machines(machines)) => {
                let (offered, cut) = candidates(&machines, &request.avoid, self.seen.now);
                if cut > 0 {
                    let note = format!("{cut} more machines fit than a policy is shown");
                    self.event(EventKind::Warning, "CandidatesCut", "Allocate", note);
                }
                Ok(offered)
            }
            other => Err(self.allocation_refused(&unexpected(other))),
        }
    }

    fn rank(
        &mut self,
        request: AllocationRequest,
        offered: Vec<Candidate>,
        within: &AllocateConstraints,
    ) -> MachineFlow<Choice> {
        let question = Question::Rank {
            request,
            candidates: offered.clone(),
        };
        let (policy, answer) = self.answer(question)?;
        let Answer::Ranked(ranking) = answer else {
            return Err(self.bad_answer(&policy, "it did not rank"));
        };
        let chosen = match choose(&ranking, &offered) {
            Ok(chosen) => chosen,
            Err(problem) => return Err(self.bad_answer(&policy, &problem)),
        };
        if chosen.is_empty() {
            let why = ranking
                .rejected
                .first()
                .map(|r| bounded(&r.reason))
                .unwrap_or_default();
            let message = format!(
                "policy {policy} wants none of the {} machines that fit{}{why}",
                offered.len(),
                if why.is_empty() {
                    ""
                } else {
                    ", for example: "
                }
            );
            return Err(self.unable("NoMachineFits", &message));
        }
        let story = format!(
            "policy {policy} ranked {} of {}",
            chosen.len(),
            offered.len()
        );
        Ok(Choice {
            attempts: by_id(within, chosen.into_iter()),
            story,
        })
    }

    /// Finalizer, mark and "allocating since", before the first effect in MAAS.
    fn declare_intent(&mut self) -> MachineFlow<()> {
        let mut annotations = BTreeMap::from([(
            names::ALLOCATING_SINCE_ANNOTATION.to_owned(),
            Some(self.seen.now.to_string()),
        )]);
        if self.mark().is_none() {
            let mark = self.fresh_mark()?;
            annotations.insert(names::MARK_ANNOTATION.to_owned(), Some(mark));
        }
        let finalizers = self.with_finalizer();
        let patch = ObjectPatch {
            annotations,
            finalizers,
            ..ObjectPatch::default()
        };
        match self.patch(patch)? {
            Ok(()) => Ok(()),
            Err(error) => Err(self.patch_failed(&error)),
        }
    }

    fn fresh_mark(&mut self) -> MachineFlow<String> {
        match self.read(Read::Mark)? {
            Ok(Reply::Text(mark)) => Ok(mark),
            other => {
                let error = unexpected(other);
                Err(self.patch_failed(&error))
            }
        }
    }

    /// A machine of the Go provider has no mark, and its annotations need one.
    pub(super) fn mint_mark(&mut self) -> MachineFlow<()> {
        let mark = self.fresh_mark()?;
        let annotations = BTreeMap::from([(names::MARK_ANNOTATION.to_owned(), Some(mark))]);
        match self.patch(ObjectPatch {
            annotations,
            ..ObjectPatch::default()
        })? {
            Ok(()) => Ok(()),
            Err(error) => Err(self.patch_failed(&error)),
        }
    }

    pub(super) fn with_finalizer(&self) -> Option<Vec<String>> {
        let mut all = self.finalizers.clone();
        (!self.holds_finalizer()).then(|| {
            all.push(names::MACHINE_FINALIZER.to_owned());
            all
        })
    }

    fn allocate(mut self, user: &User, choice: Choice) -> MachineFlow<Infallible> {
        let mark = self.mark().unwrap_or_default();
        let comment = format!("capmaas: MaasMachine {}/{}", self.namespace(), self.name());
        let mut refusal = CallError {
            category: Category::State,
            status: None,
            message: "no machine fits".into(),
            retry_after: None,
        };
        for constraints in choice.attempts {
            let effect = Effect::Allocate {
                constraints: Box::new(constraints),
                mark: mark.clone(),
                comment: comment.clone(),
            };
            match self.perform(effect)? {
                Ok(Reply::Machine(machine)) => {
                    let claim = self.claim(user);
                    let Some(owned) = ownership::by_allocation(&machine, &claim) else {
                        // MAAS gave a machine and shows another owner: believe nothing, look again.
                        return Err(self.unanswered("MAAS gave a machine that is not ours"));
                    };
                    self.took(&machine, &choice.story);
                    self.publish(&machine, &owned)?;
                    return self.prepare_or_observe(user, *machine, owned);
                }
                // That one was taken in between: the next in order.
                Err(error) if error.category == Category::State => refusal = error,
                Err(error) if error.ambiguous() => return Err(self.unanswered(&error.message)),
                other => {
                    refusal = unexpected(other);
                    break;
                }
            }
        }
        Err(self.allocation_refused(&refusal))
    }

    fn took(&mut self, machine: &Machine, story: &str) {
        self.status.failure = None;
        let note = format!(
            "took {} ({}, {} cores, {} MiB, zone {}, pool {}): {story}",
            machine.hostname,
            machine.system_id,
            machine.cpu_count,
            machine.memory,
            machine.zone,
            machine.pool
        );
        self.event(EventKind::Normal, "MachineAllocated", "Allocate", note);
    }

    /// The allocate may have been carried out: the mark will tell.
    fn unanswered(&mut self, why: &str) -> super::report::End {
        self.count_failure("allocate", "unreachable");
        let message = format!(
            "an allocate call went unanswered ({}); looking again",
            bounded(why)
        );
        let again = self.seen.settings.poll.max(1);
        self.waiting("AllocationUnanswered", &message, Some(again))
    }

    /// Writes `spec.providerID`, directly after a machine was taken and before anything else.
    fn publish(&mut self, machine: &Machine, owned: &OwnedMachine) -> MachineFlow<()> {
        /// Other writers (labels, owner references) make the first tries meet a conflict.
        const TRIES: usize = 4;
        let id = provider_id::format(&machine.zone, &machine.system_id);
        let spec = spec_patch(&[
            ("providerID", json!(id)),
            ("systemID", json!(machine.system_id)),
        ]);
        let patch = ObjectPatch {
            annotations: BTreeMap::from([(names::ALLOCATING_SINCE_ANNOTATION.to_owned(), None)]),
            finalizers: self.with_finalizer(),
            spec,
            ..ObjectPatch::default()
        };
        for _ in 0..TRIES {
            match self.patch(patch.clone())? {
                Ok(()) => return Ok(()),
                Err(error) if error.category == Category::Conflict => {
                    self.reread(machine, owned)?;
                }
                Err(error) => return Err(self.patch_failed(&error)),
            }
        }
        // The mark lets the next reconcile find the machine.
        Err(self.untouched(Some(1)))
    }

    /// After a conflict: does the object still need this machine?
    fn reread(&mut self, machine: &Machine, owned: &OwnedMachine) -> MachineFlow<()> {
        let object = self.object_ref();
        let fresh: MaasMachine = match self.read(Read::Object(object))? {
            Ok(Reply::Object(value)) => match serde_json::from_value(value) {
                Ok(fresh) => fresh,
                Err(_) => return Err(self.untouched(Some(1))),
            },
            Ok(Reply::Absent) => {
                self.give_back(owned.clone(), &machine.system_id)?;
                return Err(self.untouched(None));
            }
            _ => return Err(self.untouched(Some(1))),
        };
        let named = fresh
            .spec
            .provider_id
            .as_deref()
            .and_then(provider_id::system_id);
        // Another object by the same name does not carry our mark.
        let another = fresh.metadata.uid != self.seen.object.metadata.uid;
        if another || named.is_some_and(|id| id != machine.system_id) {
            self.give_back(owned.clone(), &machine.system_id)?;
            return Err(self.untouched(Some(1)));
        }
        self.resource_version = fresh.metadata.resource_version.unwrap_or_default();
        self.finalizers = fresh.metadata.finalizers.unwrap_or_default();
        Ok(())
    }
}

fn peer(object: &MaasMachine) -> Option<Peer> {
    let id = provider_id::system_id(object.spec.provider_id.as_deref()?)?;
    let labels = object.metadata.labels.as_ref();
    let control_plane = labels.is_some_and(|l| l.contains_key(names::CONTROL_PLANE_LABEL));
    let in_id = object
        .spec
        .provider_id
        .as_deref()
        .and_then(|p| p.rsplit('/').nth(1));
    let zone = object
        .status
        .as_ref()
        .and_then(|s| s.failure_domain.as_deref())
        .or(in_id);
    Some(Peer {
        machine: object.metadata.name.clone().unwrap_or_default(),
        role: if control_plane {
            "control-plane"
        } else {
            "worker"
        }
        .into(),
        system_id: id.to_owned(),
        zone: zone.unwrap_or_default().to_owned(),
        pool: String::new(),
        vm_host: None,
    })
}

fn by_id<'a>(
    within: &AllocateConstraints,
    order: impl Iterator<Item = &'a Candidate>,
) -> Vec<AllocateConstraints> {
    /// Each lost race costs a call; after so many the next reconcile lists anew.
    const TRIES: usize = 10;
    order
        .take(TRIES)
        .map(|c| AllocateConstraints {
            system_id: Some(c.system_id.clone()),
            ..within.clone()
        })
        .collect()
}

/// A policy's or MAAS's words, cut to what fits a condition.
pub(super) fn bounded(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(400).collect()
}

/// `null` for a spec field.
pub(super) const NOTHING: Value = Value::Null;
