//! `op=release`, of one machine and of several.

use super::timeline::Step;
use super::{Machine, Need};
use crate::events::Level;
use crate::params::{checkbox, form_values};
use crate::reply::Reply;
use crate::request::Request;
use crate::status::Status;
use crate::users::User;
use crate::world::World;
use serde_json::json;
use std::time::Duration;

pub(crate) fn release(
    world: &mut World,
    user: &User,
    system_id: &str,
    request: &Request,
) -> Result<Reply, Reply> {
    let form = request.post();
    let machine = world.permitted(system_id, user, Need::Edit)?;
    match machine.status {
        Status::Ready | Status::Releasing => return Ok(world.machine_reply(system_id)),
        status if !status.releasable() => {
            let text =
                format!("Machine cannot be released in its current state ('{}').", status.label());
            return Err(Reply::text(409, &text));
        }
        _ => {}
    }
    // `erase=0` and `erase=nope` erase too; so does a kind of erasing alone.
    let asked = ["erase", "secure_erase", "quick_erase"].iter().any(|key| checkbox(form, key));
    let erase = (asked || machine.faults.erase_on_release) && machine.power_managed();
    world.add_user_event(system_id, user, "User releasing node", form);
    if erase {
        return Ok(begin_erase(world, system_id));
    }
    world.begin_release(system_id)?;
    Ok(world.machine_reply(system_id))
}

fn begin_erase(world: &mut World, system_id: &str) -> Reply {
    world.cancel_steps(system_id);
    world.set_status(system_id, Status::DiskErasing);
    let fails = world.machine(system_id).is_some_and(|m| m.faults.erase_fails);
    let end = if fails { Step::EraseFailed } else { Step::Erased };
    let after = world.timings.erase;
    let on = world.timings.power_on.min(after);
    world.plan(system_id, vec![(on, Step::Power("on")), (after, end)]);
    world.machine_reply(system_id)
}

impl World {
    /// The plain release. The error is what MAAS answers when the BMC refuses: the status is put back, the rest is not.
    pub(crate) fn begin_release(&mut self, system_id: &str) -> Result<(), Reply> {
        let Some(machine) = self.machine(system_id) else {
            return Ok(());
        };
        let before = machine.status;
        let off = machine.power_state == "off" || !machine.power_managed();
        if machine.faults.no_rack && !off {
            return Err(super::deploy::no_rack(machine));
        }
        self.cancel_steps(system_id);
        self.change(system_id, clear_deployment);
        self.set_status(system_id, Status::Releasing);
        self.add_event(system_id, Level::Info, "Releasing", "", "");
        if off {
            self.finalize_release(system_id, self.now());
            return Ok(());
        }
        if let Some(text) = self.machine_mut(system_id).and_then(refusal) {
            self.set_status(system_id, before);
            return Err(Reply::text(500, &text));
        }
        self.begin_power_off_of_release(system_id, self.now());
        Ok(())
    }

    /// Waits for the power to go off, or for MAAS's limit of that.
    pub(crate) fn begin_power_off_of_release(&mut self, system_id: &str, at: Duration) {
        self.change(system_id, clear_deployment);
        if self.machine(system_id).is_some_and(|m| m.status != Status::Releasing) {
            self.set_status_at(at, system_id, Status::Releasing);
            self.add_event_at(at, system_id, Level::Info, "Releasing", "", "");
        }
        let (off, limit) = (self.timings.power_off, self.timings.release_timeout);
        let stuck = off > limit || self.machine(system_id).is_some_and(|m| m.faults.release_hangs);
        let (after, step) =
            if stuck { (limit, Step::ReleaseFailed) } else { (off, Step::ReleasedPowerOff) };
        let due = at + super::timeline::seconds(after);
        self.change(system_id, |m| m.steps.push_back((due, step)));
    }

    /// The machine is off: addresses, annotations and owner go.
    pub(crate) fn finalize_release(&mut self, system_id: &str, at: Duration) {
        self.free_auto(system_id);
        let mut status = Status::Ready;
        self.change(system_id, |m| {
            m.annotations.clear();
            m.owner = None;
            m.releases += 1;
            if !m.commissioned || m.faults.new_after_release {
                status = Status::New;
            }
        });
        self.set_status_at(at, system_id, status);
        self.add_event_at(at, system_id, Level::Info, "Released", "", "");
    }
}

/// What goes when a release begins; the owner and the annotations stay until it ends.
pub(super) fn clear_deployment(machine: &mut Machine) {
    machine.osystem.clear();
    machine.distro_series.clear();
    machine.hwe_kernel = None;
    machine.min_hwe_kernel = machine.min_hwe_kernel.take().map(|_| String::new());
    machine.agent_name.clear();
    machine.installation_result = None;
    machine.netboot = true;
}

fn refusal(machine: &mut Machine) -> Option<String> {
    if let Some(text) = &machine.faults.bmc_error {
        return Some(text.clone());
    }
    if machine.faults.first_releases_refused == 0 {
        return None;
    }
    machine.faults.first_releases_refused -= 1;
    Some("The BMC refused to power the machine off.".into())
}

/// `POST /machines/?op=release`: all or nothing; answers the ids whose release really began.
pub(crate) fn release_many(
    world: &mut World,
    user: &User,
    request: &Request,
) -> Result<Reply, Reply> {
    let asked = form_values(request.post(), "machines");
    let unknown: Vec<&str> =
        asked.iter().filter(|id| world.machine(id).is_none()).map(String::as_str).collect();
    if !unknown.is_empty() {
        return Err(Reply::text(400, &format!("Unknown machine(s): {}.", unknown.join(", "))));
    }
    let machines: Vec<&Machine> =
        world.machines.iter().filter(|m| asked.contains(&m.system_id)).collect();
    let forbidden: Vec<&str> =
        machines.iter().filter(|m| !m.editable(user)).map(|m| m.system_id.as_str()).collect();
    if !forbidden.is_empty() {
        let list = forbidden.join(", ");
        let text = format!(
            "You don't have the required permission to release the following machine(s): {list}."
        );
        return Err(Reply::text(403, &text));
    }
    let wrong: Vec<String> = machines
        .iter()
        .filter(|m| m.status != Status::Ready && !m.status.releasable())
        .map(|m| format!("{} ('{}')", m.system_id, m.status.label()))
        .collect();
    if !wrong.is_empty() {
        let text =
            format!("Machine(s) cannot be released in their current state: {}.", wrong.join(", "));
        return Err(Reply::text(409, &text));
    }
    let ids: Vec<String> = machines
        .iter()
        .filter(|m| m.status != Status::Ready)
        .map(|m| m.system_id.clone())
        .collect();
    for id in &ids {
        world.add_user_event(id, user, "User releasing node", request.post());
        world.begin_release(id)?;
    }
    Ok(Reply::json(&json!(ids)))
}
