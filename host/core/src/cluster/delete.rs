//! The cluster is being deleted: wait for its machines, then take away what is ours.

use std::convert::Infallible;

use capmaas_api::names;

use super::endpoint::Endpoint;
use super::record::ours;
use super::{ClusterFlow, End, Run};
use crate::call_error::Category;
use crate::step::{Effect, EventKind, ObjectPatch, Read, Reply};

impl Run<'_> {
    pub(super) fn delete(mut self) -> ClusterFlow<Infallible> {
        let endpoint = self.endpoint_kind();
        let machines = self.machines()?;
        if !machines.is_empty() {
            self.keep_leaving(endpoint)?;
            let message = "waiting until the MaasMachines of the cluster are gone";
            self.conditions.set("Deleting", true, "Deleting", message);
            let poll = self.seen.settings.poll.clamp(1, 10);
            return Err(self.done(Some(poll)));
        }
        let id = self.record_id();
        match (endpoint, id) {
            (Some(Endpoint::Generated(name)), id) => self.delete_record(&name, id)?,
            (Some(Endpoint::Given(name)), id) => self.empty_record(&name, id)?,
            _ => {}
        }
        self.release_object()
    }

    /// While machines go, their addresses leave the record one by one: they wait for it.
    fn keep_leaving(&mut self, endpoint: Option<Endpoint>) -> ClusterFlow<()> {
        let (name, generated) = match endpoint {
            Some(Endpoint::Generated(name)) => (name, true),
            Some(Endpoint::Given(name)) => (name, false),
            _ => return Ok(()),
        };
        let user = match self.read(Read::WhoAmI)? {
            Ok(Reply::User(user)) => user,
            other => return Err(self.maas_trouble(&super::unexpected(other))),
        };
        let id = self.record_id();
        let Some(record) = self.remaining_record(&name)? else {
            return Ok(());
        };
        if generated && ours(&record, id) {
            self.remaining(&user, record)?;
        } else if !generated && self.serves_us(&user, &record)? {
            // Once its addresses are gone, nothing but the id tells that it served this cluster.
            self.write_down(&record)?;
            self.remaining(&user, record)?;
        }
        Ok(())
    }

    /// Ours: made by us, and still called what we called it.
    fn delete_record(&mut self, name: &str, id: Option<u64>) -> ClusterFlow<()> {
        let Some(record) = self.remaining_record(name)? else {
            // A crash may have come between the record and the addresses reserved for it.
            return self.free_dropped(&[]);
        };
        self.free_dropped(&record.ips())?;
        if !ours(&record, id) {
            self.left_alone(name);
            return Ok(());
        }
        let record = self.write_record(record, Default::default())?;
        match self.perform(Effect::DeleteDns { id: record.id })? {
            Ok(_) => Ok(()),
            Err(error) if error.category == Category::NotFound => Ok(()),
            Err(error) => Err(self.maas_trouble(&error)),
        }
    }

    /// The user's own record keeps existing, without our addresses.
    fn empty_record(&mut self, name: &str, id: Option<u64>) -> ClusterFlow<()> {
        let Some(record) = self.remaining_record(name)? else {
            return self.free_dropped(&[]);
        };
        self.free_dropped(&record.ips())?;
        if !ours(&record, id) {
            self.left_alone(name);
            return Ok(());
        }
        self.write_record(record, Default::default())?;
        Ok(())
    }

    fn left_alone(&mut self, name: &str) {
        let note = format!("DNS record {name} was left in MAAS as it is: it is not this cluster's");
        self.event(EventKind::Warning, "DNSRecordLeft", "DeleteDNS", note);
    }

    fn release_object(mut self) -> ClusterFlow<Infallible> {
        let finalizers =
            self.finalizers.iter().filter(|f| *f != names::CLUSTER_FINALIZER).cloned().collect();
        self.patch(ObjectPatch { finalizers: Some(finalizers), ..ObjectPatch::default() })?;
        let end: End = self.finished(None, None);
        Err(end)
    }
}
