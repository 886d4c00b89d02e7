//! Control plane, simulated MAAS and controller, to try things on.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Parser;
use control_plane::{ManagementPlane, PlaneOptions};
use maas_sim::{ClockMode, Inventory, Options, Simulator};
use scenarios::{Companion, Controller, controller_binary, install_chart};
use serde_json::json;

/// A control plane, a simulated MAAS and the controller, until interrupted.
#[derive(Parser)]
struct Flags {
    /// What MAAS holds (see tests/maas-sim/README.md).
    #[arg(long)]
    inventory: Option<PathBuf>,
    /// How fast MAAS's time passes.
    #[arg(long, default_value_t = 60.0)]
    speed: f64,
    /// Further flags of the controller, for example --policy-dir.
    #[arg(last = true)]
    controller: Vec<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match play(Flags::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("playground: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn play(flags: Flags) -> Result<()> {
    let inventory = scenarios::inventory(flags.inventory.as_deref())?;
    let folder = tempfile::Builder::new().prefix("capmaas-playground-").tempdir()?;
    eprintln!("starting the control plane …");
    let plane =
        Arc::new(ManagementPlane::start(&folder.path().join("plane"), PlaneOptions::default())?);
    let account = install_chart(&plane)?;
    let maas = start_maas(inventory, flags.speed).await?;
    let log = folder.path().join("controller.log");
    let decisions = folder.path().join("decisions.jsonl");
    let mut args: Vec<String> = [
        "--health-addr=127.0.0.1:0",
        "--log=info,capmaas=debug",
        "--poll-interval=2",
        "--drift-interval=15",
    ]
    .map(str::to_owned)
    .to_vec();
    let logs = |flag: &String| flag.split('=').next() == Some("--decision-log");
    if !flags.controller.iter().any(logs) {
        args.push(format!("--decision-log={}", decisions.display()));
    }
    args.extend(flags.controller);
    let credentials = (maas.url(), maas.api_key());
    let controller = Controller::new(controller_binary()?, &account, &log, credentials, args);
    controller.start()?;
    controller.watching().await?;
    let companion = Companion::start(Arc::clone(&plane), Arc::clone(&maas))?;
    println!(
        "{}",
        json!({
            "kubeconfig": plane.kubeconfig(),
            "maas_url": maas.url(),
            "maas_api_key": maas.api_key(),
            "controller_log": log,
            "decision_log": decisions,
        })
    );
    what_to_try(&plane, &maas, &decisions)?;
    wait(&controller, &plane).await?;
    eprintln!("\nstopping …");
    companion.stop();
    controller.kill();
    plane.shutdown();
    folder.close().context("the folder of this run could not be removed")
}

async fn start_maas(inventory: Inventory, speed: f64) -> Result<Arc<Simulator>> {
    let options = Options { clock: ClockMode::Speed(speed), ..Options::default() };
    Ok(Arc::new(Simulator::start(inventory, options).await?))
}

fn what_to_try(plane: &ManagementPlane, maas: &Simulator, decisions: &Path) -> Result<()> {
    let tools = [&plane.binaries().kubectl, &plane.binaries().clusterctl, &controller_binary()?];
    let mut folders: Vec<_> = tools.iter().filter_map(|tool| tool.parent()).collect();
    folders.dedup();
    let folders: Vec<_> = folders.iter().map(|f| f.display().to_string()).collect();
    let sim = maas.url().replace("/MAAS", "/sim");
    eprintln!(
        r"
The control plane is up, with Cluster API, a MAAS of {} machines, and capmaas. Try, in another shell:

  export PATH={}:$PATH
  export KUBECONFIG={} DECISIONS={}
  kubectl apply -f docs/examples/cluster.yaml             # 3 control planes, 3 workers
  kubectl get maasclusters,maasmachines,machines          # what each waits for: -o wide
  kubectl get events --field-selector type=Normal         # which machine was taken, and why
  clusterctl describe cluster my-cluster

  curl -s {sim}/machines | python3 -m json.tool           # MAAS as it is
  curl -s {sim}/calls | python3 -m json.tool              # every call it got

A policy of your own, in ten minutes: plugins/README.md
Ctrl-C ends everything and leaves nothing behind.",
        maas.machines().len(),
        folders.join(":"),
        plane.kubeconfig().display(),
        decisions.display(),
    );
    Ok(())
}

async fn wait(controller: &Controller, plane: &ManagementPlane) -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut look = tokio::time::interval(std::time::Duration::from_secs(2));
    loop {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
            _ = look.tick() => {
                controller.check()?;
                plane.check()?;
            }
        }
    }
}
