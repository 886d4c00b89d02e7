//! What tests look at: calls, machines, DNS records.

use crate::addresses::AllocType;
use crate::machines::Machine;
use crate::world::World;
use serde::Serialize;
use std::collections::BTreeMap;

/// One call that reached the region.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Call {
    /// From 1, in the order of arrival.
    pub seq: u64,
    /// HTTP method.
    pub method: String,
    /// Below `/MAAS/api/2.0`, with the query.
    pub path: String,
    /// The operation, wherever it stood.
    pub op: Option<String>,
    /// Body parameters; `user_data` is shown as its length only.
    pub params: Vec<(String, String)>,
    /// HTTP status; 0 while there is none, also when a fault closed the connection before the work.
    pub status: u16,
    /// Who called; empty when MAAS did not find out.
    pub user: String,
    /// Whether a fault kept the reply (or its end) from the caller.
    pub reply_dropped: bool,
    /// Simulated seconds since the start, at arrival.
    pub at: f64,
}

/// A machine with what MAAS does not show over its API, too.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MachineView {
    /// MAAS id.
    pub system_id: String,
    /// Host name.
    pub hostname: String,
    /// With the domain.
    pub fqdn: String,
    /// As MAAS shows it, such as `Failed deployment`.
    pub status_name: String,
    /// `on`, `off`, `unknown` or `error`.
    pub power_state: String,
    /// Owner.
    pub owner: Option<String>,
    /// What the allocating caller sent; MAAS only lets filter on it, and clears it when a release begins.
    pub agent_name: String,
    /// Zone name.
    pub zone: String,
    /// Pool name.
    pub pool: String,
    /// Tags.
    pub tags: Vec<String>,
    /// CPU threads.
    pub cpu_count: u32,
    /// MiB.
    pub memory_mib: u64,
    /// As `ip_addresses` of the API.
    pub ip_addresses: Vec<String>,
    /// Verbatim as it reached MAAS at the last deployment (or power-on).
    pub user_data: Option<String>,
    /// Empty when not deployed.
    pub osystem: String,
    /// Empty when not deployed.
    pub distro_series: String,
    /// Whether it was last deployed to memory.
    pub ephemeral_deploy: bool,
    /// Bytes; None is the installer's choice.
    pub swap_size: Option<i64>,
    /// Workload annotations.
    pub workload_annotations: BTreeMap<String, String>,
    /// Locked.
    pub locked: bool,
    /// Why it failed or is broken; outlives a release.
    pub error_description: String,
    /// Deployments that began, however they ended.
    pub deploys: u32,
    /// Releases that ended in Ready or New.
    pub releases: u32,
}

/// A DNS resource.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DnsView {
    /// MAAS id.
    pub id: u64,
    /// Name with domain.
    pub fqdn: String,
    /// Seconds.
    pub ttl: Option<u32>,
    /// None where the machine that had the address was released.
    pub addresses: Vec<Option<String>>,
}

impl World {
    pub(crate) fn view(&self, m: &Machine) -> MachineView {
        MachineView {
            system_id: m.system_id.clone(),
            hostname: m.hostname.clone(),
            fqdn: self.fqdn(m),
            status_name: m.status.label().into(),
            power_state: m.power_state.clone(),
            owner: m.owner.clone(),
            agent_name: m.agent_name.clone(),
            zone: m.zone.clone(),
            pool: m.pool.clone(),
            tags: m.tags.clone(),
            cpu_count: m.cpu_count,
            memory_mib: m.memory,
            ip_addresses: self.machine_ips(m),
            user_data: m.user_data.clone(),
            osystem: m.osystem.clone(),
            distro_series: m.distro_series.clone(),
            ephemeral_deploy: m.ephemeral_deploy,
            swap_size: m.swap_size,
            workload_annotations: m.annotations.clone(),
            locked: m.locked,
            error_description: m.error_description.clone(),
            deploys: m.deploys,
            releases: m.releases,
        }
    }

    pub(crate) fn machine_views(&self) -> Vec<MachineView> {
        self.machines.iter().map(|m| self.view(m)).collect()
    }

    pub(crate) fn dns_views(&self) -> Vec<DnsView> {
        let address = |id: &u64| self.rows.get(id).and_then(|r| r.ip).map(|ip| ip.to_string());
        let view = |r: &crate::dns::DnsRecord| DnsView {
            id: r.id,
            fqdn: self.record_fqdn(r),
            ttl: r.ttl,
            addresses: r.rows.iter().map(address).collect(),
        };
        self.dns.iter().map(view).collect()
    }

    /// The addresses of USER_RESERVED rows.
    pub(crate) fn reserved(&self) -> Vec<String> {
        let reserved = self.rows.values().filter(|r| r.kind == AllocType::UserReserved);
        reserved.filter_map(|r| r.ip).map(|ip| ip.to_string()).collect()
    }
}
