//! IP address rows (MAAS's StaticIPAddress) and `/ipaddresses/`.

use crate::machines::Machine;
use crate::params::{form_value, stringbool};
use crate::reply::Reply;
use crate::request::Request;
use crate::users::User;
use crate::world::World;
use anyhow::{Result, anyhow};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// `alloc_type` of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AllocType {
    /// 0: of a machine's AUTO link; the row stays, its address comes and goes.
    Auto,
    /// 4: reserved by a user, or made because a DNS record named an unknown address.
    UserReserved,
    /// 6: a DHCP lease seen at commissioning.
    Discovered,
}

impl AllocType {
    fn number(self) -> u8 {
        match self {
            AllocType::Auto => 0,
            AllocType::UserReserved => 4,
            AllocType::Discovered => 6,
        }
    }

    fn label(self) -> &'static str {
        match self {
            AllocType::Auto => "Automatic",
            AllocType::UserReserved => "User reserved",
            AllocType::Discovered => "Observed",
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) id: u64,
    pub(crate) ip: Option<IpAddr>,
    pub(crate) kind: AllocType,
    pub(crate) owner: Option<String>,
    /// The machine and the position of its interface.
    pub(crate) interface: Option<(String, usize)>,
    /// Position of the subnet in the inventory.
    pub(crate) subnet: Option<usize>,
    pub(crate) created: Duration,
}

/// An IPv4 network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cidr {
    pub(crate) network: u32,
    pub(crate) bits: u8,
}

impl Cidr {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let wrong = || anyhow!("`{text}` is not an IPv4 network such as 10.0.0.0/24");
        let (address, bits) = text.split_once('/').ok_or_else(wrong)?;
        let address: Ipv4Addr = address.parse().map_err(|_| wrong())?;
        let bits: u8 = bits.parse().map_err(|_| wrong())?;
        if bits > 32 {
            return Err(wrong());
        }
        Ok(Self { network: u32::from(address) & Self::mask(bits), bits })
    }

    fn mask(bits: u8) -> u32 {
        if bits == 0 { 0 } else { u32::MAX << (32 - u32::from(bits)) }
    }

    pub(crate) fn contains(self, ip: IpAddr) -> bool {
        match ip {
            IpAddr::V4(v4) => u32::from(v4) & Self::mask(self.bits) == self.network,
            IpAddr::V6(_) => false,
        }
    }
}

/// `first-last`.
pub(crate) fn parse_range(text: &str) -> Result<(Ipv4Addr, Ipv4Addr)> {
    let wrong = || anyhow!("`{text}` is not a range such as 10.0.0.10-10.0.0.99");
    let (first, last) = text.split_once('-').ok_or_else(wrong)?;
    let first: Ipv4Addr = first.trim().parse().map_err(|_| wrong())?;
    let last: Ipv4Addr = last.trim().parse().map_err(|_| wrong())?;
    if last < first { Err(wrong()) } else { Ok((first, last)) }
}

impl World {
    pub(crate) fn subnet_of(&self, ip: IpAddr) -> Option<usize> {
        self.subnets.iter().position(|s| Cidr::parse(&s.cidr).is_ok_and(|c| c.contains(ip)))
    }

    /// The row with this address; of several the lowest id, as MAAS takes it.
    pub(crate) fn row_by_ip(&self, ip: IpAddr) -> Option<u64> {
        self.rows.values().find(|r| r.ip == Some(ip)).map(|r| r.id)
    }

    pub(crate) fn add_row(&mut self, row: Row) -> u64 {
        let id = self.next_id("row");
        self.rows.insert(id, Row { id, ..row });
        id
    }

    pub(crate) fn reserve(&mut self, ip: IpAddr, owner: &str) -> u64 {
        let subnet = self.subnet_of(ip);
        let (created, owner) = (self.now(), Some(owner.to_owned()));
        self.add_row(Row {
            id: 0,
            ip: Some(ip),
            kind: AllocType::UserReserved,
            owner,
            interface: None,
            subnet,
            created,
        })
    }

    /// Gives a machine's AUTO links their addresses. The error is the one MAAS answers with 503.
    pub(crate) fn claim_auto(&mut self, system_id: &str) -> Result<(), String> {
        let of = |r: &&Row| {
            r.kind == AllocType::Auto && r.interface.as_ref().is_some_and(|(m, _)| m == system_id)
        };
        let mine: Vec<(u64, usize)> =
            self.rows.values().filter(of).filter_map(|r| Some((r.id, r.subnet?))).collect();
        for (id, subnet) in mine {
            if self.rows[&id].ip.is_some() {
                continue;
            }
            let ip = self.lowest_free(subnet)?;
            if let Some(row) = self.rows.get_mut(&id) {
                row.ip = Some(IpAddr::V4(ip));
            }
        }
        Ok(())
    }

    fn lowest_free(&self, subnet: usize) -> Result<Ipv4Addr, String> {
        let exhausted =
            || format!("No more IPs available in subnet: {}.", self.subnets[subnet].cidr);
        let (first, last) = parse_range(&self.subnets[subnet].auto).map_err(|_| exhausted())?;
        let used: HashSet<IpAddr> = self.rows.values().filter_map(|r| r.ip).collect();
        let free = |n: &u32| !used.contains(&IpAddr::V4(Ipv4Addr::from(*n)));
        (u32::from(first)..=u32::from(last)).find(free).map(Ipv4Addr::from).ok_or_else(exhausted)
    }

    /// Takes a machine's AUTO addresses away; the rows stay, so DNS records that name them show `null`.
    pub(crate) fn free_auto(&mut self, system_id: &str) {
        for row in self.rows.values_mut() {
            if row.kind == AllocType::Auto
                && row.interface.as_ref().is_some_and(|(m, _)| m == system_id)
            {
                row.ip = None;
            }
        }
    }

    /// The machine's addresses by interface: configured links when one has an address, else the leases of commissioning.
    pub(crate) fn machine_rows(&self, machine: &Machine) -> Vec<(usize, IpAddr)> {
        let of = |kind: AllocType| -> Vec<(usize, IpAddr)> {
            let rows = self.rows.values().filter(|r| r.kind == kind);
            let mine = rows.filter_map(|r| Some((r.interface.as_ref()?, r.ip?)));
            mine.filter(|((m, _), _)| *m == machine.system_id)
                .map(|((_, i), ip)| (*i, ip))
                .collect()
        };
        let configured = of(AllocType::Auto);
        if configured.is_empty() { of(AllocType::Discovered) } else { configured }
    }

    /// As the machine's `ip_addresses` shows them.
    pub(crate) fn machine_ips(&self, machine: &Machine) -> Vec<String> {
        self.machine_rows(machine).into_iter().map(|(_, ip)| ip.to_string()).collect()
    }

    pub(crate) fn row_json(&self, row: &Row) -> Value {
        let interfaces: Vec<Value> = row
            .interface
            .iter()
            .filter_map(|(id, i)| Some(self.interface_json(self.machine(id)?, *i)))
            .collect();
        json!({
            "ip": row.ip.map(|ip| ip.to_string()),
            "alloc_type": row.kind.number(),
            "alloc_type_name": row.kind.label(),
            "created": self.clock.iso(row.created),
            "owner": row.owner.as_deref().and_then(|o| self.user(o)).map(User::json),
            "subnet": row.subnet.map(|s| self.subnet_json(s)),
            "interface_set": interfaces,
            "resource_uri": "/MAAS/api/2.0/ipaddresses/",
        })
    }
}

/// `GET /ipaddresses/`: one's own reserved addresses; `all=true` (administrators) all that have an address.
pub(crate) fn list(world: &World, user: &User, request: &Request) -> Result<Reply, Reply> {
    let all = stringbool(&request.query, "all")?.unwrap_or(false);
    if all && !user.admin {
        return Err(Reply::text(403, "Listing all IP addresses requires admin privileges."));
    }
    let wanted = match form_value(&request.query, "ip") {
        Some(text) => Some(
            text.parse::<IpAddr>()
                .map_err(|_| Reply::form("ip", "Enter a valid IPv4 or IPv6 address."))?,
        ),
        None => None,
    };
    let rows = world.rows.values().filter(|r| match all {
        true => r.ip.is_some(),
        false => r.kind == AllocType::UserReserved && r.owner.as_deref() == Some(&user.name),
    });
    let list: Vec<Value> =
        rows.filter(|r| wanted.is_none() || r.ip == wanted).map(|r| world.row_json(r)).collect();
    Ok(Reply::json(&Value::Array(list)))
}

/// `POST /ipaddresses/?op=reserve`.
pub(crate) fn reserve(world: &mut World, user: &User, request: &Request) -> Result<Reply, Reply> {
    let form = request.post();
    let ip = match (form_value(form, "ip"), form_value(form, "subnet")) {
        (Some(text), _) => {
            let ip: IpAddr = text
                .parse()
                .map_err(|_| Reply::form("ip", "Enter a valid IPv4 or IPv6 address."))?;
            if world.subnet_of(ip).is_none() {
                return Err(Reply::text(400, &format!("No known subnet for IP address: {ip}.")));
            }
            ip
        }
        (None, Some(spec)) => {
            let subnet = world.subnet_by_spec(&spec).ok_or_else(|| Reply::not_found("Subnet"))?;
            IpAddr::V4(world.lowest_free(subnet).map_err(|text| Reply::text(503, &text))?)
        }
        (None, None) => {
            return Err(Reply::text(400, "Must supply either the 'subnet' or the 'ip' parameter."));
        }
    };
    if world.row_by_ip(ip).is_some() {
        return Err(Reply::text(404, &format!("The IP address {ip} is already in use.")));
    }
    let id = world.reserve(ip, &user.name);
    Ok(Reply::json(&world.row_json(&world.rows[&id])))
}

/// `POST /ipaddresses/?op=release`: one's own reserved address, or with `force` (administrators) anybody's.
pub(crate) fn release(world: &mut World, user: &User, request: &Request) -> Result<Reply, Reply> {
    let form = request.post();
    let force = stringbool(form, "force")?.unwrap_or(false);
    if force && !user.admin {
        return Err(Reply::text(403, "Force-releasing an IP address requires admin privileges."));
    }
    let text = form_value(form, "ip").ok_or_else(|| Reply::text(400, "No provided ip!"))?;
    let ip: Option<IpAddr> = text.parse().ok();
    let found = world.rows.values().find(|r| {
        r.ip.is_some()
            && r.ip == ip
            && r.kind == AllocType::UserReserved
            && (force || r.owner.as_deref() == Some(&user.name))
    });
    let Some(id) = found.map(|r| r.id) else {
        return Err(Reply::text(
            400,
            &format!(
                "IP address {text} does not exist, is not the correct type of address, or does not belong to the \
                 requesting user.\nIf you are sure you want to release this address, use force=true as a MAAS \
                 administrator."
            ),
        ));
    };
    world.delete_rows(&[id]);
    Ok(Reply::deleted())
}
