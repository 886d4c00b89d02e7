//! The machine object: all 81 keys that MAAS 3.7 shows.

use super::Machine;
use super::hardware::DISK_TAGS;
use crate::inventory::HardwareSpec;
use crate::world::World;
use serde_json::{Map, Value, json};

const HARDWARE_INFO: [&str; 18] = [
    "chassis_serial",
    "chassis_type",
    "chassis_vendor",
    "chassis_version",
    "cpu_model",
    "mainboard_firmware_date",
    "mainboard_firmware_vendor",
    "mainboard_firmware_version",
    "mainboard_product",
    "mainboard_serial",
    "mainboard_vendor",
    "mainboard_version",
    "system_family",
    "system_product",
    "system_serial",
    "system_sku",
    "system_vendor",
    "system_version",
];

impl World {
    pub(crate) fn machine_json(&self, machine: &Machine) -> Value {
        let mut map = Map::new();
        for part in [
            self.identity(machine),
            self.state(machine),
            self.network(machine),
            disks(machine),
            scripts(machine),
            constants(machine),
        ] {
            if let Value::Object(part) = part {
                map.extend(part);
            }
        }
        Value::Object(map)
    }

    fn identity(&self, m: &Machine) -> Value {
        let label = |known: &[crate::labels::Label],
                     name: &str,
                     uri: fn(&crate::labels::Label) -> Value| {
            known.iter().find(|l| l.name == name).map_or(Value::Null, uri)
        };
        json!({
            "system_id": m.system_id,
            "hostname": m.hostname,
            "fqdn": self.fqdn(m),
            "domain": self.domains.iter().find(|d| d.name == self.domain_of(m)).map(|d| self.domain_json(d, true)),
            "description": m.description,
            "owner": m.owner,
            "owner_data": m.annotations,
            "workload_annotations": m.annotations,
            "zone": label(&self.zones, &m.zone, crate::labels::zone_json),
            "pool": label(&self.pools, &m.pool, crate::labels::pool_json),
            "tag_names": m.tags,
            "architecture": m.architecture,
            "cpu_count": m.cpu_count,
            "cpu_speed": m.hardware.cpu_speed,
            "memory": m.memory,
            "resource_uri": format!("/MAAS/api/2.0/machines/{}/", m.system_id),
        })
    }

    fn state(&self, m: &Machine) -> Value {
        // The newest event that is at least INFO; a machine that never had one shows null for both.
        let newest = self.newest_event(&m.system_id);
        json!({
            "status": m.status.number(),
            "status_name": m.status.label(),
            "status_message": newest.map(crate::events::Event::message),
            "status_action": newest.map(|e| e.action.clone()),
            "error_description": m.error_description,
            "power_state": m.power_state,
            "power_type": m.power_type,
            "locked": m.locked,
            "netboot": m.netboot,
            "osystem": m.osystem,
            "distro_series": m.distro_series,
            "hwe_kernel": m.hwe_kernel,
            "min_hwe_kernel": m.min_hwe_kernel,
            "ephemeral_deploy": m.ephemeral_deploy,
            "enable_hw_sync": m.enable_hw_sync,
            "swap_size": m.swap_size,
            "current_installation_result_id": m.installation_result,
        })
    }

    fn network(&self, m: &Machine) -> Value {
        let interfaces: Vec<Value> =
            (0..m.interfaces.len()).map(|i| self.interface_json(m, i)).collect();
        let gateway = m
            .interfaces
            .first()
            .and_then(|i| self.subnets[i.subnet].gateway)
            .map(|g| g.to_string());
        json!({
            "ip_addresses": self.machine_ips(m),
            "boot_interface": interfaces.first(),
            "interface_set": interfaces,
            "default_gateways": {
                "ipv4": {"gateway_ip": gateway, "link_id": null},
                "ipv6": {"gateway_ip": null, "link_id": null},
            },
            "address_ttl": null,
            "disable_ipv4": false,
        })
    }

    pub(crate) fn interface_json(&self, m: &Machine, position: usize) -> Value {
        let interface = &m.interfaces[position];
        let subnet = self.subnet_json(interface.subnet);
        let of = |kind: crate::addresses::AllocType| {
            let mine = Some((m.system_id.clone(), position));
            self.rows.values().find(|r| r.kind == kind && r.interface == mine).and_then(|r| r.ip)
        };
        let mode = if interface.auto { "auto" } else { "link_up" };
        let mut link = json!({"id": interface.link, "mode": mode, "subnet": subnet});
        if let Some(ip) = of(crate::addresses::AllocType::Auto) {
            link["ip_address"] = json!(ip.to_string());
        }
        let discovered = of(crate::addresses::AllocType::Discovered)
            .map(|ip| json!([{"subnet": subnet, "ip_address": ip.to_string()}]));
        json!({
            "id": interface.id,
            "name": interface.name,
            "type": "physical",
            "mac_address": interface.mac,
            "enabled": true,
            "vlan": self.vlan_json(interface.subnet),
            "parents": [],
            "children": [],
            "tags": [],
            "links": [link],
            "discovered": discovered,
            "params": {},
            "effective_mtu": 1500,
            "vendor": "My Corporation",
            "product": "My Gigabit Network Connection",
            "firmware_version": "1.63, 0x800009fa",
            "link_connected": true,
            "interface_speed": speed(),
            "link_speed": speed(),
            "numa_node": 0,
            "sriov_max_vf": 0,
            "system_id": m.system_id,
            "resource_uri": format!("/MAAS/api/2.0/nodes/{}/interfaces/{}/", m.system_id, interface.id),
        })
    }
}

fn speed() -> Value {
    json!(10_000)
}

fn disks(m: &Machine) -> Value {
    // A machine that was never commissioned has no disk yet.
    let disk = (m.disk > 0).then(|| disk(m));
    let all: Vec<&Value> = disk.iter().collect();
    json!({
        "storage": json!(m.disk * 1000).as_f64(),
        "boot_disk": disk,
        "blockdevice_set": all,
        "physicalblockdevice_set": all,
        "virtualblockdevice_set": [],
        "volume_groups": [],
        "raids": [],
        "bcaches": [],
        "cache_sets": [],
        "special_filesystems": [],
    })
}

fn disk(m: &Machine) -> Value {
    let size = m.disk * 1_000_000_000;
    let uuid = |of: &str| {
        let hex = crate::users::letters(&format!("{} {of}", m.system_id), 32, b"0123456789abcdef");
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    };
    let uri = format!("/MAAS/api/2.0/nodes/{}/blockdevices/{}/", m.system_id, m.number);
    let partition = json!({
        "id": m.number * 2,
        "system_id": m.system_id,
        "device_id": m.number,
        "type": "partition",
        "bootable": false,
        "size": size - 7_792_640,
        "uuid": uuid("partition"),
        "path": "/dev/disk/by-dname/sda-part2",
        "tags": [],
        "filesystem": {
            "fstype": "ext4", "label": "root", "uuid": uuid("filesystem"), "mount_point": "/", "mount_options": null,
        },
        "used_for": "ext4 formatted filesystem mounted at /",
        "resource_uri": format!("{uri}partition/{}", m.number * 2),
    });
    json!({
        "id": m.number,
        "system_id": m.system_id,
        "type": "physical",
        "name": "sda",
        "path": "/dev/disk/by-dname/sda",
        "id_path": "/dev/sda",
        "model": "",
        "serial": "",
        "firmware_version": null,
        "size": size,
        "block_size": 512,
        "available_size": 0,
        "used_size": size - 1_501_184,
        "used_for": "GPT partitioned with 1 partition",
        "partition_table_type": "GPT",
        "partitions": [partition],
        "filesystem": null,
        "tags": DISK_TAGS,
        "numa_node": 0,
        "storage_pool": null,
        "uuid": null,
        "resource_uri": uri,
    })
}

fn scripts(m: &Machine) -> Value {
    let (status, name) = if m.commissioned { (2, "Passed") } else { (0, "Pending") };
    let mut map = Map::new();
    for kind in ["commissioning", "testing"] {
        map.insert(format!("{kind}_status"), json!(status));
        map.insert(format!("{kind}_status_name"), json!(name));
        let result = m.commissioned.then(|| m.number * 2 + u64::from(kind == "testing"));
        map.insert(format!("current_{kind}_result_id"), json!(result));
    }
    for kind in ["cpu", "memory", "network", "storage", "other", "interface"] {
        let tested = kind == "storage" && m.commissioned;
        map.insert(format!("{kind}_test_status"), json!(if tested { 2 } else { -1 }));
        map.insert(
            format!("{kind}_test_status_name"),
            json!(if tested { "Passed" } else { "Unknown" }),
        );
    }
    Value::Object(map)
}

fn constants(m: &Machine) -> Value {
    json!({
        "node_type": 0,
        "node_type_name": "Machine",
        "parent": null,
        "pod": null,
        "virtualmachine_id": null,
        "hardware_uuid": null,
        "hardware_info": hardware_info(&m.hardware),
        "bios_boot_method": m.hardware.bios_boot_method,
        "is_dpu": false,
        "enable_kernel_crash_dump": false,
        "last_sync": null,
        "next_sync": null,
        "sync_interval": null,
        "numanode_set": numa_nodes(m),
    })
}

fn hardware_info(known: &HardwareSpec) -> Value {
    let found = |key: &str| match key {
        "cpu_model" => known.cpu_model.as_deref(),
        "system_product" => known.system_product.as_deref(),
        "system_vendor" => known.system_vendor.as_deref(),
        _ => None,
    };
    let told = |key: &&str| ((*key).to_owned(), json!(found(key).unwrap_or("Unknown")));
    Value::Object(HARDWARE_INFO.iter().map(told).collect())
}

/// Each has its share of cores and memory, the last one what is left.
fn numa_nodes(m: &Machine) -> Vec<Value> {
    let nodes = m.hardware.numa_nodes;
    let node = |index: u32| {
        let (cores, memory) = (m.cpu_count / nodes, m.memory / u64::from(nodes));
        let last = index + 1 == nodes;
        let end = if last { m.cpu_count } else { (index + 1) * cores };
        let before = u64::from(index) * memory;
        json!({
            "index": index,
            "memory": if last { m.memory - before } else { memory },
            "cores": (index * cores..end).collect::<Vec<_>>(),
            "hugepages_set": [],
        })
    };
    (0..nodes).map(node).collect()
}
