//! Who is asked: the policies of a cluster, in order, as they stood when the reconcile began.

use capmaas_api::{ClusterPolicies, OnFailure, PolicyKind, PolicyMode};
use serde::{Deserialize, Serialize};

use super::PolicyId;

/// A policy that may be asked.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Seat {
    /// `namespace/name` of the `MaasPolicy`; empty for the built-in policy.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub policy: String,
    /// What is asked, if it is loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<PolicyId>,
    /// Asked beside the others, and not obeyed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shadow: bool,
    /// Without an answer the default takes its place; otherwise nothing is done until there is one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub use_default: bool,
    /// Why it cannot be asked now, for the person who looks at the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
    /// It is being loaded for the first time: whatever happens without an answer, it does not happen yet.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub loading: bool,
}

/// The policies of one cluster. Empty lists are the built-in policies.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Panel {
    /// Which machine to take, in the order in which they are asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allocation: Vec<Seat>,
    /// How to name the endpoint: at most one that is obeyed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dns_naming: Vec<Seat>,
    /// What to do when something fails: at most one that is obeyed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failure_handling: Vec<Seat>,
}

/// A `MaasPolicy` as it stands.
#[derive(Clone, Debug)]
pub struct Standing {
    /// What it decides; `None` while nobody knows.
    pub kind: Option<PolicyKind>,
    /// Whether it is obeyed.
    pub mode: PolicyMode,
    /// What is done without its answer, if the object says so.
    pub on_failure: Option<OnFailure>,
    /// Not asked at all.
    pub suspended: bool,
    /// What is loaded, or why nothing can be asked.
    pub state: State,
}

/// Whether a policy can be asked.
#[derive(Clone, Debug)]
pub enum State {
    /// It can.
    Loaded(PolicyId),
    /// Not yet: nothing was tried before.
    Loading,
    /// No, for this reason.
    Unavailable(String),
}

impl Standing {
    /// The objects have not been listed yet.
    pub fn unseen() -> Self {
        let (mode, state) = (PolicyMode::Enforce, State::Loading);
        Self { kind: None, mode, on_failure: None, suspended: false, state }
    }
}

impl Panel {
    /// Only the built-in policies.
    pub fn is_built_in(&self) -> bool {
        *self == Self::default()
    }

    /// The panel of a cluster: what it names in its own namespace, and for the kinds for which it names nothing the
    /// controller's defaults. `standing` shows a policy by namespace and name, if there is one.
    pub fn of(
        own: (&str, Option<&ClusterPolicies>),
        defaults: (&str, &ClusterPolicies),
        standing: impl Fn(&str, &str) -> Option<Standing>,
    ) -> Self {
        let none = ClusterPolicies::default();
        let (namespace, wanted) = (own.0, own.1.unwrap_or(&none));
        let seats = |kind, named: fn(&ClusterPolicies) -> Vec<&String>| {
            let (from, names) = match named(wanted) {
                own if !own.is_empty() => (namespace, own),
                _ => (defaults.0, named(defaults.1)),
            };
            let obeyed = names.into_iter().map(|name| (from, name, false));
            let beside = [(namespace, &wanted.shadow), (defaults.0, &defaults.1.shadow)];
            let beside = beside
                .into_iter()
                .flat_map(|(from, names)| names.iter().map(move |name| (from, name, true)));
            let seats = obeyed.chain(beside).filter_map(|(from, name, shadow)| {
                seat(kind, &format!("{from}/{name}"), standing(from, name), shadow)
            });
            // Whoever is named twice is asked once.
            let mut once: Vec<Seat> = Vec::new();
            for seat in seats {
                if !once.iter().any(|s| s.policy == seat.policy) {
                    once.push(seat);
                }
            }
            once
        };
        Self {
            allocation: seats(PolicyKind::Allocation, |p| p.allocation.iter().collect()),
            dns_naming: seats(PolicyKind::DnsNaming, |p| p.dns_naming.iter().collect()),
            failure_handling: seats(PolicyKind::FailureHandling, |p| {
                p.failure_handling.iter().collect()
            }),
        }
    }

    /// The policies of a kind that are obeyed, in order; the built-in one if there is none.
    pub(crate) fn obeyed(seats: &[Seat]) -> Vec<Seat> {
        let obeyed: Vec<Seat> = seats.iter().filter(|s| !s.shadow).cloned().collect();
        if obeyed.is_empty() { vec![Seat::default()] } else { obeyed }
    }

    /// The policies of a kind that are asked beside them and can be.
    pub(crate) fn shadows(seats: &[Seat]) -> impl Iterator<Item = Seat> {
        seats.iter().filter(|s| s.shadow && s.unavailable.is_none() && !s.loading).cloned()
    }
}

impl Seat {
    /// What it is called: the object's name, or that it is the built-in one.
    pub fn called(&self) -> &str {
        if self.policy.is_empty() { "built-in" } else { &self.policy }
    }
}

/// The seat of one named policy; `None` when it is not to be asked for this kind.
fn seat(kind: PolicyKind, policy: &str, standing: Option<Standing>, beside: bool) -> Option<Seat> {
    let policy = policy.to_owned();
    let Some(standing) = standing else {
        // What kind a missing one in the shadow list was meant to be, nobody knows, and nobody misses it.
        let why = format!("there is no MaasPolicy {policy}: create it, or correct spec.policies");
        // A name is for the life of the cluster, and a machine costs money: better to wait than to guess.
        let use_default = kind == PolicyKind::FailureHandling;
        let unavailable = Some(why);
        return (!beside).then(|| Seat { policy, use_default, unavailable, ..Seat::default() });
    };
    if standing.suspended || (beside && standing.kind != Some(kind)) {
        return None;
    }
    let use_default = match standing.on_failure {
        Some(OnFailure::Fail) => kind == PolicyKind::FailureHandling,
        Some(OnFailure::UseDefault) => true,
        None => kind != PolicyKind::Allocation,
    };
    let shadow = beside || standing.mode == PolicyMode::Shadow;
    if let Some(other) = standing.kind.filter(|its| *its != kind) {
        let unavailable = Some(format!("MaasPolicy {policy} is of another kind ({other:?})"));
        return Some(Seat { policy, shadow, use_default, unavailable, ..Seat::default() });
    }
    let (id, unavailable, loading) = match standing.state {
        State::Loaded(id) => (Some(id), None, false),
        State::Loading => (None, None, true),
        State::Unavailable(why) => (None, Some(why), false),
    };
    Some(Seat { policy, id, shadow, use_default, unavailable, loading })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(kind: PolicyKind, mode: PolicyMode) -> Standing {
        let id = PolicyId { name: "p 1".into(), digest: "sha256:00".into() };
        Standing {
            kind: Some(kind),
            mode,
            on_failure: None,
            suspended: false,
            state: State::Loaded(id),
        }
    }

    fn named(allocation: &[&str]) -> ClusterPolicies {
        let allocation = allocation.iter().map(|s| (*s).to_owned()).collect();
        ClusterPolicies { allocation, ..ClusterPolicies::default() }
    }

    fn panel(own: &ClusterPolicies, defaults: &ClusterPolicies) -> Panel {
        Panel::of(("team", Some(own)), ("system", defaults), |namespace, name| {
            let kind = PolicyKind::Allocation;
            match name {
                "live" | "other" => Some(standing(kind, PolicyMode::Enforce)),
                "trial" => Some(standing(kind, PolicyMode::Shadow)),
                "naming" => Some(standing(PolicyKind::DnsNaming, PolicyMode::Enforce)),
                "resting" => {
                    Some(Standing { suspended: true, ..standing(kind, PolicyMode::Enforce) })
                }
                "of-system" if namespace == "system" => Some(standing(kind, PolicyMode::Enforce)),
                _ => None,
            }
        })
    }

    fn called(seats: &[Seat]) -> Vec<&str> {
        seats.iter().map(Seat::called).collect()
    }

    #[test]
    fn a_cluster_that_names_nothing_follows_the_controllers_defaults() {
        assert!(panel(&named(&[]), &named(&[])).is_built_in());
        let by_default = panel(&named(&[]), &named(&["of-system"]));
        assert_eq!(called(&by_default.allocation), ["system/of-system"]);
        let own = panel(&named(&["live", "other"]), &named(&["of-system"]));
        assert_eq!(called(&own.allocation), ["team/live", "team/other"]);
        assert!(own.dns_naming.is_empty());
    }

    #[test]
    fn one_in_shadow_stands_beside_the_built_in_policy_and_one_suspended_is_not_there() {
        let panel = panel(&named(&["trial", "resting"]), &named(&[]));
        assert_eq!(called(&panel.allocation), ["team/trial"]);
        assert_eq!(called(&Panel::obeyed(&panel.allocation)), ["built-in"]);
        assert_eq!(Panel::shadows(&panel.allocation).count(), 1);
    }

    #[test]
    fn the_shadow_list_holds_policies_of_any_kind_and_obeys_none() {
        let shadow = ["other", "naming", "missing"].map(str::to_owned).to_vec();
        let panel = panel(&ClusterPolicies { shadow, ..named(&["live"]) }, &named(&[]));
        assert_eq!(called(&panel.allocation), ["team/live", "team/other"]);
        assert_eq!(called(&Panel::obeyed(&panel.allocation)), ["team/live"]);
        assert_eq!(called(&panel.dns_naming), ["team/naming"]);
        assert!(panel.dns_naming[0].shadow && panel.failure_handling.is_empty());
    }

    #[test]
    fn what_is_missing_or_of_another_kind_says_so() {
        let panel = panel(&named(&["missing", "naming"]), &named(&[]));
        let why: Vec<_> = panel.allocation.iter().map(|s| s.unavailable.clone().unwrap()).collect();
        assert!(why[0].contains("no MaasPolicy team/missing"), "{why:?}");
        assert!(why[1].contains("team/naming is of another kind (DnsNaming)"), "{why:?}");
        assert!(panel.allocation.iter().all(|s| !s.shadow));
        assert!(!panel.allocation[0].use_default);
    }
}
