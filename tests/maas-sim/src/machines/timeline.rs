//! What happens to machines as time passes. Nothing runs in the background: before every look at the region, all steps
//! that are due are taken in the order of their time.

use crate::events::Level;
use crate::status::Status;
use crate::world::World;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// A message of the installer.
    Message(&'static str),
    /// The installer is done with the disk: no more network boot.
    Installed,
    Deployed,
    DeployFailed(String),
    Power(&'static str),
    /// The power is off and a release or erase was waiting for it.
    ReleasedPowerOff,
    Erased,
    EraseFailed,
    ReleaseFailed,
    Becomes(Status),
    /// Back to the status before.
    Returns,
}

pub(crate) fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value).unwrap_or(Duration::ZERO)
}

impl World {
    /// Takes all steps that are due.
    pub(crate) fn tick(&mut self) {
        let now = self.now();
        loop {
            let due =
                |m: &super::Machine| m.steps.front().map(|(at, _)| *at).filter(|at| *at <= now);
            let next = self
                .machines
                .iter()
                .filter_map(|m| Some((due(m)?, m.number, m.system_id.clone())))
                .min();
            let Some((at, _, system_id)) = next else {
                return;
            };
            let step = self.machine_mut(&system_id).and_then(|m| m.steps.pop_front());
            if let Some((_, step)) = step {
                self.take(&system_id, at, step);
            }
        }
    }

    /// Plans steps, each so many seconds from now, in the order of time.
    pub(crate) fn plan(&mut self, system_id: &str, steps: Vec<(f64, Step)>) {
        let now = self.now();
        self.change(system_id, |m| {
            m.steps.extend(steps.into_iter().map(|(after, step)| (now + seconds(after), step)));
            m.steps.make_contiguous().sort_by_key(|(at, _)| *at);
        });
    }

    pub(crate) fn cancel_steps(&mut self, system_id: &str) {
        self.change(system_id, |m| m.steps.clear());
    }

    fn take(&mut self, system_id: &str, at: Duration, step: Step) {
        match step {
            Step::Message(text) => self.add_event_at(at, system_id, Level::Info, text, "", ""),
            Step::Installed => self.change(system_id, |m| m.netboot = false),
            Step::Deployed => {
                self.change(system_id, |m| m.netboot = false);
                self.set_status_at(at, system_id, Status::Deployed);
                self.add_event_at(at, system_id, Level::Info, "Deployed", "", "");
            }
            Step::DeployFailed(reason) => self.fail_deployment(system_id, at, &reason),
            Step::Power(state) => self.set_power(system_id, state),
            Step::ReleasedPowerOff => {
                self.set_power(system_id, "off");
                self.finalize_release(system_id, at);
            }
            Step::Erased => self.begin_power_off_of_release(system_id, at),
            Step::EraseFailed => self.set_status_at(at, system_id, Status::FailedDiskErasing),
            Step::ReleaseFailed => self.set_status_at(at, system_id, Status::FailedReleasing),
            Step::Becomes(status) => self.set_status_at(at, system_id, status),
            Step::Returns => {
                let back = self.machine(system_id).map_or(Status::Ready, |m| m.previous_status);
                self.set_status_at(at, system_id, back);
            }
        }
    }

    pub(crate) fn fail_deployment(&mut self, system_id: &str, at: Duration, reason: &str) {
        self.change(system_id, |m| {
            m.steps.clear();
            m.error_description = reason.into();
        });
        self.add_event_at(
            at,
            system_id,
            Level::Error,
            "Marking node failed",
            reason,
            "mark_failed",
        );
        self.set_status_at(at, system_id, Status::FailedDeployment);
    }

    pub(crate) fn set_status(&mut self, system_id: &str, status: Status) {
        self.set_status_at(self.now(), system_id, status);
    }

    /// Changes the status, with MAAS's DEBUG event of it. Ready and New never have an owner.
    pub(crate) fn set_status_at(&mut self, at: Duration, system_id: &str, status: Status) {
        let Some(machine) = self.machine_mut(system_id) else {
            return;
        };
        let before = machine.status;
        machine.previous_status = before;
        machine.status = status;
        if matches!(status, Status::Ready | Status::New) {
            machine.owner = None;
        }
        let mut text = format!("From '{}' to '{}'", before.label(), status.label());
        if status == Status::Allocated
            && let Some(owner) = &machine.owner
        {
            text = format!("{text} (to {owner})");
        }
        self.add_event_at(at, system_id, Level::Debug, "Node changed status", &text, "");
    }

    /// Changes the power state. Going off frees the AUTO addresses unless the status keeps them.
    pub(crate) fn set_power(&mut self, system_id: &str, state: &str) {
        let Some(machine) = self.machine_mut(system_id) else {
            return;
        };
        let went_off = state == "off" && machine.power_state != "off";
        machine.power_state = state.into();
        if went_off && !machine.status.keeps_addresses_when_off() {
            self.free_auto(system_id);
        }
    }
}
