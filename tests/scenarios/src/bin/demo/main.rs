//! The main job, told from a cluster's birth to its end. Every fact that is printed was read back
//! from the API server or from MAAS a moment before.

mod plan;
mod story;
mod summary;
mod teller;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Parser;
use control_plane::{ManagementPlane, PlaneOptions, Workload};
use maas_sim::{ClockMode, Options, Simulator};
use scenarios::{Controller, controller_binary, install_chart};

use crate::plan::Plan;
use crate::teller::Teller;

/// Tells the whole story on a simulated MAAS and a real control plane.
#[derive(Parser)]
struct Flags {
    /// What MAAS holds (see tests/maas-sim/README.md).
    #[arg(long)]
    inventory: Option<PathBuf>,
    /// How fast MAAS's time passes.
    #[arg(long, default_value_t = 60.0)]
    speed: f64,
    /// Leave everything running at the end, until interrupted.
    #[arg(long)]
    keep: bool,
}

/// Everything that runs.
struct World {
    plane: Arc<ManagementPlane>,
    maas: Arc<Simulator>,
    controller: Controller,
    workload: Workload,
    plan: Plan,
    _folder: tempfile::TempDir,
}

/// Where the demo's objects live.
const NAMESPACE: &str = "demo";

#[tokio::main]
async fn main() -> ExitCode {
    match run(Flags::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\ndemo: a step was not seen to happen: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(flags: Flags) -> Result<()> {
    let inventory = scenarios::inventory(flags.inventory.as_deref())?;
    let clock = ClockMode::Speed(flags.speed);
    let maas_options = Options { clock, ..Options::default() };
    let maas = Arc::new(Simulator::start(inventory.clone(), maas_options).await?);
    let plan = Plan::of(&inventory, &maas.machines())?;
    let world = set_up(maas, plan).await?;
    let teller = Teller::new(&world).await?;
    let told = tokio::select! {
        told = story::tell(&world, &teller) => told,
        _ = tokio::signal::ctrl_c() => {
            eprintln!("\ninterrupted");
            return Ok(());
        }
    };
    if let Err(error) = told {
        let log: String = world.controller.log();
        let tail: Vec<&str> = log.lines().rev().take(15).collect();
        for line in tail.iter().rev() {
            eprintln!("controller: {line}");
        }
        return Err(error);
    }
    if flags.keep {
        keep(&world).await;
    }
    Ok(())
}

async fn set_up(maas: Arc<Simulator>, plan: Plan) -> Result<World> {
    println!("Starting etcd, kube-apiserver and Cluster API (real ones, on this machine) …");
    let folder = tempfile::Builder::new().prefix("capmaas-demo-").tempdir()?;
    let plane_folder = folder.path().join("plane");
    let plane = Arc::new(ManagementPlane::start(&plane_folder, PlaneOptions::default())?);
    println!(
        "Installing the chart with Helm; the controller runs with the rights that it grants …"
    );
    let account = install_chart(&plane)?;
    plane.create_namespace(NAMESPACE)?;
    let workload = Workload::start(&plane, "demo")?;
    workload.publish(&plane.client(), NAMESPACE, plan::CLUSTER).await?;
    let args = [
        "--health-addr=127.0.0.1:0",
        "--log=info,capmaas=debug",
        "--poll-interval=1",
        "--drift-interval=4",
        "--power-recheck=3",
        "--power-confirm=2",
    ];
    let log = folder.path().join("controller.log");
    let credentials = (maas.url(), maas.api_key());
    let args = args.map(str::to_owned).to_vec();
    let controller = Controller::new(controller_binary()?, &account, &log, credentials, args);
    controller.start()?;
    controller.watching().await.context("the controller")?;
    Ok(World { plane, maas, controller, workload, plan, _folder: folder })
}

async fn keep(world: &World) {
    println!(
        "\nEverything keeps running. In another shell:\n  export KUBECONFIG={}\n  {} get maasmachines -A\nCtrl-C ends it.",
        world.plane.kubeconfig().display(),
        world.plane.binaries().kubectl.display(),
    );
    let _ = tokio::signal::ctrl_c().await;
}
