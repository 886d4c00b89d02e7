//! Looks after the Nodes of deployed machines, apart from the machines' own reconciles.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use capmaas_api::MaasMachine;
use capmaas_core::machine::node_snapshot;
use capmaas_core::node::{self, NodeObservation};
use futures::channel::mpsc::UnboundedReceiver;
use futures::{Stream, StreamExt};
use kube::ResourceExt;
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::reflector::ObjectRef;
use tokio::sync::broadcast;
use tokio::sync::watch::Receiver;

use super::{Interrupted, Shared, action, after_error, heard, stopped};
use crate::reconcile::Told;

/// A dead workload cluster takes ten seconds a look; these many are looked at at once.
const LOOKS: u16 = 16;

/// What was last seen of each machine's Node.
#[derive(Clone)]
pub(super) struct Book(Arc<Inner>);

/// The uid of the object, and what was seen.
type Seen = (Option<String>, NodeObservation);

struct Inner {
    seen: Mutex<HashMap<(String, String), Seen>>,
    news: broadcast::Sender<ObjectRef<MaasMachine>>,
}

impl Book {
    pub(super) fn new() -> Self {
        let (news, _) = broadcast::channel(4096);
        Self(Arc::new(Inner { seen: Mutex::default(), news }))
    }

    /// What was seen of this very object; another one by its name starts anew.
    pub(super) fn get(&self, object: &MaasMachine) -> Option<NodeObservation> {
        let seen = self.0.seen.lock().unwrap_or_else(|e| e.into_inner());
        let (uid, observation) = seen.get(&key(object))?;
        (*uid == object.uid()).then(|| observation.clone())
    }

    pub(super) fn forget(&self, object: &MaasMachine) {
        self.0.seen.lock().unwrap_or_else(|e| e.into_inner()).remove(&key(object));
    }

    /// Machines whose Node is not what it was.
    pub(super) fn news(&self) -> impl Stream<Item = ObjectRef<MaasMachine>> + Send + 'static {
        let receiver = self.0.news.subscribe();
        futures::stream::unfold(receiver, |mut receiver| async move {
            loop {
                match receiver.recv().await {
                    Ok(news) => return Some((news, receiver)),
                    // What was missed is told by the machine's next look.
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return None,
                }
            }
        })
    }

    fn note(&self, object: &MaasMachine, observation: NodeObservation) {
        let mut seen = self.0.seen.lock().unwrap_or_else(|e| e.into_inner());
        let now = (object.uid(), observation);
        if seen.get(&key(object)) != Some(&now) {
            seen.insert(key(object), now);
            let _ = self.0.news.send(ObjectRef::from_obj(object));
        }
    }
}

fn key(object: &MaasMachine) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}

pub(super) async fn run(
    shared: Shared,
    book: Book,
    calls: UnboundedReceiver<ObjectRef<MaasMachine>>,
    stop: Receiver<bool>,
) -> Result<()> {
    Controller::for_stream(futures::stream::pending(), shared.loader.mirror.machines.clone())
        .reconcile_on(calls)
        .with_config(Config::default().concurrency(LOOKS))
        .graceful_shutdown_on(stopped(stop))
        .run(look, |_, error, _| after_error(error), Arc::new((shared, book)))
        .for_each(heard)
        .await;
    Ok(())
}

async fn look(object: Arc<MaasMachine>, of: Arc<(Shared, Book)>) -> Result<Action, Interrupted> {
    let (shared, book) = (&of.0, &of.1);
    let Some(snapshot) = node_snapshot(&object, &shared.loader.settings) else {
        return Ok(Action::await_change());
    };
    let loader = &shared.loader;
    let (namespace, cluster) = (snapshot.namespace.as_str(), snapshot.cluster.as_str());
    let cluster = loader.core_cluster(namespace, cluster).await?;
    if cluster.is_none_or(|c| c.paused() || c.deleting) {
        return Ok(action(Some(snapshot.drift)));
    }
    // No policy is asked about Nodes.
    let (_, hand) = loader.policies.deal(namespace, None);
    let seen = crate::kube::Seen { snapshot: &snapshot, hand };
    let next = |replies: &[_]| node::next(&snapshot, replies);
    let Told::Done(done) = shared.world.run(&seen, next, std::future::ready(true)).await else {
        return Ok(action(Some(snapshot.drift)));
    };
    if let Some(observation) = done.status {
        book.note(&object, observation);
    }
    Ok(action(done.requeue))
}
