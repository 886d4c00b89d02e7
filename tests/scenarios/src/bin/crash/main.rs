//! Interrupts the stories at every call that the controller makes, and tells what came of it.

mod table;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Parser;
use control_plane::ManagementPlane;
use gate::Side;
use scenarios::matrix::{Blow, Boundary, Outcome, Story, compare, run};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::table::Report;

/// The crash matrix: what comes of a story when something goes wrong at one of its calls.
#[derive(Parser)]
struct Flags {
    /// Only this story: provision, scale-down, replacement, cluster-end, policy-swap.
    #[arg(long)]
    story: Option<String>,
    /// Only boundaries whose name has this part.
    #[arg(long)]
    boundary: Option<String>,
    /// Runs at a time; they wait most of the time.
    #[arg(long, default_value_t = 16)]
    at_once: usize,
    /// Where the figures go.
    #[arg(long, default_value = "target/crash/summary.json")]
    summary: std::path::PathBuf,
}

/// One cell of the table.
struct Cell {
    story: Story,
    boundary: Boundary,
    blow: Blow,
    outcome: Outcome,
}

fn main() -> ExitCode {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    // Every run has a thread, also those that wait for their turn.
    let runtime = runtime.enable_all().worker_threads(4).max_blocking_threads(4096).build();
    let flags = Flags::parse();
    let told = runtime.map_err(Into::into).and_then(|r| r.block_on(matrix(flags)));
    match told {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("crash: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn matrix(flags: Flags) -> Result<bool> {
    let began = Instant::now();
    eprintln!("starting the control plane …");
    let plane = ManagementPlane::shared()?;
    let wanted = |s: &Story| flags.story.as_deref().is_none_or(|name| name == s.name());
    let stories: Vec<Story> = Story::ALL.into_iter().filter(wanted).collect();
    anyhow::ensure!(!stories.is_empty(), "there is no such story");
    let mut report = Report::default();
    let places = clean_runs(plane, &stories, &mut report).await?;
    let jobs: Vec<(Story, Boundary, Blow)> = places
        .into_iter()
        .filter(|(_, b)| flags.boundary.as_deref().is_none_or(|p| b.to_string().contains(p)))
        .flat_map(|(story, boundary)| {
            let blows = Blow::ALL.into_iter().filter(|b| applies(&boundary, *b));
            blows.map(|blow| (story, boundary.clone(), blow)).collect::<Vec<_>>()
        })
        .collect();
    eprintln!("{} runs, {} at a time", jobs.len(), flags.at_once);
    let turns = Arc::new(Semaphore::new(flags.at_once));
    let mut runs = JoinSet::new();
    for (number, (story, boundary, blow)) in jobs.into_iter().enumerate() {
        let turns = turns.clone();
        runs.spawn_blocking(move || {
            // A thread each: kubectl blocks.
            let here = Handle::current();
            let _turn = here.block_on(turns.acquire_owned());
            let namespace = format!("crash-{number}");
            let outcome = here.block_on(run(plane, &namespace, story, Some((&boundary, blow))));
            Cell { story, boundary, blow, outcome }
        });
    }
    while let Some(cell) = runs.join_next().await {
        report.add(cell.context("a run")?);
    }
    report.print(began.elapsed());
    report.write(&flags.summary, began.elapsed())?;
    Ok(report.good())
}

/// A connection that closes before the call is what a restarting MAAS looks like; of the API server the client
/// hears the same as of a lost answer.
fn applies(boundary: &Boundary, blow: Blow) -> bool {
    boundary.side == Side::Maas || blow != Blow::Close
}

/// Tells every story without a disturbance, and returns its boundaries.
async fn clean_runs(
    plane: &'static ManagementPlane,
    stories: &[Story],
    report: &mut Report,
) -> Result<Vec<(Story, Boundary)>> {
    let mut clean = JoinSet::new();
    for story in stories.iter().copied() {
        clean.spawn_blocking(move || {
            let namespace = format!("clean-{}", story.name());
            (story, Handle::current().block_on(run(plane, &namespace, story, None)))
        });
    }
    let mut places = Vec::new();
    let mut outcomes = clean.join_all().await;
    outcomes.sort_by_key(|(story, _)| *story);
    for (story, outcome) in outcomes {
        if let Some(fault) = outcome.faults.first() {
            anyhow::bail!("{} fails without any disturbance: {fault}", story.name());
        }
        compare(story, &outcome.seen)?;
        eprintln!("{}: {} boundaries", story.name(), outcome.seen.len());
        report.boundaries += outcome.seen.len();
        places.extend(outcome.seen.into_iter().map(|b| (story, b)));
    }
    Ok(places)
}
