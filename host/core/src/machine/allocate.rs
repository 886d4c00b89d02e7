//! Taking a host: allocate, and write its provider id before anything else happens.

use std::collections::BTreeMap;
use std::convert::Infallible;

use capmaas_api::{MaasMachine, names};
use serde_json::json;

use super::acquire::bounded;
use super::choose::{Choice, Said};
use super::report::End;
use super::{ALLOCATION, MachineFlow, Run, spec_patch, unexpected};
use crate::call_error::{CallError, Category};
use crate::maas::{Machine, User};
use crate::ownership::{self, OwnedMachine};
use crate::policy::{Proposal, Seat};
use crate::provider_id;
use crate::step::{Effect, EventKind, ObjectPatch, Read, Reply};

impl Run<'_> {
    pub(super) fn allocate(mut self, user: &User, choice: Choice) -> MachineFlow<Infallible> {
        let mark = self.mark().unwrap_or_default();
        let comment = format!("capmaas: MaasMachine {}/{}", self.namespace(), self.name());
        let mut refusal = CallError::new(Category::State, "no machine fits");
        for constraints in &choice.attempts {
            let effect = Effect::Allocate {
                constraints: Box::new(constraints.clone()),
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
                    self.took(&machine, &choice.story, &choice.said, &choice.proposals);
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

    fn took(
        &mut self,
        machine: &Machine,
        story: &str,
        said: &[Said],
        proposals: &[(Seat, Proposal)],
    ) {
        self.status.failure = None;
        let answer = format!("{} ({})", machine.hostname, machine.system_id);
        for Said { seat, policy, what } in said {
            self.decided(ALLOCATION, seat, policy, &answer, what);
        }
        for (seat, proposal) in proposals {
            self.compared(seat, ALLOCATION, proposal.beside_taking(machine));
        }
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
    fn unanswered(&mut self, why: &str) -> End {
        self.count_failure("allocate", "unreachable");
        let message = format!("an allocate call went unanswered ({}); looking again", bounded(why));
        let again = self.seen.settings.poll.max(1);
        self.waiting("AllocationUnanswered", &message, Some(again))
    }

    /// Writes `spec.providerID`, directly after a machine was taken and before anything else.
    pub(super) fn publish(&mut self, machine: &Machine, owned: &OwnedMachine) -> MachineFlow<()> {
        /// Other writers (labels, owner references) make the first tries meet a conflict.
        const TRIES: usize = 4;
        let id = provider_id::format(&machine.zone, &machine.system_id);
        let spec = spec_patch(&[("providerID", json!(id)), ("systemID", json!(machine.system_id))]);
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
                // The definition may only not be served for a moment.
                return Err(self.untouched(Some(self.seen.settings.poll)));
            }
            _ => return Err(self.untouched(Some(1))),
        };
        let named = fresh.spec.provider_id.as_deref().and_then(provider_id::system_id);
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
