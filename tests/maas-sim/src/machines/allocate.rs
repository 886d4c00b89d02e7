//! `op=allocate`.

use super::Machine;
use super::constraints::{Constraint, Form, grouped, parse};
use crate::params::{form_value, int, repr, stringbool};
use crate::reply::Reply;
use crate::request::{Data, Pairs, Request};
use crate::status::Status;
use crate::users::User;
use crate::world::World;
use serde_json::{Value, json};

pub(crate) fn allocate(world: &mut World, user: &User, request: &Request) -> Result<Reply, Reply> {
    // MAAS calls `.lists()` on what the body became; only forms have it.
    let kind = match &request.data {
        Data::Form(_) => None,
        Data::Json(Value::Array(_)) => Some("list"),
        Data::Json(_) | Data::BadJson => Some("dict"),
        Data::Other => Some("NoneType"),
    };
    if let Some(kind) = kind {
        return Err(Reply::text(500, &format!("'{kind}' object has no attribute 'lists'")));
    }
    let form = request.post();
    let dry_run = stringbool(form, "dry_run")?.unwrap_or(false);
    stringbool(form, "verbose")?;
    stringbool(form, "bridge_all")?;
    stringbool(form, "bridge_stp")?;
    int(form, "bridge_fd")?;
    super::deploy::check_bridge_type(form)?;
    let constraints = parse(world, form, Form::Acquire).map_err(|faults| Reply::forms(&faults))?;
    let found =
        cheapest(world, user, &constraints).ok_or_else(|| none_available(form, &constraints))?;
    let by_type = by_type(found, &constraints);
    let system_id = found.system_id.clone();
    if !dry_run {
        let agent = form_value(form, "agent_name").unwrap_or_default();
        let length = agent.chars().count();
        if length > 255 {
            let text = format!("Ensure this value has at most 255 characters (it has {length}).");
            return Err(Reply::model_error("agent_name", &text));
        }
        world.acquire(&system_id, user, &agent, form);
    }
    let machine = world.machine(&system_id).ok_or_else(|| Reply::not_found("Machine"))?;
    let mut body = world.machine_json(machine);
    body["constraints_by_type"] = by_type;
    Ok(Reply::json(&body))
}

/// MAAS orders by cores plus GiB of memory; among equals the oldest machine wins here.
fn cheapest<'a>(world: &'a World, user: &User, constraints: &[Constraint]) -> Option<&'a Machine> {
    let free = |m: &&Machine| m.status == Status::Ready && m.editable(user);
    let fits = |m: &&Machine| constraints.iter().all(|c| (c.test)(world, m));
    let cost = |m: &&Machine| (u64::from(m.cpu_count) * 1024 + m.memory, m.number);
    world.machines.iter().filter(free).filter(fits).min_by_key(cost)
}

fn none_available(form: &Pairs, constraints: &[Constraint]) -> Reply {
    if let Some(system_id) = form_value(form, "system_id") {
        return Reply::text(409, &format!("No machine with system ID {system_id} available."));
    }
    if constraints.is_empty() {
        return Reply::text(409, "No machine available.");
    }
    let asked: Vec<String> = grouped(form)
        .iter()
        .filter(|(key, _)| key != "op")
        .map(|(key, values)| {
            let values: Vec<String> = values.iter().map(|v| repr(v)).collect();
            format!("({}, [{}])", repr(key), values.join(", "))
        })
        .collect();
    let mut resolved: Vec<String> =
        constraints.iter().map(|c| format!("{}={}", c.key, c.described)).collect();
    resolved.sort();
    let (asked, resolved) = (asked.join(", "), resolved.join(" "));
    Reply::text(
        409,
        &format!(
            "No available machine matches constraints: [{asked}] (resolved to \"{resolved}\")"
        ),
    )
}

fn by_type(machine: &Machine, constraints: &[Constraint]) -> Value {
    let mut out = json!({});
    for constraint in constraints {
        let Some(label) = &constraint.label else {
            continue;
        };
        let id = match constraint.key.as_str() {
            "interfaces" => machine.interfaces.first().map_or(0, |i| i.id),
            _ => machine.number,
        };
        out[&constraint.key] = json!({ label: [id] });
    }
    out
}

impl World {
    /// The machine becomes the caller's; so does a Ready machine that is deployed.
    pub(crate) fn acquire(&mut self, system_id: &str, user: &User, agent_name: &str, form: &Pairs) {
        self.add_user_event(system_id, user, "User acquiring node", form);
        self.change(system_id, |m| {
            m.owner = Some(user.name.clone());
            m.agent_name = agent_name.into();
        });
        self.set_status(system_id, Status::Allocated);
    }
}
