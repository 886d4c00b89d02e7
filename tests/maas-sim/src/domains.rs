//! Domains, and the names that MAAS serves in them.

use crate::dns::{DnsRecord, valid_label};
use crate::machines::Machine;
use crate::params::form_value;
use crate::reply::Reply;
use crate::request::Request;
use crate::users::User;
use crate::world::World;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;

#[derive(Debug, Clone)]
pub(crate) struct Domain {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) ttl: Option<u32>,
}

impl World {
    pub(crate) fn domain_name(&self, id: u64) -> &str {
        self.domains.iter().find(|d| d.id == id).map_or("", |d| &d.name)
    }

    /// Inside a machine the count is always 0.
    pub(crate) fn domain_json(&self, domain: &Domain, nested: bool) -> Value {
        let count = self.dns.iter().filter(|r| !nested && r.domain == domain.id).count();
        json!({
            "id": domain.id,
            "name": domain.name,
            "authoritative": true,
            "ttl": domain.ttl,
            "is_default": self.domains.first().is_some_and(|d| d.id == domain.id),
            "resource_record_count": count,
            "resource_uri": format!("/MAAS/api/2.0/domains/{}/", domain.id),
        })
    }

    /// By name, exactly, or by id.
    pub(crate) fn find_domain(&self, key: &str) -> Result<u64, Reply> {
        let found = self.domains.iter().find(|d| d.name == key || d.id.to_string() == key);
        found.map(|d| d.id).ok_or_else(|| Reply::not_found("Domain"))
    }
}

pub(crate) fn list(world: &World) -> Reply {
    Reply::json(&Value::Array(world.domains.iter().map(|d| world.domain_json(d, false)).collect()))
}

pub(crate) fn read(world: &World, key: &str) -> Result<Reply, Reply> {
    let id = world.find_domain(key.strip_prefix("name:").unwrap_or(key))?;
    let found =
        world.domains.iter().find(|d| d.id == id).ok_or_else(|| Reply::not_found("Domain"))?;
    Ok(Reply::json(&world.domain_json(found, false)))
}

pub(crate) fn create(world: &mut World, user: &User, request: &Request) -> Result<Reply, Reply> {
    if !user.admin {
        return Err(Reply::admins_only());
    }
    let name = form_value(&request.fields(), "name").unwrap_or_default();
    if name.is_empty() {
        return Err(Reply::form("name", "This field is required."));
    }
    if let Some(label) = name.split('.').find(|l| !valid_label(l)) {
        let messages = vec![
            "Domain name contains invalid characters.".to_owned(),
            format!("Label contains disallowed characters: '{label}'."),
        ];
        return Err(Reply::forms(&[("name".into(), messages)]));
    }
    if world.domains.iter().any(|d| d.name == name) {
        return Err(Reply::form("name", "Domain with this Name already exists."));
    }
    let domain = Domain { id: world.next_id("domain"), name, ttl: None };
    world.domains.push(domain.clone());
    Ok(Reply::json(&world.domain_json(&domain, false)))
}

pub(crate) fn delete(world: &mut World, user: &User, key: &str) -> Result<Reply, Reply> {
    if !user.admin {
        return Err(Reply::admins_only());
    }
    let id = world.find_domain(key.strip_prefix("name:").unwrap_or(key))?;
    if world.domains.first().is_some_and(|d| d.id == id) {
        return Err(Reply::text(400, "This domain is the default domain, it cannot be deleted."));
    }
    let held: Vec<String> = world
        .dns
        .iter()
        .filter(|r| r.domain == id)
        .map(|r| format!("<DNSResource: name={}>", r.name))
        .collect();
    if !held.is_empty() {
        let text = format!(
            "(\"Cannot delete some instances of model 'Domain' because they are referenced through protected foreign \
             keys: 'DNSResource.domain'.\", {{{}}})",
            held.join(", ")
        );
        return Err(Reply::text(500, &text));
    }
    world.domains.retain(|d| d.id != id);
    Ok(Reply::deleted())
}

/// What `all=true` adds to a list of resources: every name that MAAS serves, records and machines together, under id -1.
pub(crate) fn synthetic(world: &World, fits: &dyn Fn(&str, u64) -> bool) -> Vec<Value> {
    let mut names: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for record in world.dns.iter().filter(|r| fits(&r.name, r.domain)) {
        let machine = world.machines.iter().find(|m| m.hostname == record.name);
        for ip in record.rows.iter().filter_map(|id| world.rows.get(id)?.ip) {
            names.entry(world.record_fqdn(record)).or_default().push(served(
                ip,
                machine,
                Some(record),
            ));
        }
    }
    for machine in &world.machines {
        let domain =
            world.domains.iter().find(|d| d.name == world.domain_of(machine)).map_or(0, |d| d.id);
        if !fits(&machine.hostname, domain) {
            continue;
        }
        let record = world.dns.iter().find(|r| r.name == machine.hostname && r.domain == domain);
        for (position, ip) in world.machine_rows(machine) {
            // Only the first card goes under the machine's own name.
            let name = match position {
                0 => world.fqdn(machine),
                _ => format!("{}.{}", machine.interfaces[position].name, world.fqdn(machine)),
            };
            names.entry(name).or_default().push(served(ip, Some(machine), record));
        }
    }
    let object = |(fqdn, records): (String, Vec<Value>)| {
        json!({
            "id": -1, "fqdn": fqdn, "address_ttl": null, "ip_addresses": null, "resource_records": records,
            "resource_uri": "/MAAS/api/2.0/dnsresources/-1/",
        })
    };
    names.into_iter().map(object).collect()
}

fn served(ip: IpAddr, machine: Option<&Machine>, record: Option<&DnsRecord>) -> Value {
    json!({
        "system_id": machine.map(|m| &m.system_id),
        "node_type": machine.map(|_| 0),
        "user_id": record.map(|_| 2),
        "dnsresource_id": record.map(|r| r.id),
        "ttl": record.and_then(|r| r.ttl),
        "rrtype": if ip.is_ipv4() { "A" } else { "AAAA" },
        "rrdata": ip.to_string(),
        "dnsdata_id": null,
    })
}
