//! `op=abort`.

use super::Need;
use super::timeline::Step;
use crate::reply::Reply;
use crate::request::Request;
use crate::status::Status;
use crate::users::User;
use crate::world::World;

/// Deploying goes back to Allocated (owner kept, off), Commissioning to New, Testing to what was before.
pub(crate) fn abort(
    world: &mut World,
    user: &User,
    system_id: &str,
    request: &Request,
) -> Result<Reply, Reply> {
    let machine = world.permitted(system_id, user, Need::Edit)?;
    let target = match machine.status {
        Status::Deploying => Status::Allocated,
        Status::Commissioning => Status::New,
        Status::Testing => machine.previous_status,
        Status::DiskErasing => Status::FailedDiskErasing,
        status => {
            let text = format!(
                "Cannot abort in current state: node {system_id} is in state {}.",
                status.label()
            );
            return Err(Reply::text(409, &text));
        }
    };
    let managed = machine.power_managed();
    world.add_user_event(system_id, user, "User aborting deployment", request.post());
    let reply = world.machine_reply(system_id);
    world.cancel_steps(system_id);
    if target == Status::Allocated {
        world.change(system_id, |m| {
            m.osystem.clear();
            m.distro_series.clear();
            m.hwe_kernel = None;
        });
    }
    world.set_status(system_id, target);
    if managed {
        world.plan(system_id, vec![(world.timings.power_off, Step::Power("off"))]);
    }
    Ok(reply)
}
