//! When a reconcile runs: watches, what they map to, and timers.

mod clusters;
mod hub;
mod machines;
mod nodes;
mod policies;
mod sources;
mod trigger;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use capmaas_api::cluster_api::ObjectReference;
use capmaas_api::names;
use capmaas_core::Done;
use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::core::object::HasStatus;
use kube::runtime::controller::Action;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher;
use tokio::sync::watch::Receiver;
use tokio::task::JoinSet;

pub use policies::Keeper;

use crate::kube::{Events, Loader, Writers, write_status};
use crate::reconcile::World;

/// What every controller needs.
#[derive(Clone)]
pub struct Shared {
    /// Everything that is called.
    pub world: Arc<World>,
    /// Puts snapshots together.
    pub loader: Loader,
    /// Publishes events.
    pub events: Events,
    /// For watches.
    pub watches: kube::Client,
    /// Namespace to watch; `None` is all of them.
    pub namespace: Option<String>,
    /// Only objects that carry this value of the watch-filter label.
    pub watch_filter: Option<String>,
    /// How many machines are reconciled at once.
    pub machine_concurrency: u16,
    /// Loads what `MaasPolicy` objects bring.
    pub policies: Arc<Keeper>,
}

/// Runs all controllers until `stop` says so.
///
/// # Errors
/// When a controller ends by itself.
pub async fn run(shared: Shared, writers: Writers, stop: Receiver<bool>) -> Result<()> {
    let nodes = nodes::Book::new();
    let (watches, calls) = hub::open(&shared, writers);
    let watches = tokio::spawn(watches);
    let mut controllers = JoinSet::new();
    controllers.spawn(clusters::run(shared.clone(), calls.clusters, stop.clone()));
    controllers.spawn(machines::run(shared.clone(), nodes.clone(), calls.machines, stop.clone()));
    controllers.spawn(nodes::run(shared.clone(), nodes, calls.nodes, stop.clone()));
    controllers.spawn(policies::run(shared, calls.policies, stop.clone()));
    while let Some(ended) = controllers.join_next().await {
        ended.context("a controller broke down")??;
        if !*stop.borrow() {
            bail!("a controller has ended although nobody stopped it");
        }
    }
    watches.abort();
    Ok(())
}

/// What a controller says of its own machinery. Without a word here, missing rights or definitions
/// would look like nothing to do.
async fn heard<T, E: std::fmt::Display>(outcome: Result<T, E>) {
    if let Err(error) = outcome {
        let text: String = error.to_string().chars().take(500).collect();
        // An object that has gone before its turn came is no trouble.
        if text.contains("not found in local store") {
            return;
        }
        tracing::warn!(error = text, "a watch or a reconcile did not go as it should");
    }
}

impl Shared {
    fn api<K>(&self) -> kube::Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        let client = self.watches.clone();
        match &self.namespace {
            Some(namespace) => kube::Api::namespaced(client, namespace),
            None => kube::Api::all(client),
        }
    }

    fn dynamic(&self, resource: &kube::api::ApiResource) -> kube::Api<DynamicObject> {
        let client = self.watches.clone();
        match &self.namespace {
            Some(namespace) => kube::Api::namespaced_with(client, namespace, resource),
            None => kube::Api::all_with(client, resource),
        }
    }

    /// The end of a reconcile: events, status, and when to look again.
    async fn conclude<K>(&self, object: &K, done: &Done<K::Status>) -> Result<Action, Interrupted>
    where
        K: kube::Resource<DynamicType = ()> + HasStatus<Status: serde::Serialize>,
    {
        self.events.publish(object, &done.events).await;
        if let Some(status) = &done.status {
            let client = &self.loader.client;
            let namespace = object.namespace().unwrap_or_default();
            let (name, version) = (object.name_any(), &done.resource_version);
            let before = object.status();
            match write_status::<K, _>(client, &namespace, &name, version, before, status).await {
                // The object went while its status was computed.
                Err(kube::Error::Api(answer)) if answer.code == 404 => {}
                written => {
                    if let Some(now) = written? {
                        self.loader.mirror.wrote(&K::kind(&()), &namespace, &name, &now);
                    }
                }
            }
        }
        Ok(action(done.requeue))
    }

    /// Watch settings for our own kinds.
    fn ours(&self) -> watcher::Config {
        let config = hub::config();
        match &self.watch_filter {
            Some(value) => {
                let label = capmaas_api::names::WATCH_FILTER_LABEL;
                config.labels(&format!("{label}={value}"))
            }
            None => config,
        }
    }
}

/// The API server did not answer properly, or the object changed under us.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Interrupted(#[from] kube::Error);

/// When to look again after the API server did not answer.
fn after_error(error: &Interrupted) -> Action {
    let conflict = matches!(&error.0, kube::Error::Api(answer) if answer.code == 409);
    if conflict {
        return Action::requeue(Duration::from_secs(1));
    }
    tracing::warn!(%error, "the Kubernetes API did not answer as it should");
    Action::requeue(Duration::from_secs(10))
}

fn action(requeue: Option<u64>) -> Action {
    match requeue {
        Some(seconds) => Action::requeue(Duration::from_secs(seconds)),
        None => Action::await_change(),
    }
}

/// The object of ours, if we watch it, that one of Cluster API's names as its infrastructure.
fn referenced<K>(store: &Store<K>, by: &DynamicObject, kind: &str) -> Vec<ObjectRef<K>>
where
    K: kube::Resource<DynamicType = ()> + Clone + 'static,
{
    let reference = by.data["spec"]["infrastructureRef"].clone();
    let reference: ObjectReference = serde_json::from_value(reference).unwrap_or_default();
    let namespace = by.namespace().unwrap_or_default();
    let name = reference.name_of(names::INFRASTRUCTURE_GROUP, kind);
    let found = name.map(|n| ObjectRef::new(n).within(&namespace));
    found.filter(|r| store.get(r).is_some()).into_iter().collect()
}

async fn stopped(mut stop: Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}
