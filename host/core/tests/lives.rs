//! Whole lives of machines and clusters.

mod world;

use capmaas_core::maas::Status;
use world::{NAME, World};

#[test]
fn a_machine_is_taken_deployed_and_released() {
    let mut world = World::with_machine(false);
    world.reconcile(NAME);
    assert_eq!(world.maas.hosts["aaa111"].shown.status, Status::Deploying);
    world.maas.time_passes();
    world.now += 15;
    world.reconcile(NAME);
    assert!(world.kube.maas_machine(NAME).unwrap().status.unwrap().ready);
    world.kube.delete("MaasMachine", NAME);
    world.reconcile(NAME);
    world.maas.time_passes();
    world.reconcile(NAME);
    assert!(world.kube.maas_machine(NAME).is_none());
    assert_eq!(world.maas.hosts["aaa111"].shown.status, Status::Ready);
}
