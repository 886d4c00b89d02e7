//! What scenarios, demo and playground share: a stage on which the real controller plays with a
//! simulated MAAS, on a real control plane.

mod colleague;
mod companion;
mod confined;
mod controller;
mod dice;
mod install;
mod kubelet;
mod machine;
mod manifests;
pub mod matrix;
mod observe;
mod policies;
mod quick;
mod stage;

use std::path::Path;

use anyhow::{Context, Result};
use maas_sim::Inventory;

pub use colleague::Colleague;
pub use companion::Companion;
pub use controller::{Controller, controller_binary};
pub use dice::Dice;
pub use install::{Pod, Surroundings, chart, install_chart};
pub use kubelet::Kubelet;
pub use machine::Machine;
pub use manifests::{ClusterShape, kubeadm_cluster, scalable};
pub use policies::{component, rebuilt};
pub use stage::{Stage, StageOptions, eventually, is_passing};

/// The inventory in a file, else the built-in one.
///
/// # Errors
/// When the file cannot be read, or does not say what an inventory must.
pub fn inventory(file: Option<&Path>) -> Result<Inventory> {
    let Some(file) = file else {
        return Ok(Inventory::default());
    };
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read inventory {}", file.display()))?;
    Inventory::from_yaml(&text).with_context(|| format!("inventory {}", file.display()))
}
