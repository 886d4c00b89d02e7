use serde::{Deserialize, Serialize};

use super::{Attributes, Context, Delay};

/// Where a failure happened.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// MAAS gave no machine.
    #[default]
    Allocate,
    /// A machine is held and could not be made ready for, or started on, its deployment.
    Prepare,
    /// The deployment failed or took too long.
    Deploy,
    /// A deployed machine could not be powered on.
    Power,
    /// A machine could not be released.
    Release,
}

impl Stage {
    /// The word in the policy contract.
    pub fn word(self) -> &'static str {
        match self {
            Self::Allocate => "allocate",
            Self::Prepare => "prepare",
            Self::Deploy => "deploy",
            Self::Power => "power",
            Self::Release => "release",
        }
    }
}

/// A failure to be dealt with.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Failure {
    /// Cluster, time, seed.
    pub context: Context,
    /// Name of the `MaasMachine`.
    pub machine: String,
    /// `control-plane` or `worker`.
    pub role: String,
    /// Where it happened.
    pub stage: Stage,
    /// `timeout`, `no-capacity`, `rejected`, `machine-failed` or `unreachable`.
    pub category: String,
    /// MAAS's words.
    pub message: String,
    /// Newest ERROR events of the machine.
    pub maas_events: Vec<String>,
    /// The machine, if one is held.
    pub system_id: Option<String>,
    /// Its zone.
    pub zone: Option<String>,
    /// Unix seconds.
    pub first_seen: u64,
    /// How often in a row, this one included.
    pub occurrences: u32,
    /// Hosts already replaced for this `MaasMachine`.
    pub replacements: u32,
    /// Growth goes here.
    pub attributes: Attributes,
}

/// How to replace a host.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Replacement {
    /// Before the next host is taken.
    pub delay: Delay,
    /// How long the failed host is not offered again, at most a day; `None` leaves it to the host.
    pub avoid_seconds: Option<u32>,
}

/// What to do.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// The host's own default.
    UseDefault,
    /// The failed stage again, on the same machine.
    Retry(Delay),
    /// Release, then take another.
    ReleaseAndReplace(Replacement),
    /// Leave the machine broken in MAAS for its operators, then take another.
    MarkBrokenAndReplace(Replacement),
    /// Off, then on.
    PowerCycle(Delay),
    /// Stop; the machine stays held.
    GiveUp(String),
}

impl Action {
    /// The same within these limits, and what was too long, in words.
    pub fn cut(mut self, longest_delay: u32, longest_avoid: u32) -> (Self, Vec<String>) {
        let (delay, avoid) = match &mut self {
            Self::Retry(delay) | Self::PowerCycle(delay) => (Some(delay), None),
            Self::ReleaseAndReplace(how) | Self::MarkBrokenAndReplace(how) => {
                (Some(&mut how.delay), how.avoid_seconds.as_mut())
            }
            Self::UseDefault | Self::GiveUp(_) => (None, None),
        };
        let delay = delay.map(|d| ("delay", &mut d.seconds, longest_delay));
        let avoid = avoid.map(|seconds| ("avoidance", seconds, longest_avoid));
        let mut cuts = Vec::new();
        for (what, seconds, longest) in delay.into_iter().chain(avoid) {
            if *seconds > longest {
                cuts.push(format!("{what} cut from {seconds} s to {longest} s"));
                *seconds = longest;
            }
        }
        (self, cuts)
    }

    /// Whether another action does the same, whatever the reasons it gives.
    pub fn does_what(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Retry(a), Self::Retry(b)) | (Self::PowerCycle(a), Self::PowerCycle(b)) => {
                a.seconds == b.seconds
            }
            (Self::ReleaseAndReplace(a), Self::ReleaseAndReplace(b))
            | (Self::MarkBrokenAndReplace(a), Self::MarkBrokenAndReplace(b)) => {
                a.delay.seconds == b.delay.seconds && a.avoid_seconds == b.avoid_seconds
            }
            (Self::GiveUp(_), Self::GiveUp(_)) | (Self::UseDefault, Self::UseDefault) => true,
            _ => false,
        }
    }

    /// In a few words, for events and status.
    pub fn describe(&self) -> String {
        match self {
            Self::UseDefault => "use the default".into(),
            Self::Retry(d) => format!("retry in {} s: {}", d.seconds, d.reason),
            Self::ReleaseAndReplace(r) => {
                format!("release and replace in {} s: {}", r.delay.seconds, r.delay.reason)
            }
            Self::MarkBrokenAndReplace(r) => {
                format!("mark broken and replace in {} s: {}", r.delay.seconds, r.delay.reason)
            }
            Self::PowerCycle(d) => format!("power-cycle in {} s: {}", d.seconds, d.reason),
            Self::GiveUp(reason) => format!("give up: {reason}"),
        }
    }
}

/// Whether a stage allows an action. The table:
///
/// | stage | retry | release-and-replace, mark-broken-and-replace | power-cycle | give-up |
/// |---|---|---|---|---|
/// | allocate | yes | no machine is held | no | yes |
/// | prepare | yes | before provisioned | no | yes |
/// | deploy | MAAS cannot deploy it again | before provisioned | no | yes |
/// | power | yes | before provisioned | yes | yes |
/// | release | yes | it is being released | no | it would leak the machine |
///
/// `replaceable` is false once the machine was provisioned, while it is deleted, and when a
/// MachineHealthCheck has marked it: then a policy may act by power alone.
pub fn allowed(stage: Stage, action: &Action, replaceable: bool) -> bool {
    match action {
        Action::UseDefault => true,
        Action::Retry(_) => stage != Stage::Deploy,
        Action::ReleaseAndReplace(_) | Action::MarkBrokenAndReplace(_) => {
            replaceable && matches!(stage, Stage::Prepare | Stage::Deploy | Stage::Power)
        }
        Action::PowerCycle(_) => stage == Stage::Power,
        Action::GiveUp(_) => stage != Stage::Release,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_policy_wants_for_too_long_is_cut_and_told() {
        let delay = |seconds| Delay { seconds, reason: "why".into() };
        let replace = |seconds, avoid_seconds| {
            Action::ReleaseAndReplace(Replacement { delay: delay(seconds), avoid_seconds })
        };
        let (cut, said) = replace(7000, Some(u32::MAX)).cut(3600, 86_400);
        assert_eq!(cut, replace(3600, Some(86_400)));
        let avoidance = "avoidance cut from 4294967295 s to 86400 s";
        assert_eq!(said, ["delay cut from 7000 s to 3600 s", avoidance]);
        for fits in [replace(3600, Some(86_400)), replace(0, None), Action::PowerCycle(delay(3600))]
        {
            assert_eq!(fits.clone().cut(3600, 86_400), (fits, vec![]));
        }
    }
}
