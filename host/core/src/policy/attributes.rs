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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maas::Hardware;

    fn machine(hardware: Hardware) -> Machine {
        let json = serde_json::json!({
            "system_id": "abc123", "hostname": "node-1", "fqdn": "node-1.maas", "status": "Ready",
            "status_message": "", "error_description": "", "owner": null, "annotations": {},
            "zone": "z", "pool": "", "tags": ["rack-7", "gpu", "", "gpu"], "power": "off",
            "architecture": "amd64/generic", "cpu_count": 4, "memory": 8192, "storage": 1,
            "swap_size": null, "ip_addresses": [], "locked": false, "ephemeral": false,
            "vm_host": null, "hardware": hardware,
        });
        serde_json::from_value(json).unwrap()
    }

    fn get<'a>(list: &'a Attributes, key: &str) -> Option<&'a str> {
        list.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    #[test]
    fn every_key_is_there_and_they_are_sorted() {
        let list = of_candidate(
            &machine(Hardware {
                cpu_model: "EPYC".into(),
                cpu_speed: 3250,
                system_vendor: "Dell Inc.".into(),
                system_product: "R7615".into(),
                numa_nodes: 2,
                power_type: "redfish".into(),
                bios_boot_method: "uefi".into(),
            }),
            Some(7),
        );
        let expected = [
            ("bios-boot-method", "uefi"),
            ("cpu-model", "EPYC"),
            ("cpu-speed-mhz", "3250"),
            ("held-before", "7"),
            ("numa-nodes", "2"),
            ("power-type", "redfish"),
            ("system-product", "R7615"),
            ("system-vendor", "Dell Inc."),
        ];
        assert_eq!(list, expected.map(|(k, v)| (k.to_owned(), v.to_owned())));
    }

    #[test]
    fn what_is_not_known_has_no_key() {
        assert_eq!(of_candidate(&machine(Hardware::default()), None), []);
        let failed = of_failed(&machine(Hardware::default()));
        assert_eq!((get(&failed, "hostname"), get(&failed, "pool")), (Some("node-1"), None));
        assert_eq!(get(&failed, "tags"), Some("gpu rack-7"));
    }

    #[test]
    fn a_value_is_one_short_line() {
        let of = |model: &str| {
            let hardware = Hardware { cpu_model: model.into(), ..Hardware::default() };
            get(&of_candidate(&machine(hardware), None), "cpu-model").map(str::to_owned)
        };
        assert_eq!(of("  Xeon\u{7}\u{1b}[31m\tE5\n").as_deref(), Some("Xeon[31m E5"));
        assert_eq!(of(" \u{0}\n"), None);
        assert_eq!(of(&"ü".repeat(300)).unwrap().len(), 256);
        assert_eq!(of(&format!("{}ü", "x".repeat(255))).unwrap(), "x".repeat(255));
    }

    #[test]
    fn a_tag_is_whole_or_left_out() {
        let many: Vec<String> = (0..2000).map(|n| format!("tag-{n:04}")).collect();
        let joined = tags(&many);
        assert!(joined.len() <= LONGEST_TAGS && joined.len() > LONGEST_TAGS - 9);
        assert!(joined.split(' ').all(|t| many.iter().any(|m| m == t)));
    }
}
