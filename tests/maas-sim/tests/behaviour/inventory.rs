//! The inventory.

use maas_sim::Inventory;

#[test]
fn an_inventory_error_names_the_field() {
    let error = |yaml: &str| format!("{:#}", Inventory::from_yaml(yaml).expect_err("an error"));
    let zone = error("machines:\n  - {hostname: a, cores: 1, memory: 1, zone: nowhere}\n");
    assert!(zone.contains("machines[0]") && zone.contains("zone"), "{zone}");
    let typo = error("machines:\n  - {hostname: a, cores: 1, memory: 1, colour: red}\n");
    assert!(typo.contains("colour"), "{typo}");
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
