//! The object is being deleted: out of DNS, release, see it go, drop the finalizer.

use std::convert::Infallible;

use capmaas_api::names;

use super::failure::Trouble;
use super::report::End;
use super::resolved::StillResolved;
use super::{DEPLOYED, MachineFlow, Run, unexpected};
use crate::maas::{Machine, User};
use crate::ownership::{OwnedMachine, Ownership};
use crate::policy::Stage;
use crate::step::{Effect, EventKind, ObjectPatch, Read, Reply};

impl Run<'_> {
    pub(super) fn delete(mut self) -> MachineFlow<Infallible> {
        if self.provider_id.is_none() && self.mark().is_none() {
            return self.gone("no machine was ever taken");
        }
        let user = match self.read(Read::WhoAmI)? {
            Ok(Reply::User(user)) => user,
            other => return Err(self.deletion_trouble(&unexpected(other))),
        };
        let named = self.system_id();
        for (machine, owned) in self.marked(&user)? {
            if named.as_deref() != Some(machine.system_id.as_str()) {
                let id = machine.system_id.clone();
                self.give_back(owned, &id)?;
            }
        }
        let Some(id) = named else {
            return match self.allocation_in_flight() {
                Some(left) => {
                    let message = "an allocate call went unanswered; waiting until MAAS can no \
                                   longer be working on it";
                    let again = left.clamp(1, self.seen.settings.poll.max(1));
                    Err(self.waiting("AllocationUnanswered", message, Some(again)))
                }
                None => self.gone("no machine is held"),
            };
        };
        let machine = match self.read(Read::Machine(id.clone()))? {
            Ok(Reply::Machine(machine)) => *machine,
            Ok(Reply::Absent) => return self.gone("MAAS does not know the machine any more"),
            other => return Err(self.deletion_trouble(&unexpected(other))),
        };
        self.record(&machine);
        match self.judge(&machine, &user)? {
            Ownership::Nobody => self.gone(&format!("{} is free again", machine.hostname)),
            Ownership::Disputed(why) => Err(self.disputed(&machine, &why)),
            Ownership::Unproven(why) | Ownership::Foreign(why) => {
                let note = format!("{} was left alone: {why}", machine.hostname);
                self.event(EventKind::Warning, "MachineNotOwned", "Release", note.clone());
                self.gone(&note)
            }
            Ownership::Ours(owned) | Ownership::Unstamped(owned) => {
                self.leave_dns(&machine)?;
                self.release(&user, machine, owned)
            }
        }
    }

    pub(super) fn deletion_trouble(&mut self, error: &crate::call_error::CallError) -> End {
        let (reason, message) = super::report::explain(error);
        let message = format!("{message}; the host cannot be released until then");
        let again = error.again(self.seen.settings.poll.saturating_mul(2));
        self.waiting(reason, &message, Some(again))
    }

    /// Waits until the machine's addresses have been out of the record for one TTL.
    fn leave_dns(&mut self, machine: &Machine) -> MachineFlow<()> {
        // The cluster may have let it in and out again before we saw it attached, so the time
        // counts from our first look at the deletion at the earliest.
        let looked_at = self.conditions.since("Deleting", "True").unwrap_or(self.seen.now);
        match self.still_resolved(machine, looked_at)? {
            Some(StillResolved { why, again }) => {
                self.conditions.set("Deleting", true, "Deleting", why);
                Err(self.done(Some(again)))
            }
            None => Ok(()),
        }
    }

    fn release(
        mut self,
        user: &User,
        machine: Machine,
        owned: OwnedMachine,
    ) -> MachineFlow<Infallible> {
        let poll = self.seen.settings.poll.clamp(1, 10);
        if machine.status.releasing() {
            return Err(self.leaving(&machine, poll));
        }
        if machine.locked {
            let message = format!(
                "{} is locked in MAAS and cannot be released: unlock it there",
                machine.hostname
            );
            return Err(self.unable("MachineLocked", &message));
        }
        if let Some(left) = self.held_back(&["release"]) {
            return Err(self.done(Some(left.max(1))));
        }
        if !machine.status.releasable() {
            let message = format!(
                "{} is {:?} in MAAS, which does not allow a release; waiting until that is over",
                machine.hostname,
                machine.status.label()
            );
            return Err(self.unable("ReleaseImpossible", &message));
        }
        let owned = self.still_owned(user, &machine, owned)?;
        let comment = format!("capmaas: MaasMachine {}/{}", self.namespace(), self.name());
        match self.perform(Effect::Release { machine: owned, comment })? {
            Ok(_) => {
                self.status.failure = None;
                let note = format!("asked MAAS to release {}", machine.hostname);
                self.event(EventKind::Normal, "ReleaseStarted", "Release", note);
                Err(self.leaving(&machine, 1))
            }
            Err(error) if error.endpoint_wide() => Err(self.deletion_trouble(&error)),
            Err(error) => {
                let message =
                    format!("{} could not be released: {}", machine.hostname, error.message);
                let machine = Some(machine);
                let (stage, category) = (Stage::Release, "machine-failed");
                Err(self.fail(Trouble { stage, category, message, machine }))
            }
        }
    }

    /// The last ownership reading before the release: `owned`, unless something was asked of MAAS in between.
    ///
    /// MAAS clears the mark when a release begins. Should that release fail, the annotations alone tell whose the machine is: it
    /// gets those that it lacks, if MAAS lets it have them.
    fn still_owned(
        &mut self,
        user: &User,
        machine: &Machine,
        owned: OwnedMachine,
    ) -> MachineFlow<OwnedMachine> {
        let claim = self.claim(user);
        // Without a mark it was taken by the Go provider, and is known as such by having none of them.
        if claim.mark.is_some() && !claim.is_on(machine) {
            let annotations = claim.annotations();
            match self.perform(Effect::Annotate { machine: owned, annotations })? {
                Err(error) if error.endpoint_wide() => return Err(self.deletion_trouble(&error)),
                _ => {}
            }
        } else if !self.control_plane() {
            // DNS was not read either.
            return Ok(owned);
        }
        let fresh = match self.read(Read::Machine(machine.system_id.clone()))? {
            Ok(Reply::Machine(fresh)) => *fresh,
            Ok(Reply::Absent) => return Err(self.untouched(Some(1))),
            other => return Err(self.deletion_trouble(&unexpected(other))),
        };
        match self.judge(&fresh, user)? {
            Ownership::Ours(owned) | Ownership::Unstamped(owned) => Ok(owned),
            _ => Err(self.untouched(Some(1))),
        }
    }

    fn leaving(&mut self, machine: &Machine, poll: u64) -> End {
        self.status.ready = false;
        let message = format!("MAAS releases {}", machine.hostname);
        self.conditions.set(DEPLOYED, false, "Deleted", &message);
        self.conditions.set("Deleting", true, "Deleting", &message);
        self.done(Some(poll))
    }

    /// Nothing of ours is left in MAAS.
    fn gone(mut self, note: &str) -> MachineFlow<Infallible> {
        let finalizers =
            self.finalizers.iter().filter(|f| *f != names::MACHINE_FINALIZER).cloned().collect();
        self.event(EventKind::Normal, "SuccessfulRelease", "Release", note.to_owned());
        let patch = ObjectPatch { finalizers: Some(finalizers), ..Default::default() };
        match self.patch(patch)? {
            Ok(()) => Err(self.untouched(None)),
            // "Not found" may also mean that the definition is not served for a moment: then the object will be there
            // again, unchanged, and no watch tells of it.
            Err(error) => Err(self.patch_failed(&error)),
        }
    }
}
