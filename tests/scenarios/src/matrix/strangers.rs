//! What belongs to others in the same MAAS: nobody may touch it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use maas_sim::Simulator;
use serde_json::Value;

use crate::colleague::Colleague;

/// Name of the record that belongs to somebody else.
pub const RECORD: &str = "of-somebody-else.maas";

/// Machines of other users, for an inventory (YAML flow mappings). Names begin with this.
pub fn machines(prefix: &str) -> Vec<String> {
    let sized = "cores: 4, memory: 8192";
    vec![
        format!(
            "{{hostname: {prefix}-of-others-1, {sized}, status: Deployed, power: 'on', owner: somebody-else}}"
        ),
        format!(
            "{{hostname: {prefix}-of-others-2, {sized}, status: Allocated, owner: somebody-else}}"
        ),
        format!(
            "{{hostname: {prefix}-of-others-3, {sized}, status: Failed deployment, power: 'on', owner: user}}"
        ),
    ]
}

/// What others had when the story began.
#[derive(Debug)]
pub struct Strangers {
    before: BTreeMap<String, Value>,
    ids: Vec<String>,
}

impl Strangers {
    /// Gives somebody else a DNS record, and remembers everything that belongs to others.
    ///
    /// # Errors
    /// When MAAS does not take the record.
    pub async fn settle(maas: &Simulator) -> Result<Self> {
        make_record(maas).await?;
        let foreign = |owner: &Option<String>| owner.as_deref().is_some_and(|o| o != "admin");
        let all = maas.machines().into_iter();
        let ids: Vec<String> = all.filter(|m| foreign(&m.owner)).map(|m| m.system_id).collect();
        ensure!(ids.len() >= 3, "others have too little: {ids:?}");
        let before = state(maas, &ids)?;
        Ok(Self { before, ids })
    }

    /// The machines of others.
    pub fn ids(&self) -> &[String] {
        &self.ids
    }

    /// What has changed of it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn changed(&self, maas: &Simulator) -> Result<Vec<String>> {
        let now = state(maas, &self.ids)?;
        let keys: BTreeSet<&String> = self.before.keys().chain(now.keys()).collect();
        let told = |k: &&String| format!("{k}: {:?} became {:?}", self.before.get(*k), now.get(*k));
        let differ = |k: &&String| self.before.get(*k) != now.get(*k);
        Ok(keys.into_iter().filter(differ).map(|k| told(&k)).collect())
    }

    /// What has changed of it, or was asked to change.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn touched(&self, maas: &Simulator) -> Result<Vec<String>> {
        let mut touched = self.changed(maas)?;
        let of_others = |path: &str| self.ids.iter().any(|id| path.contains(id.as_str()));
        let calls = maas.calls().into_iter();
        let written = calls.filter(|c| c.method != "GET" && of_others(&c.path));
        touched.extend(written.map(|c| format!("{} {}", c.method, c.path)));
        Ok(touched)
    }
}

fn state(maas: &Simulator, ids: &[String]) -> Result<BTreeMap<String, Value>> {
    let mut all = BTreeMap::new();
    for id in ids {
        all.insert(id.clone(), serde_json::to_value(maas.machine(id))?);
    }
    for record in maas.dns_records().into_iter().filter(|r| r.fqdn == RECORD) {
        all.insert(record.fqdn.clone(), serde_json::to_value(&record)?);
    }
    Ok(all)
}

async fn make_record(maas: &Simulator) -> Result<()> {
    let owned = maas.machines().into_iter().find(|m| !m.ip_addresses.is_empty());
    let address = owned.and_then(|m| m.ip_addresses.first().cloned()).unwrap_or_default();
    let form = [("fqdn", RECORD), ("address_ttl", "60"), ("ip_addresses", &*address)];
    Colleague::of(maas).call("POST", "/dnsresources/", &form).await?;
    let made = maas.dns_records().into_iter().find(|r| r.fqdn == RECORD);
    made.map(drop).context("MAAS took the record and does not have it")
}
