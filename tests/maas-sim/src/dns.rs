//! DNS resources and domains.

use crate::params::{form_value, stringbool};
use crate::reply::Reply;
use crate::request::{Pairs, Request};
use crate::users::User;
use crate::world::World;
use serde_json::{Value, json};
use std::net::IpAddr;

#[derive(Debug, Clone)]
pub(crate) struct DnsRecord {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) domain: u64,
    pub(crate) ttl: Option<u32>,
    /// Address rows: MAAS links rows, not addresses, which is why a released machine's entry turns null.
    pub(crate) rows: Vec<u64>,
    /// Its last row was just deleted.
    pub(crate) orphaned: bool,
}

/// MAAS's exception for a name that its pattern does not take.
fn unparsable() -> Reply {
    Reply::text(500, "cannot unpack non-iterable NoneType object")
}

impl World {
    pub(crate) fn record_fqdn(&self, record: &DnsRecord) -> String {
        let domain = self.domain_name(record.domain);
        if record.name == "@" { domain.into() } else { format!("{}.{domain}", record.name) }
    }

    fn record_json(&self, record: &DnsRecord) -> Value {
        let rows: Vec<Value> = record
            .rows
            .iter()
            .filter_map(|id| self.rows.get(id))
            .map(|r| self.row_json(r))
            .collect();
        json!({
            "id": record.id,
            "fqdn": self.record_fqdn(record),
            "address_ttl": record.ttl,
            "ip_addresses": rows,
            "resource_records": [],
            "resource_uri": format!("/MAAS/api/2.0/dnsresources/{}/", record.id),
        })
    }

    /// The first label is the name, the rest must be a domain. A trailing dot is dropped; a domain itself is `@`.
    fn split_fqdn(&self, fqdn: &str) -> Result<(String, u64), Reply> {
        let fqdn = fqdn.strip_suffix('.').unwrap_or(fqdn);
        if let Some(domain) = self.domains.iter().find(|d| d.name == fqdn) {
            return Ok(("@".into(), domain.id));
        }
        let plain = |text: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        };
        let Some((name, domain)) = fqdn.split_once('.') else {
            // The dot in MAAS's pattern matches anything: a word of three letters is a name, a "dot" and a domain.
            return Err(if fqdn.len() >= 3 && plain(fqdn) {
                Reply::not_found("Domain")
            } else {
                unparsable()
            });
        };
        if !plain(name) || !domain.split('.').all(plain) {
            return Err(unparsable());
        }
        Ok((name.to_owned(), self.find_domain(domain)?))
    }
}

/// What a create or update asks for.
struct Wanted {
    place: Option<(String, u64)>,
    ttl: Option<Option<u32>>,
    /// None when the field was not sent.
    addresses: Option<Vec<Address>>,
}

enum Address {
    Row(u64),
    Ip(IpAddr),
}

fn read_form(world: &World, fields: &Pairs, old: Option<&DnsRecord>) -> Result<Wanted, Reply> {
    let given = |key: &str| form_value(fields, key);
    let filled = |key: &str| given(key).filter(|v| !v.is_empty());
    let place = match (filled("fqdn"), filled("name"), filled("domain")) {
        (Some(fqdn), None, None) => Some(world.split_fqdn(&fqdn)?),
        (_, name, domain) => {
            let domain =
                domain.map(|d| world.find_domain(&d)).transpose()?.or(old.map(|o| o.domain));
            name.or_else(|| old.map(|o| o.name.clone())).zip(domain)
        }
    };
    let text = given("ip_addresses");
    let addresses = match &text {
        Some(text) => Some(read_addresses(world, text)?),
        None => None,
    };
    if let (Some((name, _)), true) = (&place, text.is_some())
        && !valid_label(name)
    {
        return Err(Reply::form("__all__", &format!("Invalid dnsresource name: {name}.")));
    }
    let ttl = match given("address_ttl") {
        None => None,
        Some(text) if text.is_empty() => Some(None),
        Some(text) => Some(Some(read_ttl(&text)?)),
    };
    Ok(Wanted { place, ttl, addresses })
}

fn read_ttl(text: &str) -> Result<u32, Reply> {
    let wrong = |message: &str| Reply::form("address_ttl", message);
    let number: i64 = text.trim().parse().map_err(|_| wrong("Enter a whole number."))?;
    if number < 0 {
        return Err(wrong("Ensure this value is greater than or equal to 0."));
    }
    u32::try_from(number)
        .ok()
        .filter(|n| *n <= 2_147_483_647)
        .ok_or_else(|| wrong("Ensure this value is less than or equal to 2147483647."))
}

/// One value, split at white space; a comma makes it garbage, and garbage is a 500.
fn read_addresses(world: &World, text: &str) -> Result<Vec<Address>, Reply> {
    let mut out = vec![];
    for word in text.split_whitespace() {
        if let Ok(id) = word.parse::<u64>() {
            // A row that does not exist is a foreign-key failure, which MAAS takes for a conflict.
            if !world.rows.contains_key(&id) {
                return Err(Reply::conflict_page());
            }
            out.push(Address::Row(id));
            continue;
        }
        let failed = || {
            Reply::text(
                500,
                &format!("failed to detect a valid IP address from {}", crate::params::repr(word)),
            )
        };
        out.push(Address::Ip(word.parse().map_err(|_| failed())?));
    }
    Ok(out)
}

pub(crate) fn valid_label(name: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    name == "@"
        || name == "*"
        || (name.len() <= 64 && plain && edge(name.chars().next()) && edge(name.chars().last()))
}

impl World {
    /// Known addresses are linked whatever they belong to; unknown ones become reserved for the caller.
    fn link(&mut self, addresses: Vec<Address>, user: &User) -> Vec<u64> {
        let mut rows = vec![];
        for address in addresses {
            let id = match address {
                Address::Row(id) => id,
                Address::Ip(ip) => {
                    self.row_by_ip(ip).unwrap_or_else(|| self.reserve(ip, &user.name))
                }
            };
            if !rows.contains(&id) {
                rows.push(id);
            }
        }
        rows
    }
}

pub(crate) fn create(world: &mut World, user: &User, request: &Request) -> Result<Reply, Reply> {
    if !user.admin {
        return Err(Reply::admins_only());
    }
    let wanted = read_form(world, &request.fields(), None)?;
    let Some((name, domain)) = wanted.place else {
        if wanted.addresses.is_some() {
            return Err(Reply::text(500, "'name'"));
        }
        let required = || vec!["This field is required.".to_owned()];
        return Err(Reply::forms(&[("name".into(), required()), ("domain".into(), required())]));
    };
    if world.dns.iter().any(|r| r.name == name && r.domain == domain) {
        return Err(Reply::form("__all__", "Labels must be unique within their zone."));
    }
    let rows = world.link(wanted.addresses.unwrap_or_default(), user);
    let id = world.next_id("dns");
    let record = DnsRecord { id, name, domain, ttl: wanted.ttl.flatten(), rows, orphaned: false };
    let reply = Reply::json(&world.record_json(&record));
    world.dns.push(record);
    Ok(reply)
}

fn position(world: &World, id: &str) -> Result<usize, Reply> {
    world
        .dns
        .iter()
        .position(|r| r.id.to_string() == id)
        .ok_or_else(|| Reply::not_found("DNSResource"))
}

pub(crate) fn read(world: &World, id: &str) -> Result<Reply, Reply> {
    Ok(Reply::json(&world.record_json(&world.dns[position(world, id)?])))
}

/// Addresses are replaced. Reserved rows that were dropped stay; without the field only the last address survives; and a
/// rename onto an existing name is not refused.
pub(crate) fn update(
    world: &mut World,
    user: &User,
    id: &str,
    request: &Request,
) -> Result<Reply, Reply> {
    let at = position(world, id)?;
    if !user.admin {
        return Err(Reply::forbidden());
    }
    let wanted = read_form(world, &request.fields(), Some(&world.dns[at]))?;
    let rows = match wanted.addresses {
        Some(addresses) => world.link(addresses, user),
        None => world.dns[at].rows.last().copied().into_iter().collect(),
    };
    let record = &mut world.dns[at];
    record.rows = rows;
    if let Some((name, domain)) = wanted.place {
        (record.name, record.domain) = (name, domain);
    }
    if let Some(ttl) = wanted.ttl {
        record.ttl = ttl;
    }
    Ok(Reply::json(&world.record_json(&world.dns[at])))
}

/// Reserved rows that no other record names go too.
pub(crate) fn delete(world: &mut World, user: &User, id: &str) -> Result<Reply, Reply> {
    let at = position(world, id)?;
    if !user.admin {
        return Err(Reply::forbidden());
    }
    let record = world.dns.remove(at);
    let unused = |row: &&u64| {
        let reserved = world
            .rows
            .get(row)
            .is_some_and(|r| r.kind == crate::addresses::AllocType::UserReserved);
        reserved && !world.dns.iter().any(|other| other.rows.contains(row))
    };
    let gone: Vec<u64> = record.rows.iter().filter(unused).copied().collect();
    world.delete_rows(&gone);
    Ok(Reply::deleted())
}

pub(crate) fn list(world: &World, _user: &User, request: &Request) -> Result<Reply, Reply> {
    let query = &request.query;
    let filled = |key: &str| form_value(query, key).filter(|v| !v.is_empty());
    let (mut name, domain) = (filled("name"), filled("domain"));
    let mut domain = domain.map(|d| world.find_domain(&d)).transpose()?;
    if name.is_none()
        && domain.is_none()
        && let Some(fqdn) = filled("fqdn")
    {
        let (label, of) = world.split_fqdn(&fqdn)?;
        (name, domain) = (Some(label), Some(of));
    }
    let fits = |label: &str, of: u64| {
        name.as_deref().is_none_or(|n| n == label) && domain.is_none_or(|d| d == of)
    };
    let mut list = vec![];
    if stringbool(query, "all")?.unwrap_or(false) {
        list.extend(crate::domains::synthetic(world, &fits));
    }
    // Only explicit data records have a type; addresses do not count.
    if filled("rrtype").is_none() {
        let mut records: Vec<&DnsRecord> =
            world.dns.iter().filter(|r| fits(&r.name, r.domain)).collect();
        records.sort_by_key(|r| r.id);
        list.extend(records.into_iter().map(|r| world.record_json(r)));
    }
    Ok(Reply::json(&Value::Array(list)))
}
