//! `MaasPolicy` objects: what each means is fetched, loaded, and asked from then on.

use std::sync::{Arc, Mutex};

use anyhow::Result;
use capmaas_api::{MaasPolicy, PolicyRevision};
use capmaas_core::policy::{Gate, Look, revision, status};
use futures::channel::mpsc::UnboundedReceiver;
use futures::{Stream, StreamExt};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::reflector::ObjectRef;
use tokio::sync::mpsc;
use tokio::sync::watch::Receiver;

use super::{Interrupted, Shared, after_error, heard, stopped};
use crate::kube::now;
use crate::policy::{
    Book, Fetcher, Health, Key, LastGood, Loaded, Loader, Order, Place, Shares, digest, key,
};

/// Policies that are looked at together, and those of one namespace. A look may hold a component of 32 MiB.
const LOOKS: (usize, usize) = (8, 4);
/// The same for those that come from a registry, which may take a minute for each.
const PULLS: (usize, usize) = (8, 2);

/// Fetches and loads policies.
pub struct Keeper {
    book: Arc<Book>,
    loader: Loader,
    pub(super) fetcher: Fetcher,
    last_good: Option<LastGood>,
    looks: Shares,
    pulls: Shares,
    /// Policies that became degraded, or recovered.
    health: Channel,
    /// Policies of which another revision is asked, or none any more.
    changes: Channel,
}

/// Keys, from whoever has news to the one who waits for them.
struct Channel {
    tell: mpsc::UnboundedSender<Key>,
    told: Mutex<Option<mpsc::UnboundedReceiver<Key>>>,
}

impl Channel {
    fn new() -> Self {
        let (tell, told) = mpsc::unbounded_channel();
        Self { tell, told: Mutex::new(Some(told)) }
    }

    /// What is told; for one listener.
    fn listen(&self) -> impl Stream<Item = Key> + Send + Unpin + 'static {
        let told = self.told.lock().unwrap_or_else(|e| e.into_inner()).take();
        let mut told = told.unwrap_or_else(|| mpsc::unbounded_channel().1);
        futures::stream::poll_fn(move |context| told.poll_recv(context))
    }
}

impl Keeper {
    /// Keeps this book.
    pub fn new(book: Arc<Book>, loader: Loader, fetcher: Fetcher) -> Self {
        let (health, changes) = (Channel::new(), Channel::new());
        let (looks, pulls) = (Shares::new(LOOKS.0, LOOKS.1), Shares::new(PULLS.0, PULLS.1));
        Self { book, loader, fetcher, last_good: None, looks, pulls, health, changes }
    }

    /// The same, that remembers good revisions over a restart.
    #[must_use]
    pub fn knowing(self, last_good: Option<LastGood>) -> Self {
        Self { last_good, ..self }
    }

    /// Whom it may concern that a policy has changed.
    pub(super) fn changed(&self, key: Key) {
        let _ = self.changes.tell.send(key);
    }

    /// Policies that have changed; for one listener.
    pub(super) fn changes(&self) -> impl Stream<Item = Key> + Send + Unpin + 'static {
        self.changes.listen()
    }

    /// Neither a registry nor a namespace keeps those of others waiting.
    async fn place(&self, object: &MaasPolicy) -> Place {
        let places = if object.spec.source.oci.is_some() { &self.pulls } else { &self.looks };
        places.take(&key(object).0).await
    }

    /// Fetches and loads what the object means, unless that is in use already.
    async fn look(&self, object: &MaasPolicy) -> Look {
        let key = key(object);
        let fetched = self.fetcher.fetch(object).await;
        let (refused, resolved) = match fetched {
            Err(why) => {
                let before = object.status.as_ref().and_then(|s| s.resolved.clone());
                (Some((Gate::Resolved, format!("{why:#}"))), before)
            }
            Ok(fetched) => {
                let resolved = fetched.resolved.clone();
                (self.load(object, &key, fetched.wasm.into(), fetched.pinned).await.err(), resolved)
            }
        };
        if refused.is_some() && self.book.loaded(&key).is_none() {
            self.recall(object, &key).await;
        }
        let current = self.book.loaded(&key);
        if let Some((_, why)) = &refused {
            self.book.in_trouble(&key, why.clone());
            tracing::warn!(policy = format!("{}/{}", key.0, key.1), why, "a policy is not loaded");
        }
        if refused.is_some() || current.is_some() {
            self.changed(key);
        }
        Look {
            now: now(),
            object: object.clone(),
            current: current.as_deref().map(described),
            refused,
            resolved,
            degraded: current.and_then(|c| c.health().degraded()),
        }
    }

    async fn load(
        &self,
        object: &MaasPolicy,
        key: &Key,
        wasm: bytes::Bytes,
        pinned: Option<String>,
    ) -> Result<(), (Gate, String)> {
        let spec = &object.spec;
        let order = Order::meant(spec.kind, spec.config.as_ref(), spec.limits.as_ref(), pinned);
        let order = order.map_err(|why| (Gate::ConfigValid, format!("{why:#}")))?;
        if self.book.loaded(key).is_some_and(|current| is(&current, &order, &wasm)) {
            return Ok(());
        }
        let loaded = self.loader.load(order, wasm.clone(), self.health_of(key)).await;
        let loaded = loaded.map_err(|rejected| (rejected.gate, rejected.to_string()))?;
        let id = loaded.id().clone();
        self.book.put(key, loaded);
        tracing::info!(policy = format!("{}/{}", key.0, key.1), revision = %id, "policy in use");
        if let Some(kept) = &self.last_good {
            kept.keep(object, &id.digest, wasm).await;
        }
        Ok(())
    }

    /// What the object means cannot be used, and nothing is loaded: the controller has just started. What was good before
    /// passes every gate once more, and stays.
    async fn recall(&self, object: &MaasPolicy, key: &Key) {
        let Some(kept) = &self.last_good else { return };
        let Some((order, wasm)) = kept.of(object).await else { return };
        let policy = format!("{}/{}", key.0, key.1);
        match self.loader.load(order, wasm, self.health_of(key)).await {
            Ok(loaded) => {
                let revision = loaded.id().to_string();
                self.book.put(key, loaded);
                tracing::info!(policy, revision, "the policy's last good revision is in use");
            }
            Err(why) => tracing::warn!(policy, %why, "the last good revision is refused now"),
        }
    }

    fn health_of(&self, key: &Key) -> Health {
        Health::of(key.clone(), self.health.tell.clone())
    }
}

/// Whether this revision is what is ordered.
fn is(current: &Loaded, order: &Order, wasm: &[u8]) -> bool {
    let Order { kind, digest: pinned, config, limits } = order;
    let its = &current.id().digest;
    current.kind() == *kind
        && current.config() == config
        && current.limits() == limits
        && pinned.as_ref().is_none_or(|pinned| pinned == its)
        && digest(wasm) == *its
}

fn described(loaded: &Loaded) -> PolicyRevision {
    let description = loaded.description();
    let (name, version) = (&description.name, &description.version);
    let interface = format!("capmaas:policy@{}", loaded.interface());
    revision(
        &loaded.id().digest,
        (name, version),
        interface,
        loaded.loaded_at(),
        loaded.load_millis(),
    )
}

pub(super) async fn run(
    shared: Shared,
    calls: UnboundedReceiver<ObjectRef<MaasPolicy>>,
    stop: Receiver<bool>,
) -> Result<()> {
    let health = shared.policies.health.listen();
    let health = health.map(|(namespace, name)| ObjectRef::new(&name).within(&namespace));
    // Without a bound of its own: looks wait for their places.
    Controller::for_stream(futures::stream::pending(), shared.loader.mirror.policies.clone())
        .reconcile_on(calls)
        .reconcile_on(health)
        .graceful_shutdown_on(stopped(stop))
        .run(reconcile, |_, error, _| after_error(error), Arc::new(shared))
        .for_each(heard)
        .await;
    Ok(())
}

async fn reconcile(object: Arc<MaasPolicy>, shared: Arc<Shared>) -> Result<Action, Interrupted> {
    let _place = shared.policies.place(&object).await;
    // It may have waited for long.
    let latest = shared.loader.mirror.policies.get(&ObjectRef::from_obj(&*object));
    let Some(object) = latest.filter(|o| o.metadata.deletion_timestamp.is_none()) else {
        return Ok(Action::await_change());
    };
    let look = shared.policies.look(&object).await;
    shared.conclude(&*object, &status(&look)).await
}
