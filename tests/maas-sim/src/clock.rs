//! The simulated time: seconds since the start of the region.

use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// How simulated time passes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockMode {
    /// Real time, times this factor: with 60 a deployment of five minutes takes five seconds.
    Speed(f64),
    /// Time stands still until it is moved with [`crate::Simulator::advance`].
    Manual,
}

#[derive(Debug)]
pub(crate) struct Clock {
    mode: ClockMode,
    started: Instant,
    /// Seconds since the Unix epoch at the start: dates in replies are counted from here.
    started_unix: i64,
    moved: Duration,
}

impl Clock {
    pub(crate) fn new(mode: ClockMode) -> Self {
        let started_unix = jiff::Timestamp::now().as_second();
        Self { mode, started: Instant::now(), started_unix, moved: Duration::ZERO }
    }

    pub(crate) fn now(&self) -> Duration {
        match self.mode {
            ClockMode::Speed(factor) => {
                self.started.elapsed().mul_f64(factor.max(0.0)) + self.moved
            }
            ClockMode::Manual => self.moved,
        }
    }

    pub(crate) fn advance(&mut self, by: Duration) {
        self.moved += by;
    }

    /// The date of a simulated moment.
    pub(crate) fn date(&self, at: Duration) -> jiff::Timestamp {
        let seconds =
            self.started_unix.saturating_add(i64::try_from(at.as_secs()).unwrap_or(i64::MAX / 2));
        jiff::Timestamp::new(seconds, i32::try_from(at.subsec_nanos()).unwrap_or(0))
            .unwrap_or(jiff::Timestamp::UNIX_EPOCH)
    }

    /// As MAAS writes dates in most objects: `2026-11-29T21:01:44.483Z`.
    pub(crate) fn iso(&self, at: Duration) -> String {
        self.date(at).strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
    }

    /// As MAAS writes dates in events: `Sun, 29 Nov. 2026 20:47:05`, in UTC without saying so.
    pub(crate) fn event_date(&self, at: Duration) -> String {
        self.date(at).strftime("%a, %d %b. %Y %H:%M:%S").to_string()
    }
}
