//! Whose a MAAS machine is.
//!
//! An administrator's key may release and deploy anybody's machines, so every such call takes an
//! [`OwnedMachine`], and only the proofs of this module make one. MAAS has no compare-and-swap:
//! between the read that proves and the call that acts lies one round trip.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::maas::{Machine, Status};

/// Annotation keys in MAAS. MAAS allows letters, digits, `_`, `.` and `-` only.
pub mod annotation {
    /// Name of the `Cluster`.
    pub const CLUSTER: &str = "capmaas-cluster";
    /// Namespace of the `MaasMachine`.
    pub const NAMESPACE: &str = "capmaas-namespace";
    /// Name of the `MaasMachine`.
    pub const MACHINE: &str = "capmaas-machine";
    /// The mark of the `MaasMachine`.
    pub const MARK: &str = "capmaas-mark";
}

/// A machine that was seen to be ours. Only a proof in this module makes one.
#[derive(Serialize, Clone, Debug, PartialEq, Eq)]
#[serde(transparent)]
pub struct OwnedMachine {
    system_id: String,
}

impl OwnedMachine {
    /// The machine's system id.
    pub fn system_id(&self) -> &str {
        &self.system_id
    }
}

/// Who we are: what a machine of ours shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Our API user.
    pub user: String,
    /// The mark of this `MaasMachine`, if one was minted.
    pub mark: Option<String>,
    /// Name of the `Cluster`.
    pub cluster: String,
    /// Namespace of the `MaasMachine`.
    pub namespace: String,
    /// Name of the `MaasMachine`.
    pub machine: String,
}

impl Claim {
    /// The annotations that make a machine recognisable as ours, for us and for operators.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        let mut map = BTreeMap::from([
            (annotation::CLUSTER.to_owned(), self.cluster.clone()),
            (annotation::NAMESPACE.to_owned(), self.namespace.clone()),
            (annotation::MACHINE.to_owned(), self.machine.clone()),
        ]);
        if let Some(mark) = &self.mark {
            map.insert(annotation::MARK.to_owned(), mark.clone());
        }
        map
    }
}

/// What a reading says of a machine that an object of ours names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// Ours, with our annotations.
    Ours(OwnedMachine),
    /// Ours, but it does not carry our annotations (yet).
    Unstamped(OwnedMachine),
    /// Nobody's: released, by us or behind our back.
    Nobody,
    /// Somebody else's; the text says why.
    Foreign(String),
}

/// Judges a plain reading of the machine that `spec.providerID` names.
///
/// A machine without any annotation of ours counts as inherited from the Go provider when it is
/// past Allocated; an Allocated one needs the mark, see [`by_mark`].
pub fn judge(machine: &Machine, claim: &Claim) -> Ownership {
    let owned = || OwnedMachine { system_id: machine.system_id.clone() };
    let Some(owner) = machine.owner.as_deref().filter(|o| !o.is_empty()) else {
        return Ownership::Nobody;
    };
    if owner != claim.user {
        return Ownership::Foreign(format!("it is allocated to MAAS user {owner:?}"));
    }
    let stamp = |key: &str| machine.annotations.get(key).map(String::as_str);
    let Some(mark) = stamp(annotation::MARK) else {
        let unstamped = stamp(annotation::MACHINE).is_none();
        let past_allocated = !matches!(machine.status, Status::Allocated | Status::Reserved);
        return if unstamped && past_allocated {
            Ownership::Unstamped(owned())
        } else {
            Ownership::Foreign("it does not carry this object's annotations".into())
        };
    };
    if Some(mark) == claim.mark.as_deref() {
        return Ownership::Ours(owned());
    }
    let holder = stamp(annotation::MACHINE).unwrap_or("another object");
    let namespace = stamp(annotation::NAMESPACE).unwrap_or("?");
    Ownership::Foreign(format!("it belongs to MaasMachine {namespace}/{holder}"))
}

/// Proof for a machine that MAAS found under our mark (`agent_name`), which it does not show.
pub fn by_mark(machine: &Machine, claim: &Claim) -> Option<OwnedMachine> {
    let held = machine.owner.as_deref() == Some(claim.user.as_str())
        && !machine.status.releasing()
        && !matches!(machine.status, Status::Ready | Status::New);
    let other_mark =
        machine.annotations.get(annotation::MARK).is_some_and(|m| Some(m) != claim.mark.as_ref());
    (held && !other_mark).then(|| OwnedMachine { system_id: machine.system_id.clone() })
}

/// Proof by the reply to our own allocate: MAAS has just given us this machine.
pub fn by_allocation(machine: &Machine, claim: &Claim) -> Option<OwnedMachine> {
    (machine.owner.as_deref() == Some(claim.user.as_str()) && machine.status == Status::Allocated)
        .then(|| OwnedMachine { system_id: machine.system_id.clone() })
}
