//! What the region holds at the start, as YAML.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;

/// What a simulated region holds when it starts. Every field has a default; see `inventory.yaml` for all of them in use.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inventory {
    /// DNS domains; the first is the default one.
    #[serde(default = "default_domains")]
    pub domains: Vec<String>,
    /// Zones besides `default`, which always exists.
    #[serde(default)]
    pub zones: Vec<String>,
    /// Resource pools besides `default`, which always exists.
    #[serde(default)]
    pub pools: Vec<String>,
    /// Tags that exist although no machine may have them; those of machines exist anyway.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Users; without any there are `admin`, `somebody-else` (an administrator too) and `user`.
    #[serde(default)]
    pub users: Vec<UserSpec>,
    /// Boot images; without any, `ubuntu/noble`.
    #[serde(default = "default_images")]
    pub images: Vec<Image>,
    /// Subnets; the first is the one that machines deploy on.
    #[serde(default = "default_subnets")]
    pub subnets: Vec<Subnet>,
    /// How long things take.
    #[serde(default)]
    pub timings: Timings,
    /// The machines, in the order in which MAAS lists them.
    #[serde(default)]
    pub machines: Vec<MachineSpec>,
}

/// A MAAS user with an API key.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserSpec {
    /// User name.
    pub name: String,
    /// Whether the user is an administrator.
    #[serde(default)]
    pub admin: bool,
    /// API key `consumer:token:secret`; generated from the name when absent.
    #[serde(default)]
    pub key: Option<String>,
}

/// A boot image. In YAML either a name (`ubuntu/noble`, `custom/k8s`) or a mapping.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "ImageYaml")]
pub struct Image {
    /// `os/release`, with `custom/…` for uploaded images.
    pub name: String,
    /// Architectures, such as `amd64`.
    pub architectures: Vec<String>,
    /// `root-tgz` or `squashfs` images can run in memory; MAAS 3.7 fails with 500 when others are asked to.
    pub filetype: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ImageYaml {
    Name(String),
    Full {
        name: String,
        #[serde(default)]
        architectures: Vec<String>,
        #[serde(default)]
        filetype: String,
    },
}

impl From<ImageYaml> for Image {
    fn from(yaml: ImageYaml) -> Self {
        let (name, mut architectures, mut filetype) = match yaml {
            ImageYaml::Name(name) => (name, vec![], String::new()),
            ImageYaml::Full { name, architectures, filetype } => (name, architectures, filetype),
        };
        if architectures.is_empty() {
            architectures.push("amd64".into());
        }
        if filetype.is_empty() {
            filetype = if name.starts_with("custom/") { "root-dd" } else { "squashfs" }.into();
        }
        Self { name, architectures, filetype }
    }
}

/// An IPv4 subnet.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subnet {
    /// Name.
    pub name: String,
    /// `10.20.0.0/24`.
    pub cidr: String,
    /// Gateway address.
    #[serde(default)]
    pub gateway: Option<Ipv4Addr>,
    /// DNS servers.
    #[serde(default)]
    pub dns: Vec<Ipv4Addr>,
    /// Fabric name; subnets of one fabric share a VLAN.
    #[serde(default = "default_fabric")]
    pub fabric: String,
    /// `first-last`: where deployed machines get their address from, lowest free first.
    pub auto: String,
    /// `first-last`: DHCP leases, which a machine shows while it is not deployed. Without it there are none.
    #[serde(default)]
    pub dynamic: Option<String>,
}

/// How long things take, in simulated seconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Timings {
    /// From `op=deploy` to Deployed (or to Failed deployment, at 60 %).
    pub deploy: f64,
    /// From a request to the machine being seen on.
    pub power_on: f64,
    /// From a request (also a release) to the machine being seen off.
    pub power_off: f64,
    /// Disk erasing, before the power goes off.
    pub erase: f64,
    /// MAAS's own limit for a deployment: 60 minutes since MAAS 3.6.
    pub deploy_timeout: f64,
    /// MAAS's own limit for a release's power-off: 5 minutes.
    pub release_timeout: f64,
    /// Entering and leaving rescue mode.
    pub rescue: f64,
    /// Commissioning and testing.
    pub commission: f64,
}

impl Default for Timings {
    fn default() -> Self {
        Self {
            deploy: 300.0,
            power_on: 5.0,
            power_off: 15.0,
            erase: 120.0,
            deploy_timeout: 3600.0,
            release_timeout: 300.0,
            rescue: 60.0,
            commission: 180.0,
        }
    }
}

/// A machine as it is when the region starts.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineSpec {
    /// Six characters; made from the host name when absent.
    #[serde(default)]
    pub system_id: Option<String>,
    /// Host name without domain.
    pub hostname: String,
    /// CPU threads.
    pub cores: u32,
    /// MiB.
    pub memory: u64,
    /// Size of the only disk, decimal GB.
    #[serde(default = "default_disk")]
    pub disk: u64,
    /// Such as `amd64/generic`.
    #[serde(default = "default_architecture")]
    pub architecture: String,
    /// Zone name.
    #[serde(default = "default_name")]
    pub zone: String,
    /// Pool name.
    #[serde(default = "default_name")]
    pub pool: String,
    /// Tags.
    #[serde(default)]
    pub tags: Vec<String>,
    /// `ipmi`, `redfish`, `virsh`…; MAAS cannot switch or read `manual`.
    #[serde(default = "default_power_type")]
    pub power_type: String,
    /// `on`, `off`, `unknown` or `error`.
    #[serde(default)]
    pub power: Option<String>,
    /// A status as MAAS shows it, `Ready` when absent.
    #[serde(default = "default_status")]
    pub status: String,
    /// Owner.
    #[serde(default)]
    pub owner: Option<String>,
    /// Names of further subnets that the machine has a card on (without an address of its own there).
    #[serde(default)]
    pub more_subnets: Vec<String>,
    /// MAC address of the first card; made from the position in the list when absent.
    #[serde(default)]
    pub mac: Option<String>,
    /// What commissioning has found out about it.
    #[serde(default)]
    pub hardware: HardwareSpec,
    /// What goes wrong with this machine.
    #[serde(flatten)]
    pub faults: MachineFaults,
}

/// What MAAS knows of a machine's hardware; without it MAAS says `Unknown`, as of a virtual machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HardwareSpec {
    /// Such as `AMD EPYC 9354P 32-Core Processor`.
    pub cpu_model: Option<String>,
    /// MHz.
    pub cpu_speed: u32,
    /// Such as `Dell Inc.`.
    pub system_vendor: Option<String>,
    /// Such as `PowerEdge R7615`.
    pub system_product: Option<String>,
    /// Among which cores and memory are divided.
    pub numa_nodes: u32,
    /// `uefi` or `pxe`.
    pub bios_boot_method: Option<String>,
}

impl Default for HardwareSpec {
    fn default() -> Self {
        Self {
            cpu_model: None,
            cpu_speed: 0,
            system_vendor: None,
            system_product: None,
            numa_nodes: 1,
            bios_boot_method: None,
        }
    }
}

/// What goes wrong with one machine. In YAML the fields stand directly in the machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineFaults {
    /// So many deployments fail before one succeeds.
    pub first_deploys_fail: u32,
    /// The `error_description` of such a failure.
    pub deploy_error: Option<String>,
    /// So many deployments (after the failing ones) never end until MAAS's own time-out.
    pub first_deploys_hang: u32,
    /// The BMC refuses the power-off of so many releases: 500, and back to where it was with `osystem` blank.
    pub first_releases_refused: u32,
    /// The BMC answers every request with this text: power calls 500, deployments fail.
    pub bmc_error: Option<String>,
    /// No rack controller reaches the BMC: deploy and power calls answer 500 and nothing changes.
    pub no_rack: bool,
    /// The machine has no link to any network: deploy is refused with 400.
    pub no_network: bool,
    /// A release ends in New instead of Ready (its last commissioning did not pass).
    pub new_after_release: bool,
    /// A release never gets the machine off and ends as Releasing failed.
    pub release_hangs: bool,
    /// Every release erases the disks first, as if it had been asked to.
    pub erase_on_release: bool,
    /// Such an erase fails (Failed disk erasing).
    pub erase_fails: bool,
}

fn default_domains() -> Vec<String> {
    vec!["maas".into()]
}
fn default_images() -> Vec<Image> {
    vec![ImageYaml::Name("ubuntu/noble".into()).into()]
}
fn default_subnets() -> Vec<Subnet> {
    vec![Subnet {
        name: "rack-net".into(),
        cidr: "10.20.0.0/24".into(),
        gateway: Some(Ipv4Addr::new(10, 20, 0, 1)),
        dns: vec![Ipv4Addr::new(10, 20, 0, 2)],
        fabric: default_fabric(),
        auto: "10.20.0.20-10.20.0.199".into(),
        dynamic: Some("10.20.0.200-10.20.0.254".into()),
    }]
}
fn default_fabric() -> String {
    "fabric-0".into()
}
fn default_disk() -> u64 {
    500
}
fn default_architecture() -> String {
    "amd64/generic".into()
}
fn default_name() -> String {
    "default".into()
}
fn default_power_type() -> String {
    "ipmi".into()
}
fn default_status() -> String {
    "Ready".into()
}

impl Default for Inventory {
    /// The rack of `inventory.yaml`, which is also what the binary serves when it is given no file.
    fn default() -> Self {
        Self::from_yaml(include_str!("../inventory.yaml"))
            .expect("the embedded inventory is valid; a test reads it")
    }
}

impl Inventory {
    /// Reads an inventory; an error names the field, such as `machines[3].zone`.
    pub fn from_yaml(text: &str) -> Result<Self> {
        let inventory: Inventory =
            serde_yaml_ng::from_str(text).context("the inventory cannot be read")?;
        inventory.check()?;
        Ok(inventory)
    }

    fn check(&self) -> Result<()> {
        if self.domains.is_empty() {
            bail!("domains: at least one is needed");
        }
        if self.subnets.is_empty() {
            bail!("subnets: at least one is needed");
        }
        for (i, subnet) in self.subnets.iter().enumerate() {
            crate::addresses::Cidr::parse(&subnet.cidr)
                .with_context(|| format!("subnets[{i}].cidr"))?;
            crate::addresses::parse_range(&subnet.auto)
                .with_context(|| format!("subnets[{i}].auto"))?;
            if let Some(dynamic) = &subnet.dynamic {
                crate::addresses::parse_range(dynamic)
                    .with_context(|| format!("subnets[{i}].dynamic"))?;
            }
        }
        for (i, image) in self.images.iter().enumerate() {
            if image.name.matches('/').count() != 1 {
                bail!("images[{i}]: `{}` is not of the form os/release", image.name);
            }
        }
        let mut hostnames = std::collections::BTreeSet::new();
        for (i, machine) in self.machines.iter().enumerate() {
            self.check_machine(machine)
                .with_context(|| format!("machines[{i}] ({})", machine.hostname))?;
            if !hostnames.insert(&machine.hostname) {
                bail!("machines[{i}].hostname: `{}` occurs twice", machine.hostname);
            }
        }
        Ok(())
    }

    fn check_machine(&self, machine: &MachineSpec) -> Result<()> {
        let known =
            |list: &[String], name: &str| name == "default" || list.iter().any(|x| x == name);
        if !known(&self.zones, &machine.zone) {
            bail!("zone: no zone is named `{}`", machine.zone);
        }
        if !known(&self.pools, &machine.pool) {
            bail!("pool: no pool is named `{}`", machine.pool);
        }
        if crate::status::Status::parse(&machine.status).is_none() {
            bail!("status: MAAS has no status `{}`", machine.status);
        }
        if let Some(power) = &machine.power
            && !["on", "off", "unknown", "error"].contains(&power.as_str())
        {
            bail!("power: `{power}` is none of on, off, unknown, error");
        }
        for name in &machine.more_subnets {
            if !self.subnets.iter().any(|s| &s.name == name) {
                bail!("more_subnets: no subnet is named `{name}`");
            }
        }
        Ok(())
    }
}
