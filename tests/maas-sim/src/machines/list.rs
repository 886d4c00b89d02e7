//! `GET /machines/` and its operations.

use super::constraints::{Form, parse};
use super::{Machine, Need, power};
use crate::params::form_values;
use crate::reply::Reply;
use crate::request::{Pairs, Request};
use crate::status::Status;
use crate::users::User;
use crate::world::World;
use serde_json::{Value, json};

/// The whole list, in the order of the machines' ids; MAAS has no paging. A plain user sees unowned machines and its own.
pub(crate) fn list(world: &World, user: &User, request: &Request) -> Result<Reply, Reply> {
    let query: Pairs =
        request.query.iter().filter(|(k, _)| k != "op" && k != "format").cloned().collect();
    if query.iter().any(|(k, _)| k == "simple_status" || k == "not_simple_status") {
        // The field is declared, but the database does not have it.
        return Err(Reply::text(500, "Cannot resolve keyword 'simple_status' into field."));
    }
    let filters = parse(world, &query, Form::Read).map_err(|faults| Reply::forms(&faults))?;
    let wanted = |m: &&Machine| m.viewable(user) && filters.iter().all(|f| (f.test)(world, m));
    let list: Vec<Value> =
        world.machines.iter().filter(wanted).map(|m| world.machine_json(m)).collect();
    Ok(Reply::json(&Value::Array(list)))
}

/// `GET op=list_allocated`: one's own machines that are Allocated.
pub(crate) fn list_allocated(world: &World, user: &User, request: &Request) -> Reply {
    let ids = form_values(&request.query, "id");
    let mine = |m: &&Machine| {
        m.status == Status::Allocated
            && m.owner.as_deref() == Some(&user.name)
            && (ids.is_empty() || ids.contains(&m.system_id))
    };
    let list: Vec<Value> =
        world.machines.iter().filter(mine).map(|m| world.machine_json(m)).collect();
    Reply::json(&Value::Array(list))
}

/// `GET op=is_registered`; anybody may ask.
pub(crate) fn is_registered(world: &World, request: &Request) -> Reply {
    let macs = form_values(&request.query, "mac_address");
    let known = |m: &Machine| m.interfaces.iter().any(|i| macs.contains(&i.mac));
    Reply::json(&Value::Bool(world.machines.iter().any(known)))
}

pub(crate) fn power_parameters(
    world: &World,
    user: &User,
    request: &Request,
) -> Result<Reply, Reply> {
    if !user.admin {
        return Err(Reply::admins_only());
    }
    let ids = form_values(&request.query, "id");
    let wanted = |m: &&Machine| ids.is_empty() || ids.contains(&m.system_id);
    let all =
        world.machines.iter().filter(wanted).map(|m| (m.system_id.clone(), power::parameters(m)));
    Ok(Reply::json(&Value::Object(all.collect())))
}

pub(crate) fn power_parameters_of(
    world: &World,
    user: &User,
    system_id: &str,
) -> Result<Reply, Reply> {
    Ok(Reply::json(&power::parameters(world.permitted(system_id, user, Need::AdminRead)?)))
}

/// `GET op=get_curtin_config`: YAML, while there is a deployment.
pub(crate) fn curtin_config(world: &World, user: &User, system_id: &str) -> Result<Reply, Reply> {
    let machine = world.permitted(system_id, user, Need::View)?;
    if !matches!(machine.status, Status::Deploying | Status::Deployed | Status::FailedDeployment) {
        return Err(Reply::text(
            400,
            &format!("Machine {} is not in a deployment state.", machine.hostname),
        ));
    }
    let swap =
        machine.swap_size.map_or_else(String::new, |size| format!("swap:\n  size: {size}B\n"));
    let text = format!("install:\n  log_file: /tmp/install.log\n{swap}verbosity: 3\n");
    Ok(Reply::plain(200, &text))
}

/// `GET /nodes/{id}/interfaces/` and one of it, by id or name.
pub(crate) fn interfaces(
    world: &World,
    user: &User,
    system_id: &str,
    one: Option<&str>,
) -> Result<Reply, Reply> {
    let machine = world.permitted(system_id, user, Need::View)?;
    let all = || machine.interfaces.iter().enumerate();
    match one {
        None => Ok(Reply::json(&Value::Array(
            all().map(|(i, _)| world.interface_json(machine, i)).collect(),
        ))),
        Some(key) => {
            let found = all().find(|(_, i)| i.id.to_string() == key || i.name == key);
            let (position, _) = found.ok_or_else(|| Reply::not_found("Interface"))?;
            Ok(Reply::json(&world.interface_json(machine, position)))
        }
    }
}

/// `POST op=set_zone` moves several machines at once.
pub(crate) fn set_zone(world: &mut World, user: &User, request: &Request) -> Result<Reply, Reply> {
    if !user.admin {
        return Err(Reply::admins_only());
    }
    let zone = crate::params::form_value(request.post(), "zone").unwrap_or_default();
    if !world.zones.iter().any(|z| z.name == zone) {
        return Err(Reply::form(
            "zone",
            "Select a valid choice. That choice is not one of the available choices.",
        ));
    }
    for id in form_values(request.post(), "nodes") {
        world.change(&id, |m| m.zone.clone_from(&zone));
    }
    Ok(Reply::json(&json!(null)))
}
