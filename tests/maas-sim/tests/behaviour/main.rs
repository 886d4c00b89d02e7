//! What a provider must not be surprised by, over real HTTP.

mod binary;
mod calls;
#[path = "../common/mod.rs"]
mod common;
mod dns;
mod failures;
mod inventory;
mod life;
mod operator;
mod rights;
mod signatures;

use common::Caller;
use maas_sim::{Inventory, Options, Simulator};
use serde_json::Value;
use std::time::Duration;

pub(crate) async fn region() -> (Simulator, Caller) {
    let maas = Simulator::start(Inventory::default(), Options::default()).await.expect("a region");
    let admin = Caller::new(&maas.url(), &maas.api_key());
    (maas, admin)
}

pub(crate) async fn small_region(machine: &str) -> (Simulator, Caller, String) {
    let yaml = format!("machines:\n  - {{hostname: one, cores: 4, memory: 8192, {machine}}}\n");
    let inventory = Inventory::from_yaml(&yaml).expect("an inventory");
    let maas = Simulator::start(inventory, Options::default()).await.expect("a region");
    let admin = Caller::new(&maas.url(), &maas.api_key());
    let id = maas.machines()[0].system_id.clone();
    (maas, admin, id)
}

pub(crate) async fn allocate(caller: &Caller, form: &[(&str, &str)]) -> String {
    let answer = caller.post("/machines/?op=allocate", form).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.str("system_id")
}

pub(crate) async fn deploy(maas: &Simulator, caller: &Caller, id: &str) -> String {
    let answer = caller
        .post(&format!("/machines/{id}/?op=deploy"), &[("user_data", "I2Nsb3VkLWNvbmZpZwo=")])
        .await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    maas.advance(Duration::from_secs(300));
    let machine = maas.machine(id).expect("the machine");
    assert_eq!(machine.status_name, "Deployed");
    machine.ip_addresses[0].clone()
}

pub(crate) fn names(list: &Value) -> Vec<String> {
    list.as_array()
        .into_iter()
        .flatten()
        .map(|m| m["hostname"].as_str().unwrap_or("").to_owned())
        .collect()
}
