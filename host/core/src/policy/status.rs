//! What a `MaasPolicy` says of itself.

use capmaas_api::{MaasPolicy, MaasPolicyStatus, PolicyRevision, ResolvedTag};
use serde::{Deserialize, Serialize};

use crate::conditions::Conditions;
use crate::step::{Done, Event, EventKind};
use crate::text::{LONGEST_NOTE, bounded};
use crate::time::rfc3339;

/// A gate that a component passes before it is asked anything, and the condition that tells of it.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
pub enum Gate {
    /// Its source could be read.
    Resolved,
    /// It is a component, with the digest that was asked for, that imports and exports what it may.
    Verified,
    /// It compiles and says who it is.
    Loaded,
    /// It accepts its configuration.
    ConfigValid,
}

impl Gate {
    const ALL: [Self; 4] = [Self::Resolved, Self::Verified, Self::Loaded, Self::ConfigValid];

    /// The condition's type.
    pub fn condition(self) -> &'static str {
        match self {
            Self::Resolved => "Resolved",
            Self::Verified => "Verified",
            Self::Loaded => "Loaded",
            Self::ConfigValid => "ConfigValid",
        }
    }

    /// In a word, for counters.
    pub fn word(self) -> &'static str {
        match self {
            Self::Resolved => "not-resolved",
            Self::Verified => "not-verified",
            Self::Loaded => "not-loaded",
            Self::ConfigValid => "config-invalid",
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Resolved => "SourceUnavailable",
            Self::Verified => "ComponentRefused",
            Self::Loaded => "LoadFailed",
            Self::ConfigValid => "ConfigInvalid",
        }
    }
}

/// What came of the last look at a `MaasPolicy`.
#[derive(Clone, Debug)]
pub struct Look {
    /// Unix seconds.
    pub now: u64,
    /// The object.
    pub object: MaasPolicy,
    /// The revision that is asked, whether or not the object means another one.
    pub current: Option<PolicyRevision>,
    /// The gate that what the object means did not pass, and why.
    pub refused: Option<(Gate, String)>,
    /// What a tag was resolved to.
    pub resolved: Option<ResolvedTag>,
    /// What is wrong, after too many failures in a row.
    pub degraded: Option<String>,
}

/// A loaded component, as the object tells of it. `loaded_at` is in Unix seconds.
pub fn revision(
    digest: &str,
    (name, version): (&str, &str),
    interface: String,
    loaded_at: u64,
    load_millis: u64,
) -> PolicyRevision {
    let hex = digest.strip_prefix("sha256:").unwrap_or(digest);
    PolicyRevision {
        digest: digest.to_owned(),
        short_digest: hex.get(..12).unwrap_or(hex).to_owned(),
        name: name.to_owned(),
        version: version.to_owned(),
        interface,
        loaded_at: rfc3339(loaded_at),
        load_millis: i64::try_from(load_millis).unwrap_or(i64::MAX),
    }
}

/// A source that cannot be read is tried again after this long at first, seconds.
const SOON: u64 = 2;
/// And at most after this.
const LATER: u64 = 300;
/// What was refused is refused again, but compiling may have been short of memory: at first after `LATER`, at most after this,
/// seconds.
const MUCH_LATER: u64 = 3600;

/// The status that belongs to what was seen, and when to look again.
pub fn status(look: &Look) -> Done<MaasPolicyStatus> {
    let object = &look.object;
    let before = object.status.clone().unwrap_or_default();
    let known = before.conditions.clone().unwrap_or_default();
    let mut conditions = Conditions::new(&known, look.now, object.metadata.generation);
    gates(&mut conditions, look);
    let ready = ready(&mut conditions, look);
    match &look.degraded {
        Some(why) => conditions.set("Degraded", true, "FailingInARow", why),
        None => conditions.set("Degraded", false, "Answering", ""),
    }
    let changed =
        look.current.as_ref().map(|c| &c.digest) != before.current.as_ref().map(|c| &c.digest);
    let previous = if changed { before.current.clone() } else { before.previous.clone() };
    let events = events(look, &before, changed);
    let requeue = look.refused.as_ref().map(|(gate, _)| {
        let failing = conditions.since(gate.condition(), "False").unwrap_or(look.now);
        let patience = look.now.saturating_sub(failing);
        match gate {
            // It may be readable in a moment.
            Gate::Resolved => patience.clamp(SOON, LATER),
            _ => patience.clamp(LATER, MUCH_LATER),
        }
    });
    let status = MaasPolicyStatus {
        observed_generation: object.metadata.generation,
        observed_mode: ready.then_some(object.spec.mode),
        current: look.current.clone(),
        previous,
        resolved: look.resolved.clone(),
        conditions: Some(conditions.finish()),
    };
    Done {
        status: Some(status),
        resource_version: object.metadata.resource_version.clone().unwrap_or_default(),
        events,
        compared: vec![],
        requeue,
    }
}

/// The gates up to the one that refused; what lies behind it is not known.
fn gates(conditions: &mut Conditions, look: &Look) {
    for gate in Gate::ALL {
        match &look.refused {
            Some((at, why)) if *at == gate => {
                conditions.set(gate.condition(), false, gate.reason(), why);
            }
            Some((at, _)) if gate > *at => {
                conditions.set_unknown(gate.condition(), "NotReached", "an earlier gate refused");
            }
            _ => conditions.set(gate.condition(), true, "Passed", ""),
        }
    }
}

fn ready(conditions: &mut Conditions, look: &Look) -> bool {
    let (ready, reason, message) = match (&look.refused, &look.current) {
        (Some((gate, why)), Some(last)) => {
            let kept = format!("{why}; the last good revision sha256:{} stays", last.short_digest);
            (false, gate.reason(), kept)
        }
        (Some((gate, why)), None) => (false, gate.reason(), why.clone()),
        (None, _) if look.object.spec.suspend => {
            (false, "Suspended", "spec.suspend is true: it is not asked".to_owned())
        }
        (None, _) if look.degraded.is_some() => {
            (false, "Degraded", look.degraded.clone().unwrap_or_default())
        }
        (None, _) => (true, "Ready", String::new()),
    };
    conditions.set("Ready", ready, reason, &message);
    ready
}

fn events(look: &Look, before: &MaasPolicyStatus, changed: bool) -> Vec<Event> {
    let event = |kind, reason: &str, action: &str, note: String| Event {
        kind,
        reason: reason.into(),
        action: action.into(),
        note: bounded(&note, LONGEST_NOTE),
    };
    let mut events = Vec::new();
    if let Some(current) = look.current.as_ref().filter(|_| changed) {
        let note = format!(
            "{} {} (sha256:{}) is in use, loaded in {} ms",
            current.name, current.version, current.short_digest, current.load_millis
        );
        events.push(event(EventKind::Normal, "RevisionInUse", "Load", note));
    }
    let said = |kind: &str, status: &str, message: &str| {
        let mut known = before.conditions.iter().flatten();
        known.any(|c| c.kind == kind && c.status == status && c.message.as_deref() == Some(message))
    };
    if let Some((gate, why)) = &look.refused
        && !said(gate.condition(), "False", why)
    {
        events.push(event(EventKind::Warning, gate.reason(), "Load", why.clone()));
    }
    if let Some(why) = &look.degraded
        && !before.conditions.iter().flatten().any(|c| c.kind == "Degraded" && c.status == "True")
    {
        events.push(event(EventKind::Warning, "PolicyDegraded", "Ask", why.clone()));
    }
    events
}

#[cfg(test)]
mod tests {
    use capmaas_api::{Condition, MaasPolicySpec, PolicyKind, PolicyMode, PolicySource};

    use super::*;

    const THEN: u64 = 1_795_996_800;

    fn object() -> MaasPolicy {
        let spec = MaasPolicySpec {
            kind: PolicyKind::Allocation,
            source: PolicySource::default(),
            config: None,
            mode: PolicyMode::Enforce,
            on_failure: None,
            limits: None,
            suspend: false,
        };
        let mut object = MaasPolicy::new("p", spec);
        object.metadata.generation = Some(3);
        object
    }

    fn loaded(digest: &str) -> PolicyRevision {
        revision(
            &format!("sha256:{digest}"),
            ("p", "1.0.0"),
            "capmaas:policy@0.1.0".into(),
            THEN,
            12,
        )
    }

    fn look(object: &MaasPolicy, current: Option<PolicyRevision>) -> Look {
        let object = object.clone();
        Look { now: THEN, object, current, refused: None, resolved: None, degraded: None }
    }

    /// Looks, and keeps what is found as the object's status.
    fn kept(object: &mut MaasPolicy, look: &Look) -> Done<MaasPolicyStatus> {
        let done = status(look);
        object.status.clone_from(&done.status);
        done
    }

    fn condition(object: &MaasPolicy, kind: &str) -> Condition {
        let conditions = object.status.clone().and_then(|s| s.conditions).unwrap_or_default();
        conditions.into_iter().find(|c| c.kind == kind).expect("a condition")
    }

    fn reasons(done: &Done<MaasPolicyStatus>) -> Vec<&str> {
        done.events.iter().map(|e| e.reason.as_str()).collect()
    }

    #[test]
    fn a_revision_in_use_is_told_once_and_the_one_before_is_kept_in_mind() {
        let mut object = object();
        let first = look(&object, Some(loaded("aa")));
        assert_eq!(reasons(&kept(&mut object, &first)), ["RevisionInUse"]);
        assert_eq!(condition(&object, "Ready").status, "True");
        let again = look(&object, Some(loaded("aa")));
        assert!(kept(&mut object, &again).events.is_empty());
        let second = look(&object, Some(loaded("bb")));
        kept(&mut object, &second);
        let status = object.status.unwrap();
        assert_eq!(status.previous.unwrap().digest, "sha256:aa");
        assert_eq!(status.current.unwrap().digest, "sha256:bb");
    }

    #[test]
    fn a_refusal_names_its_gate_and_what_lies_behind_it_is_not_known() {
        let mut object = object();
        let refused = Some((Gate::Verified, "it imports wasi:clocks".to_owned()));
        let seen = Look { refused, ..look(&object, Some(loaded("aabbccddeeff00"))) };
        let done = kept(&mut object, &seen);
        assert_eq!(reasons(&done), ["RevisionInUse", "ComponentRefused"]);
        let states: Vec<String> = ["Resolved", "Verified", "Loaded", "ConfigValid", "Ready"]
            .map(|kind| condition(&object, kind).status)
            .to_vec();
        assert_eq!(states, ["True", "False", "Unknown", "Unknown", "False"]);
        let ready = condition(&object, "Ready").message.unwrap();
        assert_eq!(
            ready,
            "it imports wasi:clocks; the last good revision sha256:aabbccddeeff stays"
        );
        assert_eq!(done.requeue, Some(LATER));
    }

    #[test]
    fn what_is_refused_is_compiled_again_less_and_less_often() {
        let mut object = object();
        let mut now = THEN;
        let mut pauses = Vec::new();
        for _ in 0..8 {
            let refused = Some((Gate::Loaded, "compiling went over its limits".to_owned()));
            let seen = Look { now, refused, ..look(&object, None) };
            pauses.push(kept(&mut object, &seen).requeue.expect("it is tried again"));
            now += pauses.last().copied().unwrap_or_default();
        }
        assert_eq!(pauses[..4], [300, 300, 600, 1200]);
        assert_eq!(pauses.last(), Some(&MUCH_LATER));
    }

    #[test]
    fn a_source_that_cannot_be_read_is_tried_again_less_and_less_often() {
        let mut object = object();
        let mut pauses = Vec::new();
        let mut now = THEN;
        for _ in 0..10 {
            let refused = Some((Gate::Resolved, "no such ConfigMap".to_owned()));
            let seen = Look { now, refused, ..look(&object, None) };
            let pause = kept(&mut object, &seen).requeue.expect("it is tried again");
            pauses.push(pause);
            now += pause;
        }
        assert_eq!(pauses[..4], [2, 2, 4, 8]);
        assert_eq!(pauses.last(), Some(&LATER));
    }

    #[test]
    fn one_that_is_degraded_or_suspended_is_not_ready_and_says_why() {
        let mut object = object();
        let degraded = Some("5 failures in a row, the last: trap".to_owned());
        let seen = Look { degraded, ..look(&object, Some(loaded("aa"))) };
        assert_eq!(reasons(&kept(&mut object, &seen)), ["RevisionInUse", "PolicyDegraded"]);
        assert!(
            kept(&mut object.clone(), &Look { object: object.clone(), ..seen }).events.is_empty()
        );
        let ready = condition(&object, "Ready");
        assert_eq!(ready.reason.as_deref(), Some("Degraded"));
        object.spec.suspend = true;
        let seen = look(&object, Some(loaded("aa")));
        kept(&mut object, &seen);
        assert_eq!(condition(&object, "Ready").reason.as_deref(), Some("Suspended"));
    }
}
