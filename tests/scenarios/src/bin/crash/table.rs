//! What is printed and written.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use scenarios::matrix::{Blow, Boundary, Fault, Story};
use serde_json::json;

use crate::Cell;

/// Everything that came of the runs.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) boundaries: usize,
    runs: usize,
    leaks: usize,
    doubles: usize,
    foreign: usize,
    failed: usize,
    not_reached: usize,
    rows: BTreeMap<(Story, Boundary), BTreeMap<Blow, &'static str>>,
    failures: Vec<String>,
}

impl Report {
    pub(crate) fn add(&mut self, cell: Cell) {
        let Cell { story, boundary, blow, outcome } = cell;
        self.runs += 1;
        self.not_reached += usize::from(!outcome.reached);
        let has = |is: fn(&Fault) -> bool| usize::from(outcome.faults.iter().any(is));
        self.leaks += has(|f| matches!(f, Fault::Leak(_)));
        self.doubles += has(|f| matches!(f, Fault::Double(_)));
        self.foreign += has(|f| matches!(f, Fault::Foreign(_)));
        self.failed += usize::from(!outcome.faults.is_empty());
        let word = match (outcome.faults.is_empty(), outcome.reached) {
            (false, _) => "FAILED",
            (true, false) => "not reached",
            (true, true) => "ok",
        };
        for fault in &outcome.faults {
            let line = format!("{} | {boundary} | {}: {fault}", story.name(), blow.name());
            eprintln!("{line}");
            self.failures.push(line);
        }
        if self.runs.is_multiple_of(20) {
            eprintln!("{} runs done, {} failed", self.runs, self.failed);
        }
        self.rows.entry((story, boundary)).or_default().insert(blow, word);
    }

    pub(crate) fn print(&self, took: Duration) {
        let mut last = None;
        for ((story, boundary), cells) in &self.rows {
            if last != Some(story) {
                let heads = Blow::ALL.map(|b| format!("{:<12}", b.name())).concat();
                println!("\n{:<78}{heads}", story.name());
                last = Some(story);
            }
            let word = |blow| cells.get(&blow).copied().unwrap_or("-");
            let words = Blow::ALL.map(|b| format!("{:<12}", word(b))).concat();
            println!("  {:<76}{}", boundary.to_string(), words.trim_end());
        }
        println!();
        for failure in &self.failures {
            println!("{failure}\n");
        }
        println!(
            "crash matrix: {} boundaries, {} runs, {} leaks, {} doubles, {} foreign touched, \
             {} failed, {} not reached, {} s",
            self.boundaries,
            self.runs,
            self.leaks,
            self.doubles,
            self.foreign,
            self.failed,
            self.not_reached,
            took.as_secs()
        );
    }

    pub(crate) fn write(&self, file: &Path, took: Duration) -> Result<()> {
        let summary = json!({
            "boundaries": self.boundaries,
            "runs": self.runs,
            "leaks": self.leaks,
            "doubles": self.doubles,
            "foreign_touched": self.foreign,
            "failed": self.failed,
            "not_reached": self.not_reached,
            "seconds": took.as_secs(),
        });
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(file, format!("{summary:#}\n"))
            .with_context(|| format!("write {}", file.display()))
    }

    /// Nothing failed, and something was tried.
    pub(crate) fn good(&self) -> bool {
        self.failed == 0 && self.runs > self.not_reached
    }
}
