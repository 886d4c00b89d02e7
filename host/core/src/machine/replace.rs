//! A failed host goes, and another may come: remember it, let go of it, see it off, forget it.

use std::collections::BTreeMap;
use std::convert::Infallible;

use capmaas_api::names;

use super::acquire::{NOTHING, bounded};
use super::failed_hosts::{FailedHost, annotation};
use super::failure::{AVOID, Trouble};
use super::report::End;
use super::resolved::StillResolved;
use super::{DNS_ATTACHED, MachineFlow, Run, spec_patch, unexpected};
use crate::maas::{Machine, Power};
use crate::ownership::{OwnedMachine, Ownership};
use crate::policy::Replacement;
use crate::step::{Effect, EventKind, ObjectPatch, Read, Reply};

impl Run<'_> {
    /// The ownership reading directly before an effect.
    pub(super) fn owned_again(
        &mut self,
        machine: Option<&Machine>,
    ) -> MachineFlow<Option<OwnedMachine>> {
        let Some(machine) = machine else {
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
    pub(super) fn replace(
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
        let annotations =
            BTreeMap::from([(names::FAILED_HOSTS_ANNOTATION.to_owned(), annotation(&hosts))]);
        if let Err(error) = self.patch(ObjectPatch { annotations, ..Default::default() })? {
            return Err(self.patch_failed(&error));
        }
        if let Some(machine) = &trouble.machine
            && let Some(resolved) = self.resolved_after_failure(machine)?
        {
            let message = format!("{}; {}", trouble.message, resolved.why);
            return Err(self.waiting("MachineDeployFailed", &message, Some(resolved.again)));
        }
        if let Some(owned) = self.owned_again(trouble.machine.as_ref())? {
            self.let_go(owned, broken, &trouble.message)?;
        }
        let message = format!("{}; another host will be taken", trouble.message);
        let poll = self.seen.settings.poll.clamp(1, 5);
        Err(self.waiting("MachineDeployFailed", &message, Some(poll)))
    }

    /// A host that fails has served nobody, as far as our status says. Where that was lost (a restore from before Cluster
    /// API had copied the provider id), it may have been in the record a moment ago.
    fn resolved_after_failure(&mut self, machine: &Machine) -> MachineFlow<Option<StillResolved>> {
        // Before a host is provisioned, only this sets the condition.
        let looked_at = self.conditions.since(DNS_ATTACHED, "False").unwrap_or(self.seen.now);
        self.still_resolved(machine, looked_at)
    }

    fn let_go(&mut self, owned: OwnedMachine, broken: bool, why: &str) -> MachineFlow<()> {
        let id = owned.system_id().to_owned();
        let comment = format!("capmaas: {}", bounded(why));
        let effect = if broken {
            Effect::MarkBroken { machine: owned, comment }
        } else {
            Effect::Release { machine: owned, comment }
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
        if let (Ownership::Ours(_) | Ownership::Unstamped(_), Some(machine)) = (ownership, &machine)
        {
            let left_broken = host.broken && machine.status == crate::maas::Status::Broken;
            if !left_broken {
                if machine.locked {
                    let message =
                        format!("{} failed and is locked in MAAS: unlock it", machine.hostname);
                    return Err(self.unable("MachineLocked", &message));
                }
                if machine.status.releasable() {
                    if let Some(resolved) = self.resolved_after_failure(machine)? {
                        let message = format!("{}; {}", host.reason, resolved.why);
                        let again = Some(resolved.again);
                        return Err(self.waiting("MachineDeployFailed", &message, again));
                    }
                    if let Some(owned) = self.owned_again(Some(machine))? {
                        self.let_go(owned, host.broken, &host.reason)?;
                    }
                }
                return Err(self.still_leaving(&host, poll));
            }
        } else if machine.as_ref().is_some_and(|m| m.owner.is_none() && m.power == Power::On) {
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
        self.status.dns_attached = None;
        self.conditions.remove(DNS_ATTACHED);
        let wait = self.pause_before_next().unwrap_or(1).max(1);
        let message = format!("{}; another host is taken next", host.reason);
        Err(self.waiting("MachineDeployFailed", &message, Some(wait)))
    }
}
