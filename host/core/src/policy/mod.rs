//! The three questions, their answers, and what the host allows of an answer.
//!
//! The types mirror the WIT package `capmaas:policy`. A policy can only narrow what the user
//! wanted, and never names a machine that was not offered.

mod allocation;
pub(crate) mod attributes;
mod compare;
pub(crate) mod decisions;
mod failure;
mod naming;
mod panel;
mod status;

use serde::{Deserialize, Serialize};

use crate::text::bounded;

pub use allocation::{
    AllocateConstraints, AllocationRequest, Avoided, Candidate, Constraints, Peer, Ranking,
    Rejection, Shortlisting, candidates, choose, narrowed,
};
pub use compare::{Comparison, Proposal};
pub use failure::{Action, Failure, Replacement, Stage, allowed};
pub(crate) use naming::is_dns_name;
pub use naming::{Name, NameRequest, fqdn};
pub use panel::{Panel, Seat, Standing, State};
pub use status::{Gate, Look, revision, status};

/// Key and value pairs, sorted by key.
pub type Attributes = Vec<(String, String)>;

/// What every question carries.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Context {
    /// Seed for ties; the same for every attempt and replay of one decision.
    pub decision_id: String,
    /// Unix seconds of the observation.
    pub now: u64,
    /// Namespace of the cluster.
    pub namespace: String,
    /// Name of the `Cluster`.
    pub cluster: String,
    /// Growth goes here.
    pub attributes: Attributes,
}

/// A delay a policy asks for.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Delay {
    /// Seconds.
    pub seconds: u32,
    /// Why.
    pub reason: String,
}

/// One question to one policy.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub enum Question {
    /// Which machines may be taken?
    Shortlist(AllocationRequest),
    /// In which order?
    Rank {
        /// The request that was answered with `inspect`.
        request: AllocationRequest,
        /// The machines, sorted by system id.
        candidates: Vec<Candidate>,
    },
    /// How shall the endpoint be called?
    Name(NameRequest),
    /// What to do about a failure?
    Handle(Failure),
}

/// A question, and who is to answer it.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Ask {
    /// `namespace/name` of the `MaasPolicy`; empty for the built-in policy.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub policy: String,
    /// What.
    #[serde(flatten)]
    pub question: Question,
}

/// Which policy spoke.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PolicyId {
    /// The policy's own name and version.
    pub name: String,
    /// `sha256:…` of the component.
    pub digest: String,
}

impl std::fmt::Display for PolicyId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digest = self.digest.strip_prefix("sha256:").unwrap_or(&self.digest);
        write!(f, "{} ({})", self.name, digest.get(..12).unwrap_or(digest))
    }
}

/// An answer and who gave it.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Answered {
    /// Who answered.
    pub policy: PolicyId,
    /// What.
    pub answer: Answer,
}

/// An answer.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// To [`Question::Shortlist`].
    Shortlisted(Shortlisting),
    /// To [`Question::Rank`].
    Ranked(Ranking),
    /// To [`Question::Name`]; `None` is the built-in name.
    Named(Option<Name>),
    /// To [`Question::Handle`].
    Action(Action),
}

/// No usable answer.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Refused {
    /// Who refused or failed; absent when no policy could be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyId>,
    /// `bad-config`, `failed` (the policy's own words), or the sandbox's: `timeout`, `memory`,
    /// `trap`, `bad-answer`, `unavailable`.
    pub category: String,
    /// Bounded text.
    pub message: String,
}

impl Refused {
    /// The answer does not fit the question.
    pub fn unusable(message: &str) -> Self {
        Self { policy: None, category: "bad-answer".into(), message: bounded(message, 300) }
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.policy {
            Some(policy) => write!(f, "policy {policy} gave no answer ({}", self.category)?,
            None => write!(f, "no policy answered ({}", self.category)?,
        }
        write!(f, "): {}", self.message)
    }
}
