//! Machines of one cluster are taken one after another, so that a policy never sees stale peers.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use capmaas_api::MaasMachine;
use futures::Stream;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use kube::runtime::reflector::ObjectRef;

/// Namespace and cluster.
type Key = (String, String);
type Waiting = ObjectRef<MaasMachine>;

/// One line a cluster. Nobody waits inside a reconcile, which would hold a place that other clusters need.
#[derive(Clone)]
pub(super) struct Turns(Arc<Inner>);

struct Inner {
    lines: Mutex<HashMap<Key, Line>>,
    next: UnboundedSender<Waiting>,
}

#[derive(Default)]
struct Line {
    held: bool,
    waiting: VecDeque<Waiting>,
}

/// The right to take a machine for a cluster, until it is dropped.
pub(super) struct Turn {
    of: Turns,
    key: Key,
}

impl Turns {
    /// Nobody waits yet; the stream tells whose turn it is.
    pub(super) fn new() -> (Self, impl Stream<Item = Waiting> + Send + 'static) {
        let (next, called): (_, UnboundedReceiver<_>) = unbounded();
        (Self(Arc::new(Inner { lines: Mutex::default(), next })), called)
    }

    /// The turn, or a place in the line: the stream tells when it is free. Whoever is called and does not come keeps the
    /// others waiting until one of them asks again.
    pub(super) fn take(&self, key: Key, who: Waiting) -> Option<Turn> {
        let mut lines = self.lines();
        let line = lines.entry(key.clone()).or_default();
        if !line.held {
            line.held = true;
            line.waiting.retain(|w| *w != who);
            return Some(Turn { of: self.clone(), key });
        }
        if !line.waiting.contains(&who) {
            line.waiting.push_back(who);
        }
        None
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<Key, Line>> {
        self.0.lines.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut lines = self.of.lines();
        let Some(line) = lines.get_mut(&self.key) else { return };
        line.held = false;
        match line.waiting.pop_front() {
            Some(next) => drop(self.of.0.next.unbounded_send(next)),
            None => drop(lines.remove(&self.key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{FutureExt, StreamExt};

    fn key() -> Key {
        ("n".into(), "c".into())
    }

    #[test]
    fn one_at_a_time_for_each_cluster() {
        let (turns, mut called) = Turns::new();
        let first = turns.take(key(), ObjectRef::new("a")).expect("nobody else is there");
        assert!(turns.take(key(), ObjectRef::new("b")).is_none());
        assert!(turns.take(key(), ObjectRef::new("b")).is_none());
        assert!(turns.take(("n".into(), "other".into()), ObjectRef::new("x")).is_some());
        drop(first);
        let next = futures::executor::block_on(called.next());
        assert_eq!(next.map(|n| n.name), Some("b".to_owned()));
        assert!(turns.take(key(), ObjectRef::new("b")).is_some());
        assert!(called.next().now_or_never().is_none(), "nobody is called twice");
    }
}
