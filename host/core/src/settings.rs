use serde::{Deserialize, Serialize};

/// What the operator configured, as far as decisions depend on it. All durations in seconds.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    /// How long a deployment may take, counted from the deploy call. MAAS itself gives up after 60
    /// minutes (twice its `node_timeout`), so the default of 70 minutes lets MAAS speak first.
    pub deploy_timeout: u64,
    /// How many hosts may be tried in place of a failed one, whatever a policy answers.
    pub max_replacements: u32,
    /// How often a host is looked at while MAAS works on it.
    pub poll: u64,
    /// How often a settled host and a settled DNS record are looked at.
    pub drift: u64,
    /// When a host that was powered on is looked at again.
    pub power_recheck: u64,
    /// How long an allocate whose reply never came may still be running inside MAAS, counted from
    /// the beginning of the reconcile that sent it: our own time-out (180 s), and as long again for a
    /// MAAS that goes on after we have hung up.
    pub in_flight: u64,
    /// How far apart two readings of "off" must be to take an address out of the record.
    pub power_confirm: u64,
    /// Longest delay a policy may ask for.
    pub max_delay: u64,
    /// A domain that naming policies may use besides the cluster's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_domain: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            deploy_timeout: 70 * 60,
            max_replacements: 5,
            poll: 15,
            drift: 240,
            power_recheck: 60,
            in_flight: 360,
            power_confirm: 30,
            max_delay: 3600,
            dns_domain: None,
        }
    }
}
