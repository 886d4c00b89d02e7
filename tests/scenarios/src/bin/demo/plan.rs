//! What the demo asks for, so that the inventory can give it.

use anyhow::{Context, Result, bail};
use maas_sim::{Inventory, MachineView};

/// Name of the demo's cluster.
pub(crate) const CLUSTER: &str = "demo";
/// Control planes at the start.
pub(crate) const CONTROL_PLANES: u32 = 3;
/// Workers at the start.
pub(crate) const WORKERS: u32 = 3;

/// Sizes that are tried, cores and MiB, largest first.
const SIZES: [(u32, u32); 4] = [(8, 16384), (4, 8192), (2, 4096), (1, 1024)];

/// What the demo asks for.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) image: String,
    pub(crate) zones: Vec<String>,
    pub(crate) size: (u32, u32),
    pub(crate) domain: String,
}

impl Plan {
    /// Fits the demo to an inventory.
    pub(crate) fn of(inventory: &Inventory, machines: &[MachineView]) -> Result<Self> {
        let needed = (CONTROL_PLANES + WORKERS + 2) as usize;
        let free: Vec<&MachineView> = machines
            .iter()
            .filter(|m| m.status_name == "Ready" && m.owner.is_none() && !m.locked)
            .collect();
        let fitting = |(cores, memory): (u32, u32)| {
            free.iter()
                .filter(|m| m.cpu_count >= cores && m.memory_mib >= u64::from(memory))
                .count()
        };
        let size = SIZES.into_iter().find(|size| fitting(*size) >= needed);
        let Some(size) = size else {
            bail!(
                "the inventory has {} free machines, and the story needs {needed}: {CONTROL_PLANES} \
                 control planes, {WORKERS} workers, one that takes a failed one's place, and one to \
                 scale up. Add machines to it",
                free.len()
            );
        };
        let image = inventory.images.first().context("the inventory has no image")?.name.clone();
        let mut zones: Vec<String> = free
            .iter()
            .filter(|m| m.cpu_count >= size.0 && m.memory_mib >= u64::from(size.1))
            .map(|m| m.zone.clone())
            .collect();
        zones.sort();
        let room = |zone: &String| zones.iter().filter(|z| *z == zone).count();
        let mut roomy: Vec<String> = zones.iter().filter(|z| room(z) >= 3).cloned().collect();
        roomy.dedup();
        roomy.truncate(2);
        let domain = inventory.domains.first().cloned().unwrap_or_else(|| "maas".into());
        Ok(Self { image, zones: roomy, size, domain })
    }
}
