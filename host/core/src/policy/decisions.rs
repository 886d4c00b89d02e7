//! What the objects keep of decisions.

use capmaas_api::Decision;

use super::{Answered, Comparison, PolicyId, Refused, Seat};
use crate::step::{Event, EventKind};
use crate::text::{LONGEST_NOTE, bounded};

/// Enough to tell the story of one object, bounded for etcd's sake.
const KEPT: usize = 8;

/// Characters of an answer.
pub(crate) const LONGEST_ANSWER: usize = 300;

/// A decision as it is kept.
pub(crate) struct Decided<'a> {
    pub(crate) kind: &'a str,
    pub(crate) seat: &'a Seat,
    pub(crate) policy: &'a PolicyId,
    pub(crate) answer: &'a str,
    pub(crate) reason: &'a str,
    /// Unix seconds.
    pub(crate) at: u64,
}

/// Adds a decision to those that are kept; the oldest go.
pub(crate) fn keep(list: &mut Option<Vec<Decision>>, decided: &Decided<'_>) {
    let Decided { kind, seat, policy, answer, reason, at } = decided;
    let list = list.get_or_insert_with(Vec::new);
    list.push(Decision {
        kind: (*kind).to_owned(),
        by: Some(seat.policy.clone()).filter(|by| !by.is_empty()),
        policy: policy.name.clone(),
        digest: policy.digest.clone(),
        answer: bounded(answer, LONGEST_ANSWER),
        reason: Some(bounded(reason, 300)).filter(|r| !r.is_empty()),
        at: i64::try_from(*at).unwrap_or(i64::MAX),
    });
    let surplus = list.len().saturating_sub(KEPT);
    list.drain(..surplus);
}

/// Why there is no answer that can be used.
pub(crate) fn no_answer(given: Result<Answered, Refused>) -> String {
    match given {
        Ok(Answered { policy, .. }) => format!("policy {policy} did not answer the question"),
        Err(refused) => refused.to_string(),
    }
}

/// Says that the default takes a policy's place.
pub(crate) fn default_used(seat: &Seat, why: &str) -> Event {
    let note = format!("the default is used in place of MaasPolicy {}: {why}", seat.called());
    Event {
        kind: EventKind::Warning,
        reason: "PolicyDefaultUsed".into(),
        action: "Decide".into(),
        note: bounded(&note, LONGEST_NOTE),
    }
}

/// How a policy in shadow compares, and what is said of it if it would have decided otherwise.
pub(crate) fn compared(
    seat: &Seat,
    kind: &str,
    difference: Option<String>,
) -> (Comparison, Option<Event>) {
    let event = difference.as_ref().map(|difference| {
        let note = format!("MaasPolicy {} (in shadow) disagrees: {difference}", seat.called());
        Event {
            kind: EventKind::Normal,
            reason: "PolicyDisagrees".into(),
            action: "Compare".into(),
            note: bounded(&note, LONGEST_NOTE),
        }
    });
    let policy = seat.policy.clone();
    (Comparison { policy, kind: kind.to_owned(), difference }, event)
}
