//! A machine is held: stamp it, turn swap off, deploy.

use std::convert::Infallible;

use capmaas_api::Deployment;

use super::failure::Trouble;
use super::{MachineFlow, Run, unexpected};
use crate::call_error::{CallError, Category};
use crate::maas::{Machine, Status, User};
use crate::ownership::{self, OwnedMachine, Ownership};
use crate::policy::Stage;
use crate::step::{Effect, EventKind, Read, Reply};

impl Run<'_> {
    /// Goes on with a machine that a proof has just shown to be ours.
    pub(super) fn prepare_or_observe(
        self,
        user: &User,
        machine: Machine,
        owned: OwnedMachine,
    ) -> MachineFlow<Infallible> {
        if machine.status == Status::Allocated {
            self.prepare(user, machine, owned)
        } else {
            self.ours(user, machine, owned)
        }
    }

    pub(super) fn prepare(
        mut self,
        user: &User,
        machine: Machine,
        owned: OwnedMachine,
    ) -> MachineFlow<Infallible> {
        self.record(&machine);
        if self.status.failure.as_ref().is_some_and(|f| f.gave_up) {
            let message = self.status.failure_message.clone().unwrap_or_default();
            let drift = self.seen.settings.drift;
            return Err(self.waiting("MachineDeployFailed", &message, Some(drift)));
        }
        if let Some(left) = self.held_back(&["prepare"]) {
            return Err(self.done(Some(left.max(1))));
        }
        let digest = self.bootstrap_data()?;
        let (machine, owned) = self.stamp(user, machine, owned)?;
        let (machine, owned) = self.swap_off(user, machine, owned)?;
        self.deploy(user, machine, owned, digest)
    }

    /// Gives the machine our annotations, which live until it is truly released.
    pub(super) fn stamp(
        &mut self,
        user: &User,
        machine: Machine,
        owned: OwnedMachine,
    ) -> MachineFlow<(Machine, OwnedMachine)> {
        let claim = self.claim(user);
        if claim.is_on(&machine) {
            return Ok((machine, owned));
        }
        let annotations = claim.annotations();
        let outcome = self.perform(Effect::Annotate { machine: owned, annotations })?;
        self.shown(user, &machine, outcome, "set its annotations")
    }

    fn swap_off(
        &mut self,
        user: &User,
        machine: Machine,
        owned: OwnedMachine,
    ) -> MachineFlow<(Machine, OwnedMachine)> {
        if machine.swap_size == Some(0) {
            return Ok((machine, owned));
        }
        let outcome = self.perform(Effect::SwapOff { machine: owned })?;
        self.shown(user, &machine, outcome, "turn its swap off")
    }

    /// A reply that shows the machine serves as the ownership reading for the next effect.
    fn shown(
        &mut self,
        user: &User,
        machine: &Machine,
        outcome: crate::transcript::Outcome,
        what: &str,
    ) -> MachineFlow<(Machine, OwnedMachine)> {
        match outcome {
            Ok(Reply::Machine(shown)) => match ownership::judge(&shown, &self.claim(user)) {
                Ownership::Ours(owned) => Ok((*shown, owned)),
                _ => Err(self.untouched(Some(1))),
            },
            other => {
                let error = unexpected(other);
                Err(self.held_machine_trouble(machine, what, &error))
            }
        }
    }

    fn deploy(
        mut self,
        user: &User,
        machine: Machine,
        owned: OwnedMachine,
        digest: String,
    ) -> MachineFlow<Infallible> {
        let image = self.seen.object.spec.image.trim().to_owned();
        let outcome = self.perform(Effect::Deploy {
            machine: owned,
            distro_series: image.clone(),
            in_memory: self.seen.object.spec.deploy_in_memory == Some(true),
            mark: self.mark(),
            user_data_digest: digest,
        })?;
        match outcome {
            Ok(Reply::Machine(shown)) => {
                self.record(&shown);
                // Somebody released it a moment before: MAAS takes a free machine for whoever deploys it, and it
                // shows nothing of ours any more.
                if let Some(owned) = ownership::by_deployment(&shown, &self.claim(user)) {
                    self.stamp(user, *shown, owned)?;
                }
                self.status.failure = None;
                self.status.deployment = Some(Deployment {
                    system_id: machine.system_id.clone(),
                    started_at: super::signed(self.seen.now),
                    progress_at: None,
                });
                let note = format!("MAAS deploys {image} to {}", machine.hostname);
                self.event(EventKind::Normal, "MachineDeployStarted", "Deploy", note);
                let message = format!("MAAS deploys {image}");
                let again = self.next_look(0);
                Err(self.waiting("MachineDeploying", &message, Some(again)))
            }
            Err(error) if error.category == Category::State => {
                Err(self.deploy_refused(&machine, &image, &error)?)
            }
            other => {
                let error = unexpected(other);
                Err(self.held_machine_trouble(&machine, &format!("deploy {image}"), &error))
            }
        }
    }

    /// Seconds until a deployment is looked at again: "ready" is late by at most a fifth of what it took.
    pub(super) fn next_look(&self, elapsed: u64) -> u64 {
        const SHORTEST: u64 = 3;
        (elapsed / 5).max(SHORTEST).min(self.seen.settings.poll)
    }

    /// The state does not allow it: either another call was faster, or MAAS means something else.
    fn deploy_refused(
        &mut self,
        machine: &Machine,
        image: &str,
        error: &CallError,
    ) -> MachineFlow<super::report::End> {
        let unchanged = match self.read(Read::Machine(machine.system_id.clone()))? {
            Ok(Reply::Machine(now)) => now.status == Status::Allocated,
            _ => false,
        };
        Ok(if unchanged {
            self.held_machine_trouble(machine, &format!("deploy {image}"), error)
        } else {
            self.untouched(Some(1))
        })
    }

    /// A call on a machine that is held, but not deploying, failed.
    pub(super) fn held_machine_trouble(
        &mut self,
        machine: &Machine,
        what: &str,
        error: &CallError,
    ) -> super::report::End {
        if error.endpoint_wide() {
            return self.maas_trouble(error);
        }
        if machine.locked {
            let message = format!("{} is locked in MAAS: unlock it there", machine.hostname);
            return self.unable("MachineLocked", &message);
        }
        if error.category == Category::Conflict {
            return self.untouched(Some(error.again(5)));
        }
        let message = format!("MAAS does not {what} on {}: {}", machine.hostname, error.message);
        let rejected = matches!(error.category, Category::BadRequest | Category::Forbidden);
        self.fail(Trouble {
            stage: Stage::Prepare,
            category: if rejected { "rejected" } else { "machine-failed" },
            message,
            machine: Some(machine.clone()),
        })
    }
}
