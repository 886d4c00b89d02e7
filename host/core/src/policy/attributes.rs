//! What a question says beyond the records of the contract. The keys are listed in `wit/README.md`.

use super::Attributes;
use crate::maas::Machine;
use crate::text::bounded;

/// The longest value, bytes.
const LONGEST: usize = 256;
/// The tags of one machine together, bytes. Half a tag would be another one.
const LONGEST_TAGS: usize = 4096;

/// Of a machine on offer, and when the cluster held it before.
pub(super) fn of_candidate(machine: &Machine, held_before: Option<u64>) -> Attributes {
    let hardware = &machine.hardware;
    let number = |n: u32| if n == 0 { String::new() } else { n.to_string() };
    sorted([
        ("bios-boot-method", value(&hardware.bios_boot_method)),
        ("cpu-model", value(&hardware.cpu_model)),
        ("cpu-speed-mhz", number(hardware.cpu_speed)),
        ("held-before", held_before.map(|at| at.to_string()).unwrap_or_default()),
        ("numa-nodes", number(hardware.numa_nodes)),
        ("power-type", value(&hardware.power_type)),
        ("system-product", value(&hardware.system_product)),
        ("system-vendor", value(&hardware.system_vendor)),
    ])
}

/// Of a machine that failed.
pub(crate) fn of_failed(machine: &Machine) -> Attributes {
    sorted([
        ("hostname", value(&machine.hostname)),
        ("pool", value(&machine.pool)),
        ("tags", tags(&machine.tags)),
    ])
}

/// What is not known has no key.
fn sorted<const N: usize>(pairs: [(&str, String); N]) -> Attributes {
    let known = pairs.into_iter().filter(|(_, value)| !value.is_empty());
    let mut list: Attributes = known.map(|(key, value)| (key.to_owned(), value)).collect();
    list.sort();
    list
}

/// One line without control characters.
fn value(text: &str) -> String {
    let line = bounded(text.trim(), LONGEST);
    let end = line.floor_char_boundary(LONGEST);
    line[..end].trim().to_owned()
}

fn tags(tags: &[String]) -> String {
    let mut names: Vec<String> = tags.iter().map(|tag| value(tag)).collect();
    names.sort();
    names.dedup();
    let mut joined = String::new();
    for name in names.iter().filter(|n| !n.is_empty() && !n.contains(char::is_whitespace)) {
        if joined.len() + 1 + name.len() > LONGEST_TAGS {
            break;
        }
        if !joined.is_empty() {
            joined.push(' ');
        }
        joined.push_str(name);
    }
    joined
}
