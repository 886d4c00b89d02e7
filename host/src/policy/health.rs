//! How a policy fares: after several failures in a row it is left alone for a while, longer each time.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use capmaas_core::policy::Refused;
use rand::Rng;
use tokio::sync::mpsc::UnboundedSender;

/// Failures in a row after which a policy is degraded.
const MOST_FAILURES: u32 = 5;
/// How long a degraded policy is left alone at first.
const FIRST_REST: Duration = Duration::from_secs(1);
/// And at most.
const LONGEST_REST: Duration = Duration::from_secs(300);

/// Namespace and name of a `MaasPolicy`.
pub type Key = (String, String);

/// Counts failures in a row.
#[derive(Clone, Default)]
pub struct Health {
    vitals: Arc<Mutex<Vitals>>,
    /// Who is told when a policy becomes degraded, or recovers.
    tell: Option<(Key, UnboundedSender<Key>)>,
}

#[derive(Default)]
struct Vitals {
    failures: u32,
    /// The last one, in words.
    last: String,
    rest: Duration,
    until: Option<Instant>,
}

impl Health {
    /// Of the policy with an object; whoever listens learns when it becomes degraded, or recovers.
    pub fn of(key: Key, tell: UnboundedSender<Key>) -> Self {
        Self { vitals: Arc::default(), tell: Some((key, tell)) }
    }

    /// The namespace of the object; empty without one.
    pub(super) fn namespace(&self) -> &str {
        self.tell.as_ref().map_or("", |((namespace, _), _)| namespace)
    }

    /// One call more.
    pub(super) fn note(&self, refused: Option<&Refused>) {
        let mut vitals = self.vitals();
        let before = vitals.degraded();
        match refused {
            None => *vitals = Vitals::default(),
            Some(refused) => {
                vitals.failures = vitals.failures.saturating_add(1);
                vitals.last = format!("{}: {}", refused.category, refused.message);
                if vitals.degraded() {
                    vitals.rest = (vitals.rest * 2).clamp(FIRST_REST, LONGEST_REST);
                    // Several policies that fail for one reason need not come back in one moment.
                    let jitter = rand::rng().random_range(0.9..1.1);
                    vitals.until = Some(Instant::now() + vitals.rest.mul_f64(jitter));
                }
            }
        }
        if vitals.degraded() != before
            && let Some((key, tell)) = &self.tell
        {
            let _ = tell.send(key.clone());
        }
    }

    /// What is wrong, if it has failed too often in a row.
    pub fn degraded(&self) -> Option<String> {
        let vitals = self.vitals();
        let (failures, last) = (vitals.failures, &vitals.last);
        vitals.degraded().then(|| format!("{failures} failures in a row, the last: {last}"))
    }

    /// Why it is left alone now.
    pub fn resting(&self) -> Option<String> {
        let until = self.vitals().until?;
        let left = until.checked_duration_since(Instant::now())?;
        let why = self.degraded()?;
        Some(format!("it is asked again in {} s, after {why}", left.as_secs() + 1))
    }

    fn vitals(&self) -> MutexGuard<'_, Vitals> {
        self.vitals.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Vitals {
    fn degraded(&self) -> bool {
        self.failures >= MOST_FAILURES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_five_failures_in_a_row_a_policy_rests_and_one_answer_clears_it() {
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let health = Health::of(("team".into(), "p".into()), tell);
        let trap = Refused { policy: None, category: "trap".into(), message: "boom".into() };
        for _ in 0..4 {
            health.note(Some(&trap));
        }
        assert_eq!((health.degraded(), health.resting()), (None, None));
        health.note(None);
        for _ in 0..5 {
            health.note(Some(&trap));
        }
        let why = "5 failures in a row, the last: trap: boom";
        assert_eq!(health.degraded().as_deref(), Some(why));
        let words = health.resting().unwrap();
        assert!(words.starts_with("it is asked again in ") && words.ends_with(why), "{words}");
        let rest = health.vitals().rest;
        health.note(Some(&trap));
        assert_eq!(health.vitals().rest, rest * 2, "each rest is longer");
        health.note(None);
        assert_eq!((health.degraded(), health.resting()), (None, None));
        // Degraded once, recovered once: the single failures in between concern nobody.
        assert_eq!(std::iter::from_fn(|| told.try_recv().ok()).count(), 2);
    }
}
