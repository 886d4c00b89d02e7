//! The vocabulary of a transcript: what can be asked of the world, and what it can answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call_error::CallError;
use crate::maas::{DnsResource, Image, MaasEvent, Machine, ReservedAddress, User};
use crate::machine::Sibling;
use crate::ownership::OwnedMachine;
use crate::policy::{AllocateConstraints, Answered, Ask, Comparison, Refused};

/// One step of a reconcile.
#[derive(Serialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub enum Step<S> {
    /// Look at something.
    Read(Read),
    /// Ask a policy.
    Ask(Box<Ask>),
    /// Change something.
    Do(Effect),
    /// The reconcile is over.
    Done(Box<Done<S>>),
}

/// Something to look at. Reading is always safe to repeat.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum Read {
    /// `GET /machines/{id}/`; answered by [`Reply::Machine`] or [`Reply::Absent`].
    Machine(String),
    /// `GET /machines/?agent_name=…`; answered by [`Reply::Machines`].
    MachinesByMark(String),
    /// `GET /machines/?status=ready&…`; answered by [`Reply::Machines`].
    Candidates(Box<AllocateConstraints>),
    /// `GET /users/?op=whoami`; answered by [`Reply::User`].
    WhoAmI,
    /// `GET /version/`; answered by [`Reply::Text`].
    Version,
    /// `GET /boot-resources/`; answered by [`Reply::Images`].
    Images,
    /// Names in `GET /zones/`; answered by [`Reply::Names`].
    Zones,
    /// Names in `GET /resourcepools/`; answered by [`Reply::Names`].
    Pools,
    /// Names in `GET /tags/`; answered by [`Reply::Names`].
    Tags,
    /// Names in `GET /domains/`; answered by [`Reply::Names`].
    Domains,
    /// Newest ERROR events of a machine; answered by [`Reply::Events`].
    ErrorEvents(String),
    /// `GET /dnsresources/?fqdn=…`; answered by [`Reply::Dns`].
    DnsByName(String),
    /// `GET /dnsresources/{id}/`; answered by [`Reply::Dns`] with one entry or none.
    DnsResource(u64),
    /// `GET /dnsresources/`: every record that somebody made; answered by [`Reply::Dns`].
    DnsRecords,
    /// `GET /ipaddresses/?ip=…`: a reservation of our user; answered by [`Reply::Reserved`].
    Reservation(String),
    /// The bootstrap Secret; the content stays with the shell; answered by [`Reply::Secret`].
    BootstrapSecret {
        /// Namespace of the Secret.
        namespace: String,
        /// Name of the Secret.
        name: String,
    },
    /// The object being reconciled, straight from the API server; answered by [`Reply::Object`] or
    /// [`Reply::Absent`].
    Object(ObjectRef),
    /// All `MaasMachine`s of a cluster, straight from the API server; answered by
    /// [`Reply::MaasMachines`].
    MaasMachines {
        /// Namespace of the cluster.
        namespace: String,
        /// Name of the `Cluster`.
        cluster: String,
    },
    /// What matters of the other `MaasMachine`s of a cluster, no older than anything we wrote; answered by
    /// [`Reply::Siblings`].
    Siblings {
        /// Namespace of the cluster.
        namespace: String,
        /// Name of the `Cluster`.
        cluster: String,
    },
    /// A fresh random mark; answered by [`Reply::Text`].
    Mark,
    /// Six random characters for a DNS name; answered by [`Reply::Text`].
    Suffix,
    /// The Node that may be this machine, by host name, then by address; answered by
    /// [`Reply::Nodes`].
    Nodes {
        /// Namespace of the cluster.
        namespace: String,
        /// Name of the `Cluster`.
        cluster: String,
    },
}

/// Kind, namespace and name of one of our objects.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// `MaasMachine` or `MaasCluster`.
    pub kind: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// Something to change.
///
/// Not deserialisable on purpose: an [`OwnedMachine`] comes from an ownership read or not at all.
#[derive(Serialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub enum Effect {
    /// `POST /machines/ op=allocate`; answered by [`Reply::Machine`].
    Allocate {
        /// What the machine must be.
        constraints: Box<AllocateConstraints>,
        /// `agent_name`, by which the machine is found again.
        mark: String,
        /// Shown in MAAS's event log.
        comment: String,
    },
    /// `op=set_workload_annotations`; answered by [`Reply::Machine`].
    Annotate {
        /// The machine.
        machine: OwnedMachine,
        /// Keys and values; an empty value removes.
        annotations: BTreeMap<String, String>,
    },
    /// `PUT swap_size=0`; answered by [`Reply::Machine`].
    SwapOff {
        /// The machine.
        machine: OwnedMachine,
    },
    /// `op=deploy`; answered by [`Reply::Machine`].
    Deploy {
        /// The machine.
        machine: OwnedMachine,
        /// Sent verbatim as `distro_series`.
        distro_series: String,
        /// `ephemeral_deploy`.
        in_memory: bool,
        /// Sent as `agent_name`. It counts if the machine was released a moment before and this call takes it anew:
        /// then MAAS finds it under our mark, though it carries no annotation any more.
        mark: Option<String>,
        /// SHA-256 of the bootstrap data that the shell read in this reconcile and sends.
        user_data_digest: String,
    },
    /// `op=release`; answered by [`Reply::Machine`].
    Release {
        /// The machine.
        machine: OwnedMachine,
        /// Shown in MAAS's event log.
        comment: String,
    },
    /// `op=mark_broken`; answered by [`Reply::Machine`].
    MarkBroken {
        /// The machine.
        machine: OwnedMachine,
        /// Becomes the machine's error description.
        comment: String,
    },
    /// `op=power_on` of a Deployed machine; answered by [`Reply::Machine`].
    PowerOn {
        /// The machine.
        machine: OwnedMachine,
        /// SHA-256 of the bootstrap data to send along, without which MAAS forgets it.
        user_data_digest: Option<String>,
    },
    /// `op=power_off`; answered by [`Reply::Machine`].
    PowerOff {
        /// The machine.
        machine: OwnedMachine,
    },
    /// `POST /dnsresources/`; answered by [`Reply::Dns`].
    CreateDns {
        /// Fully qualified name.
        fqdn: String,
        /// Seconds.
        ttl: u32,
    },
    /// `PUT /dnsresources/{id}/` with the whole list of addresses; answered by [`Reply::Dns`].
    SetDnsAddresses {
        /// The record.
        id: u64,
        /// Every address the record shall have, sorted.
        addresses: Vec<String>,
        /// Seconds.
        ttl: u32,
    },
    /// `DELETE /dnsresources/{id}/`; answered by [`Reply::Completed`], also when it was gone.
    DeleteDns {
        /// The record.
        id: u64,
    },
    /// `POST /ipaddresses/ op=release`; answered by [`Reply::Completed`].
    ReleaseAddress {
        /// The address.
        ip: String,
    },
    /// Merge patch of the object's annotations, finalizers and the few spec fields that are ours,
    /// under its resource version; answered by [`Reply::Written`].
    Patch {
        /// The object.
        object: ObjectRef,
        /// The change.
        patch: ObjectPatch,
    },
    /// `spec.providerID` of a Node, once, from empty; answered by [`Reply::Completed`].
    SetNodeProviderId {
        /// Namespace of the cluster.
        namespace: String,
        /// Name of the `Cluster`.
        cluster: String,
        /// Name of the Node.
        node: String,
        /// The provider id.
        provider_id: String,
    },
}

/// Why performing an effect twice does no harm.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
pub enum Repeat {
    /// The second time changes nothing.
    Idempotent,
    /// MAAS or Kubernetes refuses the second time, and the refusal is understood.
    GuardedByState,
    /// What the first one did is found again under the mark before another is tried.
    SettledByMark,
}

impl Effect {
    /// Why this effect may be repeated after a crash or a lost reply.
    pub fn repeat(&self) -> Repeat {
        match self {
            Self::Allocate { .. } => Repeat::SettledByMark,
            Self::Deploy { .. } | Self::CreateDns { .. } | Self::Patch { .. } => {
                Repeat::GuardedByState
            }
            Self::SetNodeProviderId { .. } => Repeat::GuardedByState,
            Self::Annotate { .. }
            | Self::SwapOff { .. }
            | Self::Release { .. }
            | Self::MarkBroken { .. }
            | Self::PowerOn { .. }
            | Self::PowerOff { .. }
            | Self::SetDnsAddresses { .. }
            | Self::DeleteDns { .. }
            | Self::ReleaseAddress { .. } => Repeat::Idempotent,
        }
    }
}

/// A merge patch of what is ours outside the status.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectPatch {
    /// The patch is refused unless the object still has this version.
    pub resource_version: String,
    /// Annotations to set, or with `None` to remove.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, Option<String>>,
    /// The whole list of finalizers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finalizers: Option<Vec<String>>,
    /// Fields of the spec; `null` removes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub spec: BTreeMap<String, Value>,
}

impl ObjectPatch {
    /// What was written, taken over into what is known of the object.
    pub(crate) fn apply(
        self,
        annotations: &mut BTreeMap<String, String>,
        finalizers: &mut Vec<String>,
    ) {
        for (key, value) in self.annotations {
            match value {
                Some(value) => annotations.insert(key, value),
                None => annotations.remove(&key),
            };
        }
        if let Some(written) = self.finalizers {
            *finalizers = written;
        }
    }
}

/// What the world answered.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub enum Reply {
    /// A MAAS machine.
    Machine(Box<Machine>),
    /// MAAS machines.
    Machines(Vec<Machine>),
    /// There is no such thing.
    Absent,
    /// The API user.
    User(User),
    /// A string.
    Text(String),
    /// Names, sorted.
    Names(Vec<String>),
    /// Images.
    Images(Vec<Image>),
    /// Events, newest first.
    Events(Vec<MaasEvent>),
    /// DNS resources.
    Dns(Vec<DnsResource>),
    /// An address reserved by our user.
    Reserved(ReservedAddress),
    /// State of a Secret; never its content.
    Secret(SecretState),
    /// An object of ours.
    Object(Value),
    /// `MaasMachine` objects.
    MaasMachines(Vec<Value>),
    /// What matters of a cluster's machines to one another.
    Siblings(Arc<[Sibling]>),
    /// Nodes of the workload cluster.
    Nodes(Arc<[crate::node::NodeView]>),
    /// An effect without an answer of its own was carried out.
    Completed,
    /// A patch was written.
    Written {
        /// The object's new version.
        resource_version: String,
        /// Its `metadata.generation` now: a change of the spec is a generation more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        generation: Option<i64>,
    },
    /// A policy answered.
    Answered(Box<Answered>),
    /// A policy gave no usable answer.
    Refused(Refused),
    /// The call failed.
    Failed(CallError),
}

/// What is known of a bootstrap Secret.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum SecretState {
    /// No such Secret.
    Missing,
    /// The Secret has no key `value`, or it is empty.
    Empty,
    /// The Secret has data.
    Present {
        /// SHA-256 of the data, hexadecimal.
        digest: String,
        /// Key `format`; `cloud-config` when absent.
        format: String,
    },
}

/// The end of a reconcile.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Done<S> {
    /// The whole new status; `None` leaves it as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<S>,
    /// Version of the object the status was computed for; a newer one means: look again.
    pub resource_version: String,
    /// Events to publish.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub events: Vec<Event>,
    /// How policies in shadow compared with the live ones.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub compared: Vec<Comparison>,
    /// Seconds until the next look; `None` waits for a watch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requeue: Option<u64>,
}

/// Normal or warning.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Something went as it should.
    Normal,
    /// Something a person may have to look at.
    Warning,
}

/// A Kubernetes event.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Normal or warning.
    pub kind: EventKind,
    /// PascalCase reason, at most 128 characters.
    pub reason: String,
    /// PascalCase verb.
    pub action: String,
    /// Sentence, at most 1,000 bytes.
    pub note: String,
}
