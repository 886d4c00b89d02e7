use std::collections::{BTreeMap, BTreeSet};

use capmaas_core::maas::{
    DnsAddress, DnsResource, Hardware, Image, Machine, Power, ReservedAddress, Status, User,
};
use capmaas_core::policy::AllocateConstraints;
use capmaas_core::{CallError, Category, Effect, Read, Reply};

/// Our API user.
pub(crate) const US: &str = "capmaas";

/// What becomes of a deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destiny {
    Deploys,
    Fails,
    Hangs,
}

/// A machine as MAAS keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    /// What MAAS shows.
    pub(crate) shown: Machine,
    /// Never shown; listings can be filtered by it.
    pub(crate) agent_name: String,
    pub(crate) destiny: Destiny,
}

/// A MAAS region.
#[derive(Clone)]
pub(crate) struct Maas {
    pub(crate) user: User,
    pub(crate) version: String,
    pub(crate) images: Vec<String>,
    pub(crate) zones: Vec<String>,
    pub(crate) domains: Vec<String>,
    pub(crate) hosts: BTreeMap<String, Host>,
    pub(crate) records: BTreeMap<u64, DnsResource>,
    pub(crate) reserved: BTreeSet<String>,
}

impl Maas {
    pub(super) fn with_hosts(ids: &[&str]) -> Self {
        let strings = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
        let mut maas = Self {
            user: User { name: US.into(), admin: true },
            version: "3.7.3".into(),
            images: strings(&["ubuntu/noble", "u-2404-k8s"]),
            zones: strings(&["default"]),
            domains: strings(&["maas"]),
            hosts: BTreeMap::new(),
            records: BTreeMap::new(),
            reserved: BTreeSet::new(),
        };
        for id in ids {
            maas.hosts.insert((*id).to_owned(), Host::free(id));
        }
        maas
    }

    pub(crate) fn host(&mut self, id: &str) -> &mut Host {
        self.hosts.get_mut(id).expect("a known machine")
    }

    pub(crate) fn add_record(&mut self, fqdn: &str, ips: &[&str]) -> u64 {
        let id = self.records.keys().max().unwrap_or(&0) + 1;
        let addresses = ips.iter().map(|ip| self.address(ip)).collect();
        let record = DnsResource { id, fqdn: fqdn.into(), ttl: Some(10), addresses };
        self.records.insert(id, record);
        id
    }

    /// MAAS reserves an address that it knows from nowhere.
    fn address(&self, ip: &str) -> DnsAddress {
        let known = self.hosts.values().any(|h| h.shown.ip_addresses.iter().any(|i| i == ip));
        DnsAddress { ip: ip.into(), reserved: !known }
    }

    /// Time passes: deployments end, released machines become free.
    pub(crate) fn time_passes(&mut self) {
        let ids: Vec<String> = self.hosts.keys().cloned().collect();
        for id in ids {
            let host = self.host(&id);
            match (&host.shown.status, host.destiny) {
                (Status::Deploying, Destiny::Deploys) => {
                    host.shown.status = Status::Deployed;
                    host.shown.power = Power::On;
                }
                (Status::Deploying, Destiny::Fails) => {
                    host.shown.status = Status::FailedDeployment;
                    host.shown.error_description = "Node installation failure".into();
                }
                (Status::Releasing, _) => self.free(&id),
                _ => {}
            }
        }
    }

    /// A release is over: nothing of its holder is left.
    pub(crate) fn free(&mut self, id: &str) {
        let free = Host::free(id);
        let host = self.host(id);
        let gone = std::mem::take(&mut host.shown.ip_addresses);
        let destiny = host.destiny;
        *host = Host { destiny, ..free };
        for record in self.records.values_mut() {
            record.addresses.retain(|a| !gone.contains(&a.ip));
        }
    }

    pub(super) fn read(&mut self, read: &Read) -> Reply {
        let names = |list: &[String]| Reply::Names(list.to_vec());
        match read {
            Read::Machine(id) => self.hosts.get(id).map_or(Reply::Absent, Host::reply),
            Read::MachinesByMark(mark) => self.listed(|h| h.agent_name == *mark),
            Read::Candidates(wanted) => {
                self.listed(|h| h.shown.status == Status::Ready && h.fits(wanted))
            }
            Read::WhoAmI => Reply::User(self.user.clone()),
            Read::Version => Reply::Text(self.version.clone()),
            Read::Images => Reply::Images(self.images.iter().map(|n| image(n)).collect()),
            Read::Zones => names(&self.zones),
            Read::Domains => names(&self.domains),
            Read::Pools => names(&["default".to_owned()]),
            Read::Tags => names(&[]),
            Read::ErrorEvents(_) => Reply::Events(vec![]),
            Read::DnsByName(fqdn) => self.records_named(fqdn),
            Read::DnsResource(id) => {
                Reply::Dns(self.records.get(id).cloned().into_iter().collect())
            }
            Read::DnsRecords => Reply::Dns(self.records.values().cloned().collect()),
            Read::Reservation(ip) if self.reserved.contains(ip) => {
                Reply::Reserved(ReservedAddress { ip: ip.clone() })
            }
            Read::Reservation(_) => Reply::Absent,
            other => panic!("MAAS is not asked for {other:?}"),
        }
    }

    fn listed(&self, which: impl Fn(&Host) -> bool) -> Reply {
        let found = self.hosts.values().filter(|h| which(h));
        Reply::Machines(found.map(|h| h.shown.clone()).collect())
    }

    fn records_named(&self, fqdn: &str) -> Reply {
        let domain = fqdn.split_once('.').map(|(_, d)| d).unwrap_or_default();
        if !self.domains.iter().any(|d| d == domain) {
            return refused(Category::NotFound, "No Domain matches the given query.");
        }
        let found = self.records.values().filter(|r| r.fqdn == fqdn);
        Reply::Dns(found.cloned().collect())
    }

    pub(super) fn perform(&mut self, effect: &Effect) -> Reply {
        match effect {
            Effect::Allocate { constraints, mark, .. } => self.allocate(constraints, mark),
            Effect::CreateDns { fqdn, .. } => self.create_record(fqdn),
            Effect::SetDnsAddresses { id, addresses, ttl } => {
                let ips: Vec<DnsAddress> = addresses.iter().map(|ip| self.address(ip)).collect();
                self.reserved.extend(ips.iter().filter(|a| a.reserved).map(|a| a.ip.clone()));
                let Some(record) = self.records.get_mut(id) else {
                    return refused(Category::NotFound, "Not Found");
                };
                record.addresses = ips;
                record.ttl = Some(*ttl);
                Reply::Dns(vec![record.clone()])
            }
            Effect::DeleteDns { id } => {
                self.records.remove(id);
                Reply::Completed
            }
            Effect::ReleaseAddress { ip } => {
                self.reserved.remove(ip);
                // It is one row, to which every record that holds the address refers.
                for record in self.records.values_mut() {
                    record.addresses.retain(|a| a.ip != *ip);
                }
                Reply::Completed
            }
            on_a_machine => self.operate(on_a_machine),
        }
    }

    fn create_record(&mut self, fqdn: &str) -> Reply {
        match self.records_named(fqdn) {
            Reply::Dns(found) if found.is_empty() => {
                let id = self.add_record(fqdn, &[]);
                Reply::Dns(vec![self.records[&id].clone()])
            }
            Reply::Dns(_) => refused(Category::BadRequest, "Labels must be unique within a zone."),
            failed => failed,
        }
    }

    /// The smallest that fits.
    fn allocate(&mut self, wanted: &AllocateConstraints, mark: &str) -> Reply {
        for zone in &wanted.constraints.zones {
            if !self.zones.contains(zone) {
                return refused(Category::BadRequest, &format!("No such zone: '{zone}'."));
            }
        }
        let free = |h: &&mut Host| h.shown.status == Status::Ready && !h.shown.locked;
        let fits = self.hosts.values_mut().filter(free).filter(|h| h.fits(wanted));
        let size = |h: &Host| u64::from(h.shown.cpu_count) + u64::from(h.shown.memory / 1024);
        let Some(host) = fits.min_by_key(|h| (size(h), h.shown.system_id.clone())) else {
            return refused(Category::State, "No available machine matches constraints");
        };
        host.shown.status = Status::Allocated;
        host.shown.owner = Some(US.into());
        host.agent_name = mark.into();
        host.reply()
    }

    fn operate(&mut self, effect: &Effect) -> Reply {
        let id = touched(effect).expect("an effect on a machine");
        let Some(host) = self.hosts.get_mut(id) else {
            return refused(Category::NotFound, "Not Found");
        };
        if host.shown.locked {
            return refused(Category::Forbidden, "");
        }
        match effect {
            Effect::Annotate { annotations, .. } => {
                host.shown.annotations.extend(annotations.clone());
                host.shown.annotations.retain(|_, v| !v.is_empty());
                host.reply()
            }
            Effect::SwapOff { .. } => {
                host.shown.swap_size = Some(0);
                host.reply()
            }
            Effect::Deploy { in_memory, mark, .. } => host.deploy(*in_memory, mark.as_deref()),
            Effect::Release { .. } => host.release(),
            Effect::MarkBroken { comment, .. } => {
                host.agent_name.clear();
                host.shown.status = Status::Broken;
                host.shown.power = Power::Off;
                host.shown.error_description = comment.clone();
                host.reply()
            }
            Effect::PowerOn { .. } if host.shown.owner.is_none() => {
                refused(Category::State, "Can't start node: it hasn't been allocated.")
            }
            Effect::PowerOn { .. } => {
                host.shown.power = Power::On;
                host.reply()
            }
            Effect::PowerOff { .. } => {
                host.shown.power = Power::Off;
                host.reply()
            }
            other => panic!("{other:?} is not on a machine"),
        }
    }
}

impl Host {
    pub(crate) fn free(id: &str) -> Self {
        let shown = Machine {
            system_id: id.into(),
            hostname: format!("host-{id}"),
            fqdn: format!("host-{id}.maas"),
            status: Status::Ready,
            status_message: String::new(),
            error_description: String::new(),
            owner: None,
            annotations: BTreeMap::new(),
            zone: "default".into(),
            pool: "default".into(),
            tags: vec![],
            power: Power::Off,
            architecture: "amd64/generic".into(),
            cpu_count: 8,
            memory: 32768,
            storage: 250_000,
            swap_size: None,
            ip_addresses: vec![],
            locked: false,
            ephemeral: false,
            vm_host: None,
            hardware: Hardware::default(),
        };
        Self { shown, agent_name: String::new(), destiny: Destiny::Deploys }
    }

    fn reply(&self) -> Reply {
        Reply::Machine(Box::new(self.shown.clone()))
    }

    fn fits(&self, wanted: &AllocateConstraints) -> bool {
        let (m, c) = (&self.shown, &wanted.constraints);
        let among = |list: &[String], value: &String| list.is_empty() || list.contains(value);
        wanted.system_id.as_ref().is_none_or(|id| *id == m.system_id)
            && m.cpu_count >= c.min_cpu_cores
            && m.memory >= c.min_memory_mib
            && among(&c.zones, &m.zone)
            && !c.not_zones.contains(&m.zone)
            && among(&c.pools, &m.pool)
            && c.tags.iter().all(|t| m.tags.contains(t))
    }

    /// A free machine is taken for whoever deploys it, under the name that the call gives.
    fn deploy(&mut self, in_memory: bool, agent_name: Option<&str>) -> Reply {
        if self.shown.status == Status::Ready {
            self.shown.status = Status::Allocated;
            self.shown.owner = Some(US.into());
            self.agent_name = agent_name.unwrap_or_default().to_owned();
        }
        if self.shown.status != Status::Allocated {
            let state = self.shown.status.label();
            let text = format!("Can't deploy a machine that is in the '{state}' state");
            return refused(Category::State, &text);
        }
        self.shown.status = Status::Deploying;
        self.shown.power = Power::On;
        self.shown.ephemeral = in_memory;
        self.shown.ip_addresses = vec![address_of(&self.shown.system_id)];
        self.reply()
    }

    fn release(&mut self) -> Reply {
        if matches!(self.shown.status, Status::Ready | Status::Releasing) {
            return self.reply();
        }
        if !self.shown.status.releasable() {
            let state = self.shown.status.label();
            let text = format!("Machine cannot be released in its current state ('{state}').");
            return refused(Category::State, &text);
        }
        self.agent_name.clear();
        self.shown.status = Status::Releasing;
        self.shown.power = Power::Off;
        self.reply()
    }
}

/// `10.0.0.x`, with x from the first letter: aaa111 has 10.0.0.10, bbb222 10.0.0.11.
fn address_of(id: &str) -> String {
    format!("10.0.0.{}", id.as_bytes()[0] - b'a' + 10)
}

/// The machine that an effect is on.
pub(crate) fn touched(effect: &Effect) -> Option<&str> {
    match effect {
        Effect::Annotate { machine, .. }
        | Effect::SwapOff { machine }
        | Effect::Deploy { machine, .. }
        | Effect::Release { machine, .. }
        | Effect::MarkBroken { machine, .. }
        | Effect::PowerOn { machine, .. }
        | Effect::PowerOff { machine } => Some(machine.system_id()),
        _ => None,
    }
}

fn image(name: &str) -> Image {
    Image { name: name.into(), architecture: "amd64/generic".into() }
}

fn refused(category: Category, message: &str) -> Reply {
    Reply::Failed(CallError { category, status: None, message: message.into(), retry_after: None })
}
