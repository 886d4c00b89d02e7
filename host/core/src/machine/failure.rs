//! Something failed: ask the failure policy, do what the stage allows, replace the host.

use std::convert::Infallible;

use capmaas_api::FailureState;

use super::acquire::bounded;
use super::report::End;
use super::{DEPLOYED, FAILURE_HANDLING, MachineFlow, Run, no_answer};
use crate::call_error::{CallError, Category};
use crate::maas::Machine;
use crate::policy::decisions::LONGEST_ANSWER;
use crate::policy::{
    Action, Answer, Answered, Delay, Failure, Panel, PolicyId, Question, Replacement, Seat, Stage,
    allowed, attributes,
};
use crate::step::{Effect, EventKind, Read, Reply};
use crate::text;

/// How long a failed host is avoided when the policy does not say, seconds.
pub(super) const AVOID: u32 = 3600;
/// How long a policy may have a failed host avoided, seconds. All machines of the cluster do without it: a policy that
/// wants it out for good has to mark it broken, where MAAS's operators see it.
const LONGEST_AVOID: u32 = 24 * 3600;

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
            // MAAS said no, so no allocate is under way: the next one need not wait for this one.
            self.count_failure(Stage::Allocate.word(), "rejected");
            return Err(self.maas_trouble(error));
        }
        if error.category == Category::Conflict {
            self.count_failure(Stage::Allocate.word(), "rejected");
            let message = "MAAS is busy with other allocations; trying again";
            let again = error.again(5);
            return Err(self.waiting("AllocationContended", message, Some(again)));
        }
        if error.category != Category::BadRequest {
            let message = format!(
                "MAAS has no free machine for this: {}; add one, free one, or ask for less",
                bounded(&error.message)
            );
            let (stage, category) = (Stage::Allocate, "no-capacity");
            return Err(self.fail(Trouble { stage, category, message, machine: None }));
        }
        let mut message = format!("MAAS does not accept what is asked for: {}", error.message);
        for (field, read) in [("zone", Read::Zones), ("pool", Read::Pools), ("tags", Read::Tags)] {
            if error.message.contains(&format!("such {}", field.trim_end_matches('s')))
                && let Ok(Reply::Names(have)) = self.read(read)?
            {
                message.push_str(&format!("; MAAS has {field} {}", have.join(", ")));
            }
        }
        let message = bounded(&message);
        let (stage, category) = (Stage::Allocate, "rejected");
        Err(self.fail(Trouble { stage, category, message, machine: None }))
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
            self.event(EventKind::Warning, reason, "HandleFailure", trouble.message.clone());
        }
        let question = self.question(&trouble, &counted)?;
        let action = self.decide(&trouble, question)?;
        self.act(trouble, action)
    }

    /// The policy's action, as far as it is allowed.
    fn decide(&mut self, trouble: &Trouble, question: Question) -> MachineFlow<Action> {
        let seats = self.seen.policies.failure_handling.clone();
        let mut seat = Panel::obeyed(&seats).swap_remove(0);
        if seat.loading {
            if !self.deleting() {
                let reason = format!("policy {} is being loaded", seat.called());
                return Err(self.retry(trouble, &Delay { seconds: 2, reason }));
            }
            seat = Seat::default();
        }
        let mut given = self.transcript.ask(&seat, question.clone())?;
        if seat.use_default && !matches!(&given, Ok(Answered { answer: Answer::Action(_), .. })) {
            self.default_used(&seat, &no_answer(given));
            seat = Seat::default();
            given = self.transcript.ask(&seat, question.clone())?;
        }
        let action = match given {
            Ok(Answered { policy, answer: Answer::Action(action) }) => {
                let (action, cuts) = action.cut(self.longest_delay(), LONGEST_AVOID);
                // In front: the policy's own words may be long.
                let cuts: String = cuts.iter().map(|cut| format!("{cut}; ")).collect();
                let answer = format!("{}: {cuts}{}", trouble.stage.word(), action.describe());
                self.tell_of(&policy, &answer);
                self.decided(FAILURE_HANDLING, &seat, &policy, &answer, &trouble.message);
                self.permitted(trouble, action, &policy.to_string())
            }
            other => return Err(self.undecided(trouble, &no_answer(other))),
        };
        self.compare_failure(trouble, &seats, question, &action)?;
        Ok(action)
    }

    /// The same answer again is no news.
    fn tell_of(&mut self, policy: &PolicyId, answer: &str) {
        let mut kept = self.status.decisions.iter().flatten();
        let last = kept.rfind(|d| d.kind == FAILURE_HANDLING);
        if last.is_none_or(|last| last.answer != text::bounded(answer, LONGEST_ANSWER)) {
            let note = format!("policy {policy} decided: {answer}");
            self.event(EventKind::Normal, "FailureHandled", "HandleFailure", note);
        }
    }

    fn compare_failure(
        &mut self,
        trouble: &Trouble,
        seats: &[Seat],
        question: Question,
        action: &Action,
    ) -> MachineFlow<()> {
        for seat in Panel::shadows(seats) {
            if let Ok(Answered { answer: Answer::Action(its), .. }) =
                self.transcript.ask(&seat, question.clone())?
            {
                let (its, _) = its.cut(self.longest_delay(), LONGEST_AVOID);
                let its = self.effective(trouble.stage, its).unwrap_or_else(|default| default);
                let difference = || {
                    let (its, ours) = (its.describe(), action.describe());
                    format!("it would {}; done was: {}", bounded(&its), bounded(&ours))
                };
                let difference = (!its.does_what(action)).then(difference);
                self.compared(&seat, FAILURE_HANDLING, difference);
            }
        }
        Ok(())
    }

    fn deleting(&self) -> bool {
        self.seen.object.metadata.deletion_timestamp.is_some()
    }

    fn question(&mut self, trouble: &Trouble, counted: &FailureState) -> MachineFlow<Question> {
        let mut maas_events = Vec::new();
        if let Some(machine) = &trouble.machine
            && matches!(trouble.stage, Stage::Deploy | Stage::Prepare)
            && let Ok(Reply::Events(events)) =
                self.read(Read::ErrorEvents(machine.system_id.clone()))?
        {
            maas_events =
                events.iter().take(5).map(|e| format!("{}: {}", e.kind, e.description)).collect();
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
            attributes: trouble.machine.as_ref().map(attributes::of_failed).unwrap_or_default(),
        }))
    }

    pub(super) fn replacements(&self) -> u32 {
        u32::try_from(self.failed_hosts().len()).unwrap_or(u32::MAX)
    }

    fn remediated(&self) -> bool {
        self.seen.machine.as_ref().is_some_and(|m| m.marked_for_remediation())
    }

    /// The policy's action if the stage allows it, else the host's default and an event.
    fn permitted(&mut self, trouble: &Trouble, action: Action, policy: &str) -> Action {
        let described = action.describe();
        self.effective(trouble.stage, action).unwrap_or_else(|default| {
            let note = format!(
                "policy {policy} wants to {}, which stage {:?} does not allow here; the default is used",
                bounded(&described),
                trouble.stage.word()
            );
            self.event(EventKind::Warning, "PolicyActionNotAllowed", "HandleFailure", note);
            default
        })
    }

    /// What an action comes to at a stage; `Err` holds the default that takes the place of one that is not allowed.
    fn effective(&self, stage: Stage, action: Action) -> Result<Action, Action> {
        let replaceable = !self.provisioned() && !self.remediated() && !self.deleting();
        let default = default_action(stage, replaceable);
        if action == Action::UseDefault {
            return Ok(default);
        }
        if allowed(stage, &action, replaceable) { Ok(action) } else { Err(default) }
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
                let delay = Delay { seconds, reason: String::new() };
                Err(self.retry(&trouble, &delay))
            }
        }
    }

    fn longest_delay(&self) -> u32 {
        u32::try_from(self.seen.settings.max_delay).unwrap_or(u32::MAX)
    }

    pub(super) fn clamp(&self, delay: &Delay) -> u64 {
        u64::from(delay.seconds.min(self.longest_delay()))
    }

    fn hold_back(&mut self, seconds: u64) {
        if let Some(failure) = &mut self.status.failure {
            failure.retry_at = Some(super::signed(self.seen.now.saturating_add(seconds)));
        }
    }

    pub(super) fn retry(&mut self, trouble: &Trouble, delay: &Delay) -> End {
        let seconds = self.clamp(delay).max(1);
        self.hold_back(seconds);
        let reason = condition_reason(trouble);
        self.conditions.set(DEPLOYED, false, reason, &trouble.message);
        self.done(Some(seconds))
    }

    pub(super) fn give_up(&mut self, trouble: &Trouble, reason: &str) -> End {
        let message = format!("{} (given up: {})", trouble.message, bounded(reason));
        if let Some(failure) = &mut self.status.failure {
            failure.gave_up = true;
        }
        self.status.ready = false;
        self.status.failure_reason = Some("CreateError".into());
        self.status.failure_message = Some(text::bounded(&message, text::LONGEST_MESSAGE));
        self.event(EventKind::Warning, "GaveUp", "HandleFailure", message.clone());
        self.conditions.set(DEPLOYED, false, "MachineDeployFailed", &message);
        let drift = self.seen.settings.drift;
        self.done(Some(drift))
    }

    fn power_cycle(&mut self, trouble: Trouble, delay: &Delay) -> MachineFlow<Infallible> {
        let seconds = self.clamp(delay).max(1);
        let Some(owned) = self.owned_again(trouble.machine.as_ref())? else {
            return Err(self.retry(&trouble, delay));
        };
        // Off now; the next look finds it off and powers it on.
        if let Err(error) = self.perform(Effect::PowerOff { machine: owned })? {
            let note = format!("power-off failed: {}", error.message);
            self.event(EventKind::Warning, "PowerCycleFailed", "PowerOff", note);
        }
        self.hold_back(seconds);
        self.conditions.set(DEPLOYED, false, "MachinePoweredOff", &trouble.message);
        Err(self.done(Some(seconds)))
    }
}

/// What the host does when a policy leaves it to the host.
fn default_action(stage: Stage, replaceable: bool) -> Action {
    let delay = |seconds: u32| Delay { seconds, reason: "default of the host".into() };
    match stage {
        Stage::Deploy if replaceable => {
            Action::ReleaseAndReplace(Replacement { delay: delay(0), avoid_seconds: Some(AVOID) })
        }
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
