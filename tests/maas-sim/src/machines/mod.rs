//! Machines: what MAAS knows of one, and the operations on it, one module for each.

pub(crate) mod abort;
pub(crate) mod allocate;
pub(crate) mod annotations;
pub(crate) mod conditions;
pub(crate) mod constraints;
pub(crate) mod create;
pub(crate) mod deploy;
pub(crate) mod hardware;
pub(crate) mod list;
pub(crate) mod power;
pub(crate) mod release;
pub(crate) mod render;
pub(crate) mod series;
pub(crate) mod timeline;
pub(crate) mod update;

use crate::inventory::{HardwareSpec, MachineFaults, MachineSpec};
use crate::reply::Reply;
use crate::status::Status;
use crate::users::User;
use crate::world::World;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use timeline::Step;

#[derive(Debug, Clone)]
pub(crate) struct Interface {
    pub(crate) id: u64,
    pub(crate) link: u64,
    pub(crate) name: String,
    pub(crate) mac: String,
    /// Position of the subnet.
    pub(crate) subnet: usize,
    /// Whether the link is AUTO (an address at deployment) or only up.
    pub(crate) auto: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(crate) number: u64,
    pub(crate) system_id: String,
    pub(crate) hostname: String,
    pub(crate) domain: String,
    pub(crate) status: Status,
    pub(crate) previous_status: Status,
    pub(crate) power_state: String,
    pub(crate) power_type: String,
    pub(crate) owner: Option<String>,
    pub(crate) agent_name: String,
    pub(crate) zone: String,
    pub(crate) pool: String,
    pub(crate) tags: Vec<String>,
    pub(crate) cpu_count: u32,
    /// MiB.
    pub(crate) memory: u64,
    /// Decimal GB.
    pub(crate) disk: u64,
    pub(crate) architecture: String,
    pub(crate) hardware: HardwareSpec,
    pub(crate) osystem: String,
    pub(crate) distro_series: String,
    pub(crate) hwe_kernel: Option<String>,
    pub(crate) min_hwe_kernel: Option<String>,
    pub(crate) ephemeral_deploy: bool,
    pub(crate) enable_hw_sync: bool,
    pub(crate) netboot: bool,
    pub(crate) locked: bool,
    pub(crate) error_description: String,
    pub(crate) description: String,
    /// Bytes; None is the installer's own choice, 0 no swap.
    pub(crate) swap_size: Option<i64>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) user_data: Option<String>,
    pub(crate) interfaces: Vec<Interface>,
    /// Whether the last commissioning passed: only then a release ends in Ready.
    pub(crate) commissioned: bool,
    pub(crate) installation_result: Option<u64>,
    pub(crate) faults: MachineFaults,
    pub(crate) deploys: u32,
    pub(crate) releases: u32,
    /// What will happen to it, by simulated time.
    pub(crate) steps: VecDeque<(Duration, Step)>,
}

impl Machine {
    pub(crate) fn from_spec(
        spec: MachineSpec,
        system_id: String,
        number: u64,
        status: Status,
        interfaces: Vec<Interface>,
    ) -> Self {
        let default_power = if spec.power_type == "manual" { "unknown" } else { "off" };
        let running =
            matches!(status, Status::Deployed | Status::Deploying | Status::FailedDeployment);
        Self {
            number,
            system_id,
            hostname: spec.hostname,
            domain: String::new(),
            status,
            previous_status: Status::New,
            power_state: spec.power.unwrap_or_else(|| default_power.into()),
            power_type: spec.power_type,
            owner: spec.owner,
            agent_name: String::new(),
            zone: spec.zone,
            pool: spec.pool,
            tags: spec.tags,
            cpu_count: spec.cores,
            memory: spec.memory,
            disk: spec.disk,
            architecture: spec.architecture,
            hardware: spec.hardware,
            osystem: if running { "ubuntu" } else { "" }.into(),
            distro_series: if running { "noble" } else { "" }.into(),
            hwe_kernel: running.then(|| "ga-24.04".into()),
            min_hwe_kernel: running.then(String::new),
            ephemeral_deploy: false,
            enable_hw_sync: false,
            netboot: status != Status::Deployed,
            locked: false,
            error_description: String::new(),
            description: String::new(),
            swap_size: None,
            annotations: BTreeMap::new(),
            user_data: None,
            interfaces,
            commissioned: !spec.faults.new_after_release,
            installation_result: None,
            faults: spec.faults,
            deploys: 0,
            releases: 0,
            steps: VecDeque::new(),
        }
    }

    /// Whether MAAS can switch and read the power itself.
    pub(crate) fn power_managed(&self) -> bool {
        self.power_type != "manual" && !self.power_type.is_empty()
    }

    pub(crate) fn viewable(&self, user: &User) -> bool {
        user.admin || self.owner.is_none() || self.owner.as_deref() == Some(&user.name)
    }

    /// MAAS's `edit`: unowned or own (administrators: any), and not locked.
    pub(crate) fn editable(&self, user: &User) -> bool {
        self.viewable(user) && !self.locked
    }
}

/// What a call needs on the machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Need {
    View,
    Edit,
    Admin,
    /// Reading what only administrators see; a lock does not matter.
    AdminRead,
    /// Edit, but a lock does not matter.
    Lock,
}

impl World {
    /// MAAS's `get_node_or_404`: 404 when there is none, 403 with an empty body when the user may not, also when locked.
    pub(crate) fn permitted(
        &self,
        system_id: &str,
        user: &User,
        need: Need,
    ) -> Result<&Machine, Reply> {
        let machine = self.machine(system_id).ok_or_else(|| Reply::not_found("Machine"))?;
        let allowed = match need {
            Need::View | Need::Lock => machine.viewable(user),
            Need::Edit => machine.editable(user),
            Need::Admin => user.admin && !machine.locked,
            Need::AdminRead => user.admin,
        };
        if allowed { Ok(machine) } else { Err(Reply::forbidden()) }
    }

    /// A machine that is known to exist.
    pub(crate) fn change(&mut self, system_id: &str, with: impl FnOnce(&mut Machine)) {
        if let Some(machine) = self.machine_mut(system_id) {
            with(machine);
        }
    }

    pub(crate) fn machine_reply(&self, system_id: &str) -> Reply {
        match self.machine(system_id) {
            Some(machine) => Reply::json(&self.machine_json(machine)),
            None => Reply::not_found("Machine"),
        }
    }

    pub(crate) fn fqdn(&self, machine: &Machine) -> String {
        format!("{}.{}", machine.hostname, self.domain_of(machine))
    }

    pub(crate) fn domain_of<'a>(&'a self, machine: &'a Machine) -> &'a str {
        if machine.domain.is_empty() {
            self.domains.first().map_or("maas", |d| &d.name)
        } else {
            &machine.domain
        }
    }

    /// The machine goes, with its addresses and the DNS records that named only those.
    pub(crate) fn remove_machine(&mut self, system_id: &str) {
        let of =
            |r: &&crate::addresses::Row| r.interface.as_ref().is_some_and(|(m, _)| m == system_id);
        let ids: Vec<u64> = self.rows.values().filter(of).map(|r| r.id).collect();
        self.delete_rows(&ids);
        self.machines.retain(|m| m.system_id != system_id);
        self.events.retain(|e| e.node != system_id);
    }
}
