//! `metav1.Condition`s: setting, and summing up into `Ready`.

use capmaas_api::{Condition, names};

use crate::text::{LONGEST_MESSAGE, bounded};
use crate::time::{rfc3339, unix_seconds};

/// The conditions of one object while its new status is computed.
#[derive(Clone, Debug)]
pub(crate) struct Conditions {
    before: Vec<Condition>,
    list: Vec<Condition>,
    now: u64,
    /// The generation that the object came with, and the one that it is in now.
    came: Option<i64>,
    generation: Option<i64>,
}

impl Conditions {
    /// Starts from what the object holds.
    pub(crate) fn new(before: &[Condition], now: u64, generation: Option<i64>) -> Self {
        let (before, list) = (before.to_vec(), before.to_vec());
        Self { before, list, now, came: generation, generation }
    }

    /// Sets a condition; the transition time moves only with the status.
    pub(crate) fn set(&mut self, kind: &str, status: bool, reason: &str, message: &str) {
        self.put(kind, if status { "True" } else { "False" }, reason, message);
    }

    /// Sets a condition whose state is not known.
    pub(crate) fn set_unknown(&mut self, kind: &str, reason: &str, message: &str) {
        self.put(kind, "Unknown", reason, message);
    }

    /// Sets `Paused` from its two causes, and says whether either is there.
    pub(crate) fn paused(&mut self, kind: &str, cluster: bool, annotated: bool) -> bool {
        let mut why = Vec::new();
        if cluster {
            why.push("Cluster spec.paused is set to true".to_owned());
        }
        if annotated {
            why.push(format!("{kind} has the {} annotation", names::PAUSED_ANNOTATION));
        }
        let paused = !why.is_empty();
        let reason = if paused { "Paused" } else { "NotPaused" };
        self.set("Paused", paused, reason, &why.join(", "));
        paused
    }

    /// The spec is in another generation now, because we have written it. Nothing that was judged becomes untrue by that, and
    /// nobody would come back to say so.
    pub(crate) fn wrote(&mut self, generation: Option<i64>) {
        if generation.is_none() {
            return;
        }
        let judged = self.list.iter_mut().filter(|c| c.observed_generation == self.generation);
        judged.for_each(|c| c.observed_generation = generation);
        self.generation = generation;
    }

    fn put(&mut self, kind: &str, status: &str, reason: &str, message: &str) {
        let before = self.known(kind).filter(|c| c.status == status);
        let since = before.and_then(|c| c.last_transition_time.clone());
        let condition = Condition {
            kind: kind.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(bounded(message, LONGEST_MESSAGE)),
            last_transition_time: Some(since.unwrap_or_else(|| rfc3339(self.now))),
            observed_generation: self.generation,
            severity: None,
        };
        match self.list.iter_mut().find(|c| c.kind == kind) {
            Some(slot) => *slot = condition,
            None => self.list.push(condition),
        }
    }

    /// Takes a condition away.
    pub(crate) fn remove(&mut self, kind: &str) {
        self.list.retain(|c| c.kind != kind);
    }

    /// The condition as it stands now.
    pub(crate) fn get(&self, kind: &str) -> Option<&Condition> {
        self.list.iter().find(|c| c.kind == kind)
    }

    /// The condition with which the object came.
    fn known(&self, kind: &str) -> Option<&Condition> {
        self.before.iter().find(|c| c.kind == kind)
    }

    /// The reason with which the object came.
    pub(crate) fn reason_before(&self, kind: &str) -> Option<&str> {
        self.known(kind)?.reason.as_deref()
    }

    /// What the condition says of this reason, if that was its reason.
    pub(crate) fn before(&self, kind: &str, reason: &str) -> Option<&str> {
        let known = self.known(kind).filter(|c| c.reason.as_deref() == Some(reason));
        known?.message.as_deref()
    }

    /// Whether the object was edited since the condition was set.
    pub(crate) fn edited_since(&self, kind: &str) -> bool {
        let seen = self.known(kind).and_then(|c| c.observed_generation);
        seen.is_some() && seen != self.came
    }

    /// Since when (Unix seconds) the condition has had this status, if it came with it.
    pub(crate) fn since(&self, kind: &str, status: &str) -> Option<u64> {
        let before = self.known(kind).filter(|c| c.status == status)?;
        unix_seconds(before.last_transition_time.as_deref()?)
    }

    /// `Ready` from the named conditions: False if one is, else Unknown if one is, else True.
    ///
    /// Reason and message are those of the first condition that is not True, without anything that
    /// differs from machine to machine: Cluster API groups siblings by them.
    pub(crate) fn summarise(&mut self, of: &[&str]) {
        let worst = |wanted: &str| {
            of.iter().find_map(|k| self.get(k).filter(|c| c.status == wanted).cloned())
        };
        let (status, from) = match (worst("False"), worst("Unknown")) {
            (Some(c), _) => ("False", Some(c)),
            (None, Some(c)) => ("Unknown", Some(c)),
            (None, None) => ("True", None),
        };
        let reason = from.as_ref().and_then(|c| c.reason.clone()).unwrap_or("Ready".into());
        let message = from.map(|c| format!("* {}: {}", c.kind, reason)).unwrap_or_default();
        self.put("Ready", status, &reason, &message);
    }

    /// The finished list: `Ready` first, `Deleting` and `Paused` last, the rest by name.
    pub(crate) fn finish(mut self) -> Vec<Condition> {
        let rank = |c: &Condition| match c.kind.as_str() {
            "Ready" => 0,
            "Deleting" => 2,
            "Paused" => 3,
            _ => 1,
        };
        self.list.sort_by(|a, b| (rank(a), &a.kind).cmp(&(rank(b), &b.kind)));
        for condition in &mut self.list {
            condition.severity = None;
            condition.reason.get_or_insert_with(|| "NotReported".into());
            condition.message.get_or_insert_with(String::new);
            condition.last_transition_time.get_or_insert_with(|| rfc3339(self.now));
        }
        self.list
    }
}
