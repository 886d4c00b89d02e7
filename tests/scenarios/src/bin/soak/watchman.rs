//! What must hold at any time, whatever happens.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use capmaas_api::MaasMachine;
use gate::{Act, Rule, Side};
use kube::ResourceExt;
use maas_sim::MachineView;
use scenarios::Stage;
use scenarios::matrix::Strangers;

use crate::user::{User, cluster_name, is_control_plane, leaving};

/// Looks all the time, and writes down what must not be.
pub(crate) struct Watchman<'a> {
    stage: &'a Stage<'a>,
    others: Strangers,
    asked: Arc<Mutex<Vec<String>>>,
    clusters: usize,
    /// Control planes that served at the last look, by cluster: system id and address.
    served: BTreeMap<String, BTreeSet<(String, String)>>,
    /// How often it looked.
    pub(crate) looks: usize,
    /// What must not be.
    pub(crate) violations: BTreeSet<String>,
}

impl<'a> Watchman<'a> {
    pub(crate) fn new(stage: &'a Stage<'a>, others: Strangers, clusters: usize) -> Self {
        let (asked, violations) = (Arc::default(), BTreeSet::new());
        let served = BTreeMap::new();
        Self { stage, others, asked, clusters, served, looks: 0, violations }
    }

    /// From now on no write to a machine of others goes unnoticed. To be called again when the rules were cleared.
    pub(crate) fn guard(&self) {
        let ids: Vec<String> = self.others.ids().to_vec();
        let asked = self.asked.clone();
        let listens = move |call: &gate::Call| {
            if call.writes() && ids.iter().any(|id| call.path().contains(id.as_str())) {
                let told = format!("{} {}", call.method, call.target);
                asked.lock().unwrap_or_else(|e| e.into_inner()).push(told);
            }
            false
        };
        self.stage.gate.add(Rule::when(Side::Maas, listens, Act::Hold));
    }

    pub(crate) async fn look(&mut self, user: &User<'_>) -> Result<()> {
        // Whoever held a machine in between is in one of the two listings.
        let mut objects = user.objects().await?;
        let machines = self.stage.maas.machines();
        let records = self.stage.maas.dns_records();
        let later = user.objects().await?;
        let known: BTreeSet<String> = objects.iter().filter_map(ResourceExt::uid).collect();
        let stayed: BTreeSet<String> = later
            .iter()
            .filter(|m| !leaving(m))
            .filter_map(ResourceExt::uid)
            .filter(|uid| known.contains(uid))
            .collect();
        objects.extend(later);
        self.looks += 1;
        let before = self.violations.clone();
        self.holders(&objects, &machines);
        for n in 0..self.clusters {
            self.record(&cluster_name(n), &objects, &stayed, &machines, &records);
        }
        self.violations.extend(self.others.changed(&self.stage.maas)?);
        let asked = std::mem::take(&mut *self.asked.lock().unwrap_or_else(|e| e.into_inner()));
        self.violations.extend(asked);
        self.violations.difference(&before).for_each(|new| eprintln!("violation: {new}"));
        Ok(())
    }

    /// Every held machine belongs to exactly one object, and no object has two.
    fn holders(&mut self, objects: &[MaasMachine], machines: &[MachineView]) {
        let mut of_object: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for machine in machines.iter().filter(|m| m.owner.as_deref() == Some("admin")) {
            // An object may have got its mark between the two listings.
            let holders: BTreeSet<String> =
                objects.iter().filter(|o| holds(o, machine)).map(ResourceExt::name_any).collect();
            let all: Vec<&String> = holders.iter().collect();
            match all.as_slice() {
                [one] => of_object.entry((*one).clone()).or_default().push(&machine.hostname),
                other => drop(self.violations.insert(format!(
                    "{} ({}) belongs to {other:?}",
                    machine.hostname, machine.status_name
                ))),
            }
        }
        for (object, held) in of_object.into_iter().filter(|(_, held)| held.len() > 1) {
            self.violations.insert(format!("{object} holds {held:?}"));
        }
    }

    /// The record is not empty while a control plane that it held is deployed, on, and not being deleted.
    fn record(
        &mut self,
        cluster: &str,
        objects: &[MaasMachine],
        stayed: &BTreeSet<String>,
        machines: &[MachineView],
        records: &[maas_sim::DnsView],
    ) {
        let front = format!("{cluster}-");
        let Some(record) = records.iter().find(|r| r.fqdn.starts_with(&front)) else { return };
        let held: BTreeSet<&String> = record.addresses.iter().flatten().collect();
        let mut serving = BTreeSet::new();
        for object in
            objects.iter().filter(|o| o.name_any().starts_with(&front) && is_control_plane(o))
        {
            let stays = !leaving(object) && object.uid().is_some_and(|u| stayed.contains(&u));
            let named = object.spec.provider_id.as_deref().and_then(|p| p.rsplit('/').next());
            let host = machines.iter().find(|m| Some(m.system_id.as_str()) == named);
            let Some(host) = host.filter(|_| stays) else { continue };
            let up = host.status_name == "Deployed"
                && host.power_state == "on"
                && host.owner.as_deref() == Some("admin");
            for ip in host.ip_addresses.iter().filter(|_| up) {
                serving.insert((host.system_id.clone(), ip.clone()));
            }
        }
        let before = self.served.remove(cluster).unwrap_or_default();
        if held.is_empty()
            && let Some((id, ip)) = before.intersection(&serving).next()
        {
            self.violations.insert(format!("{} is empty while {id} ({ip}) serves", record.fqdn));
        }
        serving.retain(|(_, ip)| held.contains(ip));
        self.served.insert(cluster.to_owned(), serving);
    }
}

/// By the mark with which it was taken, or by the annotations that it was given.
fn holds(object: &MaasMachine, machine: &MachineView) -> bool {
    let mark = object.annotations().get("capmaas.io/mark");
    let stamped = machine.workload_annotations.get("capmaas-mark");
    mark.is_some_and(|m| *m == machine.agent_name || Some(m) == stamped)
}
