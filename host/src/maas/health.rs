//! Holding off while MAAS does not serve us.
//!
//! However many machines wait, a MAAS that is down gets few calls: what was in flight when it went, then one probe at a
//! time, after 1, 2, 4, … 60 seconds, each up to a fifth more or less. In the first minute these are at most
//! [`IN_FLIGHT`](super::wire) + 6 calls, later about one a minute. The first answer ends it for everybody.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use capmaas_core::{CallError, Category};
use rand::Rng;

/// The longest pause between probes that we choose ourselves.
const LONGEST: Duration = Duration::from_secs(60);
/// The longest pause that MAAS may ask for with `Retry-After`.
const LONGEST_ASKED: Duration = Duration::from_secs(300);
/// So many answers in a row that may be the fault of one object only are one of the whole MAAS.
const SUSPICIONS: u32 = 3;

/// Whether MAAS serves us.
#[derive(Default)]
pub(super) struct Health(Mutex<State>);

#[derive(Default)]
struct State {
    suspicions: u32,
    illness: Option<Illness>,
}

struct Illness {
    failures: u32,
    until: Instant,
    probing: bool,
    error: CallError,
}

/// The permission to make a call; dropped without an outcome, it was not made.
pub(super) struct Admission<'a> {
    health: &'a Health,
    probe: bool,
}

impl Health {
    /// Whether a call may be made now.
    ///
    /// # Errors
    /// While MAAS is held for down: what was wrong, and when to ask again. Nothing was sent.
    pub(super) fn admit(&self) -> Result<Admission<'_>, CallError> {
        let mut state = self.state();
        let Some(ill) = &mut state.illness else {
            return Ok(Admission { health: self, probe: false });
        };
        let left = ill.until.saturating_duration_since(Instant::now());
        if left.is_zero() && !ill.probing {
            ill.probing = true;
            return Ok(Admission { health: self, probe: true });
        }
        Err(held_off(&ill.error, left))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Admission<'_> {
    /// What came of the call.
    pub(super) fn concluded(mut self, reading: bool, outcome: Result<(), &CallError>) {
        let mut state = self.health.state();
        let error = match (outcome, outcome.err().map(|error| judge(error, reading))) {
            (Ok(()), _) | (_, None | Some(Verdict::Serves)) => {
                *state = State::default();
                return;
            }
            (_, Some(Verdict::Nothing)) => return,
            (Err(error), Some(Verdict::Down)) => error,
            (Err(error), Some(Verdict::Suspicious)) => {
                state.suspicions += 1;
                if state.suspicions < SUSPICIONS && !self.probe {
                    return;
                }
                error
            }
        };
        let before = state.illness.as_ref().map(|ill| ill.failures);
        if before.is_some() && !self.probe {
            // It was in flight when MAAS went down, and tells nothing new.
            return;
        }
        self.probe = false;
        let failures = before.map_or(0, |f| f.saturating_add(1));
        let until = Instant::now() + pause(failures, error.retry_after);
        state.illness = Some(Illness { failures, until, probing: false, error: error.clone() });
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        if self.probe
            && let Some(ill) = &mut self.health.state().illness
        {
            ill.probing = false;
        }
    }
}

enum Verdict {
    /// It answered: whatever it said, it is there.
    Serves,
    /// It does not serve anybody.
    Down,
    /// It may be down, or only this object's call is at fault.
    Suspicious,
    /// Nothing follows from it.
    Nothing,
}

fn judge(error: &CallError, reading: bool) -> Verdict {
    match error.category {
        Category::Unreachable | Category::Tls | Category::Unauthorized => Verdict::Down,
        // A write may wait for a BMC, or fail because of it; the proxy says 504 then.
        Category::Unavailable if matches!(error.status, Some(502 | 503)) => Verdict::Down,
        Category::Unavailable if reading && error.status.is_some() => Verdict::Down,
        _ if !reading && error.ambiguous() => Verdict::Nothing,
        Category::Unavailable | Category::Unknown | Category::Server | Category::Malformed => {
            Verdict::Suspicious
        }
        _ => Verdict::Serves,
    }
}

/// The pause after so many failed probes.
fn pause(failures: u32, asked: Option<u64>) -> Duration {
    let ours = Duration::from_secs(1 << failures.min(6)).min(LONGEST);
    let asked = Duration::from_secs(asked.unwrap_or_default()).min(LONGEST_ASKED);
    ours.max(asked).mul_f64(rand::rng().random_range(0.8..1.2))
}

/// The same trouble again, without a call. Those who wait come back one after another.
fn held_off(error: &CallError, left: Duration) -> CallError {
    let spread = rand::rng().random_range(0..=2 + left.as_secs() / 4);
    let category = match error.category {
        // Nothing was sent this time.
        Category::Unavailable | Category::Unknown | Category::Server | Category::Malformed => {
            Category::Unreachable
        }
        other => other,
    };
    let retry_after = Some(left.as_secs() + 1 + spread);
    CallError { category, retry_after, ..error.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn down() -> CallError {
        CallError::new(Category::Unreachable, "refused")
    }

    fn late() -> CallError {
        CallError::new(Category::Unknown, "no answer in time")
    }

    #[test]
    fn a_maas_that_is_down_is_not_asked_again_at_once() {
        let health = Health::default();
        let (first, second) = (health.admit().unwrap(), health.admit().unwrap());
        first.concluded(true, Err(&down()));
        let held = health.admit().err().unwrap();
        assert_eq!((held.category, held.message.as_str()), (Category::Unreachable, "refused"));
        assert!(held.retry_after.is_some_and(|s| (1..=5).contains(&s)), "{held:?}");
        assert!(!held.ambiguous(), "nothing was sent");
        // An answer to whoever was in flight ends it.
        second.concluded(true, Ok(()));
        assert!(health.admit().is_ok());
    }

    #[test]
    fn one_probe_at_a_time_and_it_may_be_given_up() {
        let health = Health::default();
        health.admit().unwrap().concluded(true, Err(&down()));
        health.state().illness.as_mut().unwrap().until = Instant::now();
        let probe = health.admit().unwrap();
        assert!(health.admit().is_err());
        drop(probe);
        let probe = health.admit().unwrap();
        probe.concluded(true, Err(&down()));
        assert_eq!(health.state().illness.as_ref().unwrap().failures, 1);
        assert!(health.admit().is_err());
    }

    #[test]
    fn what_may_be_one_objects_fault_counts_only_in_a_row() {
        let health = Health::default();
        let read =
            |outcome: Result<(), &CallError>| health.admit().unwrap().concluded(true, outcome);
        read(Err(&late()));
        read(Err(&late()));
        read(Ok(()));
        read(Err(&late()));
        read(Err(&late()));
        assert!(health.admit().is_ok());
        read(Err(&late()));
        assert!(health.admit().is_err());
    }

    #[test]
    fn a_write_that_waits_for_a_bmc_holds_up_nobody() {
        let health = Health::default();
        let slow = CallError { status: Some(504), ..CallError::new(Category::Unavailable, "slow") };
        for _ in 0..10 {
            health.admit().unwrap().concluded(false, Err(&late()));
            health.admit().unwrap().concluded(false, Err(&slow));
        }
        assert!(health.admit().is_ok());
    }

    #[test]
    fn pauses_grow_to_a_minute_and_heed_what_maas_asks() {
        let seconds = |failures, asked| pause(failures, asked).as_secs_f64();
        assert!((0.8..1.2).contains(&seconds(0, None)));
        assert!((48.0..72.0).contains(&seconds(30, None)));
        assert!((24.0..36.0).contains(&seconds(0, Some(30))));
        assert!(seconds(0, Some(100_000)) <= 360.0);
    }
}
