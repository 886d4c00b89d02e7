//! `PUT` and `DELETE` of a machine: administrators only, even for one's own machine.

use super::Need;
use crate::params::{form_value, stringbool};
use crate::reply::Reply;
use crate::request::{Pairs, Request};
use crate::users::User;
use crate::world::World;

const NO_CHOICE: &str = "Select a valid choice. That choice is not one of the available choices.";
const POWER_TYPES: [&str; 21] = [
    "amt",
    "apc",
    "dli",
    "eaton",
    "fence_cdu",
    "hmc",
    "hmcz",
    "ipmi",
    "lxd",
    "manual",
    "moonshot",
    "mscm",
    "msftocs",
    "nova",
    "openbmc",
    "proxmox",
    "recs_box",
    "redfish",
    "sm15k",
    "ucsm",
    "virsh",
];

#[derive(Debug, Default)]
struct Changes {
    hostname: Option<String>,
    domain: Option<String>,
    swap_size: Option<i64>,
    zone: Option<String>,
    pool: Option<String>,
    description: Option<String>,
    architecture: Option<String>,
    power_type: Option<String>,
    cpu_count: Option<u32>,
    memory: Option<u64>,
}

/// Unknown fields are ignored; a blank `swap_size` leaves it as it is.
pub(crate) fn update(
    world: &mut World,
    user: &User,
    system_id: &str,
    request: &Request,
) -> Result<Reply, Reply> {
    world.permitted(system_id, user, Need::Admin)?;
    let fields = request.fields();
    let changes = read(world, system_id, &fields)?;
    world.change(system_id, |m| {
        // Saving MAAS's form turns an unset kernel into a blank one.
        m.min_hwe_kernel.get_or_insert_default();
        m.description = changes.description.unwrap_or_else(|| m.description.clone());
        m.hostname = changes.hostname.unwrap_or_else(|| m.hostname.clone());
        m.domain = changes.domain.unwrap_or_else(|| m.domain.clone());
        m.swap_size = changes.swap_size.or(m.swap_size);
        m.zone = changes.zone.unwrap_or_else(|| m.zone.clone());
        m.pool = changes.pool.unwrap_or_else(|| m.pool.clone());
        m.architecture = changes.architecture.unwrap_or_else(|| m.architecture.clone());
        m.power_type = changes.power_type.unwrap_or_else(|| m.power_type.clone());
        m.cpu_count = changes.cpu_count.unwrap_or(m.cpu_count);
        m.memory = changes.memory.unwrap_or(m.memory);
    });
    Ok(world.machine_reply(system_id))
}

fn read(world: &World, system_id: &str, fields: &Pairs) -> Result<Changes, Reply> {
    let mut faults: Vec<(String, Vec<String>)> = vec![];
    let mut fault = |field: &str, text: &str| faults.push((field.into(), vec![text.into()]));
    let given = |key: &str| form_value(fields, key);
    let filled = |key: &str| given(key).filter(|v| !v.is_empty());
    let mut changes = Changes { description: given("description"), ..Changes::default() };
    if let Some(name) = filled("hostname") {
        match hostname(world, system_id, &name) {
            Ok((host, domain)) => {
                changes.hostname = Some(host);
                changes.domain = domain;
            }
            Err(text) => fault("hostname", &text),
        }
    }
    if let Some(name) = filled("domain") {
        let found = world.domains.iter().find(|d| d.name == name || d.id.to_string() == name);
        match found {
            Some(domain) => changes.domain = Some(domain.name.clone()),
            None => fault("domain", &format!("Unable to find domain {name}")),
        }
    }
    if let Some(text) = filled("swap_size") {
        match swap_size(&text)? {
            Ok(size) => changes.swap_size = Some(size),
            Err(message) => fault("swap_size", &message),
        }
    }
    for (key, known) in [("zone", &world.zones), ("pool", &world.pools)] {
        let Some(name) = filled(key) else { continue };
        match known.iter().any(|l| l.name == name) {
            true if key == "zone" => changes.zone = Some(name),
            true => changes.pool = Some(name),
            false => fault(key, NO_CHOICE),
        }
    }
    if let Some(kind) = filled("power_type") {
        if !POWER_TYPES.contains(&kind.as_str()) {
            fault(
                "power_type",
                &format!("Select a valid choice. {kind} is not one of the available choices."),
            );
        }
        changes.power_type = Some(kind);
    }
    changes.architecture = filled("architecture");
    changes.cpu_count = filled("cpu_count").and_then(|v| v.parse().ok());
    changes.memory = filled("memory").and_then(|v| v.parse().ok());
    if faults.is_empty() { Ok(changes) } else { Err(Reply::forms(&faults)) }
}

/// A dotted name is host and domain. Names are unique over all domains.
fn hostname(
    world: &World,
    system_id: &str,
    name: &str,
) -> Result<(String, Option<String>), String> {
    let (host, domain) = name.split_once('.').map_or((name, None), |(h, d)| (h, Some(d)));
    if let Some(domain) = domain
        && !world.domains.iter().any(|d| d.name == domain)
    {
        return Err("Nonexistant domain.".into());
    }
    if host.contains('_') {
        return Err(format!("Host label cannot contain underscore: '{host}'."));
    }
    if !host.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        return Err(format!("Label contains disallowed characters: '{host}'."));
    }
    if world.machines.iter().any(|m| m.hostname == host && m.system_id != system_id) {
        return Err("Node with this Hostname already exists.".into());
    }
    Ok((host.into(), domain.map(str::to_owned)))
}

/// Bytes, or a number with K, M, G or T (times 1000). The outer error is the 500 for a fraction with a suffix.
fn swap_size(text: &str) -> Result<Result<i64, String>, Reply> {
    let (number, factor) = match text.char_indices().last() {
        Some((at, 'K')) => (&text[..at], 1_000_i128),
        Some((at, 'M')) => (&text[..at], 1_000_000),
        Some((at, 'G')) => (&text[..at], 1_000_000_000),
        Some((at, 'T')) => (&text[..at], 1_000_000_000_000),
        _ => (text, 1),
    };
    let Ok(number) = number.parse::<i128>() else {
        if factor > 1 {
            return Err(Reply::text(
                500,
                &format!("invalid literal for int() with base 10: '{number}'"),
            ));
        }
        return Ok(Err(format!("Invalid size for swap: {text}")));
    };
    let size = number.checked_mul(factor).and_then(|size| i64::try_from(size).ok());
    Ok(size.ok_or_else(|| "Ensure this value is less than or equal to 9223372036854775807.".into()))
}

pub(crate) fn delete(
    world: &mut World,
    user: &User,
    system_id: &str,
    request: &Request,
) -> Result<Reply, Reply> {
    stringbool(&request.query, "force")?;
    world.permitted(system_id, user, Need::Admin)?;
    world.remove_machine(system_id);
    Ok(Reply::deleted())
}
