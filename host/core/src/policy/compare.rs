//! What a policy in shadow would have done, beside what was done.

use serde::{Deserialize, Serialize};

use super::{AllocateConstraints, Constraints};
use crate::maas::Machine;
use crate::text::bounded;

/// How a policy in shadow compared with the live one, in one decision.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// `namespace/name` of the `MaasPolicy`.
    pub policy: String,
    /// `allocation`, `dns-naming` or `failure-handling`.
    pub kind: String,
    /// What would have been different; `None` when nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<String>,
}

/// What an allocation policy in shadow would have had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proposal {
    /// Any machine within these.
    Within(AllocateConstraints),
    /// This machine first.
    Best {
        /// MAAS system id.
        system_id: String,
        /// Host name.
        hostname: String,
    },
    /// None, for this reason.
    None(String),
}

impl Proposal {
    /// What would have been different from taking this machine.
    pub fn beside_taking(&self, taken: &Machine) -> Option<String> {
        let took = format!("{} ({}) was taken", taken.hostname, taken.system_id);
        match self {
            Self::Within(within) => {
                let why = outside(taken, &within.constraints)?;
                Some(format!("it would not have had it: {why}; {took}"))
            }
            Self::Best { system_id, .. } if *system_id == taken.system_id => None,
            Self::Best { system_id, hostname } => {
                Some(format!("it would have taken {hostname} ({system_id}); {took}"))
            }
            Self::None(why) => {
                Some(format!("it would have taken none ({}); {took}", bounded(why, 200)))
            }
        }
    }

    /// What would have been different from taking none.
    pub fn beside_none(&self, why: &str) -> Option<String> {
        let instead = match self {
            Self::None(_) => return None,
            Self::Within(_) => "it would have let MAAS choose".to_owned(),
            Self::Best { system_id, hostname } => {
                format!("it would have taken {hostname} ({system_id})")
            }
        };
        Some(format!("{instead}; none was taken: {}", bounded(why, 200)))
    }
}

/// The first constraint that a machine does not keep.
fn outside(machine: &Machine, c: &Constraints) -> Option<String> {
    let among = |list: &[String], value: &String| list.is_empty() || list.contains(value);
    if machine.cpu_count < c.min_cpu_cores {
        return Some(format!("fewer than {} cores", c.min_cpu_cores));
    }
    if machine.memory < c.min_memory_mib {
        return Some(format!("less than {} MiB of memory", c.min_memory_mib));
    }
    if !among(&c.zones, &machine.zone) || c.not_zones.contains(&machine.zone) {
        return Some(format!("zone {}", machine.zone));
    }
    if !among(&c.pools, &machine.pool) || c.not_pools.contains(&machine.pool) {
        return Some(format!("pool {}", machine.pool));
    }
    if let Some(tag) = c.tags.iter().find(|t| !machine.tags.contains(t)) {
        return Some(format!("no tag {tag}"));
    }
    let unwanted = c.not_tags.iter().find(|t| machine.tags.contains(t))?;
    Some(format!("tag {unwanted}"))
}
