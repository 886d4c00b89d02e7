//! What MAAS shows, as far as we use it. Every field tolerates absence.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The state of a MAAS machine, by the labels of `status_name` (MAAS 3.5 – 3.7).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are MAAS's own
pub enum Status {
    New,
    Commissioning,
    FailedCommissioning,
    Missing,
    Ready,
    Reserved,
    Deployed,
    Retired,
    Broken,
    Deploying,
    Allocated,
    FailedDeployment,
    Releasing,
    ReleasingFailed,
    DiskErasing,
    FailedDiskErasing,
    RescueMode,
    EnteringRescueMode,
    FailedToEnterRescueMode,
    ExitingRescueMode,
    FailedToExitRescueMode,
    Testing,
    FailedTesting,
    /// A state that this version of capmaas does not know.
    Other(String),
}

const LABELS: [(Status, &str); 23] = [
    (Status::New, "New"),
    (Status::Commissioning, "Commissioning"),
    (Status::FailedCommissioning, "Failed commissioning"),
    (Status::Missing, "Missing"),
    (Status::Ready, "Ready"),
    (Status::Reserved, "Reserved"),
    (Status::Deployed, "Deployed"),
    (Status::Retired, "Retired"),
    (Status::Broken, "Broken"),
    (Status::Deploying, "Deploying"),
    (Status::Allocated, "Allocated"),
    (Status::FailedDeployment, "Failed deployment"),
    (Status::Releasing, "Releasing"),
    (Status::ReleasingFailed, "Releasing failed"),
    (Status::DiskErasing, "Disk erasing"),
    (Status::FailedDiskErasing, "Failed disk erasing"),
    (Status::RescueMode, "Rescue mode"),
    (Status::EnteringRescueMode, "Entering rescue mode"),
    (Status::FailedToEnterRescueMode, "Failed to enter rescue mode"),
    (Status::ExitingRescueMode, "Exiting rescue mode"),
    (Status::FailedToExitRescueMode, "Failed to exit rescue mode"),
    (Status::Testing, "Testing"),
    (Status::FailedTesting, "Failed testing"),
];

impl Status {
    /// All states MAAS has, in the order of its enumeration.
    pub fn all() -> impl Iterator<Item = Status> {
        LABELS.iter().map(|(status, _)| status.clone())
    }

    /// The state with this label.
    pub fn from_label(label: &str) -> Self {
        let known = LABELS.iter().find(|(_, l)| *l == label);
        known.map_or_else(|| Self::Other(label.to_owned()), |(status, _)| status.clone())
    }

    /// MAAS's label.
    pub fn label(&self) -> &str {
        match self {
            Self::Other(label) => label,
            known => LABELS.iter().find(|(s, _)| s == known).map_or("", |(_, l)| l),
        }
    }

    /// Whether `op=release` starts a release in this state (MAAS's `RELEASABLE_STATUSES`).
    pub fn releasable(&self) -> bool {
        matches!(
            self,
            Self::Allocated
                | Self::Reserved
                | Self::Broken
                | Self::Deploying
                | Self::Deployed
                | Self::FailedDeployment
                | Self::FailedDiskErasing
                | Self::ReleasingFailed
        )
    }

    /// Whether the machine is on its way back to the pool by itself.
    pub fn releasing(&self) -> bool {
        matches!(self, Self::Releasing | Self::DiskErasing)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.label())
    }
}

impl<'de> Deserialize<'de> for Status {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from_label(&String::deserialize(deserializer)?))
    }
}

/// The power state that MAAS has cached; refreshed by its racks about every five minutes.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[serde(rename_all = "lowercase")]
pub enum Power {
    /// On.
    On,
    /// Off.
    Off,
    /// The BMC did not answer properly.
    Error,
    /// Not known: manual power, or never queried.
    #[default]
    #[serde(other)]
    Unknown,
}

/// A MAAS machine.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct Machine {
    /// Six lower-case characters.
    pub system_id: String,
    /// Short host name.
    pub hostname: String,
    /// Host name with domain.
    pub fqdn: String,
    /// State.
    pub status: Status,
    /// MAAS's newest event text.
    pub status_message: String,
    /// Why it failed; survives release and redeploy, so never a sign of failure by itself.
    pub error_description: String,
    /// User name of the owner.
    pub owner: Option<String>,
    /// Workload annotations.
    pub annotations: BTreeMap<String, String>,
    /// Zone name.
    pub zone: String,
    /// Pool name.
    pub pool: String,
    /// Tags.
    pub tags: Vec<String>,
    /// Cached power state.
    pub power: Power,
    /// E.g. `amd64/generic`.
    pub architecture: String,
    /// Cores.
    pub cpu_count: u32,
    /// MiB.
    pub memory: u32,
    /// MB (10⁶ bytes), all disks together.
    pub storage: u64,
    /// Bytes; `None` is the image's own choice.
    pub swap_size: Option<i64>,
    /// Addresses in MAAS's order; AUTO addresses appear only after a deployment began.
    pub ip_addresses: Vec<String>,
    /// Locked against every change.
    pub locked: bool,
    /// Deployed to memory.
    pub ephemeral: bool,
    /// VM host the machine lives on.
    pub vm_host: Option<String>,
    /// What it is made of.
    #[serde(default, skip_serializing_if = "Hardware::is_unknown")]
    pub hardware: Hardware,
}

/// What MAAS knows of a machine beyond its size, in its own words; what it does not know is empty or 0.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(default)]
pub struct Hardware {
    /// E.g. `AMD EPYC 9354P 32-Core Processor`.
    pub cpu_model: String,
    /// MHz.
    pub cpu_speed: u32,
    /// E.g. `Dell Inc.`.
    pub system_vendor: String,
    /// E.g. `PowerEdge R7615`.
    pub system_product: String,
    /// How many.
    pub numa_nodes: u32,
    /// E.g. `ipmi`.
    pub power_type: String,
    /// `uefi` or `pxe`.
    pub bios_boot_method: String,
}

impl Hardware {
    fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// A MAAS user.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct User {
    /// Name, as machines show it in `owner`.
    pub name: String,
    /// Administrator.
    pub admin: bool,
}

/// An image.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// `ubuntu/noble`, or a bare name for an uploaded `custom/…` image.
    pub name: String,
    /// E.g. `amd64/ga-24.04`.
    pub architecture: String,
}

/// An entry of MAAS's event log.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct MaasEvent {
    /// E.g. `Marking node failed`.
    pub kind: String,
    /// What happened.
    pub description: String,
}

/// A DNS record with addresses.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct DnsResource {
    /// Id.
    pub id: u64,
    /// Name.
    pub fqdn: String,
    /// Seconds.
    pub ttl: Option<u32>,
    /// Addresses. `ip: null` rows (released machines) are left out.
    pub addresses: Vec<DnsAddress>,
}

/// An address of a DNS record.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct DnsAddress {
    /// The address.
    pub ip: String,
    /// MAAS reserved it for the record because it did not know it (`alloc_type` 4); such a row
    /// stays when the address leaves the record.
    pub reserved: bool,
}

impl DnsResource {
    /// The addresses alone, sorted.
    pub fn ips(&self) -> Vec<String> {
        let mut ips: Vec<_> = self.addresses.iter().map(|a| a.ip.clone()).collect();
        ips.sort();
        ips
    }
}

/// An address that our user has reserved.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ReservedAddress {
    /// The address.
    pub ip: String,
}

/// A version that can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl Version {
    /// Reads `3.7.3`, `3.6.1-rc1`, `3.5`; anything else is `None`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.').map(|p| {
            let digits = p.find(|c: char| !c.is_ascii_digit()).map_or(p, |end| &p[..end]);
            digits.parse::<u32>().ok()
        });
        let major = parts.next()??;
        let minor = parts.next()??;
        Some(Self(major, minor, parts.next().flatten().unwrap_or(0)))
    }

    /// Whether deploying to memory is sound: MAAS 3.5.10, 3.6.3, 3.7.1 or newer.
    pub fn deploys_to_memory(self) -> bool {
        match (self.0, self.1) {
            (3, 5) => self.2 >= 10,
            (3, 6) => self.2 >= 3,
            (3, 7) => self.2 >= 1,
            newer => newer > (3, 7),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_names_its_own_state() {
        for (status, label) in LABELS {
            assert_eq!(Status::from_label(label), status);
            assert_eq!(status.label(), label);
        }
        assert_eq!(Status::from_label("Polishing"), Status::Other("Polishing".into()));
    }

    #[test]
    fn memory_deployments_need_a_recent_maas() {
        let able = ["3.5.10", "3.6.3", "3.7.1", "3.7.3", "3.8.0", "4.0"];
        let unable = ["3.4.9", "3.5.9", "3.6.2", "3.7.0", "2.9.2"];
        for text in able {
            assert!(Version::parse(text).unwrap().deploys_to_memory(), "{text}");
        }
        for text in unable {
            assert!(!Version::parse(text).unwrap().deploys_to_memory(), "{text}");
        }
        assert_eq!(Version::parse("None"), None);
    }
}
