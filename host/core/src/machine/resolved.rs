//! Who may still resolve a control plane's address: it is out of the cluster's DNS record for one TTL before its machine
//! goes.

use capmaas_api::names;

use super::{DNS_ATTACHED, MachineFlow, Run};
use crate::call_error::Category;
use crate::cluster::TTL;
use crate::maas::{DnsResource, Machine};
use crate::step::{Read, Reply};

/// Somebody may still resolve an address of the machine.
pub(super) struct StillResolved {
    pub(super) why: &'static str,
    /// Seconds until it is worth another look.
    pub(super) again: u64,
}

impl Run<'_> {
    /// Whether the record holds an address of the machine, or has held one less than one TTL ago. What our status says of
    /// that may be lost (a move, a restore), so the time counts from `looked_at` at the earliest: a look that found the
    /// machine on its way out, from where nothing leads back into the record.
    pub(super) fn still_resolved(
        &mut self,
        machine: &Machine,
        looked_at: u64,
    ) -> MachineFlow<Option<StillResolved>> {
        if !self.control_plane() || machine.ip_addresses.is_empty() {
            return Ok(None);
        }
        let Some(record) = self.dns_record()? else {
            return Ok(None);
        };
        let now = self.seen.now;
        let ips = record.ips();
        if machine.ip_addresses.iter().any(|ip| ips.contains(ip)) {
            let why = "waiting until the address has left the cluster's DNS record";
            self.status.dns_attached = Some(true);
            self.conditions.set(DNS_ATTACHED, true, "DNSDetachPending", why);
            let again = self.seen.settings.poll.clamp(1, 5);
            return Ok(Some(StillResolved { why, again }));
        }
        let was_attached = self.conditions.since(DNS_ATTACHED, "True").is_some();
        let detached_at = self.conditions.since(DNS_ATTACHED, "False");
        let since = if was_attached { now } else { detached_at.unwrap_or_default().max(looked_at) };
        let until = since.saturating_add(u64::from(record.ttl.unwrap_or(TTL)));
        let why = "the address has left the DNS record; resolvers may still hold it";
        self.status.dns_attached = Some(false);
        self.conditions.set(DNS_ATTACHED, false, "DNSDetached", why);
        Ok((until > now).then(|| StillResolved { why, again: until - now }))
    }

    /// The cluster's record, if DNS is managed at all.
    fn dns_record(&mut self) -> MachineFlow<Option<DnsResource>> {
        let Some(cluster) = &self.seen.maas_cluster else {
            return Ok(None);
        };
        let annotations = cluster.metadata.annotations.as_ref();
        let id = annotations.and_then(|a| a.get(names::DNS_RESOURCE_ANNOTATION));
        let network = cluster.status.as_ref().and_then(|s| s.network.as_ref());
        let name = network.and_then(|n| n.dns_name.clone());
        let read = match (id.and_then(|id| id.parse().ok()), &name) {
            (Some(id), _) => Read::DnsResource(id),
            (None, Some(name)) => Read::DnsByName(name.clone()),
            (None, None) => return Ok(None),
        };
        match self.read(read)? {
            Ok(Reply::Dns(mut records)) if !records.is_empty() => Ok(Some(records.swap_remove(0))),
            Ok(_) => Ok(None),
            // MAAS says so of a name whose domain it does not know. Not a word to take an address out of service on.
            Err(error) if error.category == Category::NotFound => {
                let domain = name.as_deref().and_then(|n| n.split_once('.')).map(|(_, d)| d);
                match self.read(Read::Domains)? {
                    Ok(Reply::Names(have)) if !have.iter().any(|d| Some(d.as_str()) == domain) => {
                        Ok(None)
                    }
                    _ => Err(self.maas_trouble(&error)),
                }
            }
            Err(error) => Err(self.maas_trouble(&error)),
        }
    }
}
