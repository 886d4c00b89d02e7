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
        // What cannot be read may be readable in a moment; what was refused will be refused again.
        let failing = conditions.since(gate.condition(), "False").unwrap_or(look.now);
        let patience = look.now.saturating_sub(failing).max(SOON);
        if *gate == Gate::Resolved { patience.min(LATER) } else { LATER }
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
