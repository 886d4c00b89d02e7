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
    /// The machine that was taken over from the Go provider, while it is not stamped yet.
    pub inherited: Option<String>,
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

    /// Whether the machine carries all of these annotations.
    pub fn is_on(&self, machine: &Machine) -> bool {
        self.annotations().iter().all(|(k, v)| machine.annotations.get(k) == Some(v))
    }
}

/// What a reading says of a machine that an object of ours names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// Ours, with our annotations.
    Ours(OwnedMachine),
    /// Ours, but it does not carry our annotations (yet).
    Unstamped(OwnedMachine),
    /// It belongs to our user and carries nobody's annotations: ours only if MAAS finds it under
    /// our mark.
    Unproven(String),
    /// It carries our annotations and belongs to another user: the key was changed, or an operator
    /// took it over for a while. Neither touched nor given up.
    Disputed(String),
    /// Nobody's: released, by us or behind our back.
    Nobody,
    /// Somebody else's; the text says why.
    Foreign(String),
}

/// Judges a plain reading of the machine that `spec.providerID` names.
///
/// A machine past Allocated without any annotation counts as inherited from the Go provider if the
/// object has no mark of its own yet, or was marked for this very machine. Later a missing
/// annotation means that it was released and taken again: MAAS wipes them then.
pub fn judge(machine: &Machine, claim: &Claim) -> Ownership {
    let owned = || OwnedMachine { system_id: machine.system_id.clone() };
    let Some(owner) = machine.owner.as_deref().filter(|o| !o.is_empty()) else {
        return Ownership::Nobody;
    };
    let stamp = |key: &str| machine.annotations.get(key).map(String::as_str);
    let Some(mark) = stamp(annotation::MARK) else {
        return unmarked(machine, claim, owner);
    };
    if Some(mark) != claim.mark.as_deref() || !same_object(machine, claim) {
        let holder = stamp(annotation::MACHINE).unwrap_or("another object");
        let namespace = stamp(annotation::NAMESPACE).unwrap_or("?");
        return Ownership::Foreign(format!("it belongs to MaasMachine {namespace}/{holder}"));
    }
    if owner == claim.user {
        return Ownership::Ours(owned());
    }
    let user = &claim.user;
    Ownership::Disputed(format!(
        "it carries this object's annotations and belongs to MAAS user {owner:?}, and we are {user:?}"
    ))
}

fn unmarked(machine: &Machine, claim: &Claim, owner: &str) -> Ownership {
    if owner != claim.user {
        return Ownership::Foreign(format!("it is allocated to MAAS user {owner:?}"));
    }
    let unstamped = !machine.annotations.contains_key(annotation::MACHINE);
    let past_allocated = !matches!(machine.status, Status::Allocated | Status::Reserved);
    let inherited = claim.mark.is_none() || claim.inherited.as_ref() == Some(&machine.system_id);
    if unstamped && past_allocated && inherited {
        return Ownership::Unstamped(OwnedMachine { system_id: machine.system_id.clone() });
    }
    Ownership::Unproven("it does not carry this object's annotations".into())
}

/// A mark may have been copied along with an object; the names beside it were not.
fn same_object(machine: &Machine, claim: &Claim) -> bool {
    let agrees = |key: &str, ours: &str| machine.annotations.get(key).is_none_or(|v| v == ours);
    agrees(annotation::NAMESPACE, &claim.namespace) && agrees(annotation::MACHINE, &claim.machine)
}

/// Whether it carries the annotations of another object. None at all are nobody's.
fn anothers(machine: &Machine, claim: &Claim) -> bool {
    let mark = machine.annotations.get(annotation::MARK);
    mark.is_some_and(|m| Some(m) != claim.mark.as_ref()) || !same_object(machine, claim)
}

/// Proof for a machine that MAAS found under our mark (`agent_name`), which it does not show.
pub fn by_mark(machine: &Machine, claim: &Claim) -> Option<OwnedMachine> {
    let held = machine.owner.as_deref() == Some(claim.user.as_str())
        && !machine.status.releasing()
        && !matches!(machine.status, Status::Ready | Status::New);
    (held && !anothers(machine, claim))
        .then(|| OwnedMachine { system_id: machine.system_id.clone() })
}

/// Proof by the reply to our own deploy: MAAS installs our data on this machine, and it is our user's.
pub fn by_deployment(machine: &Machine, claim: &Claim) -> Option<OwnedMachine> {
    let ours = machine.owner.as_deref() == Some(claim.user.as_str());
    (ours && machine.status == Status::Deploying && !anothers(machine, claim))
        .then(|| OwnedMachine { system_id: machine.system_id.clone() })
}

/// Proof by the reply to our own allocate: MAAS has just given us this machine.
pub fn by_allocation(machine: &Machine, claim: &Claim) -> Option<OwnedMachine> {
    (machine.owner.as_deref() == Some(claim.user.as_str()) && machine.status == Status::Allocated)
        .then(|| OwnedMachine { system_id: machine.system_id.clone() })
}
