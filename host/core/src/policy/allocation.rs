use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Attributes, Context, Delay, attributes};
use crate::maas::Machine;
use crate::text::bounded;

/// What a machine must be. Empty lists restrict nothing; different lists are ANDed.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Constraints {
    /// Cores.
    pub min_cpu_cores: u32,
    /// MiB.
    pub min_memory_mib: u32,
    /// Alternatives.
    pub zones: Vec<String>,
    /// Alternatives.
    pub pools: Vec<String>,
    /// All of them.
    pub tags: Vec<String>,
    /// None of them.
    pub not_zones: Vec<String>,
    /// None of them.
    pub not_pools: Vec<String>,
    /// None of them.
    pub not_tags: Vec<String>,
}

impl Constraints {
    /// In a few words, for status and events.
    pub fn describe(&self) -> String {
        let mut parts = Vec::new();
        if self.min_cpu_cores > 0 {
            parts.push(format!("at least {} cores", self.min_cpu_cores));
        }
        if self.min_memory_mib > 0 {
            parts.push(format!("at least {} MiB", self.min_memory_mib));
        }
        let lists = [
            ("zone", &self.zones),
            ("pool", &self.pools),
            ("tag", &self.tags),
            ("not zone", &self.not_zones),
            ("not pool", &self.not_pools),
            ("not tag", &self.not_tags),
        ];
        let named = lists.into_iter().filter(|(_, names)| !names.is_empty());
        parts.extend(named.map(|(what, names)| format!("{what} {}", names.join(", "))));
        match parts.is_empty() {
            true => "whatever fits".into(),
            false => bounded(&parts.join("; "), 300),
        }
    }
}

/// A machine the cluster already holds.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Peer {
    /// Name of the `MaasMachine`.
    pub machine: String,
    /// `control-plane` or `worker`.
    pub role: String,
    /// MAAS system id.
    pub system_id: String,
    /// Zone name.
    pub zone: String,
    /// Pool name; empty when not known.
    pub pool: String,
    /// VM host.
    pub vm_host: Option<String>,
}

/// A host that is never offered.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Avoided {
    /// MAAS system id.
    pub system_id: String,
    /// Why.
    pub reason: String,
    /// Unix seconds.
    pub until: u64,
}

/// Which machine shall be taken?
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct AllocationRequest {
    /// Cluster, time, seed.
    pub context: Context,
    /// Name of the `MaasMachine`.
    pub machine: String,
    /// `control-plane` or `worker`.
    pub role: String,
    /// Counts from 0.
    pub attempt: u32,
    /// What the user wants.
    pub wanted: Constraints,
    /// What the cluster already holds.
    pub peers: Vec<Peer>,
    /// Hosts that are never offered.
    pub avoid: Vec<Avoided>,
}

/// A machine on offer.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Candidate {
    /// MAAS system id.
    pub system_id: String,
    /// Host name.
    pub hostname: String,
    /// Zone name.
    pub zone: String,
    /// Pool name.
    pub pool: String,
    /// E.g. `amd64/generic`.
    pub architecture: String,
    /// Cores.
    pub cpu_cores: u32,
    /// MiB.
    pub memory_mib: u32,
    /// MiB.
    pub storage_mib: u32,
    /// VM host.
    pub vm_host: Option<String>,
    /// Tags.
    pub tags: Vec<String>,
    /// Growth goes here.
    pub attributes: Attributes,
}

/// Answer to the first question.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum Shortlisting {
    /// MAAS chooses, within wanted and these.
    Narrow(Constraints),
    /// List machines within wanted and these, then rank.
    Inspect(Constraints),
    /// Ask again later.
    Defer(Delay),
    /// Never, until specification, policy or configuration change.
    Reject(String),
}

/// Why a candidate is not wanted.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Rejection {
    /// Index into the candidates.
    pub index: u32,
    /// Why.
    pub reason: String,
}

/// Indices into the candidates, best first.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Ranking {
    /// Best first.
    pub order: Vec<u32>,
    /// Not wanted.
    pub rejected: Vec<Rejection>,
}

/// The parameters of `op=allocate`, or the filters of a listing.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct AllocateConstraints {
    /// Exactly this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_id: Option<String>,
    /// Cores, zones, pools and tags.
    pub constraints: Constraints,
    /// Minimum size of the disk that holds `/`, GB (10⁹ bytes).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_disk_gb: Option<u32>,
}

/// A listing is cut here; the cut is reported.
const MOST_CANDIDATES: usize = 2000;

/// The intersection of what the user wants with what a policy adds; `Err` says which part is empty.
///
/// MAAS ORs repeated zones and pools and takes the smallest repeated minimum, so nothing is ever
/// just appended.
pub fn narrowed(wanted: &Constraints, policy: &Constraints) -> Result<Constraints, String> {
    let both = |what: &str, a: &[String], b: &[String]| match (a.is_empty(), b.is_empty()) {
        (true, _) => Ok(unique(b)),
        (_, true) => Ok(unique(a)),
        _ => {
            let common: Vec<String> = a.iter().filter(|x| b.contains(x)).cloned().collect();
            let (ours, theirs) = (a.join(", "), b.join(", "));
            if common.is_empty() {
                let (ours, theirs) = (bounded(&ours, 150), bounded(&theirs, 150));
                Err(format!("the machine wants {what} {ours}, the policy allows {theirs}"))
            } else {
                Ok(unique(&common))
            }
        }
    };
    let union = |a: &[String], b: &[String]| unique(&[a, b].concat());
    let zones = both("zone", &wanted.zones, &policy.zones)?;
    let pools = both("pool", &wanted.pools, &policy.pools)?;
    let not_zones = union(&wanted.not_zones, &policy.not_zones);
    let not_pools = union(&wanted.not_pools, &policy.not_pools);
    let not_tags = union(&wanted.not_tags, &policy.not_tags);
    let tags = union(&wanted.tags, &policy.tags);
    // MAAS would only say that it has no machine.
    let excluded = |what: &str, list: &[String]| {
        Err(format!("the policy excludes {what} {}", bounded(&list.join(", "), 150)))
    };
    for (what, only, never) in [("zone", &zones, &not_zones), ("pool", &pools, &not_pools)] {
        if !only.is_empty() && only.iter().all(|o| never.contains(o)) {
            return excluded(what, only);
        }
    }
    if let Some(tag) = tags.iter().find(|t| not_tags.contains(t)) {
        return excluded("tag", std::slice::from_ref(tag));
    }
    Ok(Constraints {
        min_cpu_cores: wanted.min_cpu_cores.max(policy.min_cpu_cores),
        min_memory_mib: wanted.min_memory_mib.max(policy.min_memory_mib),
        zones,
        pools,
        tags,
        not_zones,
        not_pools,
        not_tags,
    })
}

fn unique(list: &[String]) -> Vec<String> {
    let set: BTreeSet<&String> = list.iter().collect();
    set.into_iter().cloned().collect()
}

/// The machines a policy is offered: sorted by system id, without those to avoid, capped.
///
/// `held_before` says when (Unix seconds) the cluster last held which machine. Returns the candidates and how many were
/// cut off.
pub fn candidates(
    machines: &[Machine],
    avoid: &[Avoided],
    held_before: &BTreeMap<String, u64>,
    now: u64,
) -> (Vec<Candidate>, usize) {
    let shunned = |id: &str| avoid.iter().any(|a| a.system_id == id && a.until > now);
    let mut list: Vec<Candidate> = machines
        .iter()
        .filter(|m| !shunned(&m.system_id) && !m.locked)
        .map(|m| Candidate {
            system_id: m.system_id.clone(),
            hostname: m.hostname.clone(),
            zone: m.zone.clone(),
            pool: m.pool.clone(),
            architecture: m.architecture.clone(),
            cpu_cores: m.cpu_count,
            memory_mib: m.memory,
            storage_mib: u32::try_from(m.storage.saturating_mul(1_000_000) / (1 << 20))
                .unwrap_or(u32::MAX),
            vm_host: m.vm_host.clone(),
            tags: m.tags.clone(),
            attributes: attributes::of_candidate(m, held_before.get(&m.system_id).copied()),
        })
        .collect();
    list.sort_by(|a, b| a.system_id.cmp(&b.system_id));
    let cut = list.len().saturating_sub(MOST_CANDIDATES);
    list.truncate(MOST_CANDIDATES);
    (list, cut)
}

/// The candidates in the order of a ranking, or why the ranking cannot be used.
pub fn choose<'a>(
    ranking: &Ranking,
    candidates: &'a [Candidate],
) -> Result<Vec<&'a Candidate>, String> {
    let mut seen = BTreeSet::new();
    let mut named = |index: u32, did: &str| {
        let Some(candidate) = candidates.get(index as usize) else {
            let offered = candidates.len();
            return Err(format!("it {did} candidate {index} of {offered} (they count from 0)"));
        };
        if !seen.insert(index) {
            return Err(format!("it {did} candidate {index}, which it had named before"));
        }
        Ok(candidate)
    };
    let chosen = ranking.order.iter().map(|i| named(*i, "ranked")).collect::<Result<_, _>>()?;
    for rejection in &ranking.rejected {
        named(rejection.index, "rejected")?;
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zones(list: &[&str]) -> Constraints {
        Constraints { zones: list.iter().map(|s| (*s).to_owned()).collect(), ..Default::default() }
    }

    #[test]
    fn a_policy_can_only_narrow() {
        let wanted = Constraints { min_cpu_cores: 4, min_memory_mib: 8192, ..zones(&["a", "b"]) };
        let policy = Constraints { min_cpu_cores: 2, min_memory_mib: 16384, ..zones(&["b", "c"]) };
        let both = narrowed(&wanted, &policy).unwrap();
        assert_eq!((both.min_cpu_cores, both.min_memory_mib), (4, 16384));
        assert_eq!(both.zones, ["b"]);
    }

    #[test]
    fn an_empty_intersection_means_that_nothing_fits() {
        let problem = narrowed(&zones(&["a"]), &zones(&["b"])).unwrap_err();
        assert_eq!(problem, "the machine wants zone a, the policy allows b");
    }

    #[test]
    fn an_index_twice_or_out_of_range_is_a_bad_answer() {
        let ranking = |order: &[u32]| Ranking { order: order.to_vec(), rejected: vec![] };
        let offered = [candidate("a"), candidate("b")];
        assert!(choose(&ranking(&[0, 0]), &offered).is_err());
        assert!(choose(&ranking(&[2]), &offered).is_err());
        let rejecting = |index| Ranking {
            rejected: vec![Rejection { index, reason: "too loud".into() }],
            ..ranking(&[1])
        };
        assert!(choose(&rejecting(0), &offered).is_ok());
        assert!(choose(&rejecting(1), &offered).is_err(), "ranked and rejected");
        assert!(choose(&rejecting(2), &offered).is_err());
        let order: Vec<_> =
            choose(&ranking(&[1, 0]), &offered).unwrap().iter().map(|c| &c.system_id).collect();
        assert_eq!(order, ["b", "a"]);
    }

    fn candidate(id: &str) -> Candidate {
        Candidate {
            system_id: id.into(),
            hostname: id.into(),
            zone: "z".into(),
            pool: "default".into(),
            architecture: "amd64/generic".into(),
            cpu_cores: 4,
            memory_mib: 8192,
            storage_mib: 1000,
            vm_host: None,
            tags: vec![],
            attributes: vec![],
        }
    }
}
