use std::sync::Arc;

use anyhow::Result;
use capmaas_api::{MaasCluster, MaasMachine, names};
use capmaas_core::cluster;
use futures::StreamExt;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::reflector::{ObjectRef, Store, store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Resource, ResourceExt};
use tokio::sync::watch::Receiver;

use super::{Interrupted, Shared, action, after_error, heard, referenced, stopped, trigger};

pub(super) async fn run(shared: Shared, stop: Receiver<bool>) -> Result<()> {
    let (reader, writer) = store::<MaasCluster>();
    let changes = watcher(shared.api::<MaasCluster>(), shared.ours())
        .default_backoff()
        .reflect(writer)
        .applied_objects()
        .predicate_filter(trigger::cluster, kube::runtime::PredicateConfig::default());
    let (by_cluster, by_machine) = (reader.clone(), reader.clone());
    let core = shared.loader.cluster_api.clone();
    Controller::for_stream(changes, reader)
        .watches_stream_with(
            shared.core_changes(&core.cluster, trigger::core_cluster),
            move |c| referenced(&by_cluster, &c, "MaasCluster"),
            core.cluster.clone(),
        )
        .watches_stream(shared.our_changes::<MaasMachine>(trigger::member), move |m| {
            of_machine(&by_machine, &m)
        })
        .graceful_shutdown_on(stopped(stop))
        .run(reconcile, |_, error, _| after_error(error), Arc::new(shared))
        .for_each(heard)
        .await;
    Ok(())
}

/// A control plane came, went or changed: the record may have to follow.
fn of_machine(store: &Store<MaasCluster>, machine: &MaasMachine) -> Vec<ObjectRef<MaasCluster>> {
    if !machine.labels().contains_key(names::CONTROL_PLANE_LABEL) {
        return vec![];
    }
    let cluster = machine.labels().get(names::CLUSTER_NAME_LABEL);
    let namespace = machine.namespace();
    let belongs = |c: &Arc<MaasCluster>| {
        let owner = c.owner_references().iter().find(|o| o.kind == "Cluster").map(|o| &o.name);
        c.meta().namespace == namespace
            && (c.labels().get(names::CLUSTER_NAME_LABEL) == cluster || owner == cluster)
    };
    store.state().iter().filter(|c| belongs(c)).map(|c| ObjectRef::from_obj(&**c)).collect()
}

async fn reconcile(object: Arc<MaasCluster>, shared: Arc<Shared>) -> Result<Action, Interrupted> {
    let namespace = object.namespace().unwrap_or_default();
    let name = object.name_any();
    let Some(snapshot) = shared.loader.cluster(&namespace, &name).await? else {
        return Ok(Action::await_change());
    };
    let Some(done) = shared.world.run(|replies| cluster::next(&snapshot, replies)).await else {
        return Ok(action(Some(snapshot.settings.drift)));
    };
    shared.conclude(&snapshot.object, &done).await
}
