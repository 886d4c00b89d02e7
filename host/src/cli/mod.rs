//! The commands around the controller: for those who write policies, and for those who want to know why.

mod bench;
mod case;
mod explain;
mod inspect;
mod new;
mod registry;
mod replay;
mod run;
mod words;
mod workbench;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;

pub use explain::{ExplainArgs, explain};

/// How results are printed.
#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// What to print, and how.
#[derive(Args, Clone, Copy, Debug)]
pub struct Printing {
    /// How results are printed.
    #[arg(long, short, value_enum, default_value_t)]
    pub output: Output,
}

/// Commands for those who write policies.
#[derive(Subcommand, Debug)]
pub enum PolicyCommand {
    /// Begin a policy: a folder that builds, with one golden case that passes.
    New(new::NewArgs),
    /// Show what a component is: digest, imports, what it says of itself, its settings.
    Inspect(inspect::InspectArgs),
    /// Take a component through every gate that the controller has.
    Check(inspect::CheckArgs),
    /// Ask a component its golden cases, in the controller's own sandbox.
    Run(run::RunArgs),
    /// Measure how long a component takes for its golden cases, and how much memory.
    Bench(bench::BenchArgs),
    /// Ask a component what was asked before, and show what it would have decided otherwise.
    Replay(replay::ReplayArgs),
    /// Push a component to an OCI registry, and say what to pin.
    Push(registry::PushArgs),
    /// Pull a component from an OCI registry.
    Pull(registry::PullArgs),
}

/// Runs a command; the exit code says whether what was looked at is as it should be.
///
/// # Errors
/// When it cannot be looked at; the text says what to do.
pub async fn policy(command: PolicyCommand) -> Result<ExitCode> {
    match command {
        PolicyCommand::New(args) => new::new(&args),
        PolicyCommand::Inspect(args) => inspect::inspect(&args).await,
        PolicyCommand::Check(args) => inspect::check(&args).await,
        PolicyCommand::Run(args) => run::run(&args).await,
        PolicyCommand::Bench(args) => bench::bench(&args).await,
        PolicyCommand::Replay(args) => replay::replay(&args).await,
        PolicyCommand::Push(args) => registry::push(&args).await,
        PolicyCommand::Pull(args) => registry::pull(&args).await,
    }
}

/// Prints as JSON.
fn print_json(value: &impl Serialize) -> Result<()> {
    println!("{}", serde_json::to_string_pretty(value)?);
    Ok(())
}

/// A configuration from a file, JSON or YAML, as JSON text; `{}` without one.
fn configuration(file: Option<&PathBuf>) -> Result<String> {
    let Some(file) = file else { return Ok("{}".into()) };
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read configuration {}", file.display()))?;
    // JSON is YAML.
    let value: serde_json::Value = serde_yaml_ng::from_str(&text)
        .with_context(|| format!("configuration {} is neither JSON nor YAML", file.display()))?;
    Ok(value.to_string())
}

/// A table without lines, as kubectl prints them.
fn table(head: &[&str]) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header(head.to_vec());
    table
}

fn passed(all: bool) -> ExitCode {
    if all { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
