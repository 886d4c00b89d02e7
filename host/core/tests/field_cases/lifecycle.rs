//! From the first allocate to a Node.

use capmaas_core::maas::{Power, Status};
use capmaas_core::{Effect, SecretState};

use super::world::{Destiny, World};
use super::{NAME, deployments, ready, said};

/// Nothing is kept in the process: each reconcile begins with what the objects hold, as after a restart.
#[test]
fn b055_a_deployment_may_take_forty_minutes_and_a_restart() {
    let mut world = World::with_machine(false);
    world.maas.host("aaa111").destiny = Destiny::Hangs;
    let mut done = deployments(&world.reconcile(NAME));
    for _ in 0..40 {
        world.now += 60;
        let told = world.reconcile(NAME);
        done += deployments(&told);
        assert_eq!(told.effects().count(), 0, "it is waited for");
        assert_eq!(said(&world, NAME).0, "MachineDeploying");
    }
    let host = world.maas.host("aaa111");
    (host.shown.status, host.shown.power) = (Status::Deployed, Power::On);
    done += deployments(&world.reconcile(NAME));
    assert!(ready(&world, NAME));
    assert_eq!(done, 1);
}

#[test]
fn b055_a_deployment_that_never_ends_is_given_up_by_its_own_clock() {
    let mut world = World::with_machine(false);
    world.maas.host("aaa111").destiny = Destiny::Hangs;
    world.settings.deploy_timeout = 50 * 60;
    world.reconcile(NAME);
    let mut minutes = 0;
    while world.maas.hosts["aaa111"].shown.status == Status::Deploying {
        minutes += 1;
        assert!(minutes < 60, "it is never given up");
        world.now += 60;
        world.reconcile(NAME);
    }
    assert_eq!(minutes, 50);
}

/// Join tokens are renewed while a Machine is not provisioned: what counts is the one of the day.
#[test]
fn b065_after_a_long_wait_for_capacity_the_newest_bootstrap_data_is_deployed() {
    let mut world = World::with_machine(false);
    for host in world.maas.hosts.values_mut() {
        host.shown.status = Status::Deployed;
        host.shown.owner = Some("somebody".into());
    }
    for minute in 0..40 {
        if minute == 20 {
            let renewed =
                SecretState::Present { digest: "renewed".into(), format: "cloud-config".into() };
            world.kube.secrets.insert(format!("{NAME}-bootstrap"), renewed);
        }
        assert_eq!(deployments(&world.reconcile(NAME)), 0);
        assert_eq!(said(&world, NAME).0, "NoMachineFound");
        world.now += 60;
    }
    world.maas.free("bbb222");
    let told = world.reconcile(NAME);
    let sent: Vec<_> = told
        .effects()
        .filter_map(|e| match e {
            Effect::Deploy { user_data_digest, .. } => Some(user_data_digest.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(sent, ["renewed"]);
    let status = world.kube.maas_machine(NAME).unwrap().status.unwrap();
    let provisioned = status.initialization.and_then(|i| i.provisioned);
    assert!(!status.ready && provisioned.is_none(), "or Cluster API stops renewing the token");
    world.rounds(2);
    assert!(ready(&world, NAME));
}
