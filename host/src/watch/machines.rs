use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use capmaas_api::{MaasCluster, MaasMachine, names};
use capmaas_core::machine;
use futures::StreamExt;
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::reflector::{ObjectRef, Store, store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Resource, ResourceExt};
use tokio::sync::watch::Receiver;

use super::nodes::Book;
use super::{Interrupted, Shared, action, after_error, heard, referenced, stopped, trigger};

struct Machines {
    shared: Shared,
    nodes: Book,
    turns: Turns,
}

/// Held by the machine of a cluster that may allocate.
type Turn = Arc<tokio::sync::Mutex<()>>;

/// One lock a cluster: machines of one cluster are allocated one after another.
#[derive(Default)]
struct Turns(Mutex<HashMap<(String, String), Turn>>);

impl Turns {
    fn of(&self, namespace: &str, cluster: &str) -> Turn {
        let mut turns = self.0.lock().unwrap_or_else(|e| e.into_inner());
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        turns.entry((namespace.to_owned(), cluster.to_owned())).or_default().clone()
    }
}

pub(super) async fn run(shared: Shared, nodes: Book, stop: Receiver<bool>) -> Result<()> {
    let api = shared.api::<MaasMachine>();
    let (reader, writer) = store::<MaasMachine>();
    let changes = watcher(api, shared.ours())
        .default_backoff()
        .reflect(writer)
        .applied_objects()
        .predicate_filter(trigger::machine, kube::runtime::PredicateConfig::default());
    let (by_machine, by_cluster, by_infrastructure) =
        (reader.clone(), reader.clone(), reader.clone());
    let core = shared.loader.cluster_api.clone();
    let concurrency = Config::default().concurrency(shared.machine_concurrency);
    let node_news = nodes.news();
    Controller::for_stream(changes, reader)
        .with_config(concurrency)
        .watches_stream_with(
            shared.core_changes(&core.machine, trigger::core_machine),
            move |m| referenced(&by_machine, &m, "MaasMachine"),
            core.machine.clone(),
        )
        .watches_stream_with(
            shared.core_changes(&core.cluster, trigger::core_cluster),
            move |c| {
                let namespace = c.namespace().unwrap_or_default();
                of_cluster(&by_cluster, &namespace, &c.name_any(), false)
            },
            core.cluster.clone(),
        )
        .watches_stream(shared.our_changes::<MaasCluster>(trigger::record), move |c| {
            let cluster = c.labels().get(names::CLUSTER_NAME_LABEL).cloned().unwrap_or_default();
            // Only control planes wait for anything in it: the DNS record.
            of_cluster(&by_infrastructure, &c.namespace().unwrap_or_default(), &cluster, true)
        })
        .reconcile_on(node_news)
        .graceful_shutdown_on(stopped(stop))
        .run(
            reconcile,
            |_, error, _| after_error(error),
            Arc::new(Machines { shared, nodes, turns: Turns::default() }),
        )
        .for_each(heard)
        .await;
    Ok(())
}

fn of_cluster(
    store: &Store<MaasMachine>,
    namespace: &str,
    cluster: &str,
    control_planes: bool,
) -> Vec<ObjectRef<MaasMachine>> {
    let belongs = |m: &Arc<MaasMachine>| {
        m.meta().namespace.as_deref() == Some(namespace)
            && m.labels().get(names::CLUSTER_NAME_LABEL).map(String::as_str) == Some(cluster)
            && (!control_planes || m.labels().contains_key(names::CONTROL_PLANE_LABEL))
    };
    store.state().iter().filter(|m| belongs(m)).map(|m| ObjectRef::from_obj(&**m)).collect()
}

async fn reconcile(object: Arc<MaasMachine>, of: Arc<Machines>) -> Result<Action, Interrupted> {
    let namespace = object.namespace().unwrap_or_default();
    let name = object.name_any();
    let loader = &of.shared.loader;
    let node = of.nodes.get(&object);
    let Some(snapshot) = loader.machine(&namespace, &name, node).await? else {
        of.nodes.forget(&object);
        return Ok(Action::await_change());
    };
    let cluster = snapshot.cluster.as_ref().map(|c| c.name.clone()).unwrap_or_default();
    let turn = machine::takes_turn(&snapshot).then(|| of.turns.of(&namespace, &cluster));
    let _turn = match &turn {
        // Waiting here would hold a place that other clusters need.
        Some(turn) => match turn.try_lock() {
            Ok(guard) => Some(guard),
            Err(_) => return Ok(Action::requeue(std::time::Duration::from_secs(1))),
        },
        None => None,
    };
    let Some(done) = of.shared.world.run(|replies| machine::next(&snapshot, replies)).await else {
        return Ok(action(Some(snapshot.settings.drift)));
    };
    if snapshot.object.metadata.deletion_timestamp.is_some() && done.status.is_none() {
        of.nodes.forget(&snapshot.object);
    }
    of.shared.conclude(&snapshot.object, &done).await
}
