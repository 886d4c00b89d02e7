//! N `MaasMachine`s from Pending to ready, and then nothing to do: what does a controller cost?
//!
//! The API server is the real one. Cluster API does not run: the objects are prepared as it leaves them, so that nothing
//! but the controller is measured. Any controller can take part that reads `MAAS_ENDPOINT`, `MAAS_API_KEY` and
//! `KUBECONFIG`.

mod objects;
mod process;
mod run;
mod table;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;

/// Measures a controller that provisions machines.
#[derive(Parser)]
struct Flags {
    /// The command that runs the controller (through `sh -c exec`).
    #[arg(long)]
    controller: String,
    /// A folder with the CustomResourceDefinitions of its kinds.
    #[arg(long)]
    crds: PathBuf,
    /// How many machines; several numbers are several runs.
    #[arg(long, value_delimiter = ',', default_value = "10,100")]
    machines: Vec<usize>,
    /// For how long nothing happens after the last run's machines are ready, seconds; 0 for not at all.
    #[arg(long, default_value_t = 300)]
    idle: u64,
    /// Seconds after which a run is given up.
    #[arg(long, default_value_t = 900)]
    patience: u64,
    /// Where the controllers' logs stay.
    #[arg(long)]
    logs: Option<PathBuf>,
    /// A file whose figures (a JSON object) are put beside these.
    #[arg(long)]
    together_with: Option<PathBuf>,
    /// A file for the figures (JSON).
    #[arg(long)]
    summary: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match measure(Flags::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-provisioning: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(flags: Flags) -> Result<()> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut provision = BTreeMap::new();
    let mut idle = None;
    let last = flags.machines.len().saturating_sub(1);
    for (i, &machines) in flags.machines.iter().enumerate() {
        let rest = if i == last { flags.idle } else { 0 };
        let plan = run::Plan {
            controller: &flags.controller,
            crds: &flags.crds,
            machines,
            idle: rest,
            patience: flags.patience,
            logs: flags.logs.as_deref(),
        };
        let outcome = run::run(&plan).await.with_context(|| format!("with {machines} machines"))?;
        println!("{machines} machines: {}", serde_json::to_string(&outcome.provisioning)?);
        if let Some(figures) = &outcome.idle {
            println!("{machines} machines, idle: {}", serde_json::to_string(figures)?);
        }
        provision.insert(machines, outcome.provisioning);
        idle = outcome.idle.or(idle);
    }
    let mut starts: Vec<f64> = provision.values().map(|p| p.first_call_s).collect();
    starts.sort_by(f64::total_cmp);
    let mut summary = serde_json::json!({
        "start_s": starts.get(starts.len() / 2), "provision": provision, "idle": idle,
    });
    if let Some(path) = &flags.together_with {
        let text = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
        let others: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&text)?;
        summary.as_object_mut().context("an object")?.extend(others);
    }
    table::print(&summary);
    if let Some(path) = &flags.summary {
        std::fs::write(path, serde_json::to_string_pretty(&summary)?)
            .with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}
