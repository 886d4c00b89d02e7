//! The inventory.

use crate::small_region;
use maas_sim::Inventory;
use serde_json::{Value, json};

#[test]
fn an_inventory_error_names_the_field() {
    let error = |yaml: &str| format!("{:#}", Inventory::from_yaml(yaml).expect_err("an error"));
    let zone = error("machines:\n  - {hostname: a, cores: 1, memory: 1, zone: nowhere}\n");
    assert!(zone.contains("machines[0]") && zone.contains("zone"), "{zone}");
    let typo = error("machines:\n  - {hostname: a, cores: 1, memory: 1, colour: red}\n");
    assert!(typo.contains("colour"), "{typo}");
    let part = error("machines:\n  - {hostname: a, cores: 1, memory: 1, hardware: {wheels: 4}}\n");
    assert!(part.contains("wheels"), "{part}");
    let kind = error("machines:\n  - {hostname: a, cores: many, memory: 1}\n");
    assert!(kind.contains("machines[0]"), "{kind}");
    let range = error("subnets: [{name: a, cidr: 10.0.0.0/24, auto: all}]");
    assert!(range.contains("subnets[0].auto"), "{range}");
}

#[test]
fn the_default_inventory_has_two_zones_and_enough_machines() {
    let inventory = Inventory::default();
    assert_eq!(inventory.zones, ["az1", "az2"]);
    assert!(inventory.machines.len() >= 10);
}

/// As recorded of a MAAS whose machines are virtual: `Unknown` for what is not known, one NUMA node at least.
#[tokio::test]
async fn a_machine_shows_the_hardware_that_it_was_given() {
    let (_maas, admin, id) = small_region("power_type: virsh").await;
    let plain = admin.get(&format!("/machines/{id}/")).await.json();
    assert_eq!(plain["hardware_info"]["cpu_model"], "Unknown");
    assert_eq!(plain["hardware_info"].as_object().unwrap().len(), 18);
    assert_eq!((&plain["cpu_speed"], &plain["bios_boot_method"]), (&json!(0), &json!(null)));
    assert_eq!(plain["power_type"], "virsh");
    let node = json!({"index": 0, "memory": 8192, "cores": [0, 1, 2, 3], "hugepages_set": []});
    assert_eq!(plain["numanode_set"], json!([node]));
    let given =
        "hardware: {cpu_model: Xeon, cpu_speed: 2400, numa_nodes: 3, bios_boot_method: uefi}";
    let (_maas, admin, id) = small_region(given).await;
    let shown = admin.get(&format!("/machines/{id}/")).await.json();
    assert_eq!(shown["hardware_info"]["cpu_model"], "Xeon");
    assert_eq!(shown["hardware_info"]["system_vendor"], "Unknown");
    assert_eq!((&shown["cpu_speed"], &shown["bios_boot_method"]), (&json!(2400), &json!("uefi")));
    let cores: Vec<&Value> =
        shown["numanode_set"].as_array().unwrap().iter().map(|n| &n["cores"]).collect();
    assert_eq!(cores, [&json!([0]), &json!([1]), &json!([2, 3])]);
}
