//! Everything the region holds. One lock guards it, as one database does in MAAS; handlers are plain functions on it.

use crate::addresses::{AllocType, Row, parse_range};
use crate::clock::Clock;
use crate::dns::DnsRecord;
use crate::domains::Domain;
use crate::events::Event;
use crate::faults::FaultBook;
use crate::inventory::{Image, Inventory, MachineSpec, Subnet, Timings};
use crate::labels::{Label, Tag};
use crate::machines::{Interface, Machine};
use crate::record::Call;
use crate::status::Status;
use crate::users::User;
use anyhow::Result;
use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) timings: Timings,
    pub(crate) version: String,
    pub(crate) users: Vec<User>,
    pub(crate) nonces: HashSet<(String, String, String)>,
    pub(crate) machines: Vec<Machine>,
    pub(crate) zones: Vec<Label>,
    pub(crate) pools: Vec<Label>,
    pub(crate) tags: Vec<Tag>,
    pub(crate) images: Vec<(u64, Image)>,
    pub(crate) subnets: Vec<Subnet>,
    pub(crate) domains: Vec<Domain>,
    pub(crate) rows: BTreeMap<u64, Row>,
    pub(crate) dns: Vec<DnsRecord>,
    pub(crate) events: Vec<Event>,
    pub(crate) calls: Vec<Call>,
    pub(crate) faults: FaultBook,
    ids: BTreeMap<&'static str, u64>,
}

impl World {
    pub(crate) fn new(inventory: Inventory, clock: Clock, version: String) -> Result<Self> {
        let mut world = World {
            clock,
            timings: inventory.timings,
            version,
            users: User::from_specs(&inventory.users)?,
            nonces: HashSet::new(),
            machines: vec![],
            zones: vec![],
            pools: vec![],
            tags: vec![],
            images: vec![],
            subnets: inventory.subnets,
            domains: vec![],
            rows: BTreeMap::new(),
            dns: vec![],
            events: vec![],
            calls: vec![],
            faults: FaultBook::default(),
            ids: BTreeMap::new(),
        };
        world.zones.push(Label::new(1, "default", ""));
        world.ids.insert("zone", 1);
        // MAAS's default pool and default domain have id 0.
        world.pools.push(Label::new(0, "default", "Default pool"));
        for name in &inventory.zones {
            let id = world.next_id("zone");
            world.zones.push(Label::new(id, name, ""));
        }
        for name in &inventory.pools {
            let id = world.next_id("pool");
            world.pools.push(Label::new(id, name, ""));
        }
        for (id, name) in (0..).zip(&inventory.domains) {
            world.domains.push(Domain { id, name: name.clone(), ttl: None });
            world.ids.insert("domain", id);
        }
        for image in inventory.images {
            let id = world.next_id("image");
            world.images.push((id, image));
        }
        for name in &inventory.tags {
            world.ensure_tag(name);
        }
        for spec in inventory.machines {
            world.add_machine(spec);
        }
        Ok(world)
    }

    /// The next id of a kind, from 1.
    pub(crate) fn next_id(&mut self, kind: &'static str) -> u64 {
        let next = self.ids.entry(kind).or_insert(0);
        *next += 1;
        *next
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.now()
    }

    pub(crate) fn machine(&self, system_id: &str) -> Option<&Machine> {
        self.machines.iter().find(|m| m.system_id == system_id)
    }

    pub(crate) fn machine_mut(&mut self, system_id: &str) -> Option<&mut Machine> {
        self.machines.iter_mut().find(|m| m.system_id == system_id)
    }

    pub(crate) fn user(&self, name: &str) -> Option<&User> {
        self.users.iter().find(|u| u.name == name)
    }

    pub(crate) fn ensure_tag(&mut self, name: &str) {
        if !self.tags.iter().any(|t| t.name == name) {
            self.tags.push(Tag {
                name: name.into(),
                comment: String::new(),
                definition: String::new(),
                kernel_opts: String::new(),
            });
        }
    }

    pub(crate) fn add_machine(&mut self, spec: MachineSpec) -> String {
        for tag in &spec.tags {
            self.ensure_tag(tag);
        }
        let system_id = self.system_id_for(&spec);
        let number = self.machines.len() + 1;
        let interfaces = self.interfaces_for(&spec, &system_id, number);
        let status = Status::parse(&spec.status).unwrap_or(Status::Ready);
        let deployed =
            matches!(status, Status::Deployed | Status::Deploying | Status::FailedDeployment);
        let machine = Machine::from_spec(
            spec,
            system_id.clone(),
            u64::try_from(number).unwrap_or(0),
            status,
            interfaces,
        );
        self.machines.push(machine);
        if deployed && let Err(text) = self.claim_auto(&system_id) {
            self.add_event(
                &system_id,
                crate::events::Level::Error,
                "Failed to claim an address",
                &text,
                "",
            );
        }
        system_id
    }

    /// MAAS ids are six random characters; ours follow from the host name, so that a test can name them.
    fn system_id_for(&self, spec: &MachineSpec) -> String {
        if let Some(id) = &spec.system_id {
            return id.clone();
        }
        (0u32..)
            .map(|salt| {
                crate::users::letters(
                    &format!("{}{salt}", spec.hostname),
                    6,
                    b"abcdefghkmnpqrstwxy0346789",
                )
            })
            .find(|id| self.machine(id).is_none())
            .unwrap_or_default()
    }

    fn interfaces_for(
        &mut self,
        spec: &MachineSpec,
        system_id: &str,
        number: usize,
    ) -> Vec<Interface> {
        let mut names: Vec<usize> = if self.subnets.is_empty() { vec![] } else { vec![0] };
        names.extend(
            spec.more_subnets.iter().filter_map(|n| self.subnets.iter().position(|s| &s.name == n)),
        );
        let mut interfaces = vec![];
        for (position, subnet) in names.into_iter().enumerate() {
            let of = Some((system_id.to_owned(), position));
            let row = Row {
                id: 0,
                ip: None,
                kind: AllocType::Auto,
                owner: None,
                interface: of,
                subnet: Some(subnet),
                created: self.now(),
            };
            let auto = position == 0;
            if auto {
                self.add_row(row.clone());
            }
            // A machine that never was commissioned has no lease.
            if spec.status != "New"
                && let Some(ip) = self.lease(subnet, number)
            {
                self.add_row(Row { ip: Some(ip), kind: AllocType::Discovered, ..row });
            }
            let mac = mac(spec, position, number);
            let (id, link) = (self.next_id("interface"), self.next_id("link"));
            interfaces.push(Interface {
                id,
                link,
                name: format!("eth{position}"),
                mac,
                subnet,
                auto,
            });
        }
        interfaces
    }

    fn lease(&self, subnet: usize, number: usize) -> Option<IpAddr> {
        let (first, last) = parse_range(self.subnets[subnet].dynamic.as_deref()?).ok()?;
        let wanted = u32::from(first).checked_add(u32::try_from(number).ok()?)?;
        (wanted <= u32::from(last)).then(|| IpAddr::V4(Ipv4Addr::from(wanted)))
    }

    /// Deletes rows, and like MAAS the DNS records that have no address left because of it.
    pub(crate) fn delete_rows(&mut self, ids: &[u64]) {
        for id in ids {
            self.rows.remove(id);
        }
        for record in &mut self.dns {
            let before = record.rows.len();
            record.rows.retain(|row| !ids.contains(row));
            record.orphaned = record.rows.is_empty() && before > 0;
        }
        self.dns.retain(|record| !record.orphaned);
    }
}

/// The inventory's address for the first card, else one made from the machine's position.
fn mac(spec: &MachineSpec, position: usize, number: usize) -> String {
    let made =
        || format!("52:54:00:{:02x}:{:02x}:{:02x}", 0xaa + position, number / 256, number % 256);
    spec.mac.clone().filter(|_| position == 0).unwrap_or_else(made)
}
