//! The sources of policies: a ConfigMap that is replaced and a file that changes are looked at again at once.

use std::collections::HashMap;
use std::time::Duration;

use capmaas_api::MaasPolicy;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::{Shared, heard, hub};
use crate::policy::{Fingerprint, Key};

/// How often files are looked at, and the list of what is to be looked at is drawn up. Notifications do not reach through
/// every kind of volume.
const PAUSE: Duration = Duration::from_millis(250);

/// Tells of every policy whose source may have changed, until it is dropped.
pub(super) async fn watch(shared: &Shared, tell: impl Fn(ObjectRef<MaasPolicy>)) {
    let (changed, mut changes) = mpsc::unbounded_channel();
    let mut watches = Watches { shared, changed, running: HashMap::new() };
    let mut files: HashMap<String, Option<Fingerprint>> = HashMap::new();
    loop {
        let policies = shared.loader.mirror.policies.state();
        watches.keep(&policies.iter().filter_map(|p| config_map(p)).collect::<Vec<_>>());
        let mut paths: Vec<&str> = policies.iter().filter_map(|p| file(p)).collect();
        paths.sort_unstable();
        paths.dedup();
        files.retain(|path, _| paths.contains(&path.as_str()));
        for path in &paths {
            let now = shared.policies.fetcher.fingerprint(path);
            // Between the load's own look and the first one here, too, it may have changed.
            let before = files.insert((*path).to_owned(), now.clone());
            if before.is_none_or(|before| before != now) {
                let from = policies.iter().filter(|p| file(p) == Some(*path));
                from.for_each(|p| tell(ObjectRef::from_obj(&**p)));
            }
        }
        if let Ok(Some(key)) = tokio::time::timeout(PAUSE, changes.recv()).await {
            let from = policies.iter().filter(|p| config_map(p).as_ref() == Some(&key));
            from.for_each(|p| tell(ObjectRef::from_obj(&**p)));
        }
    }
}

fn file(policy: &MaasPolicy) -> Option<&str> {
    policy.spec.source.file.as_ref().map(|file| file.path.as_str())
}

/// Namespace and name of the ConfigMap that a policy comes from.
fn config_map(policy: &MaasPolicy) -> Option<Key> {
    let source = policy.spec.source.config_map.as_ref()?;
    Some((policy.namespace()?, source.name.clone()))
}

/// One watch for each ConfigMap that a policy comes from, of its metadata alone: it may hold a megabyte.
struct Watches<'a> {
    shared: &'a Shared,
    changed: mpsc::UnboundedSender<Key>,
    running: HashMap<Key, AbortHandle>,
}

impl Watches<'_> {
    fn keep(&mut self, wanted: &[Key]) {
        self.running.retain(|key, watch| {
            let keep = wanted.contains(key);
            if !keep {
                watch.abort();
            }
            keep
        });
        for key in wanted {
            if !self.running.contains_key(key) {
                self.running.insert(key.clone(), self.open(key.clone()));
            }
        }
    }

    fn open(&self, key: Key) -> AbortHandle {
        let api: Api<PartialObjectMeta<ConfigMap>> =
            Api::namespaced(self.shared.watches.clone(), &key.0);
        let config = hub::config().fields(&format!("metadata.name={}", key.1));
        let changed = self.changed.clone();
        let watch = async move {
            let mut events = Box::pin(watcher(api, config).default_backoff());
            while let Some(event) = events.next().await {
                match event {
                    Ok(event) => {
                        if is_news(&event) && changed.send(key.clone()).is_err() {
                            return;
                        }
                    }
                    Err(error) => heard(Err::<(), _>(error)).await,
                }
            }
        };
        tokio::spawn(watch).abort_handle()
    }
}

impl Drop for Watches<'_> {
    fn drop(&mut self) {
        self.running.values().for_each(AbortHandle::abort);
    }
}

fn is_news(event: &kube::runtime::watcher::Event<PartialObjectMeta<ConfigMap>>) -> bool {
    use kube::runtime::watcher::Event::{Apply, Delete, InitApply, InitDone};
    matches!(event, Apply(_) | Delete(_) | InitApply(_) | InitDone)
}
