//! Subnets, VLANs, fabrics and spaces: reading only.

use crate::addresses::Cidr;
use crate::reply::Reply;
use crate::world::World;
use serde_json::{Value, json};

impl World {
    /// The fabrics, in the order of the subnets that name them.
    fn fabrics(&self) -> Vec<&str> {
        let mut names: Vec<&str> = vec![];
        for subnet in &self.subnets {
            if !names.contains(&subnet.fabric.as_str()) {
                names.push(&subnet.fabric);
            }
        }
        names
    }

    fn fabric_id(&self, subnet: usize) -> usize {
        self.fabrics().iter().position(|f| *f == self.subnets[subnet].fabric).unwrap_or(0)
    }

    /// Each fabric has one VLAN, the untagged one; MAAS numbers them from 5001.
    pub(crate) fn vlan_id(&self, subnet: usize) -> usize {
        5001 + self.fabric_id(subnet)
    }

    pub(crate) fn vlan_json(&self, subnet: usize) -> Value {
        let id = self.vlan_id(subnet);
        let dhcp = subnet == 0;
        json!({
            "id": id,
            "vid": 0,
            "name": "untagged",
            "fabric": self.subnets[subnet].fabric,
            "fabric_id": self.fabric_id(subnet),
            "mtu": 1500,
            "dhcp_on": dhcp,
            "external_dhcp": null,
            "relay_vlan": null,
            "primary_rack": dhcp.then_some("rack01"),
            "secondary_rack": null,
            "space": "undefined",
            "resource_uri": format!("/MAAS/api/2.0/vlans/{id}/"),
        })
    }

    pub(crate) fn subnet_json(&self, subnet: usize) -> Value {
        let this = &self.subnets[subnet];
        let id = subnet + 1;
        json!({
            "id": id,
            "name": this.name,
            "description": "",
            "cidr": this.cidr,
            "vlan": self.vlan_json(subnet),
            "space": "undefined",
            "gateway_ip": this.gateway,
            "dns_servers": this.dns,
            "rdns_mode": 2,
            "allow_dns": true,
            "allow_proxy": true,
            "active_discovery": false,
            "managed": true,
            "disabled_boot_architectures": [],
            "resource_uri": format!("/MAAS/api/2.0/subnets/{id}/"),
        })
    }

    /// By id, CIDR, `name:…`, `cidr:…` or `ip:…`.
    pub(crate) fn subnet_by_spec(&self, spec: &str) -> Option<usize> {
        (0..self.subnets.len())
            .find(|s| crate::machines::constraints::specified(self, *s, spec, false))
    }
}

pub(crate) fn subnets(world: &World) -> Reply {
    Reply::json(&Value::Array((0..world.subnets.len()).map(|s| world.subnet_json(s)).collect()))
}

pub(crate) fn subnet(world: &World, spec: &str) -> Result<Reply, Reply> {
    let found = world.subnet_by_spec(spec).ok_or_else(|| Reply::not_found("Subnet"))?;
    Ok(Reply::json(&world.subnet_json(found)))
}

/// `op=statistics`.
pub(crate) fn statistics(world: &World, spec: &str) -> Result<Reply, Reply> {
    let found = world.subnet_by_spec(spec).ok_or_else(|| Reply::not_found("Subnet"))?;
    let cidr =
        Cidr::parse(&world.subnets[found].cidr).map_err(|e| Reply::text(500, &e.to_string()))?;
    let total = (1_u64 << (32 - u64::from(cidr.bits))).saturating_sub(1);
    let used = world.rows.values().filter(|r| r.ip.is_some_and(|ip| cidr.contains(ip))).count();
    let used = u64::try_from(used).unwrap_or(0).min(total);
    let percent = (used * 100).checked_div(total).unwrap_or(0);
    let ip = |n: u64| {
        std::net::Ipv4Addr::from(cidr.network.saturating_add(u32::try_from(n).unwrap_or(u32::MAX)))
    };
    Ok(Reply::json(&json!({
        "num_available": total - used,
        "largest_available": total - used,
        "num_unavailable": used,
        "total_addresses": total,
        "usage": f64::from(u32::try_from(percent).unwrap_or(0)) / 100.0,
        "usage_string": format!("{percent}%"),
        "available_string": format!("{}%", 100 - percent),
        "first_address": ip(0),
        "last_address": ip(total.saturating_sub(1)),
        "ip_version": 4,
    })))
}

/// `op=ip_addresses`: the addresses in use, with who uses them.
pub(crate) fn ip_addresses(world: &World, spec: &str) -> Result<Reply, Reply> {
    let found = world.subnet_by_spec(spec).ok_or_else(|| Reply::not_found("Subnet"))?;
    let mut rows: Vec<_> =
        world.rows.values().filter(|r| r.ip.is_some() && r.subnet == Some(found)).collect();
    rows.sort_by_key(|r| r.ip);
    let list: Vec<Value> = rows
        .iter()
        .map(|row| {
            let full = world.row_json(row);
            let date = world.clock.event_date(row.created);
            let mut out = json!({"ip": full["ip"], "alloc_type": full["alloc_type"], "created": date, "updated": date});
            if let Some(owner) = &row.owner {
                out["user"] = json!(owner);
            }
            let records: Vec<Value> = world
                .dns
                .iter()
                .filter(|d| d.rows.contains(&row.id))
                .map(|d| json!({"id": d.id, "name": d.name, "domain": world.domain_name(d.domain)}))
                .collect();
            if !records.is_empty() {
                out["dns_records"] = json!(records);
            }
            out
        })
        .collect();
    Ok(Reply::json(&Value::Array(list)))
}

pub(crate) fn fabrics(world: &World) -> Reply {
    let list = world.fabrics().into_iter().enumerate().map(|(id, name)| {
        let subnet = world.subnets.iter().position(|s| s.fabric == name).unwrap_or(0);
        json!({
            "id": id,
            "name": name,
            "class_type": null,
            "vlans": [world.vlan_json(subnet)],
            "resource_uri": format!("/MAAS/api/2.0/fabrics/{id}/"),
        })
    });
    Reply::json(&Value::Array(list.collect()))
}

/// No space is defined; MAAS shows the one of everything that has none.
pub(crate) fn spaces(world: &World) -> Reply {
    let subnets: Vec<Value> = (0..world.subnets.len()).map(|s| world.subnet_json(s)).collect();
    let vlans: Vec<Value> = world
        .fabrics()
        .iter()
        .filter_map(|f| world.subnets.iter().position(|s| s.fabric == *f))
        .map(|s| world.vlan_json(s))
        .collect();
    Reply::json(&json!([{
        "id": -1,
        "name": "undefined",
        "description": "Backward compatibility object to ensure objects not associated with a space can be found.",
        "subnets": subnets,
        "vlans": vlans,
        "resource_uri": "/MAAS/api/2.0/spaces/undefined/",
    }]))
}

/// The dynamic ranges of the inventory.
pub(crate) fn ip_ranges(world: &World) -> Reply {
    let ranges = world
        .subnets
        .iter()
        .enumerate()
        .filter_map(|(s, subnet)| Some((s, subnet.dynamic.as_ref()?)));
    let list = ranges.enumerate().map(|(i, (s, range))| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        json!({
            "id": i + 1,
            "type": "dynamic",
            "subnet": world.subnet_json(s),
            "start_ip": first,
            "end_ip": last,
            "user": null,
            "comment": "",
            "resource_uri": format!("/MAAS/api/2.0/ipranges/{}/", i + 1),
        })
    });
    Reply::json(&Value::Array(list.collect()))
}
