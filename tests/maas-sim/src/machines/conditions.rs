//! Locks, broken machines, rescue mode, commissioning and testing: as changes of status that take time.

use super::timeline::Step;
use super::{Machine, Need};
use crate::params::form_value;
use crate::reply::Reply;
use crate::request::Request;
use crate::status::Status;
use crate::users::User;
use crate::world::World;

pub(crate) fn lock(
    world: &mut World,
    user: &User,
    system_id: &str,
    request: &Request,
) -> Result<Reply, Reply> {
    let machine = world.permitted(system_id, user, Need::Lock)?;
    if machine.locked {
        return Err(Reply::text(409, "Machine is already locked"));
    }
    if !matches!(machine.status, Status::Deployed | Status::Deploying) {
        return Err(Reply::text(409, "Can't lock, node is not deployed or deploying"));
    }
    world.add_user_event(system_id, user, "User locking node", request.post());
    world.change(system_id, |m| m.locked = true);
    Ok(world.machine_reply(system_id))
}

pub(crate) fn unlock(
    world: &mut World,
    user: &User,
    system_id: &str,
    request: &Request,
) -> Result<Reply, Reply> {
    if !world.permitted(system_id, user, Need::Lock)?.locked {
        return Err(Reply::text(409, "Machine is not locked"));
    }
    world.add_user_event(system_id, user, "User unlocking node", request.post());
    world.change(system_id, |m| m.locked = false);
    Ok(world.machine_reply(system_id))
}

/// Only the owner may mark a machine broken: an administrator too gets 403 on a machine that is not theirs.
pub(crate) fn mark_broken(
    world: &mut World,
    user: &User,
    system_id: &str,
    request: &Request,
) -> Result<Reply, Reply> {
    let machine = world.permitted(system_id, user, Need::Edit)?;
    if machine.owner.as_deref() != Some(&user.name) {
        return Err(Reply::forbidden());
    }
    let comment = form_value(request.post(), "comment").unwrap_or_default();
    world.add_user_event(system_id, user, "User marking node broken", request.post());
    world.break_machine(system_id, &comment);
    Ok(world.machine_reply(system_id))
}

pub(crate) fn mark_fixed(
    world: &mut World,
    user: &User,
    system_id: &str,
    request: &Request,
) -> Result<Reply, Reply> {
    let machine = world.permitted(system_id, user, Need::Admin)?;
    if machine.status != Status::Broken {
        return Err(Reply::text(409, "Can't mark a non-broken node as 'Ready'."));
    }
    // A machine that was Deployed comes back as Deployed, but MAAS no longer knows with what.
    let back =
        if machine.previous_status == Status::Deployed { Status::Deployed } else { Status::Ready };
    world.add_user_event(system_id, user, "User marking node fixed", request.post());
    world.change(system_id, |m| {
        m.osystem.clear();
        m.distro_series.clear();
        m.error_description.clear();
    });
    world.set_status(system_id, back);
    Ok(world.machine_reply(system_id))
}

impl World {
    /// Broken: whatever was going on ends, as at a release; the power goes off; the owner stays.
    pub(crate) fn break_machine(&mut self, system_id: &str, comment: &str) {
        self.cancel_steps(system_id);
        if self.machine(system_id).is_some_and(|m| m.status.releasable()) {
            self.change(system_id, super::release::clear_deployment);
        }
        self.set_status(system_id, Status::Broken);
        self.change(system_id, |m| m.error_description = comment.into());
        if self.machine(system_id).is_some_and(|m| m.power_managed() && m.power_state == "on") {
            self.plan(system_id, vec![(self.timings.power_off, Step::Power("off"))]);
        }
    }
}

/// Enters rescue mode; the machine then belongs to the caller.
pub(crate) fn rescue(world: &mut World, user: &User, system_id: &str) -> Result<Reply, Reply> {
    let machine = world.permitted(system_id, user, Need::Admin)?;
    if !machine.status.may_enter_rescue() {
        let text =
            format!("Invalid transition: {} -> Entering rescue mode.", machine.status.label());
        return Err(Reply::text(409, &text));
    }
    world.cancel_steps(system_id);
    world.change(system_id, |m| {
        m.owner = Some(user.name.clone());
        m.user_data = None;
    });
    let before = world.machine(system_id).map_or(Status::Ready, |m| m.status);
    world.set_status(system_id, Status::EnteringRescueMode);
    let reply = world.machine_reply(system_id);
    // What `exit_rescue_mode` returns to is the status before all of it.
    world.change(system_id, |m| m.previous_status = before);
    let (on, done) = (world.timings.power_on, world.timings.rescue);
    world.plan(
        system_id,
        vec![(on.min(done), Step::Power("on")), (done, Step::Becomes(Status::RescueMode))],
    );
    Ok(reply)
}

pub(crate) fn exit_rescue(world: &mut World, user: &User, system_id: &str) -> Result<Reply, Reply> {
    use Status::{
        EnteringRescueMode, FailedEnteringRescueMode, FailedExitingRescueMode, RescueMode,
    };
    let machine = world.permitted(system_id, user, Need::Admin)?;
    if !matches!(
        machine.status,
        RescueMode | EnteringRescueMode | FailedEnteringRescueMode | FailedExitingRescueMode
    ) {
        let text =
            format!("Invalid transition: {} -> Exiting rescue mode.", machine.status.label());
        return Err(Reply::text(409, &text));
    }
    let back = match machine.previous_status {
        EnteringRescueMode | RescueMode => Status::Ready,
        before => before,
    };
    let power = if back == Status::Deployed { "on" } else { "off" };
    world.cancel_steps(system_id);
    world.set_status(system_id, Status::ExitingRescueMode);
    let reply = world.machine_reply(system_id);
    let after = world.timings.rescue;
    world.plan(system_id, vec![(after, Step::Power(power)), (after, Step::Becomes(back))]);
    Ok(reply)
}

fn actionable(machine: &Machine) -> bool {
    use Status::{Broken, FailedCommissioning, FailedTesting, New, Ready};
    matches!(machine.status, New | FailedCommissioning | Ready | Broken | FailedTesting)
}

/// `op=commission` and `op=test`: some minutes, then Ready (a test: as before).
pub(crate) fn commission(
    world: &mut World,
    user: &User,
    system_id: &str,
    test: bool,
) -> Result<Reply, Reply> {
    let machine = world.permitted(system_id, user, Need::Admin)?;
    let allowed = actionable(machine)
        || (test && matches!(machine.status, Status::Allocated | Status::Deployed));
    if !allowed {
        let name = if test { "Test" } else { "Commission" };
        let text = format!("{name} is not available because of the current state of the node.");
        return Err(Reply::form("__all__", &text));
    }
    let (status, end) = match test {
        true => (Status::Testing, Step::Returns),
        false => (Status::Commissioning, Step::Becomes(Status::Ready)),
    };
    world.set_status(system_id, status);
    if !test {
        world.change(system_id, |m| m.commissioned = true);
    }
    let (on, done) = (world.timings.power_on, world.timings.commission);
    let off = if test { vec![] } else { vec![(done, Step::Power("off"))] };
    let mut steps = vec![(on.min(done), Step::Power("on"))];
    steps.extend(off);
    steps.push((done, end));
    world.plan(system_id, steps);
    Ok(world.machine_reply(system_id))
}
