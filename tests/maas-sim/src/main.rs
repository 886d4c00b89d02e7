//! The binary: serves a region until it is interrupted.

use anyhow::{Context, Result};
use clap::Parser;
use maas_sim::{ClockMode, Inventory, Options, Simulator};
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use tokio::signal::unix::{SignalKind, signal};

/// Serves a simulated MAAS region. Prints one line of JSON with its address and an administrator's API key.
#[derive(Debug, Parser)]
#[command(name = "maas-sim")]
struct Arguments {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// What the region holds; without it, a rack of a dozen machines.
    #[arg(long)]
    inventory: Option<PathBuf>,
    /// How many times faster than real time; 0 stops the clock, which then only moves by POST /sim/clock.
    #[arg(long, default_value_t = 1.0)]
    speed: f64,
    /// The MAAS version that the region says it has.
    #[arg(long, default_value = "3.7.3")]
    version: String,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let inventory = match &arguments.inventory {
        None => Inventory::default(),
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            Inventory::from_yaml(&text).with_context(|| format!("in {}", path.display()))?
        }
    };
    let clock =
        if arguments.speed > 0.0 { ClockMode::Speed(arguments.speed) } else { ClockMode::Manual };
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let options = Options { listen: arguments.listen, clock, version: arguments.version };
    let maas = Simulator::start(inventory, options).await?;
    println!("{}", serde_json::json!({"url": maas.url(), "api_key": maas.api_key()}));
    std::io::stdout().flush()?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}
