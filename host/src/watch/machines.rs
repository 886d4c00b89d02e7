use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use capmaas_api::{MaasMachine, MaasMachineStatus, names};
use capmaas_core::{Done, Reply, machine};
use futures::StreamExt;
use futures::channel::mpsc::UnboundedReceiver;
use kube::ResourceExt;
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::reflector::ObjectRef;
use tokio::sync::watch::Receiver;

use super::nodes::Book;
use super::turns::{Turn, Turns};
use super::{Interrupted, Shared, action, after_error, heard, stopped};
use crate::kube::Seen;
use crate::reconcile::Told;

struct Machines {
    shared: Shared,
    nodes: Book,
    turns: Turns,
}

pub(super) async fn run(
    shared: Shared,
    nodes: Book,
    calls: UnboundedReceiver<ObjectRef<MaasMachine>>,
    stop: Receiver<bool>,
) -> Result<()> {
    let node_news = nodes.news();
    let (turns, called) = Turns::new();
    Controller::for_stream(futures::stream::pending(), shared.loader.mirror.machines.clone())
        .with_config(Config::default().concurrency(shared.machine_concurrency))
        .reconcile_on(calls)
        .reconcile_on(node_news)
        .reconcile_on(called)
        .graceful_shutdown_on(stopped(stop))
        .run(
            reconcile,
            |_, error, _| after_error(error),
            Arc::new(Machines { shared, nodes, turns }),
        )
        .for_each(heard)
        .await;
    Ok(())
}

/// Whoever waits for its turn is called; this is for a call that got lost.
const TURN_LOST: Duration = Duration::from_secs(30);

async fn reconcile(object: Arc<MaasMachine>, of: Arc<Machines>) -> Result<Action, Interrupted> {
    let namespace = object.namespace().unwrap_or_default();
    let name = object.name_any();
    let turn = Mutex::new(if machine::takes_turn(&object) {
        let cluster = object.labels().get(names::CLUSTER_NAME_LABEL).cloned().unwrap_or_default();
        match of.turns.take((namespace.clone(), cluster), ObjectRef::from_obj(&*object)) {
            Some(turn) => Some(turn),
            None => return Ok(Action::requeue(TURN_LOST)),
        }
    } else {
        None
    });
    let loader = &of.shared.loader;
    let node = of.nodes.get(&object);
    // A look at what the watches have shown is enough as long as nothing is to be done.
    if let Some(seen) = loader.machine_as_watched(&object, node.clone()) {
        let stands = async {
            let now = loader.machine(&namespace, &name, node.clone()).await;
            now.ok().flatten().is_some_and(|now| seen.snapshot.shows_what(&now.snapshot))
        };
        match of.tell(&seen, &turn, stands).await {
            Told::Done(done) => return of.conclude(&seen.snapshot, &done).await,
            Told::Outdated => {}
            Told::Endless => return Ok(action(Some(seen.snapshot.settings.drift))),
        }
    }
    let Some(seen) = loader.machine(&namespace, &name, node).await? else {
        of.nodes.forget(&object);
        return Ok(Action::await_change());
    };
    let Told::Done(done) = of.tell(&seen, &turn, std::future::ready(true)).await else {
        return Ok(action(Some(seen.snapshot.settings.drift)));
    };
    of.conclude(&seen.snapshot, &done).await
}

impl Machines {
    async fn tell(
        &self,
        seen: &Seen<machine::Snapshot>,
        turn: &Mutex<Option<Turn>>,
        stands: impl Future<Output = bool>,
    ) -> Told<MaasMachineStatus> {
        let next = |replies: &[Reply]| {
            let step = machine::next(&seen.snapshot, replies);
            if !machine::keeps_turn(&step) {
                turn.lock().unwrap_or_else(|e| e.into_inner()).take();
            }
            step
        };
        self.shared.world.run(seen, next, stands).await
    }

    async fn conclude(
        &self,
        snapshot: &machine::Snapshot,
        done: &Done<MaasMachineStatus>,
    ) -> Result<Action, Interrupted> {
        if snapshot.object.metadata.deletion_timestamp.is_some() && done.status.is_none() {
            self.nodes.forget(&snapshot.object);
        }
        self.shared.conclude(&snapshot.object, done).await
    }
}
