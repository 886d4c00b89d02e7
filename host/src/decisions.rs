//! The decision log: one line of JSON for every reconcile in which a policy was asked.
//!
//! A line is the reconcile's transcript, so it replays as it is: `capmaas policy replay` asks another component the same
//! questions. Bootstrap data never enters a transcript.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use capmaas_core::{Reply, Step};
use serde::Serialize;

use crate::kube::now;

/// A file of bounded size, with a bounded number of older ones beside it (`.1` is the newest).
#[derive(Clone)]
pub struct DecisionLog(Arc<Mutex<Rotated>>);

struct Rotated {
    path: PathBuf,
    file: File,
    written: u64,
    /// Bytes after which the file is put aside.
    most: u64,
    /// How many are kept aside.
    kept: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a, N, S> {
    /// Unix seconds.
    at: u64,
    snapshot: &'a N,
    replies: &'a [Reply],
    steps: Vec<Step<S>>,
}

impl DecisionLog {
    /// Opens the log, at the end of what is there.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(path: &Path, most: u64, kept: u32) -> Result<Self> {
        let file = append(path)?;
        let written = file.metadata().map_or(0, |m| m.len());
        let path = path.to_owned();
        Ok(Self(Arc::new(Mutex::new(Rotated { path, file, written, most, kept }))))
    }

    /// Writes down one reconcile. What cannot be written is told once in the program's own log, and decisions go on.
    pub(crate) async fn write<N: Serialize, S: Serialize>(
        &self,
        snapshot: &N,
        replies: &[Reply],
        next: impl Fn(&[Reply]) -> Step<S>,
    ) {
        let steps = (0..=replies.len()).map(|n| next(&replies[..n])).collect();
        let line = Line { at: now(), snapshot, replies, steps };
        let written = serde_json::to_vec(&line).context("the transcript is not JSON");
        let log = self.clone();
        let written = tokio::task::spawn_blocking(move || {
            let mut line = written?;
            line.push(b'\n');
            log.0.lock().unwrap_or_else(|e| e.into_inner()).append(&line)
        });
        if let Err(error) = written.await.context("writing broke off").and_then(|written| written) {
            tracing::warn!(error = format!("{error:#}"), "a decision is not in --decision-log");
        }
    }
}

impl Rotated {
    fn append(&mut self, line: &[u8]) -> Result<()> {
        let length = line.len() as u64;
        if self.written > 0 && self.written + length > self.most {
            self.rotate()?;
        }
        self.file.write_all(line).with_context(|| format!("{}", self.path.display()))?;
        self.written += length;
        Ok(())
    }

    fn rotate(&mut self) -> Result<()> {
        let aside = |n: u32| PathBuf::from(format!("{}.{n}", self.path.display()));
        for n in (1..self.kept).rev() {
            // Some of them may not be there yet.
            let _ = std::fs::rename(aside(n), aside(n + 1));
        }
        if self.kept > 0 {
            std::fs::rename(&self.path, aside(1)).context("the log cannot be put aside")?;
        } else {
            std::fs::remove_file(&self.path).context("the log cannot be begun anew")?;
        }
        self.file = append(&self.path)?;
        self.written = 0;
        Ok(())
    }
}

fn append(path: &Path) -> Result<File> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.with_context(|| format!("--decision-log {} cannot be opened", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_put_aside_when_it_is_full_and_the_oldest_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("decisions.jsonl");
        let log = DecisionLog::open(&path, 10, 2).unwrap();
        for line in ["one....\n", "two....\n", "three..\n", "four...\n"] {
            log.0.lock().unwrap().append(line.as_bytes()).unwrap();
        }
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).ok();
        assert_eq!(read("decisions.jsonl").as_deref(), Some("four...\n"));
        assert_eq!(read("decisions.jsonl.1").as_deref(), Some("three..\n"));
        assert_eq!(read("decisions.jsonl.2").as_deref(), Some("two....\n"));
        assert_eq!(read("decisions.jsonl.3"), None);
        // After a restart it goes on where it was.
        let log = DecisionLog::open(&path, 10, 2).unwrap();
        log.0.lock().unwrap().append(b"five...\n").unwrap();
        assert_eq!(read("decisions.jsonl.1").as_deref(), Some("four...\n"));
    }
}
