use std::collections::BTreeMap;

use capmaas_api::{MaasMachine, names};
use serde::{Deserialize, Serialize};

use super::Run;
use crate::maas::Machine;
use crate::policy::Avoided;

/// A host that failed for this `MaasMachine`, remembered in an annotation so that neither a crash
/// nor a lost status forgets it.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct FailedHost {
    /// MAAS system id.
    #[serde(rename = "systemID")]
    pub system_id: String,
    /// Why it was given up.
    pub reason: String,
    /// Unix seconds.
    pub failed_at: u64,
    /// Unix seconds until which it is not taken again.
    pub avoid_until: u64,
    /// Unix seconds before which no other host is taken.
    #[serde(default)]
    pub next_at: u64,
    /// It is left broken in MAAS on purpose.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub broken: bool,
    /// It was seen released and off (or left broken), so another may be taken.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub settled: bool,
}

impl Run<'_> {
    /// The hosts that failed so far.
    pub(super) fn failed_hosts(&self) -> Vec<FailedHost> {
        read(self.annotations.get(names::FAILED_HOSTS_ANNOTATION))
    }

    /// The failed host that is still on its way out.
    pub(super) fn outgoing(&self, system_id: &str) -> Option<FailedHost> {
        self.failed_hosts().into_iter().find(|h| h.system_id == system_id && !h.settled)
    }

    /// Seconds until the next host may be taken.
    pub(super) fn pause_before_next(&self) -> Option<u64> {
        let next_at = self.failed_hosts().iter().map(|h| h.next_at).max()?;
        (next_at > self.seen.now).then(|| next_at - self.seen.now)
    }
}

/// An annotation that cannot be read counts as none: then a host may be tried twice, but nothing is
/// stuck.
fn read(annotation: Option<&String>) -> Vec<FailedHost> {
    annotation.and_then(|t| serde_json::from_str(t).ok()).unwrap_or_default()
}

/// The hosts that failed for another machine: they are bad for all machines of the cluster.
pub(super) fn of(machine: &MaasMachine) -> Vec<FailedHost> {
    read(machine.metadata.annotations.as_ref().and_then(|a| a.get(names::FAILED_HOSTS_ANNOTATION)))
}

/// Whether a machine failed for an object that still names it.
pub(crate) fn being_replaced(object: &MaasMachine, machine: &Machine) -> bool {
    of(object).iter().any(|h| h.system_id == machine.system_id && !h.settled)
}

/// Those that are not to be taken yet, each once, as long as anybody wants.
pub(super) fn avoided(hosts: Vec<FailedHost>, now: u64) -> Vec<Avoided> {
    let mut list: BTreeMap<String, Avoided> = BTreeMap::new();
    for host in hosts.into_iter().filter(|h| h.avoid_until > now) {
        let entry = Avoided {
            system_id: host.system_id.clone(),
            reason: host.reason,
            until: host.avoid_until,
        };
        let known = list.get(&host.system_id).map_or(0, |a| a.until);
        if entry.until > known {
            list.insert(host.system_id, entry);
        }
    }
    list.into_values().collect()
}

/// The annotation's text.
pub(super) fn annotation(hosts: &[FailedHost]) -> Option<String> {
    serde_json::to_string(hosts).ok()
}
