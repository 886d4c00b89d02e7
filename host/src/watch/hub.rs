//! One watch a kind, for everybody who wants to know.

use std::collections::HashMap;
use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;

use capmaas_api::{MaasCluster, MaasMachine, MaasPolicy, names};
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::{Stream, StreamExt};
use kube::api::DynamicObject;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::{Shared, clusters, heard, referenced, sources, trigger};
use crate::kube::{ClusterApi, Key, Writers};
use crate::policy::key;

/// After this long the server ends a watch, and it is opened again where it was. A client that hears nothing for a little
/// longer (75 seconds without a byte) knows that the connection is dead: what a firewall has forgotten is found within about
/// 80 seconds, if the machine is not too busy to look.
const WATCH_SECONDS: u32 = 60;

pub(super) fn config() -> watcher::Config {
    watcher::Config::default().timeout(WATCH_SECONDS)
}

/// What is to be reconciled, as the watches tell.
pub(super) struct Calls {
    pub(super) machines: UnboundedReceiver<ObjectRef<MaasMachine>>,
    pub(super) clusters: UnboundedReceiver<ObjectRef<MaasCluster>>,
    pub(super) nodes: UnboundedReceiver<ObjectRef<MaasMachine>>,
    pub(super) policies: UnboundedReceiver<ObjectRef<MaasPolicy>>,
}

/// Whom to tell.
#[derive(Clone)]
struct Tell {
    machines: UnboundedSender<ObjectRef<MaasMachine>>,
    clusters: UnboundedSender<ObjectRef<MaasCluster>>,
    nodes: UnboundedSender<ObjectRef<MaasMachine>>,
    policies: UnboundedSender<ObjectRef<MaasPolicy>>,
}

/// The watches, to be run, and what they will ask for.
pub(super) fn open(
    shared: &Shared,
    writers: Writers,
) -> (impl Future<Output = ()> + Send + 'static, Calls) {
    let (machines, machine_calls) = unbounded();
    let (clusters, cluster_calls) = unbounded();
    let (nodes, node_calls) = unbounded();
    let (policies, policy_calls) = unbounded();
    let tell = Tell { machines, clusters, nodes, policies };
    let watches = run(shared.clone(), writers, tell);
    let calls = Calls {
        machines: machine_calls,
        clusters: cluster_calls,
        nodes: node_calls,
        policies: policy_calls,
    };
    (watches, calls)
}

async fn run(shared: Shared, writers: Writers, tell: Tell) {
    let core = shared.loader.cluster_api.clone();
    futures::join!(
        maas_machines(&shared, writers.machines, tell.clone()),
        maas_clusters(&shared, writers.clusters, tell.clone()),
        core_machines(&shared, &core, tell.clone()),
        core_clusters(&shared, &core, tell.clone()),
        maas_policies(&shared, writers.policies, &tell),
        swapped(&shared, &tell),
        sources::watch(&shared, |policy| {
            let _ = tell.policies.unbounded_send(policy);
        }),
    );
}

async fn maas_machines(shared: &Shared, writer: Writer<MaasMachine>, tell: Tell) {
    let clusters = shared.loader.mirror.clusters.clone();
    let (mut own, mut member) = (Changes::of(trigger::machine), Changes::of(trigger::member));
    let (mut node, mut leaving) = (Changes::of(trigger::node), Changes::of(trigger::leaving));
    let events = opened(watcher(shared.api::<MaasMachine>(), shared.ours())).reflect(writer);
    told(events, |object: &MaasMachine, deleted| {
        if deleted {
            shared
                .loader
                .mirror
                .forget(&object.namespace().unwrap_or_default(), &object.name_any());
        }
        if own.news(object, deleted) {
            let _ = tell.machines.unbounded_send(ObjectRef::from_obj(object));
        }
        // A control plane came, went or changed: the record may have to follow.
        let control_plane = object.labels().contains_key(names::CONTROL_PLANE_LABEL);
        let member = member.news(object, deleted) || deleted;
        if leaving.news(object, deleted) || (control_plane && member) {
            send(&tell.clusters, clusters::of_machine(&clusters, object));
        }
        if node.news(object, deleted) {
            let _ = tell.nodes.unbounded_send(ObjectRef::from_obj(object));
        }
    })
    .await;
}

async fn maas_clusters(shared: &Shared, writer: Writer<MaasCluster>, tell: Tell) {
    let mirror = shared.loader.mirror.clone();
    let (mut own, mut record) = (Changes::of(trigger::cluster), Changes::of(trigger::record));
    let mut policies = Changes::of(trigger::policies);
    let events = opened(watcher(shared.api::<MaasCluster>(), shared.ours())).reflect(writer);
    told(events, |object: &MaasCluster, deleted| {
        if own.news(object, deleted) {
            let _ = tell.clusters.unbounded_send(ObjectRef::from_obj(object));
        }
        let (record, policies) = (record.news(object, deleted), policies.news(object, deleted));
        if record || policies {
            let cluster =
                object.labels().get(names::CLUSTER_NAME_LABEL).cloned().unwrap_or_default();
            let namespace = object.namespace().unwrap_or_default();
            let mut waiting = mirror.machines_of(&namespace, &cluster);
            // For the DNS record only control planes wait.
            waiting.retain(|m| policies || m.labels().contains_key(names::CONTROL_PLANE_LABEL));
            send(&tell.machines, named(&waiting));
        }
    })
    .await;
}

async fn maas_policies(shared: &Shared, writer: Writer<MaasPolicy>, tell: &Tell) {
    let book = &shared.loader.policies;
    let mut changes = Changes::of(trigger::policy);
    let mut listed: Option<Vec<Key>> = None;
    let events = opened(watcher(shared.api::<MaasPolicy>(), config())).reflect(writer);
    let events = events.inspect(|event| match event {
        Ok(Event::Init) => listed = Some(vec![]),
        Ok(Event::InitApply(object)) => {
            book.seen(object);
            listed.get_or_insert_default().push(key(object));
        }
        Ok(Event::InitDone) => book.listed(&listed.take().unwrap_or_default()),
        Ok(Event::Apply(object)) => book.seen(object),
        Ok(Event::Delete(object)) => book.gone(&key(object)),
        Err(_) => {}
    });
    told(events, |object: &MaasPolicy, deleted| {
        let news = changes.news(object, deleted);
        if news {
            let _ = tell.policies.unbounded_send(ObjectRef::from_obj(object));
        }
        // It may be used in another way from now on, or not at all.
        if news || deleted {
            shared.policies.changed(key(object));
        }
    })
    .await;
}

/// Another revision of a policy is asked, or none any more: whoever waits may go on.
async fn swapped(shared: &Shared, tell: &Tell) {
    let mirror = &shared.loader.mirror;
    let mut news = shared.policies.changes();
    while let Some((namespace, _)) = news.next().await {
        let everybody = namespace == shared.loader.policies.defaults_namespace();
        let concerned = |of: Option<String>| everybody || of.as_deref() == Some(&namespace);
        let machines = mirror.machines.state_filter(|m| {
            concerned(m.namespace()) && !m.status.as_ref().is_some_and(|s| s.ready)
        });
        let clusters = mirror.clusters.state_filter(|c| {
            concerned(c.namespace()) && !c.status.as_ref().is_some_and(|s| s.ready)
        });
        send(&tell.machines, named(&machines));
        send(&tell.clusters, clusters.iter().map(|c| ObjectRef::from_obj(&**c)).collect());
    }
}

async fn core_machines(shared: &Shared, core: &ClusterApi, tell: Tell) {
    let mirror = shared.loader.mirror.clone();
    let machines = mirror.machines.clone();
    let mut changes = Changes::of(trigger::core_machine);
    let events = opened(watcher(shared.dynamic(&core.machine), config())).inspect(|event| {
        if let Ok(event) = event {
            mirror.core_machines.heard(event, |o| ClusterApi::read_machine(o).ok());
        }
    });
    told(events, |object: &DynamicObject, deleted| {
        // One that has gone matters to nobody: ours are deleted before it.
        if changes.news(object, deleted) {
            send(&tell.machines, referenced(&machines, object, "MaasMachine"));
        }
    })
    .await;
}

async fn core_clusters(shared: &Shared, core: &ClusterApi, tell: Tell) {
    let mirror = shared.loader.mirror.clone();
    let mut changes = Changes::of(trigger::core_cluster);
    let events = opened(watcher(shared.dynamic(&core.cluster), config())).inspect(|event| {
        if let Ok(event) = event {
            mirror.core_clusters.heard(event, |o| ClusterApi::read_cluster(o).ok());
        }
    });
    told(events, |object: &DynamicObject, deleted| {
        if changes.news(object, deleted) {
            let namespace = object.namespace().unwrap_or_default();
            let machines = mirror.machines_of(&namespace, &object.name_any());
            send(&tell.machines, named(&machines));
            send(&tell.clusters, referenced(&mirror.clusters, object, "MaasCluster"));
        }
    })
    .await;
}

fn named(machines: &[Arc<MaasMachine>]) -> Vec<ObjectRef<MaasMachine>> {
    machines.iter().map(|m| ObjectRef::from_obj(&**m)).collect()
}

fn send<K: Resource<DynamicType = ()>>(to: &UnboundedSender<ObjectRef<K>>, all: Vec<ObjectRef<K>>) {
    for one in all {
        let _ = to.unbounded_send(one);
    }
}

/// A watch that tries again, and keeps nothing of what only the server needs.
fn opened<K>(
    events: impl Stream<Item = watcher::Result<Event<K>>> + Send,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    events.default_backoff().modify(|object| {
        object.managed_fields_mut().clear();
        object.annotations_mut().remove("kubectl.kubernetes.io/last-applied-configuration");
    })
}

/// Tells of every object that was applied or deleted; those of a listing when it is complete, as before that the store
/// does not show them.
async fn told<K: Clone>(
    events: impl Stream<Item = watcher::Result<Event<K>>>,
    mut of: impl FnMut(&K, bool),
) {
    let mut listed = Vec::new();
    let mut events = pin!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(object)) => listed.push(object),
            Ok(Event::InitDone) => listed.drain(..).for_each(|object| of(&object, false)),
            Ok(Event::Apply(object)) => of(&object, false),
            Ok(Event::Delete(object)) => of(&object, true),
            Err(error) => heard(Err::<(), _>(error)).await,
        }
    }
}

/// Remembers of each object what matters, and tells when that has changed.
struct Changes<K> {
    matters: fn(&K) -> Option<u64>,
    known: HashMap<Key, u64>,
}

impl<K: Resource> Changes<K> {
    fn of(matters: fn(&K) -> Option<u64>) -> Self {
        Self { matters, known: HashMap::new() }
    }

    fn news(&mut self, object: &K, deleted: bool) -> bool {
        let key = (object.namespace().unwrap_or_default(), object.name_any());
        if deleted {
            self.known.remove(&key);
            return false;
        }
        let now = (self.matters)(object);
        now.is_some_and(|now| self.known.insert(key, now) != Some(now))
    }
}
