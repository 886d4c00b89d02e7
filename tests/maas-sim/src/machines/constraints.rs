//! The constraints of `op=allocate` and the filters of `GET /machines/`: MAAS checks both with one form.

use super::Machine;
use crate::addresses::Cidr;
use crate::request::Pairs;
use crate::status::Status;
use crate::world::World;

type Test = Box<dyn Fn(&World, &Machine) -> bool>;

/// One checked constraint.
pub(crate) struct Constraint {
    pub(crate) key: String,
    /// As MAAS repeats it in `(resolved to "…")`.
    pub(crate) described: String,
    pub(crate) test: Test,
    /// The label of a storage or interfaces constraint, for `constraints_by_type`.
    pub(crate) label: Option<String>,
}

/// Which form is in use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Form {
    Acquire,
    Read,
}

/// All faulty fields with their messages.
pub(crate) type Faults = Vec<(String, Vec<String>)>;

/// Keys that are no constraints although they may be sent.
const IGNORED: [&str; 9] = [
    "op",
    "comment",
    "agent_name",
    "bridge_all",
    "bridge_type",
    "bridge_stp",
    "bridge_fd",
    "dry_run",
    "verbose",
];

/// Keys with all their values, in the order in which the keys first came.
pub(crate) fn grouped(pairs: &Pairs) -> Vec<(String, Vec<String>)> {
    let mut groups: Vec<(String, Vec<String>)> = vec![];
    for (key, value) in pairs {
        match groups.iter_mut().find(|(k, _)| k == key) {
            Some((_, values)) => values.push(value.clone()),
            None => groups.push((key.clone(), vec![value.clone()])),
        }
    }
    groups
}

pub(crate) fn parse(world: &World, pairs: &Pairs, form: Form) -> Result<Vec<Constraint>, Faults> {
    let (mut found, mut faults) = (vec![], vec![]);
    for (key, values) in grouped(pairs) {
        let read_agent = form == Form::Read && key == "agent_name";
        if IGNORED.contains(&key.as_str()) && !read_agent {
            continue;
        }
        match one(world, &key, values, form) {
            Ok(Some((described, label, test))) => {
                found.push(Constraint { key, described, test, label })
            }
            Ok(None) => {}
            Err(message) => faults.push((key, vec![message])),
        }
    }
    if faults.is_empty() { Ok(found) } else { Err(faults) }
}

type Parsed = Result<Option<(String, Option<String>, Test)>, String>;

fn one(world: &World, key: &str, values: Vec<String>, form: Form) -> Parsed {
    let described = values.join(",");
    let plain = |test: Test| Ok(Some((described.clone(), None, test)));
    match key {
        "name" if form == Form::Acquire => {
            plain(Box::new(move |w, m| values.iter().all(|v| named(w, m, v))))
        }
        "tags" => tags(world, &values),
        "not_tags" => plain(Box::new(move |_, m| !m.tags.iter().any(|t| values.contains(t)))),
        "zone" | "not_in_zone" | "pool" | "not_in_pool" => labels(world, key, values),
        "arch" | "not_arch" => architecture(world, key, values),
        "cpu_count" | "mem" | "cpu_speed" | "link_speed" => minimum(key, &values),
        "storage" => storage(&values),
        "interfaces" => super::hardware::interfaces(&values),
        "devices" => super::hardware::devices(&values),
        "subnets" | "not_subnets" | "vlans" | "not_vlans" => networks(world, key, &values),
        "status" | "not_status" if form == Form::Read => statuses(key, &values),
        "owner" | "not_owner" => owners(world, key, values),
        "mac_address" if form == Form::Read => mac(values),
        "fabric_classes" | "pod" | "pod_type" => plain(Box::new(|_, _| false)),
        "not_fabric_classes" | "not_pod" | "not_pod_type" => plain(Box::new(|_, _| true)),
        _ => match simple(key, form) {
            Some(field) => plain(member(key, values, field)),
            None => Err("No such constraint.".into()),
        },
    }
}

/// Filters that compare one text with the values given, or `not_…` them.
fn simple(key: &str, form: Form) -> Option<fn(&World, &Machine) -> Vec<String>> {
    let bare = key.strip_prefix("not_").unwrap_or(key);
    Some(match (bare, form) {
        ("system_id", _) => |_, m| vec![m.system_id.clone()],
        ("id", Form::Read) => |_, m| vec![m.system_id.clone()],
        ("hostname", Form::Read) => |_, m| vec![m.hostname.clone()],
        ("domain", Form::Read) => |w, m| vec![w.domain_of(m).to_owned()],
        ("agent_name", Form::Read) => |_, m| vec![m.agent_name.clone()],
        ("power_state", _) => |_, m| vec![m.power_state.clone()],
        ("deployment_target", _) => {
            |_, m| vec![if m.ephemeral_deploy { "memory" } else { "disk" }.into()]
        }
        ("fabrics", _) => {
            |w, m| m.interfaces.iter().map(|i| w.subnets[i.subnet].fabric.clone()).collect()
        }
        _ => return None,
    })
}

fn member(key: &str, values: Vec<String>, field: fn(&World, &Machine) -> Vec<String>) -> Test {
    let wanted = !key.starts_with("not_");
    Box::new(move |w, m| field(w, m).iter().any(|v| values.contains(v)) == wanted)
}

fn named(world: &World, machine: &Machine, name: &str) -> bool {
    match name.split_once('.') {
        Some((host, domain)) => machine.hostname == host && world.domain_of(machine) == domain,
        None => machine.hostname == name,
    }
}

fn tags(world: &World, values: &[String]) -> Parsed {
    let split = |v: &String| v.split([',', ' ', '\t', '\n']).map(str::to_owned).collect::<Vec<_>>();
    let wanted: Vec<String> = values.iter().flat_map(split).filter(|t| !t.is_empty()).collect();
    let unknown: Vec<String> = wanted
        .iter()
        .filter(|t| !world.tags.iter().any(|x| &x.name == *t))
        .map(|t| format!("'{t}'"))
        .collect();
    if !unknown.is_empty() {
        return Err(format!("No such tag(s): {}.", unknown.join(", ")));
    }
    if wanted.is_empty() {
        return Ok(None);
    }
    let described = wanted.join(",");
    Ok(Some((described, None, Box::new(move |_, m| wanted.iter().all(|t| m.tags.contains(t))))))
}

fn labels(world: &World, key: &str, values: Vec<String>) -> Parsed {
    let zone = key.ends_with("zone");
    let (known, kind) = if zone { (&world.zones, "zone") } else { (&world.pools, "pool") };
    let unknown: Vec<&str> = values
        .iter()
        .filter(|v| !known.iter().any(|l| &l.name == *v))
        .map(String::as_str)
        .collect();
    if !unknown.is_empty() {
        return Err(format!("No such {kind}(s): {}.", unknown.join(", ")));
    }
    let wanted = !key.starts_with("not_");
    let described = values.join(",");
    let test: Test =
        Box::new(move |_, m| values.contains(if zone { &m.zone } else { &m.pool }) == wanted);
    Ok(Some((described, None, test)))
}

/// Checked against the images that are there, not against the machines.
fn architecture(world: &World, key: &str, values: Vec<String>) -> Parsed {
    let mut usable: Vec<String> = world
        .images
        .iter()
        .flat_map(|(_, i)| i.architectures.iter().map(|a| format!("{a}/generic")))
        .collect();
    usable.sort();
    usable.dedup();
    let mut wanted = vec![];
    for value in values {
        let name = if value == "arm" { "armhf" } else { &value };
        let matching =
            usable.iter().filter(|u| *u == name || u.strip_suffix("/generic") == Some(name));
        let before = wanted.len();
        wanted.extend(matching.cloned());
        if wanted.len() == before {
            return Err("Architecture not recognised.".into());
        }
    }
    let described = wanted.join(",");
    let yes = !key.starts_with("not_");
    Ok(Some((described, None, Box::new(move |_, m| wanted.contains(&m.architecture) == yes))))
}

fn minimum(key: &str, values: &[String]) -> Parsed {
    let wrong = match key {
        "cpu_count" => "Invalid CPU count: number required.",
        "mem" => "Invalid memory: number of MiB required.",
        "cpu_speed" => "Invalid CPU speed: number required.",
        _ => "Invalid link speed: number required.",
    };
    let mut least = f64::INFINITY;
    for value in values {
        least = least.min(value.trim().parse::<f64>().map_err(|_| wrong.to_owned())?);
    }
    // Python writes a whole float with `.0`.
    let described = format!("{least:?}");
    let test: Test = match key {
        "cpu_count" => Box::new(move |_, m| f64::from(m.cpu_count) >= least),
        "mem" => Box::new(move |_, m| as_float(m.memory) >= least),
        "cpu_speed" => Box::new(move |_, m| f64::from(m.hardware.cpu_speed) >= least),
        _ => Box::new(move |_, _| super::hardware::LINK_SPEED >= least),
    };
    Ok(Some((described, None, test)))
}

/// Sizes here are far below the 2^53 up to which this is exact.
fn as_float(value: u64) -> f64 {
    f64::from(u32::try_from(value).unwrap_or(u32::MAX))
}

/// `[label:]SIZE_GB[(tag,…)],…`; the disk must be as large as the first item, which is the one that holds `/`.
fn storage(values: &[String]) -> Parsed {
    let text = values.last().cloned().unwrap_or_default();
    let wrong = || format!("Malformed storage constraint, \"{text}\".");
    let first = text.split_inclusive(')').next().unwrap_or("");
    let (size, tags) = match first.split_once('(') {
        Some((size, tags)) => (size, tags.strip_suffix(')').ok_or_else(wrong)?),
        None => (first.split(',').next().unwrap_or(""), ""),
    };
    let (label, size) = size.split_once(':').map_or((None, size), |(l, s)| (Some(l.to_owned()), s));
    let size: f64 = size.parse().map_err(|_| wrong())?;
    let tags: Vec<String> =
        tags.split(',').map(str::trim).filter(|t| !t.is_empty()).map(str::to_owned).collect();
    let tagged = tags.iter().all(|t| super::hardware::DISK_TAGS.contains(&t.as_str()));
    let test: Test = Box::new(move |_, m| tagged && as_float(m.disk) >= size);
    Ok(Some((text, label, test)))
}

/// `id`, a CIDR, `name:…`, `cidr:…`, `ip:…`, `vid:…`, `fabric:…`.
fn networks(world: &World, key: &str, values: &[String]) -> Parsed {
    let vlans = key.ends_with("vlans");
    let mut wanted = vec![];
    for value in values {
        let matching: Vec<usize> =
            (0..world.subnets.len()).filter(|s| specified(world, *s, value, vlans)).collect();
        if matching.is_empty() {
            let kind = if vlans { "VLANs" } else { "subnets" };
            return Err(format!("No matching {kind} found."));
        }
        wanted.push(matching);
    }
    let on = |m: &Machine, group: &[usize]| m.interfaces.iter().any(|i| group.contains(&i.subnet));
    let test: Test = match key.starts_with("not_") {
        true => Box::new(move |_, m| !wanted.iter().any(|g| on(m, g))),
        false => Box::new(move |_, m| wanted.iter().all(|g| on(m, g))),
    };
    Ok(Some((values.join(","), None, test)))
}

pub(crate) fn specified(world: &World, subnet: usize, spec: &str, vlan: bool) -> bool {
    let this = &world.subnets[subnet];
    match spec.split_once(':') {
        Some(("name", name)) => !vlan && this.name == name,
        Some(("cidr", cidr)) => this.cidr == cidr,
        Some(("ip", ip)) => {
            ip.parse().is_ok_and(|ip| Cidr::parse(&this.cidr).is_ok_and(|c| c.contains(ip)))
        }
        Some(("fabric", fabric)) => this.fabric == fabric,
        // Every VLAN here is the untagged one.
        Some(("vid", vid)) => vid == "0" || vid == "untagged",
        Some(("space", space)) => space == "undefined",
        Some(_) => false,
        None if vlan => spec == world.vlan_id(subnet).to_string(),
        None => spec == (subnet + 1).to_string() || spec == this.cidr || spec == this.name,
    }
}

fn statuses(key: &str, values: &[String]) -> Parsed {
    let mut wanted = vec![];
    for value in values {
        let name = value.strip_prefix('=').unwrap_or(value);
        let wrong =
            || format!("Select a valid choice. {value} is not one of the available choices.");
        wanted.push(Status::from_name(name).ok_or_else(wrong)?);
    }
    let yes = !key.starts_with("not_");
    Ok(Some((values.join(","), None, Box::new(move |_, m| wanted.contains(&m.status) == yes))))
}

fn owners(world: &World, key: &str, values: Vec<String>) -> Parsed {
    let unknown: Vec<&str> =
        values.iter().filter(|v| world.user(v).is_none()).map(String::as_str).collect();
    if !unknown.is_empty() {
        return Err(format!("No such owner(s): {}.", unknown.join(", ")));
    }
    let yes = !key.starts_with("not_");
    let described = values.join(",");
    Ok(Some((
        described,
        None,
        Box::new(move |_, m| m.owner.as_ref().is_some_and(|o| values.contains(o)) == yes),
    )))
}

fn mac(values: Vec<String>) -> Parsed {
    for value in &values {
        let parts: Vec<&str> = value.split(':').collect();
        if parts.len() != 6
            || !parts.iter().all(|p| p.len() == 2 && u8::from_str_radix(p, 16).is_ok())
        {
            return Err(format!("'{value}' is not a valid MAC address."));
        }
    }
    let described = values.join(",");
    let test: Test = Box::new(move |_, m| {
        m.interfaces.iter().any(|i| values.iter().any(|v| v.eq_ignore_ascii_case(&i.mac)))
    });
    Ok(Some((described, None, test)))
}
