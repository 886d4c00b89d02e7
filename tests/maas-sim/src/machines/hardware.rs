//! Constraints on network cards and other devices.

use super::Machine;
use crate::world::World;

/// Mbit/s of every card.
pub(crate) const LINK_SPEED: f64 = 10_000.0;
/// The tags of every disk.
pub(crate) const DISK_TAGS: [&str; 2] = ["ssd", "sata"];
/// The one extra device that every machine has.
const DEVICE: [(&str, &str); 2] = [("vendor_id", "1234"), ("product_id", "5678")];

const INTERFACE_KEYS: [&str; 13] = [
    "id",
    "fabric",
    "fabric_class",
    "ip",
    "mode",
    "name",
    "hostname",
    "subnet",
    "space",
    "subnet_cidr",
    "type",
    "vlan",
    "vid",
];
const DEVICE_KEYS: [&str; 5] =
    ["vendor_id", "product_id", "vendor_name", "product_name", "commissioning_driver"];

type Test = Box<dyn Fn(&World, &Machine) -> bool>;
type Parsed = Result<Option<(String, Option<String>, Test)>, String>;
type Keys = Vec<(String, String)>;

/// `label:key=value[,key=value]`; only the first of several labels is looked at.
pub(crate) fn interfaces(values: &[String]) -> Parsed {
    let text = values.last().cloned().unwrap_or_default();
    let form = "<label>:<key>=<value>[,<key2>=<value2>[,...]]";
    let wrong = || format!("Malformed constraint: '{text}' (required format: '{form}')");
    let first = text.split(';').next().unwrap_or("");
    let (label, rest) =
        first.split_once(':').filter(|(l, _)| !l.contains('=')).ok_or_else(wrong)?;
    let keys = pairs(rest, &INTERFACE_KEYS, "interfaces")?;
    let label = Some(label.to_owned());
    Ok(Some((
        text.clone(),
        label,
        Box::new(move |w, m| m.interfaces.iter().any(|i| keys.iter().all(|k| card(w, m, i, k)))),
    )))
}

fn card(
    world: &World,
    machine: &Machine,
    interface: &super::Interface,
    (key, value): &(String, String),
) -> bool {
    let subnet = &world.subnets[interface.subnet];
    match key.as_str() {
        "name" => &interface.name == value,
        "hostname" => &machine.hostname == value,
        "fabric" => &subnet.fabric == value,
        "subnet_cidr" => &subnet.cidr == value,
        "subnet" | "ip" => super::constraints::specified(world, interface.subnet, value, false),
        "mode" => value == if interface.auto { "auto" } else { "link_up" },
        "type" => value == "physical",
        "space" => value == "undefined",
        "id" => interface.id.to_string() == *value,
        "vid" => value == "0",
        "vlan" => super::constraints::specified(world, interface.subnet, value, true),
        _ => false,
    }
}

pub(crate) fn devices(values: &[String]) -> Parsed {
    let text = values.last().cloned().unwrap_or_default();
    let keys = pairs(&text, &DEVICE_KEYS, "devices")?;
    let has = keys
        .iter()
        .all(|(k, v)| DEVICE.iter().any(|(dk, dv)| k == dk && v.eq_ignore_ascii_case(dv)));
    Ok(Some((text, None, Box::new(move |_, _| has))))
}

fn pairs(text: &str, known: &[&str], kind: &str) -> Result<Keys, String> {
    let mut keys = vec![];
    for part in text.split(',') {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let bare = key.strip_prefix("not_").unwrap_or(key);
        if !known.contains(&bare) {
            // MAAS forgets the closing quote.
            return Err(format!("Unknown {kind} constraint: '{key}"));
        }
        keys.push((key.to_owned(), value.to_owned()));
    }
    Ok(keys)
}
