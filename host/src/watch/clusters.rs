use std::sync::Arc;

use anyhow::Result;
use capmaas_api::{MaasCluster, MaasMachine, names};
use capmaas_core::cluster;
use futures::StreamExt;
use futures::channel::mpsc::UnboundedReceiver;
use kube::ResourceExt;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::watch::Receiver;

use super::{Interrupted, Shared, action, after_error, heard, stopped};
use crate::reconcile::Told;

pub(super) async fn run(
    shared: Shared,
    calls: UnboundedReceiver<ObjectRef<MaasCluster>>,
    stop: Receiver<bool>,
) -> Result<()> {
    Controller::for_stream(futures::stream::pending(), shared.loader.mirror.clusters.clone())
        .reconcile_on(calls)
        .graceful_shutdown_on(stopped(stop))
        .run(reconcile, |_, error, _| after_error(error), Arc::new(shared))
        .for_each(heard)
        .await;
    Ok(())
}

/// The cluster of a machine, if we watch it.
pub(super) fn of_machine(
    store: &Store<MaasCluster>,
    machine: &MaasMachine,
) -> Vec<ObjectRef<MaasCluster>> {
    let cluster = machine.labels().get(names::CLUSTER_NAME_LABEL);
    let namespace = machine.namespace();
    let belongs = |c: &Arc<MaasCluster>| {
        let owner = c.owner_references().iter().find(|o| o.kind == "Cluster").map(|o| &o.name);
        c.metadata.namespace == namespace
            && (c.labels().get(names::CLUSTER_NAME_LABEL) == cluster || owner == cluster)
    };
    store.state().iter().filter(|c| belongs(c)).map(|c| ObjectRef::from_obj(&**c)).collect()
}

async fn reconcile(object: Arc<MaasCluster>, shared: Arc<Shared>) -> Result<Action, Interrupted> {
    let namespace = object.namespace().unwrap_or_default();
    let name = object.name_any();
    let Some(seen) = shared.loader.cluster(&namespace, &name).await? else {
        return Ok(Action::await_change());
    };
    let snapshot = &seen.snapshot;
    let next = |replies: &[_]| cluster::next(snapshot, replies);
    let Told::Done(done) = shared.world.run(&seen, next, std::future::ready(true)).await else {
        return Ok(action(Some(snapshot.settings.drift)));
    };
    shared.conclude(&snapshot.object, &done).await
}
