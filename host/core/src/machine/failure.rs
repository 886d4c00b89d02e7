//! Something failed: ask the failure policy, do what the stage allows, replace the host.

use std::collections::BTreeMap;
use std::convert::Infallible;

use capmaas_api::{FailureState, names};

use super::acquire::{NOTHING, bounded};
use super::failed_hosts::{FailedHost, annotation};
use super::report::End;
use super::{DEPLOYED, MachineFlow, Run, spec_patch, unexpected};
use crate::maas::{Machine, Power};
use crate::ownership::{OwnedMachine, Ownership};
use crate::policy::{
    Action, Answer, Answered, Delay, Failure, Question, Replacement, Stage, allowed,
};
use crate::step::{CallError, Category, Effect, EventKind, ObjectPatch, Read, Reply};

/// How long a failed host is avoided when the policy does not say, seconds.
const AVOID: u32 = 3600;

/// What went wrong.
pub(super) struct Trouble {
    pub(super) stage: Stage,
    /// A category of the policy contract.
    pub(super) category: &'static str,
    pub(super) message: String,
    /// The machine, when there is one that MAAS knows.
    pub(super) machine: Option<Machine>,
}

impl Run<'_> {
    /// Deals with a failure and ends the reconcile.
    pub(super) fn fail(&mut self, trouble: Trouble) -> End {
        match self.handle(trouble) {
            Err(step) => step,
        }
    }

    /// MAAS gave no machine. Known names make the message say what to correct.
    pub(super) fn allocation_refused(&mut self, error: &CallError) -> End {
        match self.explain_refusal(error) {
            Err(step) => step,
        }
    }

    fn explain_refusal(&mut self, error: &CallError) -> MachineFlow<Infallible> {
        if error.endpoint_wide() || error.category == Category::Forbidden {
            return Err(self.maas_trouble(error));
        }
        if error.category == Category::Conflict {
            return Err(self.untouched(Some(error.retry_after.unwrap_or(5))));
        }
        if error.category != Category::BadRequest {
            let message = format!(
                "MAAS has no free machine for this: {}; add one, free one, or ask for less",
                bounded(&error.message)
            );
            let (stage, category) = (Stage::Allocate, "no-capacity");
            return Err(self.fail(Trouble {
                stage,
                category,
                message,
                machine: None,
            }));
        }
        let mut message = format!("MAAS does not accept what is asked for: {}", error.message);
        for (field, read) in [
            ("zone", Read::Zones),
            ("pool", Read::Pools),
            ("tags", Read::Tags),
        ] {
            if error
                .message
                .contains(&format!("such {}", field.trim_end_matches('s')))
                && let Ok(Reply::Names(have)) = self.read(read)?
            {
                message.push_str(&format!("; MAAS has {field} {}", have.join(", ")));
            }
        }
        let message = bounded(&message);
        let (stage, category) = (Stage::Allocate, "rejected");
        Err(self.fail(Trouble {
            stage,
            category,
            message,
            machine: None,
        }))
    }

    fn handle(&mut self, trouble: Trouble) -> MachineFlow<Infallible> {
        if let Some(left) = self.held_back(&[trouble.stage.word()]) {
            return Err(self.done(Some(left.max(1))));
        }
        let counted = self.count_failure(trouble.stage.word(), trouble.category);
        if counted.gave_up {
            let drift = self.seen.settings.drift;
            return Err(self.waiting("MachineDeployFailed", &trouble.message, Some(drift)));
        }
        if counted.occurrences == 1 {
            let reason = event_reason(&trouble);
            self.event(
                EventKind::Warning,
                reason,
                "HandleFailure",
                trouble.message.clone(),
            );
        }
        let question = self.question(&trouble, &counted)?;
        let action = match self.transcript.ask(question)? {
            Ok(Answered {
                policy,
                answer: Answer::Action(action),
            }) => {
                let answer = format!("{}: {}", trouble.stage.word(), action.describe());
                self.decided("failure-handling", &policy, answer);
                self.permitted(&trouble, action, &policy.to_string())
            }
            Ok(Answered { policy, .. }) => {
                let why = format!("policy {policy} did not answer the question");
                return Err(self.undecided(&trouble, &why));
            }
            Err(refused) => return Err(self.undecided(&trouble, &refused.to_string())),
        };
        self.act(trouble, action)
    }

    fn question(&mut self, trouble: &Trouble, counted: &FailureState) -> MachineFlow<Question> {
        let mut maas_events = Vec::new();
        if let Some(machine) = &trouble.machine
            && matches!(trouble.stage, Stage::Deploy | Stage::Prepare)
            && let Ok(Reply::Events(events)) =
                self.read(Read::ErrorEvents(machine.system_id.clone()))?
        {
            maas_events = events
                .iter()
                .take(5)
                .map(|e| format!("{}: {}", e.kind, e.description))
                .collect();
        }
        Ok(Question::Handle(Failure {
            context: self.context(&format!("failure/{}", trouble.stage.word())),
            machine: self.name().to_owned(),
            role: self.role().to_owned(),
            stage: trouble.stage,
            category: trouble.category.to_owned(),
            message: bounded(&trouble.message),
            maas_events,
            system_id: trouble.machine.as_ref().map(|m| m.system_id.clone()),
            zone: trouble.machine.as_ref().map(|m| m.zone.clone()),
            first_seen: u64::try_from(counted.first_seen).unwrap_or_default(),
            occurrences: counted.occurrences,
            replacements: self.replacements(),
            attributes: vec![],
        }))
    }

    fn replacements(&self) -> u32 {
        u32::try_from(self.failed_hosts().len()).unwrap_or(u32::MAX)
    }

    fn remediated(&self) -> bool {
        self.seen
            .machine
            .as_ref()
            .is_some_and(|m| m.marked_for_remediation())
    }

    /// The policy's action if the stage allows it, else the host's default and an event.
    fn permitted(&mut self, trouble: &Trouble, action: Action, policy: &str) -> Action {
        let deleting = self.seen.object.metadata.deletion_timestamp.is_some();
        let replaceable = !self.provisioned() && !self.remediated() && !deleting;
        let default = default_action(trouble.stage, replaceable);
        if action == Action::UseDefault {
            return default;
        }
        if allowed(trouble.stage, &action, replaceable) {
            return action;
        }
        let note = format!(
            "policy {policy} wants to {}, which stage {:?} does not allow here; the default is used",
            bounded(&action.describe()),
            trouble.stage.word()
        );
        self.event(
            EventKind::Warning,
            "PolicyActionNotAllowed",
            "HandleFailure",
            note,
        );
        default
    }

    /// No decision, so nothing is done; the object says why, and the policy is asked again.
    fn undecided(&mut self, trouble: &Trouble, why: &str) -> End {
        let message = format!("{}; {}", bounded(&trouble.message), bounded(why));
        self.unable("FailurePolicyFailed", &message)
    }

    fn act(&mut self, trouble: Trouble, action: Action) -> MachineFlow<Infallible> {
        match action {
            Action::Retry(delay) => Err(self.retry(&trouble, &delay)),
            Action::ReleaseAndReplace(how) => self.replace(trouble, how, false),
            Action::MarkBrokenAndReplace(how) => self.replace(trouble, how, true),
            Action::PowerCycle(delay) => self.power_cycle(trouble, &delay),
            Action::GiveUp(reason) => Err(self.give_up(&trouble, &reason)),
            // `permitted` has put the default in its place; without one, only waiting is left.
            Action::UseDefault => {
                let seconds = u32::try_from(self.seen.settings.poll).unwrap_or(60);
                let delay = Delay {
                    seconds,
                    reason: String::new(),
                };
                Err(self.retry(&trouble, &delay))
            }
        }
    }

    fn clamp(&self, delay: &Delay) -> u64 {
        u64::from(delay.seconds).min(self.seen.settings.max_delay)
    }

    fn hold_back(&mut self, seconds: u64) {
        if let Some(failure) = &mut self.status.failure {
            failure.retry_at = Some(super::signed(self.seen.now.saturating_add(seconds)));
        }
    }

    fn retry(&mut self, trouble: &Trouble, delay: &Delay) -> End {
        let seconds = self.clamp(delay).max(1);
        self.hold_back(seconds);
        let reason = condition_reason(trouble);
        self.conditions
            .set(DEPLOYED, false, reason, &trouble.message);
        self.done(Some(seconds))
    }

    fn give_up(&mut self, trouble: &Trouble, reason: &str) -> End {
        let message = format!("{} (given up: {})", trouble.message, bounded(reason));
        if let Some(failure) = &mut self.status.failure {
            failure.gave_up = true;
        }
        self.status.ready = false;
        self.status.failure_reason = Some("CreateError".into());
        self.status.failure_message = Some(message.clone());
        self.event(
            EventKind::Warning,
            "GaveUp",
            "HandleFailure",
            message.clone(),
        );
        self.conditions
            .set(DEPLOYED, false, "MachineDeployFailed", &message);
        let drift = self.seen.settings.drift;
        self.done(Some(drift))
    }

    fn power_cycle(&mut self, trouble: Trouble, delay: &Delay) -> MachineFlow<Infallible> {
        let seconds = self.clamp(delay).max(1);
        let Some(owned) = self.owned_again(&trouble)? else {
            return Err(self.retry(&trouble, delay));
        };
        // Off now; the next look finds it off and powers it on.
        if let Err(error) = self.perform(Effect::PowerOff { machine: owned })? {
            let note = format!("power-off failed: {}", error.message);
            self.event(EventKind::Warning, "PowerCycleFailed", "PowerOff", note);
        }
        self.hold_back(seconds);
        self.conditions
            .set(DEPLOYED, false, "MachinePoweredOff", &trouble.message);
        Err(self.done(Some(seconds)))
    }

    /// The ownership reading directly before an effect.
    fn owned_again(&mut self, trouble: &Trouble) -> MachineFlow<Option<OwnedMachine>> {
        let Some(machine) = &trouble.machine else {
            return Ok(None);
        };
        let user = match self.read(Read::WhoAmI)? {
            Ok(Reply::User(user)) => user,
            other => return Err(self.maas_trouble(&unexpected(other))),
        };
        let fresh = match self.read(Read::Machine(machine.system_id.clone()))? {
            Ok(Reply::Machine(fresh)) => *fresh,
            Ok(Reply::Absent) => return Ok(None),
            other => return Err(self.maas_trouble(&unexpected(other))),
        };
        match self.judge(&fresh, &user)? {
            Ownership::Ours(owned) | Ownership::Unstamped(owned) => {
                let usable = fresh.status.releasable() && !fresh.locked;
                Ok(usable.then_some(owned))
            }
            _ => Ok(None),
        }
    }

    /// Remembers the host first, lets go of it then: a crash in between finds the memory.
    fn replace(
        &mut self,
        trouble: Trouble,
        how: Replacement,
        broken: bool,
    ) -> MachineFlow<Infallible> {
        let limit = self.seen.settings.max_replacements;
        if self.replacements() >= limit {
            let reason = format!("{limit} hosts failed in a row, which is the limit");
            return Err(self.give_up(&trouble, &reason));
        }
        let Some(id) = self.system_id() else {
            return Err(self.retry(&trouble, &how.delay));
        };
        let now = self.seen.now;
        let avoid = u64::from(how.avoid_seconds.unwrap_or(AVOID));
        let mut hosts = self.failed_hosts();
        hosts.push(FailedHost {
            system_id: id,
            reason: bounded(&trouble.message),
            failed_at: now,
            avoid_until: now.saturating_add(avoid),
            next_at: now.saturating_add(self.clamp(&how.delay)),
            broken,
            settled: false,
        });
        let annotations = BTreeMap::from([(
            names::FAILED_HOSTS_ANNOTATION.to_owned(),
            annotation(&hosts),
        )]);
        if let Err(error) = self.patch(ObjectPatch {
            annotations,
            ..Default::default()
        })? {
            return Err(self.patch_failed(&error));
        }
        if let Some(owned) = self.owned_again(&trouble)? {
            self.let_go(owned, broken, &trouble.message)?;
        }
        let message = format!("{}; another host will be taken", trouble.message);
        let poll = self.seen.settings.poll.clamp(1, 5);
        Err(self.waiting("MachineDeployFailed", &message, Some(poll)))
    }

    fn let_go(&mut self, owned: OwnedMachine, broken: bool, why: &str) -> MachineFlow<()> {
        let id = owned.system_id().to_owned();
        let comment = format!("capmaas: {}", bounded(why));
        let effect = if broken {
            Effect::MarkBroken {
                machine: owned,
                comment,
            }
        } else {
            Effect::Release {
                machine: owned,
                comment,
            }
        };
        match self.perform(effect)? {
            Ok(_) => {
                let what = if broken { "marked broken" } else { "released" };
                let note = format!("{id} failed and was {what}");
                self.event(EventKind::Normal, "FailedHostLetGo", "Release", note);
                Ok(())
            }
            Err(error) if error.endpoint_wide() => Err(self.maas_trouble(&error)),
            // Tried again at the next look: the memory is written.
            Err(error) => {
                let note = format!("{id} could not be let go: {}", error.message);
                self.event(EventKind::Warning, "ReleaseFailed", "Release", note);
                Ok(())
            }
        }
    }

    /// Waits until a failed host is released and off, then forgets it: only now may another be
    /// taken. A timed-out host may still wake up and run the same bootstrap data.
    pub(super) fn see_off(
        &mut self,
        host: FailedHost,
        machine: Option<Machine>,
        ownership: Ownership,
    ) -> End {
        match self.see_off_or_step(host, machine, ownership) {
            Err(step) => step,
        }
    }

    fn see_off_or_step(
        &mut self,
        host: FailedHost,
        machine: Option<Machine>,
        ownership: Ownership,
    ) -> MachineFlow<Infallible> {
        let poll = self.seen.settings.poll.clamp(1, 5);
        if let (Ownership::Ours(owned) | Ownership::Unstamped(owned), Some(machine)) =
            (ownership, &machine)
        {
            let left_broken = host.broken && machine.status == crate::maas::Status::Broken;
            if !left_broken {
                if machine.locked {
                    let message = format!(
                        "{} failed and is locked in MAAS: unlock it",
                        machine.hostname
                    );
                    return Err(self.unable("MachineLocked", &message));
                }
                if machine.status.releasable() {
                    self.let_go(owned, host.broken, &host.reason)?;
                }
                return Err(self.still_leaving(&host, poll));
            }
        } else if machine
            .as_ref()
            .is_some_and(|m| m.owner.is_none() && m.power == Power::On)
        {
            return Err(self.still_leaving(&host, poll));
        }
        self.forget(&host)
    }

    fn still_leaving(&mut self, host: &FailedHost, poll: u64) -> End {
        let message = format!(
            "{}; waiting until it is released and off before another host is taken",
            host.reason
        );
        self.waiting("MachineDeployFailed", &message, Some(poll))
    }

    fn forget(&mut self, host: &FailedHost) -> MachineFlow<Infallible> {
        let mut hosts = self.failed_hosts();
        for known in &mut hosts {
            known.settled |= known.system_id == host.system_id;
        }
        let patch = ObjectPatch {
            annotations: BTreeMap::from([(
                names::FAILED_HOSTS_ANNOTATION.to_owned(),
                annotation(&hosts),
            )]),
            spec: spec_patch(&[("providerID", NOTHING), ("systemID", NOTHING)]),
            ..Default::default()
        };
        if let Err(error) = self.patch(patch)? {
            return Err(self.patch_failed(&error));
        }
        self.status.deployment = None;
        self.status.failure = None;
        self.status.machine_state = None;
        self.status.machine_powered = None;
        self.status.hostname = None;
        self.status.failure_domain = None;
        self.status.addresses = None;
        let wait = self.pause_before_next().unwrap_or(1).max(1);
        let message = format!("{}; another host is taken next", host.reason);
        Err(self.waiting("MachineDeployFailed", &message, Some(wait)))
    }
}

/// What the host does when a policy leaves it to the host.
fn default_action(stage: Stage, replaceable: bool) -> Action {
    let delay = |seconds: u32| Delay {
        seconds,
        reason: "default of the host".into(),
    };
    match stage {
        Stage::Deploy if replaceable => Action::ReleaseAndReplace(Replacement {
            delay: delay(0),
            avoid_seconds: Some(AVOID),
        }),
        Stage::Power => Action::Retry(delay(60)),
        _ => Action::Retry(delay(30)),
    }
}

fn event_reason(trouble: &Trouble) -> &'static str {
    match trouble.stage {
        Stage::Allocate => "NoMachineFound",
        Stage::Prepare | Stage::Deploy => "MachineDeployFailed",
        Stage::Power => "PowerOnFailed",
        Stage::Release => "ReleaseFailed",
    }
}

fn condition_reason(trouble: &Trouble) -> &'static str {
    match (trouble.stage, trouble.category) {
        (Stage::Allocate, "rejected") => "AllocationInvalid",
        (Stage::Allocate, _) => "NoMachineFound",
        (Stage::Prepare | Stage::Deploy, _) => "MachineDeployFailed",
        (Stage::Power, _) => "MachinePoweredOff",
        (Stage::Release, _) => "ReleaseFailed",
    }
}
