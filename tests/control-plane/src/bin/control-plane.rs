//! `control-plane build` fills the cache, `control-plane paths` says where everything is.

use anyhow::Result;
use clap::{Parser, Subcommand};
use control_plane::{Binaries, Progress};

/// The programs of a real control plane, for tests.
#[derive(Parser)]
#[command(name = "control-plane")]
struct Arguments {
    #[command(subcommand)]
    command: Wish,
}

#[derive(Subcommand)]
enum Wish {
    /// Build what is missing: about twelve minutes when nothing is warm.
    Build,
    /// Print the paths of everything as JSON; builds what is missing first.
    Paths,
}

fn main() -> Result<()> {
    let wish = Arguments::parse().command;
    let binaries = Binaries::ensure(Progress::Told)?;
    match wish {
        Wish::Build => println!("the control plane is built: {}", binaries.kubectl.display()),
        Wish::Paths => println!("{}", serde_json::to_string_pretty(&binaries)?),
    }
    Ok(())
}
