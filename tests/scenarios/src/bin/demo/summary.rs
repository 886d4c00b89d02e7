//! What it took.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

use crate::World;

/// The ServiceAccount that the chart makes.
const ACCOUNT: &str = "system:serviceaccount:capmaas-system:capmaas-manager";

/// Prints the numbers of calls, from MAAS's record and the API server's audit log.
pub(crate) fn print(world: &World) -> Result<()> {
    println!("\n== What it took");
    let mut maas: BTreeMap<String, usize> = BTreeMap::new();
    for call in world.maas.calls() {
        let path = call.path.split('?').next().unwrap_or_default();
        let kind = path.split('/').find(|p| !p.is_empty()).unwrap_or_default();
        let op = call.op.as_deref().map(|o| format!(" {o}")).unwrap_or_default();
        *maas.entry(format!("{} {kind}{op}", call.method)).or_default() += 1;
    }
    let total: usize = maas.values().sum();
    println!("{total} MAAS calls: {}", spell(&maas));
    let calls = world.plane.audited_calls()?;
    let ours: Vec<_> = calls.iter().filter(|c| c.user == ACCOUNT).collect();
    let mut kube: BTreeMap<String, usize> = BTreeMap::new();
    for call in &ours {
        *kube.entry(format!("{} {}", call.verb, call.resource)).or_default() += 1;
    }
    println!("{} Kubernetes calls: {}", ours.len(), spell(&kube));
    let refused: Vec<_> = ours.iter().filter(|c| c.status == 403).collect();
    ensure!(refused.is_empty(), "the chart grants too little: {refused:?}");
    println!("none of them was refused for lack of rights");
    Ok(())
}

fn spell(counts: &BTreeMap<String, usize>) -> String {
    let mut sorted: Vec<_> = counts.iter().collect();
    sorted.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    sorted.iter().map(|(what, n)| format!("{n} {what}")).collect::<Vec<_>>().join(", ")
}
