//! Field cases: what people who run MAAS and Cluster API providers reported, as far as decisions are concerned.
//!
//! `tests/field-cases.md`, at the root of the project, lists all of them by number.

#[path = "../world/mod.rs"]
mod world;

mod allocation;
mod endings;
mod endpoint;
mod lifecycle;

use capmaas_api::MaasMachineStatus;
use capmaas_core::{Effect, Reply, Step, machine};
use world::World;
use world::drive::{Told, ToldMachine};

const NAME: &str = world::NAME;

/// The object's newest condition on its host: reason and message.
fn said(world: &World, name: &str) -> (String, String) {
    let status = world.kube.maas_machine(name).unwrap().status.unwrap();
    let list = status.conditions.unwrap_or_default();
    let deployed = list.into_iter().find(|c| c.kind == machine::DEPLOYED).unwrap();
    (deployed.reason.unwrap_or_default(), deployed.message.unwrap_or_default())
}

fn ready(world: &World, name: &str) -> bool {
    world.kube.maas_machine(name).unwrap().status.is_some_and(|s| s.ready)
}

fn deployments(told: &ToldMachine) -> usize {
    told.effects().filter(|e| matches!(e, Effect::Deploy { .. })).count()
}

/// One reconcile in which somebody stands between us and the world, and changes what it answers.
fn reconcile_changed(
    world: &mut World,
    name: &str,
    change: impl Fn(&Step<MaasMachineStatus>, Reply) -> Reply,
) -> ToldMachine {
    let snapshot = world.machine_snapshot(name).unwrap();
    let (mut replies, mut steps) = (Vec::new(), Vec::new());
    loop {
        let step = machine::next(&snapshot, &replies);
        steps.push(step.clone());
        if matches!(step, Step::Done(_)) {
            break;
        }
        replies.push(change(&step, world.answer(&step)));
    }
    let told = Told { snapshot, replies, steps };
    world.write("MaasMachine", name, told.done());
    told
}
