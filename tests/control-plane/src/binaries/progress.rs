//! Saying what takes so long.

use std::io::{IsTerminal, Write, stderr};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Whether and how progress is told, on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Not at all.
    Silent,
    /// One line that is updated on a terminal, else a line every 15 seconds.
    Told,
}

impl Progress {
    /// Starts to tell of one step, with a hint at how long it takes, until the result is dropped.
    pub(super) fn step(self, what: &str, hint: &str) -> Step {
        if self == Self::Silent {
            return Step { ticker: None };
        }
        let started = Instant::now();
        let title = format!("{what} ({hint})");
        let terminal = stderr().is_terminal();
        if !terminal {
            say(&format!("{title}\n"));
        }
        let (stop, stopped) = channel::<bool>();
        let what = what.to_owned();
        let every = Duration::from_secs(if terminal { 1 } else { 15 });
        let thread = std::thread::spawn(move || {
            loop {
                let elapsed = || started.elapsed().as_secs();
                if terminal {
                    say(&format!("\r\x1b[K{title} {} s", elapsed()));
                }
                match stopped.recv_timeout(every) {
                    Err(RecvTimeoutError::Timeout) if terminal => {}
                    Err(RecvTimeoutError::Timeout) => {
                        say(&format!("  … {what}: {} s\n", elapsed()))
                    }
                    Ok(well) => {
                        let end = if well { "done" } else { "stopped" };
                        let start = if terminal { "\r\x1b[K" } else { "" };
                        return say(&format!("{start}{what}: {end} after {} s\n", elapsed()));
                    }
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        });
        Step { ticker: Some((stop, thread)) }
    }
}

/// One step under way.
pub(super) struct Step {
    ticker: Option<(Sender<bool>, JoinHandle<()>)>,
}

impl Step {
    /// It has gone well.
    pub(super) fn done(mut self) {
        self.end(true);
    }

    fn end(&mut self, well: bool) {
        if let Some((stop, thread)) = self.ticker.take() {
            let _ = stop.send(well);
            let _ = thread.join();
        }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.end(false);
    }
}

/// Not `eprint!`, which the test harness would capture: whoever waits for a cold build wants to see why.
fn say(text: &str) {
    let mut out = stderr().lock();
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}
