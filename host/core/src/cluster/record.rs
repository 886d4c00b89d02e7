//! Which addresses the record holds.
//!
//! In: control planes that are Deployed and on, as their own reconcile has seen too. Out: being
//! deleted, no longer Deployed, or off in two readings. One reading of "off", or "unknown", changes nothing; and power alone never empties
//! the record.

use std::collections::{BTreeMap, BTreeSet};

use capmaas_api::{MaasMachine, Network, names};

use super::endpoint::Endpoint;
use super::{ClusterFlow, LOAD_BALANCER_READY, Run, TTL, unexpected};
use crate::call_error::Category;
use crate::maas::{DnsResource, Machine, Power, Status, User};
use crate::machine::{DEPLOYED, being_replaced};
use crate::ownership::{Claim, Ownership, judge};
use crate::provider_id;
use crate::step::{Effect, EventKind, Read, Reply};
use crate::time::unix_seconds;

/// What one control plane means for the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Membership {
    In,
    /// Its machine is going, or is not ours.
    Out,
    /// Off for some time: out, unless nothing would be left.
    Off,
    /// As it is: the reading decides nothing.
    Unchanged,
}

impl Run<'_> {
    /// Compares the record with the control planes, and writes it only when it differs.
    pub(super) fn keep_record(&mut self, user: &User, endpoint: &Endpoint) -> ClusterFlow<()> {
        let record = match endpoint {
            Endpoint::Elsewhere => return Ok(()),
            Endpoint::Generated(name) => self.own_record(name)?,
            Endpoint::Given(name) => self.given_record(user, name)?,
        };
        self.free_dropped(&record.ips())?;
        let wanted = self.wanted_addresses(user, &record)?;
        let record = self.write_record(record, wanted)?;
        let network = self.status.network.get_or_insert_with(Network::default);
        network.addresses = Some(record.ips()).filter(|a| !a.is_empty());
        if record.addresses.is_empty() {
            let message = "the record holds no address yet: no control plane is deployed and on";
            self.conditions.set(LOAD_BALANCER_READY, true, "WaitingForControlPlane", message);
        } else {
            self.conditions.set(LOAD_BALANCER_READY, true, "LoadBalancerReady", "");
        }
        Ok(())
    }

    /// The record of a generated name: by its id once that is written down, else made.
    fn own_record(&mut self, name: &str) -> ClusterFlow<DnsResource> {
        if let Some(id) = self.record_id()
            && let Some(record) = self.record_by_id(id)?
        {
            return Ok(record);
        }
        // No id, or the record is gone (MAAS deletes one whose last address row disappears).
        let record = match self.record_by_name(name)? {
            None => self.create_record(name)?,
            // As empty as we made it: the crash came before its id was written.
            Some(found) if ours(&found, None) => found,
            Some(found) => return Err(self.name_taken(&found)),
        };
        self.annotate(names::DNS_RESOURCE_ANNOTATION, Some(record.id.to_string()))?;
        Ok(record)
    }

    fn record_by_id(&mut self, id: u64) -> ClusterFlow<Option<DnsResource>> {
        match self.read(Read::DnsResource(id))? {
            Ok(Reply::Dns(mut found)) => Ok(found.pop()),
            other => Err(self.maas_trouble(&unexpected(other))),
        }
    }

    pub(super) fn record_by_name(&mut self, name: &str) -> ClusterFlow<Option<DnsResource>> {
        match self.read(Read::DnsByName(name.to_owned()))? {
            Ok(Reply::Dns(found)) => Ok(oldest(found)),
            Err(error) if error.category == Category::NotFound => Err(self.domain_missing()?),
            other => Err(self.maas_trouble(&unexpected(other))),
        }
    }

    /// What is left of the record; without its domain there is none.
    pub(super) fn remaining_record(&mut self, name: &str) -> ClusterFlow<Option<DnsResource>> {
        match self.read(Read::DnsByName(name.to_owned()))? {
            Ok(Reply::Dns(found)) => Ok(oldest(found)),
            Err(error) if error.category == Category::NotFound => Ok(None),
            other => Err(self.maas_trouble(&unexpected(other))),
        }
    }

    fn wanted_addresses(
        &mut self,
        user: &User,
        record: &DnsResource,
    ) -> ClusterFlow<BTreeSet<String>> {
        let members = self.control_planes()?;
        let present: BTreeSet<String> = record.ips().into_iter().collect();
        let held = |machine: Machine| {
            let ips = machine.ip_addresses.into_iter();
            ips.filter(|a| present.contains(a)).collect::<Vec<_>>()
        };
        let (mut wanted, mut off) = (BTreeSet::new(), BTreeSet::new());
        for object in &members {
            let Some(machine) = self.host_of(object)? else { continue };
            match self.membership(object, &machine, user) {
                Membership::Out => {}
                Membership::In => wanted.extend(service_addresses(&machine)),
                Membership::Unchanged => wanted.extend(held(machine)),
                Membership::Off => off.extend(held(machine)),
            }
        }
        // A listing without any control plane says that the machines are not there (yet, as in a
        // restore), not that they are going: those that go are listed until they are out.
        let deleting = self.seen.object.metadata.deletion_timestamp.is_some();
        if members.is_empty() && !deleting {
            return Ok(present);
        }
        Ok(if wanted.is_empty() { off } else { wanted })
    }

    pub(super) fn control_planes(&mut self) -> ClusterFlow<Vec<MaasMachine>> {
        let mut all = self.machines()?;
        all.retain(|m| {
            m.metadata.labels.as_ref().is_some_and(|l| l.contains_key(names::CONTROL_PLANE_LABEL))
        });
        all.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        Ok(all)
    }

    /// Every `MaasMachine` of the cluster. One that cannot be read stops the reconcile: leaving it
    /// out would take its address away.
    pub(super) fn machines(&mut self) -> ClusterFlow<Vec<MaasMachine>> {
        let namespace = self.namespace().to_owned();
        let cluster = self.cluster_name().to_owned();
        let read = match self.read(Read::MaasMachines { namespace, cluster })? {
            Ok(Reply::MaasMachines(objects)) => objects,
            _ => return Err(self.finished(None, Some(self.seen.settings.poll))),
        };
        let parsed: Result<Vec<MaasMachine>, _> =
            read.into_iter().map(serde_json::from_value).collect();
        let machines = parsed.map_err(|_| self.finished(None, Some(self.seen.settings.poll)))?;
        self.leaving = super::former::leaving(&machines);
        Ok(machines)
    }

    fn membership(&self, object: &MaasMachine, machine: &Machine, user: &User) -> Membership {
        let deleting = object.metadata.deletion_timestamp.is_some();
        // One that failed waits for its address to leave, whatever became of its deployment since.
        if deleting || machine.status != Status::Deployed || being_replaced(object, machine) {
            return Membership::Out;
        }
        match self.whose(object, machine, user) {
            Ownership::Foreign(_) | Ownership::Nobody => return Membership::Out,
            // A changed key or cleared annotations must not take a live API server's name away.
            Ownership::Unproven(_) | Ownership::Disputed(_) => return Membership::Unchanged,
            Ownership::Ours(_) | Ownership::Unstamped(_) => {}
        }
        match machine.power {
            Power::On if reported(object) => Membership::In,
            Power::Off if self.seen_off_before(object) => Membership::Off,
            Power::On | Power::Off | Power::Unknown | Power::Error => Membership::Unchanged,
        }
    }

    /// The machine that an object names, if MAAS knows it.
    pub(super) fn host_of(&mut self, object: &MaasMachine) -> ClusterFlow<Option<Machine>> {
        let Some(id) = object.spec.provider_id.as_deref().and_then(provider_id::system_id) else {
            return Ok(None);
        };
        match self.read(Read::Machine(id.to_owned()))? {
            Ok(Reply::Machine(machine)) => Ok(Some(*machine)),
            Ok(Reply::Absent) => Ok(None),
            other => Err(self.maas_trouble(&unexpected(other))),
        }
    }

    /// Whose the machine is that a control plane names.
    pub(super) fn whose(&self, object: &MaasMachine, machine: &Machine, user: &User) -> Ownership {
        let annotations = object.metadata.annotations.as_ref();
        let claim = Claim {
            user: user.name.clone(),
            mark: annotations.and_then(|a| a.get(names::MARK_ANNOTATION)).cloned(),
            inherited: annotations.and_then(|a| a.get(names::INHERITED_ANNOTATION)).cloned(),
            cluster: self.cluster_name().to_owned(),
            namespace: self.namespace().to_owned(),
            machine: object.metadata.name.clone().unwrap_or_default(),
        };
        judge(machine, &claim)
    }

    /// An earlier reading, the machine's own, saw it off as well.
    fn seen_off_before(&self, object: &MaasMachine) -> bool {
        let Some(status) = &object.status else {
            return false;
        };
        // Whatever the reason says: a power-on may be hindered by a lock, or given up.
        let since = status.conditions.iter().flatten().find_map(|c| {
            let down = c.kind == DEPLOYED && c.status == "False";
            let since = c.last_transition_time.as_deref().filter(|_| down)?;
            unix_seconds(since)
        });
        let confirm = self.seen.settings.power_confirm;
        status.machine_powered == Some(false)
            && since.is_some_and(|at| at.saturating_add(confirm) <= self.seen.now)
    }

    /// Writes the full list if it differs.
    pub(super) fn write_record(
        &mut self,
        record: DnsResource,
        wanted: BTreeSet<String>,
    ) -> ClusterFlow<DnsResource> {
        let present: BTreeSet<String> = record.ips().into_iter().collect();
        if present == wanted && record.ttl == Some(TTL) {
            return Ok(record);
        }
        let dropped: Vec<String> = record
            .addresses
            .iter()
            .filter(|a| a.reserved && !wanted.contains(&a.ip))
            .map(|a| a.ip.clone())
            .collect();
        if !dropped.is_empty() {
            // A row that MAAS reserved for the record stays when the address leaves it.
            let mut all: BTreeSet<String> = self.to_free().into_iter().collect();
            all.extend(dropped);
            let text = all.into_iter().collect::<Vec<_>>().join(" ");
            self.annotate(names::DNS_RESERVED_ANNOTATION, Some(text))?;
        }
        let addresses: Vec<String> = wanted.iter().cloned().collect();
        let effect = Effect::SetDnsAddresses { id: record.id, addresses, ttl: TTL };
        let written = match self.perform(effect)? {
            Ok(Reply::Dns(mut records)) if !records.is_empty() => records.swap_remove(0),
            // Gone in between: the next look makes it anew.
            Err(error) if error.category == Category::NotFound => {
                return Err(self.finished(None, Some(1)));
            }
            other => return Err(self.maas_trouble(&unexpected(other))),
        };
        self.tell_difference(&record.fqdn, &present, &wanted);
        self.free_dropped(&written.ips())?;
        Ok(written)
    }

    fn tell_difference(&mut self, fqdn: &str, before: &BTreeSet<String>, after: &BTreeSet<String>) {
        let list =
            |set: Vec<&String>| set.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let added = list(after.difference(before).collect());
        let removed = list(before.difference(after).collect());
        let mut note = format!("{fqdn}:");
        if !added.is_empty() {
            note.push_str(&format!(" added {added}"));
        }
        if !removed.is_empty() {
            note.push_str(&format!(" removed {removed}"));
        }
        if before != after {
            self.event(EventKind::Normal, "DNSRecordChanged", "UpdateDNS", note);
        }
    }

    fn to_free(&self) -> Vec<String> {
        let text = self.annotations.get(names::DNS_RESERVED_ANNOTATION);
        text.map(|t| t.split_whitespace().map(str::to_owned).collect()).unwrap_or_default()
    }

    /// Gives back the addresses that MAAS reserved for the record and that have left it.
    pub(super) fn free_dropped(&mut self, held: &[String]) -> ClusterFlow<()> {
        let waiting = self.to_free();
        if waiting.is_empty() {
            return Ok(());
        }
        for ip in waiting.into_iter().filter(|ip| !held.contains(ip)) {
            self.free_address(ip)?;
        }
        self.annotate(names::DNS_RESERVED_ANNOTATION, None)
    }

    fn free_address(&mut self, ip: String) -> ClusterFlow<()> {
        match self.read(Read::Reservation(ip.clone()))? {
            Ok(Reply::Reserved(_)) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(self.maas_trouble(&error)),
        }
        // MAAS keeps one row for all records that hold an address, and takes it out of all of them.
        match self.read(Read::DnsRecords)? {
            Ok(Reply::Dns(all)) if all.iter().any(|r| r.ips().contains(&ip)) => return Ok(()),
            Ok(Reply::Dns(_)) => {}
            other => return Err(self.maas_trouble(&unexpected(other))),
        }
        match self.perform(Effect::ReleaseAddress { ip })? {
            Ok(_) => Ok(()),
            // Somebody else has it by now, or freed it.
            Err(error) if error.category == Category::BadRequest => Ok(()),
            Err(error) => Err(self.maas_trouble(&error)),
        }
    }

    /// Addresses that may stay in the record while the cluster is being deleted.
    pub(super) fn remaining(
        &mut self,
        user: &User,
        record: DnsResource,
    ) -> ClusterFlow<DnsResource> {
        let wanted = self.wanted_addresses(user, &record)?;
        self.write_record(record, wanted)
    }
}

/// Whether we made a record: its id was written down, or the crash came before that and it is as
/// empty as we made it.
pub(super) fn ours(record: &DnsResource, id: Option<u64>) -> bool {
    id.map_or(record.addresses.is_empty(), |id| id == record.id)
}

/// The machine's own reconcile has seen it deployed and on. Before that it may still be replaced,
/// which would release it without waiting for resolvers.
pub(super) fn reported(object: &MaasMachine) -> bool {
    let Some(status) = &object.status else {
        return false;
    };
    let latched = status.initialization.as_ref().and_then(|i| i.provisioned);
    status.ready || latched == Some(true)
}

/// Renaming in MAAS can make two of one name; the older one is taken, always.
fn oldest(found: Vec<DnsResource>) -> Option<DnsResource> {
    found.into_iter().min_by_key(|r| r.id)
}

/// One address of each family: the first that MAAS shows.
fn service_addresses(machine: &Machine) -> Vec<String> {
    let mut by_family: BTreeMap<bool, String> = BTreeMap::new();
    for ip in &machine.ip_addresses {
        if let Ok(parsed) = ip.parse::<std::net::IpAddr>() {
            by_family.entry(parsed.is_ipv6()).or_insert_with(|| ip.clone());
        }
    }
    by_family.into_values().collect()
}
