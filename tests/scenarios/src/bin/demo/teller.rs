//! Follows what happens and says it, a line for each change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Result, bail};
use capmaas_api::MaasMachine;
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use maas_sim::Simulator;

use crate::{NAMESPACE, World};

/// Prints each thing once.
pub(crate) struct Teller {
    started: Instant,
    machines: Api<MaasMachine>,
    events: Api<Event>,
    maas: Arc<Simulator>,
    told: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    states: BTreeMap<String, String>,
    events: BTreeSet<String>,
    dns: String,
}

impl Teller {
    pub(crate) async fn new(world: &World) -> Result<Self> {
        let client = world.plane.client();
        Ok(Self {
            started: Instant::now(),
            machines: Api::namespaced(client.clone(), NAMESPACE),
            events: Api::namespaced(client, NAMESPACE),
            maas: Arc::clone(&world.maas),
            told: Mutex::default(),
        })
    }

    /// A chapter's title.
    pub(crate) fn chapter(&self, title: &str) {
        println!("\n== {title}");
    }

    /// A line.
    pub(crate) fn say(&self, line: &str) {
        println!("[{:>4.0}s] {line}", self.started.elapsed().as_secs_f64());
    }

    /// Says what is new, until the condition holds.
    pub(crate) async fn until(
        &self,
        what: &str,
        seconds: u64,
        mut holds: impl AsyncFnMut() -> Result<bool>,
    ) -> Result<()> {
        let begun = Instant::now();
        loop {
            self.news().await?;
            if holds().await? {
                return self.news().await;
            }
            if begun.elapsed().as_secs() > seconds {
                bail!("{what}: not within {seconds} s");
            }
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        }
    }

    /// Says what is new: events, what machines wait for, the DNS record.
    pub(crate) async fn news(&self) -> Result<()> {
        let mut events = self.events.list(&ListParams::default()).await?.items;
        events.sort_by_key(|e| e.event_time.as_ref().map(|t| t.0));
        let machines = self.machines.list(&ListParams::default()).await?.items;
        let mut lines = Vec::new();
        {
            let mut told = self.told.lock().expect("no panic");
            for event in &events {
                lines.extend(told.event(event));
            }
            for machine in &machines {
                lines.extend(told.state(machine));
            }
            lines.extend(told.record(&self.maas));
        }
        lines.iter().for_each(|line| self.say(line));
        Ok(())
    }

    /// The record as MAAS shows it.
    pub(crate) fn record(&self) -> String {
        record(&self.maas)
    }
}

fn record(maas: &Simulator) -> String {
    let records = maas.dns_records();
    let one = |r: &maas_sim::DnsView| {
        let addresses: Vec<&str> = r.addresses.iter().flatten().map(String::as_str).collect();
        let list = if addresses.is_empty() { "no address".into() } else { addresses.join(" ") };
        format!("{} → {list}", r.fqdn)
    };
    match records.as_slice() {
        [] => "no record".into(),
        all => all.iter().map(one).collect::<Vec<_>>().join("; "),
    }
}

impl Told {
    fn event(&mut self, event: &Event) -> Option<String> {
        let ours = event.reporting_controller.as_deref() == Some("capmaas");
        if !ours || !self.events.insert(event.name_any()) {
            return None;
        }
        let about = event.regarding.as_ref().and_then(|r| r.name.clone()).unwrap_or_default();
        let note = event.note.clone().unwrap_or_default();
        let sign = if event.type_.as_deref() == Some("Warning") { "!" } else { "*" };
        Some(format!("{sign} {about}: {note}"))
    }

    /// What a machine waits for, when that has changed.
    fn state(&mut self, machine: &MaasMachine) -> Option<String> {
        let conditions = machine.status.as_ref()?.conditions.as_ref()?;
        let deployed = conditions.iter().find(|c| c.kind == "MachineDeployed")?;
        let reason = deployed.reason.clone().unwrap_or_default();
        let name = machine.name_any();
        let state = format!("{reason} {}", machine.spec.provider_id.as_deref().unwrap_or_default());
        if self.states.insert(name.clone(), state.clone()).as_deref() == Some(&state) {
            return None;
        }
        let message = deployed.message.clone().unwrap_or_default();
        // What is done was said by an event.
        (deployed.status != "True").then(|| format!("  {name}: {reason}: {message}"))
    }

    fn record(&mut self, maas: &Simulator) -> Option<String> {
        let now = record(maas);
        if self.dns == now {
            return None;
        }
        self.dns = now.clone();
        Some(format!("  DNS in MAAS: {now}"))
    }
}
