//! `control-plane build` fills the cache, `control-plane paths` says where everything is.

use std::process::ExitCode;

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
    /// Build what is missing: about fourteen minutes on two cores when nothing is warm.
    Build,
    /// Print the paths of everything as JSON; builds what is missing first.
    Paths,
}

fn main() -> ExitCode {
    match fulfil(&Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // a backtrace would bury the remedy that the message names
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn fulfil(wish: &Wish) -> Result<()> {
    let binaries = Binaries::ensure(Progress::Told)?;
    match wish {
        Wish::Build => println!("The control plane is built."),
        Wish::Paths => println!("{}", serde_json::to_string_pretty(&binaries)?),
    }
    Ok(())
}
