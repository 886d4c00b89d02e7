//! One `MaasMachine`: allocate, deploy, watch over, release.
//!
//! [`next`] tells the story from its start for every step. The chapters: `acquire` (no machine yet:
//! `choose` one, `allocate` it), `observe` (a machine is named: what does MAAS say?), `prepare`
//! (held, to be deployed), `deploying`, `failure` (ask the failure policy, `replace` the host) and `delete`;
//! `resolved` is what the last two wait for.

mod acquire;
mod allocate;
mod choose;
mod delete;
mod deploying;
mod failed_hosts;
mod failure;
mod observe;
mod prepare;
mod proposals;
mod replace;
mod report;
mod resolved;
mod sibling;

use std::collections::BTreeMap;
use std::convert::Infallible;

use capmaas_api::{MaasCluster, MaasMachine, MaasMachineStatus, cluster_api, names};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call_error::{CallError, Category};
use crate::conditions::Conditions;
use crate::maas::User;
use crate::node::NodeObservation;
use crate::ownership::Claim;
use crate::policy::decisions::{self, Decided, compared, default_used, no_answer};
use crate::policy::{Comparison, Context, Panel, PolicyId, Seat};
use crate::settings::Settings;
use crate::step::{Effect, Event, EventKind, ObjectPatch, ObjectRef, Read, Reply, Step};
use crate::text::{LONGEST_NOTE, bounded};
use crate::transcript::{Flow, Outcome, Transcript, unexpected};

pub use failed_hosts::FailedHost;
pub(crate) use failed_hosts::being_replaced;
pub(crate) use report::explain;
pub use sibling::Sibling;

/// Condition: the host is deployed and on.
pub const DEPLOYED: &str = "MachineDeployed";
/// Condition: the host's address is in the API server's record (control planes).
pub const DNS_ATTACHED: &str = "DNSAttached";
/// Condition: the workload cluster's Node carries the provider id.
pub const NODE_PROVIDER_ID: &str = "NodeProviderIDSet";

/// A kind of decision: which machine to take.
const ALLOCATION: &str = "allocation";
/// A kind of decision: what to do about a failure.
const FAILURE_HANDLING: &str = "failure-handling";

/// What was seen when the reconcile began.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// Unix seconds.
    pub now: u64,
    /// Configuration.
    pub settings: Settings,
    /// The object.
    pub object: MaasMachine,
    /// Its owner, if the owner reference names one that exists.
    pub machine: Option<cluster_api::Machine>,
    /// Its cluster.
    pub cluster: Option<cluster_api::Cluster>,
    /// The cluster's infrastructure.
    pub maas_cluster: Option<MaasCluster>,
    /// What was last seen of the workload cluster's Node.
    pub node: Option<NodeObservation>,
    /// Who is asked.
    #[serde(default, skip_serializing_if = "Panel::is_built_in")]
    pub policies: Panel,
}

impl Snapshot {
    /// Whether another look showed nothing new.
    pub fn shows_what(&self, other: &Self) -> bool {
        let versions = |s: &Self| {
            let cluster = s.maas_cluster.as_ref().map(|c| &c.metadata);
            [Some(&s.object.metadata), cluster]
                .map(|m| m.and_then(|m| Some((m.uid.clone()?, m.resource_version.clone()?))))
        };
        versions(self) == versions(other)
            && self.machine == other.machine
            && self.cluster == other.cluster
    }
}

/// The next step of the reconcile of one `MaasMachine`.
pub fn next(snapshot: &Snapshot, replies: &[Reply]) -> Step<MaasMachineStatus> {
    match Run::new(snapshot, replies).reconcile() {
        Err(step) => *step,
    }
}

type MachineFlow<T> = Flow<T, MaasMachineStatus>;

/// The state of one telling of the story.
struct Run<'a> {
    seen: &'a Snapshot,
    transcript: Transcript<'a>,
    resource_version: String,
    annotations: BTreeMap<String, String>,
    finalizers: Vec<String>,
    provider_id: Option<String>,
    status: MaasMachineStatus,
    conditions: Conditions,
    events: Vec<Event>,
    compared: Vec<Comparison>,
    /// Digest of the bootstrap data, once it was read in this reconcile.
    bootstrap: Option<String>,
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
            provider_id: seen.object.spec.provider_id.clone().filter(|p| !p.is_empty()),
            conditions: Conditions::new(&before, seen.now, meta.generation),
            status,
            events: Vec::new(),
            compared: Vec::new(),
            bootstrap: None,
        }
    }

    fn reconcile(mut self) -> MachineFlow<Infallible> {
        if self.annotations.contains_key(names::DELETE_FOR_MOVE_ANNOTATION) {
            return Err(self.untouched(None));
        }
        let deleting = self.seen.object.metadata.deletion_timestamp.is_some();
        if deleting && !self.holds_finalizer() {
            return Err(self.untouched(None));
        }
        if self.seen.machine.is_none() && !deleting {
            // Cluster API rewrites the managed fields of a new object until it has set the owner
            // reference, and a write of ours in between makes it fail.
            return Err(self.untouched(None));
        }
        self.stop_if_paused()?;
        if deleting {
            return self.delete();
        }
        self.wait_for_cluster()?;
        let user = self.who_are_we()?;
        match self.system_id() {
            Some(id) => self.observe(&user, &id),
            None => self.acquire(&user),
        }
    }

    fn stop_if_paused(&mut self) -> MachineFlow<()> {
        let cluster = self.seen.cluster.as_ref().is_some_and(|c| c.paused());
        let annotated = self.annotations.contains_key(names::PAUSED_ANNOTATION);
        if !self.conditions.paused("MaasMachine", cluster, annotated) {
            return Ok(());
        }
        let mut status = self.seen.object.status.clone().unwrap_or_default();
        status.conditions = Some(self.conditions.clone().finish());
        Err(self.finished(Some(status), None))
    }

    fn wait_for_cluster(&mut self) -> MachineFlow<()> {
        let ready = self.seen.cluster.as_ref().is_some_and(|c| c.infrastructure_ready());
        if self.seen.maas_cluster.is_some() && (ready || self.provisioned()) {
            return Ok(());
        }
        let message = match (&self.seen.cluster, &self.seen.maas_cluster) {
            (None, _) => "waiting for the Cluster named by label cluster.x-k8s.io/cluster-name",
            (_, None) => "waiting for the MaasCluster that the Cluster's infrastructureRef names",
            _ => "waiting until the cluster's infrastructure is ready (see the MaasCluster)",
        };
        // A MaasCluster that comes after its Cluster was ready (a restore) wakes nobody.
        let drift = self.seen.settings.drift;
        Err(self.waiting("WaitingForClusterInfrastructure", message, Some(drift)))
    }

    /// Our MAAS user; stops when MAAS does not serve us, or when the key cannot do what is needed.
    fn who_are_we(&mut self) -> MachineFlow<User> {
        match self.read(Read::WhoAmI)? {
            Ok(Reply::User(user)) if user.admin => Ok(user),
            Ok(Reply::User(user)) => {
                let message = format!(
                    "MAAS user {:?} is no administrator, and turning swap off and DNS need one: \
                     give capmaas an administrator's API key",
                    user.name
                );
                Err(self.unable("MaasNotAdministrator", &message))
            }
            other => Err(self.maas_trouble(&unexpected(other))),
        }
    }

    // --- the object ---

    fn object_ref(&self) -> ObjectRef {
        ObjectRef {
            kind: "MaasMachine".into(),
            namespace: self.namespace().to_owned(),
            name: self.name().to_owned(),
        }
    }

    fn name(&self) -> &'a str {
        self.seen.object.metadata.name.as_deref().unwrap_or_default()
    }

    fn namespace(&self) -> &'a str {
        self.seen.object.metadata.namespace.as_deref().unwrap_or_default()
    }

    fn cluster_name(&self) -> &'a str {
        let labels = self.seen.object.metadata.labels.as_ref();
        let label = labels.and_then(|l| l.get(names::CLUSTER_NAME_LABEL)).map(String::as_str);
        let cluster = self.seen.cluster.as_ref().map(|c| c.name.as_str());
        cluster.filter(|n| !n.is_empty()).or(label).unwrap_or_default()
    }

    fn control_plane(&self) -> bool {
        let labels = self.seen.object.metadata.labels.as_ref();
        labels.is_some_and(|l| l.contains_key(names::CONTROL_PLANE_LABEL))
            || self.seen.machine.as_ref().is_some_and(|m| m.control_plane)
    }

    fn role(&self) -> &'static str {
        if self.control_plane() { "control-plane" } else { "worker" }
    }

    fn holds_finalizer(&self) -> bool {
        self.finalizers.iter().any(|f| f == names::MACHINE_FINALIZER)
    }

    fn mark(&self) -> Option<String> {
        self.annotations.get(names::MARK_ANNOTATION).filter(|m| !m.is_empty()).cloned()
    }

    fn system_id(&self) -> Option<String> {
        let id = crate::provider_id::system_id(self.provider_id.as_deref()?)?;
        Some(id.to_owned())
    }

    /// Once provisioned, a host is never replaced: Cluster API has copied its provider id. Status
    /// is lost by move and restore, so the Machine counts as well.
    fn provisioned(&self) -> bool {
        let latched = self.status.initialization.as_ref().and_then(|i| i.provisioned);
        let copied = self.seen.machine.as_ref().and_then(|m| m.spec.provider_id.as_deref());
        latched == Some(true) || copied.is_some_and(|p| !p.is_empty())
    }

    fn claim(&self, user: &User) -> Claim {
        Claim {
            user: user.name.clone(),
            mark: self.mark(),
            inherited: self.annotations.get(names::INHERITED_ANNOTATION).cloned(),
            cluster: self.cluster_name().to_owned(),
            namespace: self.namespace().to_owned(),
            machine: self.name().to_owned(),
        }
    }

    fn context(&self, decision: &str) -> Context {
        let uid = self.seen.object.metadata.uid.as_deref().unwrap_or_default();
        Context {
            decision_id: format!("{uid}/{decision}"),
            now: self.seen.now,
            namespace: self.namespace().to_owned(),
            cluster: self.cluster_name().to_owned(),
            attributes: vec![],
        }
    }

    // --- calls ---

    fn read(&mut self, read: Read) -> MachineFlow<Outcome> {
        self.transcript.read(read)
    }

    fn perform(&mut self, effect: Effect) -> MachineFlow<Outcome> {
        self.transcript.perform(effect)
    }

    /// Writes annotations, finalizers and spec under the version that was last seen.
    fn patch(&mut self, patch: ObjectPatch) -> MachineFlow<Result<(), CallError>> {
        let object = self.object_ref();
        let versioned =
            ObjectPatch { resource_version: self.resource_version.clone(), ..patch.clone() };
        match self.perform(Effect::Patch { object, patch: versioned })? {
            Ok(Reply::Written { resource_version, generation }) => {
                self.resource_version = resource_version;
                self.conditions.wrote(generation);
                if let Some(id) = patch.spec.get("providerID") {
                    self.provider_id = id.as_str().map(str::to_owned);
                }
                patch.apply(&mut self.annotations, &mut self.finalizers);
                Ok(Ok(()))
            }
            other => Ok(Err(unexpected(other))),
        }
    }

    /// The patch failed: nothing was decided by it, so look again soon.
    fn patch_failed(&mut self, error: &CallError) -> Box<Step<MaasMachineStatus>> {
        let soon = if error.category == Category::Conflict { 1 } else { self.seen.settings.poll };
        self.untouched(Some(soon))
    }

    fn event(&mut self, kind: EventKind, reason: &str, action: &str, note: String) {
        let note = bounded(&note, LONGEST_NOTE);
        self.events.push(Event { kind, reason: reason.into(), action: action.into(), note });
    }

    fn decided(&mut self, kind: &str, seat: &Seat, policy: &PolicyId, answer: &str, reason: &str) {
        let at = self.seen.now;
        let decided = Decided { kind, seat, policy, answer, reason, at };
        decisions::keep(&mut self.status.decisions, &decided);
    }

    /// A policy gave no answer, and the default takes its place.
    fn default_used(&mut self, seat: &Seat, why: &str) {
        self.events.push(default_used(seat, why));
    }

    /// A policy in shadow would have decided otherwise, or the same.
    fn compared(&mut self, seat: &Seat, kind: &str, difference: Option<String>) {
        let (comparison, event) = compared(seat, kind, difference);
        self.compared.push(comparison);
        self.events.extend(event);
    }
}

fn signed(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

fn spec_patch(fields: &[(&str, Value)]) -> BTreeMap<String, Value> {
    fields.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect()
}

/// Whether the reconcile of this object may take a machine. Those of one cluster take them one after another, so that a
/// policy never sees stale peers.
pub fn takes_turn(object: &MaasMachine) -> bool {
    let named = object.spec.provider_id.as_deref().is_some_and(|p| !p.is_empty());
    !named && object.metadata.deletion_timestamp.is_none()
}

/// Whether a reconcile that has come to this step still needs its turn. What is done to a machine once the object names
/// it concerns nobody else.
pub fn keeps_turn(step: &Step<MaasMachineStatus>) -> bool {
    use Effect::{Annotate, Deploy, SwapOff};
    !matches!(step, Step::Do(Annotate { .. } | SwapOff { .. } | Deploy { .. }))
}

/// What is needed to look for the Node of a machine; `None` while it is not deployed, is leaving,
/// or is paused.
pub fn node_snapshot(object: &MaasMachine, settings: &Settings) -> Option<crate::node::Snapshot> {
    let status = object.status.as_ref().filter(|s| s.ready)?;
    let meta = &object.metadata;
    let paused =
        meta.annotations.as_ref().is_some_and(|a| a.contains_key(names::PAUSED_ANNOTATION));
    if meta.deletion_timestamp.is_some() || paused {
        return None;
    }
    let of_kind = |kind: &str| {
        let list = status.addresses.iter().flatten().filter(|a| a.kind == kind);
        list.map(|a| a.address.clone()).collect::<Vec<_>>()
    };
    Some(crate::node::Snapshot {
        namespace: meta.namespace.clone()?,
        cluster: meta.labels.as_ref()?.get(names::CLUSTER_NAME_LABEL)?.clone(),
        provider_id: object.spec.provider_id.clone().filter(|p| !p.is_empty())?,
        hostname: status.hostname.clone().unwrap_or_default(),
        fqdn: of_kind("InternalDNS").into_iter().next().unwrap_or_default(),
        addresses: of_kind("InternalIP"),
        poll: settings.poll,
        drift: settings.drift.saturating_mul(4),
    })
}
