use capmaas_api::{MaasMachine, names};
use serde::{Deserialize, Serialize};

use super::failed_hosts::{self, FailedHost};
use crate::policy::Peer;
use crate::provider_id;

/// What the machines of a cluster need to know of one another.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Sibling {
    /// Name of the `MaasMachine`.
    pub name: String,
    /// Where it runs, once it has a host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<Peer>,
    /// The hosts that failed for it: they are bad for all machines of the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedHost>,
}

impl Sibling {
    /// What the others need to know of this one.
    pub fn of(object: &MaasMachine) -> Self {
        Self {
            name: object.metadata.name.clone().unwrap_or_default(),
            peer: peer(object),
            failed: failed_hosts::of(object),
        }
    }
}

fn peer(object: &MaasMachine) -> Option<Peer> {
    let id = provider_id::system_id(object.spec.provider_id.as_deref()?)?;
    let labels = object.metadata.labels.as_ref();
    let control_plane = labels.is_some_and(|l| l.contains_key(names::CONTROL_PLANE_LABEL));
    let in_id = object.spec.provider_id.as_deref().and_then(|p| p.rsplit('/').nth(1));
    let zone = object.status.as_ref().and_then(|s| s.failure_domain.as_deref()).or(in_id);
    Some(Peer {
        machine: object.metadata.name.clone().unwrap_or_default(),
        role: if control_plane { "control-plane" } else { "worker" }.into(),
        system_id: id.to_owned(),
        zone: zone.unwrap_or_default().to_owned(),
        pool: String::new(),
        vm_host: None,
    })
}
