//! One `MaasCluster`: the endpoint's name, and the one writer of its DNS record.
//!
//! Chapters: `endpoint` (which name, whose record), `given` (a name of the user's), `record` (which addresses), `former`
//! (hosts that have left), `delete`.

mod delete;
mod endpoint;
mod former;
mod given;
mod record;

use std::collections::BTreeMap;
use std::convert::Infallible;

use capmaas_api::{
    ApiEndpoint, Initialization, MaasCluster, MaasClusterStatus, cluster_api, names,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::call_error::{CallError, Category};
use crate::conditions::Conditions;
use crate::maas::User;
use crate::machine::explain;
use crate::policy::{Comparison, Panel};
use crate::settings::Settings;
use crate::step::{Done, Effect, Event, EventKind, ObjectPatch, ObjectRef, Read, Reply, Step};
use crate::text::{LONGEST_NOTE, bounded};
use crate::transcript::{Flow, Outcome, Transcript, unexpected};

pub(crate) use former::former_hosts;

/// Seconds for which resolvers may keep an address of the API server's record.
pub const TTL: u32 = 10;

/// Condition: the record holds the addresses it should.
pub const LOAD_BALANCER_READY: &str = "LoadBalancerReady";
/// Condition: MAAS serves us.
pub const MAAS_AVAILABLE: &str = "MaasAvailable";
/// Condition: the zones of `spec.failureDomains` exist.
pub const FAILURE_DOMAINS_VALID: &str = "FailureDomainsValid";

/// A kind of decision: how the endpoint is called.
const DNS_NAMING: &str = "dns-naming";

/// What was seen when the reconcile began.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// Unix seconds.
    pub now: u64,
    /// Configuration.
    pub settings: Settings,
    /// The object.
    pub object: MaasCluster,
    /// Its owner, if the owner reference names one that exists.
    pub cluster: Option<cluster_api::Cluster>,
    /// Cluster API serves nothing newer than v1beta1, whose failure domains are a map.
    #[serde(default)]
    pub v1beta1_only: bool,
    /// Who is asked.
    #[serde(default, skip_serializing_if = "Panel::is_built_in")]
    pub policies: Panel,
}

/// The next step of the reconcile of one `MaasCluster`.
pub fn next(snapshot: &Snapshot, replies: &[Reply]) -> Step<MaasClusterStatus> {
    match Run::new(snapshot, replies).reconcile() {
        Err(step) => *step,
    }
}

type ClusterFlow<T> = Flow<T, MaasClusterStatus>;
type End = Box<Step<MaasClusterStatus>>;

struct Run<'a> {
    seen: &'a Snapshot,
    transcript: Transcript<'a>,
    resource_version: String,
    annotations: BTreeMap<String, String>,
    finalizers: Vec<String>,
    endpoint: ApiEndpoint,
    status: MaasClusterStatus,
    conditions: Conditions,
    events: Vec<Event>,
    compared: Vec<Comparison>,
    /// Hosts whose machines are being deleted, and since when, once the machines were listed.
    leaving: BTreeMap<String, u64>,
}

impl<'a> Run<'a> {
    fn new(seen: &'a Snapshot, replies: &'a [Reply]) -> Self {
        let meta = &seen.object.metadata;
        let status = seen.object.status.clone().unwrap_or_default();
        let before = status.conditions.clone().unwrap_or_default();
        Self {
            seen,
            transcript: Transcript::new(replies),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            annotations: meta.annotations.clone().unwrap_or_default(),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
            endpoint: seen.object.spec.control_plane_endpoint.clone().unwrap_or_default(),
            conditions: Conditions::new(&before, seen.now, meta.generation),
            status,
            events: Vec::new(),
            compared: Vec::new(),
            leaving: BTreeMap::new(),
        }
    }

    fn reconcile(mut self) -> ClusterFlow<Infallible> {
        let deleting = self.seen.object.metadata.deletion_timestamp.is_some();
        let held = self.finalizers.iter().any(|f| f == names::CLUSTER_FINALIZER);
        if self.annotations.contains_key(names::DELETE_FOR_MOVE_ANNOTATION)
            || self.annotations.contains_key(names::MANAGED_BY_ANNOTATION)
            || (deleting && !held)
            || (self.seen.cluster.is_none() && !deleting)
        {
            return Err(self.finished(None, None));
        }
        self.stop_if_paused()?;
        if deleting {
            return self.delete();
        }
        let user = self.who_are_we()?;
        let endpoint = self.decide_endpoint()?;
        self.check_failure_domains()?;
        self.keep_record(&user, &endpoint)?;
        // Only now: control planes behind a record that cannot exist would never be reached.
        self.status.ready = true;
        self.status.initialization = Some(Initialization { provisioned: Some(true) });
        self.remember_leaving(&endpoint)?;
        let drift = self.seen.settings.drift;
        Err(self.done(Some(drift)))
    }

    fn stop_if_paused(&mut self) -> ClusterFlow<()> {
        let cluster = self.seen.cluster.as_ref().is_some_and(|c| c.paused());
        let annotated = self.annotations.contains_key(names::PAUSED_ANNOTATION);
        if !self.conditions.paused("MaasCluster", cluster, annotated) {
            return Ok(());
        }
        let mut status = self.seen.object.status.clone().unwrap_or_default();
        status.conditions = Some(self.conditions.clone().finish());
        Err(self.finished(Some(status), None))
    }

    fn who_are_we(&mut self) -> ClusterFlow<User> {
        match self.read(Read::WhoAmI)? {
            Ok(Reply::User(user)) if user.admin => {
                self.conditions.set(MAAS_AVAILABLE, true, "MaasAvailable", "");
                Ok(user)
            }
            Ok(Reply::User(user)) => {
                let message = format!(
                    "MAAS user {:?} is no administrator, and DNS records and turning swap off need \
                     one: give capmaas an administrator's API key",
                    user.name
                );
                let again = self.seen.settings.poll.saturating_mul(2).max(1);
                Err(self.maas_unusable("MaasNotAdministrator", &message, again))
            }
            other => Err(self.maas_trouble(&unexpected(other))),
        }
    }

    /// Zones that MAAS does not have would keep control planes waiting for ever.
    fn check_failure_domains(&mut self) -> ClusterFlow<()> {
        let wanted: Vec<String> = self
            .seen
            .object
            .spec
            .failure_domains
            .iter()
            .flatten()
            .map(|z| z.trim().to_owned())
            .filter(|z| !z.is_empty())
            .collect();
        if wanted.is_empty() {
            self.status.failure_domains = None;
            self.conditions.remove(FAILURE_DOMAINS_VALID);
            return Ok(());
        }
        let zones = match self.read(Read::Zones)? {
            Ok(Reply::Names(zones)) => zones,
            other => return Err(self.maas_trouble(&unexpected(other))),
        };
        let (known, missing): (Vec<_>, Vec<_>) =
            wanted.into_iter().partition(|z| zones.contains(z));
        let message = format!(
            "MAAS has no zone {} (it has {}): correct spec.failureDomains",
            missing.join(", "),
            zones.join(", ")
        );
        if missing.is_empty() {
            self.conditions.set(FAILURE_DOMAINS_VALID, true, "FailureDomainsValid", "");
        } else {
            self.conditions.set(FAILURE_DOMAINS_VALID, false, "ZoneNotFound", &message);
        }
        self.status.failure_domains = Some(if self.seen.v1beta1_only {
            known.iter().map(|z| (z.clone(), json!({ "controlPlane": true }))).collect()
        } else {
            known.iter().map(|z| json!({ "name": z, "controlPlane": true })).collect()
        });
        Ok(())
    }

    // --- calls and ends ---

    fn object_ref(&self) -> ObjectRef {
        ObjectRef {
            kind: "MaasCluster".into(),
            namespace: self.namespace().to_owned(),
            name: self.seen.object.metadata.name.clone().unwrap_or_default(),
        }
    }

    fn namespace(&self) -> &'a str {
        self.seen.object.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Name of the `Cluster`; without one, the label that Cluster API has set.
    fn cluster_name(&self) -> &'a str {
        let labels = self.seen.object.metadata.labels.as_ref();
        let label = labels.and_then(|l| l.get(names::CLUSTER_NAME_LABEL)).map(String::as_str);
        self.seen.cluster.as_ref().map(|c| c.name.as_str()).or(label).unwrap_or_default()
    }

    fn read(&mut self, read: Read) -> ClusterFlow<Outcome> {
        self.transcript.read(read)
    }

    fn perform(&mut self, effect: Effect) -> ClusterFlow<Outcome> {
        self.transcript.perform(effect)
    }

    fn patch(&mut self, patch: ObjectPatch) -> ClusterFlow<()> {
        let object = self.object_ref();
        let versioned =
            ObjectPatch { resource_version: self.resource_version.clone(), ..patch.clone() };
        match self.perform(Effect::Patch { object, patch: versioned })? {
            Ok(Reply::Written { resource_version, generation }) => {
                self.resource_version = resource_version;
                self.conditions.wrote(generation);
                patch.apply(&mut self.annotations, &mut self.finalizers);
                Ok(())
            }
            other => {
                let conflict = unexpected(other).category == Category::Conflict;
                let again = if conflict { 1 } else { self.seen.settings.poll };
                Err(self.finished(None, Some(again)))
            }
        }
    }

    fn annotate(&mut self, key: &str, value: Option<String>) -> ClusterFlow<()> {
        let annotations = BTreeMap::from([(key.to_owned(), value)]);
        self.patch(ObjectPatch { annotations, ..ObjectPatch::default() })
    }

    fn event(&mut self, kind: EventKind, reason: &str, action: &str, note: String) {
        let note = bounded(&note, LONGEST_NOTE);
        self.events.push(Event { kind, reason: reason.into(), action: action.into(), note });
    }

    fn finished(&mut self, status: Option<MaasClusterStatus>, requeue: Option<u64>) -> End {
        Box::new(Step::Done(Box::new(Done {
            status,
            resource_version: self.resource_version.clone(),
            events: std::mem::take(&mut self.events),
            compared: std::mem::take(&mut self.compared),
            requeue,
        })))
    }

    fn done(&mut self, requeue: Option<u64>) -> End {
        let of: Vec<&str> = [MAAS_AVAILABLE, FAILURE_DOMAINS_VALID, LOAD_BALANCER_READY]
            .into_iter()
            .filter(|k| self.conditions.get(k).is_some())
            .collect();
        self.conditions.summarise(&of);
        let mut status = self.status.clone();
        status.conditions = Some(self.conditions.clone().finish());
        self.finished(Some(status), requeue)
    }

    fn maas_trouble(&mut self, error: &CallError) -> End {
        let (reason, message) = explain(error);
        let again = error.again(self.seen.settings.poll.saturating_mul(2));
        self.maas_unusable(reason, &message, again)
    }

    /// MAAS does not serve us. What was provisioned stays so, and the record stays as it is.
    fn maas_unusable(&mut self, reason: &str, message: &str, again: u64) -> End {
        if self.conditions.reason_before(MAAS_AVAILABLE) != Some(reason) {
            self.event(EventKind::Warning, reason, "Reconcile", message.to_owned());
        }
        self.conditions.set(MAAS_AVAILABLE, false, reason, message);
        self.done(Some(again))
    }
}
