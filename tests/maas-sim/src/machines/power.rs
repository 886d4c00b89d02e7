//! Power: `op=power_on`, `op=power_off`, `op=query_power_state`.

use super::timeline::Step;
use super::{Machine, Need, deploy, series};
use crate::params::form_value;
use crate::reply::Reply;
use crate::request::Request;
use crate::status::Status;
use crate::users::User;
use crate::world::World;
use serde_json::{Value, json};

fn bmc(machine: &Machine) -> Result<(), Reply> {
    if machine.faults.no_rack {
        return Err(deploy::no_rack(machine));
    }
    match &machine.faults.bmc_error {
        Some(text) => Err(Reply::text(500, text)),
        None => Ok(()),
    }
}

/// Powers on; on an Allocated machine this is a deployment. User data that is not sent again is forgotten.
pub(crate) fn power_on(
    world: &mut World,
    user: &User,
    system_id: &str,
    request: &Request,
) -> Result<Reply, Reply> {
    let form = request.post();
    let machine = world.permitted(system_id, user, Need::Edit)?;
    if machine.owner.is_none() {
        return Err(Reply::text(409, "Can't start node: it hasn't been allocated."));
    }
    let user_data = form_value(form, "user_data").filter(|u| !u.is_empty());
    if machine.status == Status::Allocated {
        // Unlike op=deploy this names no system: MAAS installs its default and shows none.
        series::choose(world, machine, &vec![])?;
        if machine.faults.no_rack {
            return Err(deploy::no_rack(machine));
        }
        world.change(system_id, |m| {
            m.user_data = user_data;
            m.ephemeral_deploy = false;
        });
        return deploy::start(world, system_id);
    }
    bmc(machine)?;
    let reply = world.machine_reply(system_id);
    world.change(system_id, |m| m.user_data = user_data);
    world.add_user_event(system_id, user, "User powering up node", form);
    if world.machine(system_id).is_some_and(Machine::power_managed) {
        world.plan(system_id, vec![(world.timings.power_on, Step::Power("on"))]);
    }
    Ok(reply)
}

/// Powers off, in any status; a manual machine answers `null`. The body shows the state before.
pub(crate) fn power_off(
    world: &mut World,
    user: &User,
    system_id: &str,
    request: &Request,
) -> Result<Reply, Reply> {
    let machine = world.permitted(system_id, user, Need::Edit)?;
    if !machine.power_managed() {
        return Ok(Reply::json(&Value::Null));
    }
    bmc(machine)?;
    let reply = world.machine_reply(system_id);
    world.add_user_event(system_id, user, "User powering down node", request.post());
    world.plan(system_id, vec![(world.timings.power_off, Step::Power("off"))]);
    Ok(reply)
}

pub(crate) fn query(world: &World, user: &User, system_id: &str) -> Result<Reply, Reply> {
    let machine = world.permitted(system_id, user, Need::View)?;
    if machine.power_managed() {
        bmc(machine)?;
    }
    Ok(Reply::json(&json!({ "state": machine.power_state })))
}

/// `GET op=power_parameters`, of one machine or of all; administrators only.
pub(crate) fn parameters(machine: &Machine) -> Value {
    match machine.power_type.as_str() {
        "manual" | "" => json!({}),
        "ipmi" => json!({
            "power_address": format!("203.0.113.{}", machine.number % 250),
            "power_driver": "LAN_2_0",
            "power_user": "bmc",
            "power_pass": "bmcpass",
        }),
        _ => json!({
            "power_address": "qemu+ssh://bmc@203.0.113.200/system",
            "power_id": machine.hostname,
            "power_pass": "bmcpass",
        }),
    }
}
