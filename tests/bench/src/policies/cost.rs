//! CPU time of this process, all threads.

use anyhow::{Context, Result};

/// Microseconds of CPU since the process began.
fn now() -> Result<f64> {
    // Nanoseconds on the CPU, summed over all threads (proc_pid_schedstat); `/proc/self/stat` counts in hundredths of a
    // second, which is too coarse for a call.
    let mut total = 0.0;
    for task in std::fs::read_dir("/proc/self/task")? {
        let text = std::fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
        total += text.split(' ').next().and_then(|n| n.parse::<f64>().ok()).unwrap_or_default();
    }
    Ok(total / 1000.0)
}

/// Measures from its start.
pub(crate) struct Meter(f64);

impl Meter {
    pub(crate) fn start() -> Result<Self> {
        now().map(Self).context("this kernel does not tell CPU times (schedstat)")
    }

    pub(crate) fn micros(&self) -> Result<f64> {
        Ok(now()? - self.0)
    }
}

/// Microseconds of CPU for one of so many calls.
pub(crate) fn of(calls: u32, mut call: impl FnMut() -> Result<()>) -> Result<f64> {
    let meter = Meter::start()?;
    for _ in 0..calls {
        call()?;
    }
    Ok(meter.micros()? / f64::from(calls))
}

/// The one in the middle.
pub(crate) fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or_default()
}
