//! What the watches have shown so far, and what we have written since.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::Duration;

use capmaas_api::{MaasCluster, MaasMachine, MaasPolicy, cluster_api, names};
use capmaas_core::machine::Sibling;
use kube::ResourceExt;
use kube::runtime::reflector::{ObjectRef, Store, store::Writer};
use kube::runtime::watcher::Event;
use kube::{Resource, runtime::reflector};

/// Namespace and name.
pub type Key = (String, String);

/// The objects of five kinds, as the watches last showed them. It lags behind: good for looking, and never the last word
/// before something is done.
pub struct Mirror {
    /// `MaasMachine`s that we watch.
    pub machines: Store<MaasMachine>,
    /// `MaasCluster`s that we watch.
    pub clusters: Store<MaasCluster>,
    /// `MaasPolicy`s.
    pub policies: Store<MaasPolicy>,
    /// Cluster API's `Machine`s.
    pub core_machines: Shelf<cluster_api::Machine>,
    /// Cluster API's `Cluster`s.
    pub core_clusters: Shelf<cluster_api::Cluster>,
    /// Only objects with the watch-filter label are shown.
    partial: bool,
    written: Mutex<HashMap<Key, u64>>,
}

/// Where the watches of our own kinds put what they see.
pub struct Writers {
    /// For `MaasMachine`s.
    pub machines: Writer<MaasMachine>,
    /// For `MaasCluster`s.
    pub clusters: Writer<MaasCluster>,
    /// For `MaasPolicy`s.
    pub policies: Writer<MaasPolicy>,
}

impl Mirror {
    /// Nothing has been shown yet. `partial` says that the watches leave out machines that may be siblings.
    pub fn new(partial: bool) -> (Arc<Self>, Writers) {
        let (machines, machine_writer) = reflector::store();
        let (clusters, cluster_writer) = reflector::store();
        let (policies, policy_writer) = reflector::store();
        let mirror = Self {
            machines,
            clusters,
            policies,
            core_machines: Shelf::default(),
            core_clusters: Shelf::default(),
            partial,
            written: Mutex::default(),
        };
        let writers =
            Writers { machines: machine_writer, clusters: cluster_writer, policies: policy_writer };
        (Arc::new(mirror), writers)
    }

    /// We have written an object, which now has this version. Only of `MaasMachine`s it matters here.
    pub fn wrote(&self, kind: &str, namespace: &str, name: &str, resource_version: &str) {
        // Versions of one kind are numbers that grow (Kubernetes 1.35 says so officially).
        if let ("MaasMachine", Ok(version)) = (kind, resource_version.parse()) {
            self.written().insert((namespace.to_owned(), name.to_owned()), version);
        }
    }

    /// Whether this showing of a `MaasMachine` holds everything that we wrote.
    pub fn holds_our_writes(&self, object: &MaasMachine) -> bool {
        let key = (object.namespace().unwrap_or_default(), object.name_any());
        let mut written = self.written();
        let Some(ours) = written.get(&key) else { return true };
        let holds = shown_since(object, *ours);
        if holds {
            written.remove(&key);
        }
        holds
    }

    /// The machines of a cluster, once the watch has shown everything that we have written so far. `None` if that does not
    /// come soon, or if the watch does not show all machines.
    pub async fn siblings(&self, namespace: &str, cluster: &str) -> Option<Arc<[Sibling]>> {
        const PATIENCE: Duration = Duration::from_millis(500);
        if self.partial {
            return None;
        }
        let expected: Vec<(Key, u64)> = {
            let written = self.written();
            let ours = written.iter().filter(|((of, _), _)| of == namespace);
            ours.map(|(key, version)| (key.clone(), *version)).collect()
        };
        let caught_up = async {
            for (key, version) in &expected {
                while !self.shows(key, *version) {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            }
        };
        tokio::time::timeout(PATIENCE, caught_up).await.ok()?;
        Some(self.machines_of(namespace, cluster).iter().map(|m| Sibling::of(m)).collect())
    }

    /// The machines of a cluster, as far as they were shown.
    pub fn machines_of(&self, namespace: &str, cluster: &str) -> Vec<Arc<MaasMachine>> {
        self.machines.state_filter(|m| {
            m.metadata.namespace.as_deref() == Some(namespace)
                && m.labels().get(names::CLUSTER_NAME_LABEL).map(String::as_str) == Some(cluster)
        })
    }

    /// An object that is gone shows everything there is.
    fn shows(&self, key: &Key, version: u64) -> bool {
        let shown = self.machines.get(&ObjectRef::new(&key.1).within(&key.0));
        shown.is_none_or(|object| shown_since(&object, version))
    }

    fn written(&self) -> MutexGuard<'_, HashMap<Key, u64>> {
        self.written.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A `MaasMachine` is gone.
    pub fn forget(&self, namespace: &str, name: &str) {
        self.written().remove(&(namespace.to_owned(), name.to_owned()));
    }
}

/// Whether this is the object as of a version, or later.
fn shown_since(object: &MaasMachine, version: u64) -> bool {
    let shown = object.resource_version().and_then(|v| v.parse::<u64>().ok());
    shown.is_some_and(|shown| shown >= version)
}

/// What is read of a foreign kind, by namespace and name.
pub struct Shelf<T>(RwLock<Objects<T>>);

struct Objects<T> {
    shown: HashMap<Key, Arc<T>>,
    /// A listing that is under way.
    coming: HashMap<Key, Arc<T>>,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self(RwLock::new(Objects { shown: HashMap::new(), coming: HashMap::new() }))
    }
}

impl<T> Shelf<T> {
    /// An object, if it was shown.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<T>> {
        let objects = self.0.read().unwrap_or_else(|e| e.into_inner());
        objects.shown.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// Takes over what a watch tells; an object that cannot be read is not shown.
    pub fn heard<K: Resource>(&self, event: &Event<K>, read: impl Fn(&K) -> Option<T>) {
        let mut objects = self.0.write().unwrap_or_else(|e| e.into_inner());
        let key = |k: &K| (k.namespace().unwrap_or_default(), k.name_any());
        match event {
            Event::Init => objects.coming.clear(),
            Event::InitApply(object) => {
                if let Some(read) = read(object) {
                    objects.coming.insert(key(object), Arc::new(read));
                }
            }
            Event::InitDone => objects.shown = std::mem::take(&mut objects.coming),
            Event::Apply(object) => {
                match read(object) {
                    Some(read) => objects.shown.insert(key(object), Arc::new(read)),
                    None => objects.shown.remove(&key(object)),
                };
            }
            Event::Delete(object) => drop(objects.shown.remove(&key(object))),
        }
    }
}
