//! The record of a name that the user gave inside the MAAS domain: whose is it?
//!
//! It is ours to fill once its id is written down. Before that it has to be made by us, be empty, or lead to this
//! cluster already, as after a take-over; a record that leads elsewhere serves somebody.

use capmaas_api::names;

use super::{ClusterFlow, End, LOAD_BALANCER_READY, Run};
use crate::maas::{DnsResource, User};
use crate::ownership::Ownership;
use crate::step::EventKind;
use crate::text::bounded;

impl Run<'_> {
    /// The record of a name the user gave: found, or made for them; never deleted later.
    pub(super) fn given_record(&mut self, user: &User, name: &str) -> ClusterFlow<DnsResource> {
        let record = match self.record_by_name(name)? {
            None => self.create_record(name)?,
            Some(found) if self.serves_us(user, &found)? => found,
            Some(found) => return Err(self.name_taken(&found)),
        };
        self.write_down(&record)?;
        Ok(record)
    }

    /// From now on the record is known by its id, whatever it holds.
    pub(super) fn write_down(&mut self, record: &DnsResource) -> ClusterFlow<()> {
        if self.record_id() == Some(record.id) {
            return Ok(());
        }
        self.annotate(names::DNS_RESOURCE_ANNOTATION, Some(record.id.to_string()))
    }

    /// Whether nobody but this cluster can be meant by the record.
    pub(super) fn serves_us(&mut self, user: &User, record: &DnsResource) -> ClusterFlow<bool> {
        if record.addresses.is_empty() || self.record_id() == Some(record.id) {
            return Ok(true);
        }
        let held = record.ips();
        for object in self.control_planes()? {
            let Some(machine) = self.host_of(&object)? else { continue };
            let whose = self.whose(&object, &machine, user);
            let foreign = matches!(whose, Ownership::Foreign(_) | Ownership::Nobody);
            if !foreign && machine.ip_addresses.iter().any(|ip| held.contains(ip)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn record_id(&self) -> Option<u64> {
        self.annotations.get(names::DNS_RESOURCE_ANNOTATION)?.parse().ok()
    }

    /// Somebody else's record has the name: it is left as it is.
    pub(super) fn name_taken(&mut self, record: &DnsResource) -> End {
        const REASON: &str = "EndpointNameTaken";
        let message = format!(
            "DNS record {} exists in MAAS and holds {}, which no control plane of this cluster has; it is left as it \
             is. If nobody needs it, remove it there or take its addresses out; else make the cluster anew with \
             another name",
            record.fqdn,
            record.ips().join(", ")
        );
        let message = bounded(&message, 500);
        if self.conditions.reason_before(LOAD_BALANCER_READY) != Some(REASON) {
            self.event(EventKind::Warning, REASON, "Name", message.clone());
        }
        self.conditions.set(LOAD_BALANCER_READY, false, REASON, &message);
        let again = self.seen.settings.poll.saturating_mul(2);
        self.done(Some(again))
    }
}
