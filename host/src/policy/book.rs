//! The policies that `MaasPolicy` objects bring: what is loaded of each, and who is dealt to which cluster.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use capmaas_api::{ClusterPolicies, MaasPolicy, OnFailure, PolicyKind, PolicyMode};
use capmaas_core::Reply;
use capmaas_core::policy::{Ask, Panel, Standing, State};
use kube::ResourceExt;

use super::health::Key;
use super::loaded::Loaded;
use super::metrics::Metrics;
use super::{Policies, refused, reply};

/// Every policy there is.
pub struct Book {
    built_in: Arc<Policies>,
    /// What clusters follow that name nothing, and the namespace of these.
    defaults: (String, ClusterPolicies),
    entries: RwLock<HashMap<Key, Entry>>,
    /// The objects have been listed once: what is not in here does not exist.
    listed: AtomicBool,
    metrics: Metrics,
}

/// One object.
#[derive(Clone)]
struct Entry {
    kind: PolicyKind,
    mode: PolicyMode,
    on_failure: Option<OnFailure>,
    suspended: bool,
    loaded: Option<Arc<Loaded>>,
    /// Why nothing is loaded, once that was tried.
    trouble: Option<String>,
}

/// The revisions that one reconcile asks, from its first step to its last.
#[derive(Clone)]
pub struct Hand {
    built_in: Arc<Policies>,
    named: HashMap<String, Arc<Loaded>>,
    metrics: Metrics,
}

impl Book {
    /// Nothing but the built-in policies, until objects come.
    pub fn new(built_in: Policies, defaults: (String, ClusterPolicies), metrics: Metrics) -> Self {
        Self {
            built_in: Arc::new(built_in),
            defaults,
            entries: RwLock::default(),
            listed: AtomicBool::new(false),
            metrics,
        }
    }

    /// The built-in policies.
    pub fn built_in(&self) -> &Policies {
        &self.built_in
    }

    /// The namespace of the defaults.
    pub fn defaults_namespace(&self) -> &str {
        &self.defaults.0
    }

    /// The counters.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// An object was seen. What is loaded of it stays; how it is used changes at once.
    pub fn seen(&self, object: &MaasPolicy) {
        let spec = &object.spec;
        let mut entries = self.write();
        let known = entries.get(&key(object)).cloned();
        let (loaded, trouble) = known.map_or((None, None), |known| (known.loaded, known.trouble));
        let entry = Entry {
            kind: spec.kind,
            mode: spec.mode,
            on_failure: spec.on_failure,
            suspended: spec.suspend,
            loaded,
            trouble,
        };
        entries.insert(key(object), entry);
    }

    /// All objects that there are were seen; any other does not exist.
    pub fn listed(&self, there_are: &[Key]) {
        let gone: Vec<Key> =
            self.read().keys().filter(|key| !there_are.contains(key)).cloned().collect();
        gone.iter().for_each(|key| self.gone(key));
        self.listed.store(true, Ordering::Release);
    }

    /// An object has gone.
    pub fn gone(&self, key: &Key) {
        let entry = self.write().remove(key);
        let before = entry.and_then(|entry| entry.loaded);
        self.metrics.revision(&called(key), before.as_deref(), None);
    }

    /// The revision that is asked now.
    pub fn loaded(&self, key: &Key) -> Option<Arc<Loaded>> {
        self.read().get(key)?.loaded.clone()
    }

    /// From now on this revision is asked. Returns the one before.
    pub fn put(&self, key: &Key, revision: Arc<Loaded>) -> Option<Arc<Loaded>> {
        let mut entries = self.write();
        let entry = entries.get_mut(key)?;
        entry.trouble = None;
        let before = entry.loaded.replace(revision.clone());
        drop(entries);
        self.metrics.revision(&called(key), before.as_deref(), Some(&revision));
        before
    }

    /// No revision could be loaded. One that was loaded before stays.
    pub fn in_trouble(&self, key: &Key, why: String) {
        if let Some(entry) = self.write().get_mut(key) {
            entry.trouble = Some(why);
        }
    }

    /// Who decides for a cluster in this namespace, and the revisions of these as they are now.
    pub fn deal(&self, namespace: &str, wanted: Option<&ClusterPolicies>) -> (Panel, Hand) {
        let entries = self.read();
        let defaults = (self.defaults.0.as_str(), &self.defaults.1);
        let panel = Panel::of((namespace, wanted), defaults, |namespace, name| {
            let entry = entries.get(&(namespace.to_owned(), name.to_owned()));
            match entry {
                Some(entry) => Some(entry.standing()),
                None if self.listed.load(Ordering::Acquire) => None,
                None => Some(Standing::unseen()),
            }
        });
        let seats = panel.allocation.iter().chain(&panel.dns_naming).chain(&panel.failure_handling);
        let named = seats.filter_map(|seat| {
            let (namespace, name) = seat.policy.split_once('/')?;
            let entry = entries.get(&(namespace.to_owned(), name.to_owned()))?;
            Some((seat.policy.clone(), entry.loaded.clone()?))
        });
        let named = named.collect();
        drop(entries);
        let (built_in, metrics) = (self.built_in.clone(), self.metrics.clone());
        (panel, Hand { built_in, named, metrics })
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<Key, Entry>> {
        self.entries.read().unwrap_or_else(|e| e.into_inner())
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<Key, Entry>> {
        self.entries.write().unwrap_or_else(|e| e.into_inner())
    }
}

impl Entry {
    fn standing(&self) -> Standing {
        let state = match (&self.loaded, &self.trouble) {
            (Some(loaded), _) => match loaded.health.resting() {
                Some(why) => State::Unavailable(why),
                None => State::Loaded(loaded.id().clone()),
            },
            (None, Some(why)) => State::Unavailable(why.clone()),
            (None, None) => State::Loading,
        };
        Standing {
            kind: Some(self.kind),
            mode: self.mode,
            on_failure: self.on_failure,
            suspended: self.suspended,
            state,
        }
    }
}

impl Hand {
    /// Asks one policy.
    pub async fn ask(&self, ask: Ask) -> Reply {
        let Ask { policy, question } = ask;
        let (called, loaded) = match policy.is_empty() {
            true => ("built-in", Some(self.built_in.of(&question))),
            false => (policy.as_str(), self.named.get(&policy)),
        };
        let Some(loaded) = loaded else {
            return Reply::Refused(refused("unavailable", &format!("{called} is not loaded")));
        };
        let begun = Instant::now();
        let given = loaded.ask(question).await;
        let failed = given.as_ref().err();
        loaded.health.note(failed);
        self.metrics.called(called, loaded, begun.elapsed(), failed);
        reply(loaded.id().clone(), given)
    }
}

/// Namespace and name.
pub fn key(object: &MaasPolicy) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

fn called(key: &Key) -> String {
    format!("{}/{}", key.0, key.1)
}
