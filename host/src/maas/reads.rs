use std::collections::BTreeMap;

use capmaas_core::policy::AllocateConstraints;
use capmaas_core::{CallError, Category, Read, Reply};
use serde_json::value::RawValue;

use super::answers;
use super::wire::{Call, Wire};

type Query = Vec<(&'static str, String)>;

/// Carries out one read.
pub(super) async fn read(maas: &Wire, read: &Read) -> Result<Reply, CallError> {
    let (path, query) = question(read)?;
    reply(read, maas.call(Call::get(&path, query)).await)
}

/// Several machines at once, by system id. Those that MAAS does not show are missing; one that cannot be read spoils
/// no other.
pub(super) async fn machines_by_id(
    maas: &Wire,
    ids: &[String],
) -> Result<BTreeMap<String, Result<Reply, CallError>>, CallError> {
    let query = ids.iter().map(|id| ("id", id.clone())).collect();
    let answer = maas.call(Call::get("machines/", query)).await?;
    let machine = |json: &RawValue| {
        let shown = answers::machine(json).map(|m| Reply::Machine(Box::new(m)));
        Ok(answers::system_id(json).map(|id| (id, shown)))
    };
    Ok(answers::list(&answer, machine)?.into_iter().flatten().collect())
}

/// Where a read is answered, and with which query.
fn question(read: &Read) -> Result<(String, Query), CallError> {
    let op = |op: &str| ("op", op.to_owned());
    let at = |path: &str, query: Query| Ok((path.to_owned(), query));
    match read {
        Read::Machine(id) => Ok((machine_path(id)?, vec![])),
        Read::MachinesByMark(mark) => at("machines/", vec![("agent_name", mark.clone())]),
        Read::Candidates(within) => at("machines/", filters(within)),
        Read::WhoAmI => at("users/", vec![op("whoami")]),
        Read::Version => at("version/", vec![]),
        Read::Images => at("boot-resources/", vec![]),
        Read::Zones => at("zones/", vec![]),
        Read::Pools => at("resourcepools/", vec![]),
        Read::Tags => at("tags/", vec![]),
        Read::Domains => at("domains/", vec![]),
        Read::ErrorEvents(id) => {
            let newest = [("id", id.clone()), ("level", "ERROR".into()), ("limit", "5".into())];
            at("events/", std::iter::once(op("query")).chain(newest).collect())
        }
        Read::DnsByName(fqdn) => at("dnsresources/", vec![("fqdn", fqdn.clone())]),
        Read::DnsResource(id) => at(&format!("dnsresources/{id}/"), vec![]),
        Read::DnsRecords => at("dnsresources/", vec![]),
        Read::Reservation(ip) => at("ipaddresses/", vec![("ip", ip.clone())]),
        _ => Err(not_ours()),
    }
}

/// What MAAS's answer to a read says. It is about what was asked, or it is malformed.
///
/// # Errors
/// The call's own, or `Malformed` when the answer is not what MAAS documents.
pub fn reply(read: &Read, answer: Result<Box<RawValue>, CallError>) -> Result<Reply, CallError> {
    let gone = |e: &CallError| e.category == Category::NotFound;
    let found = match (read, answer) {
        (Read::Machine(_), Err(e)) if gone(&e) => return Ok(Reply::Absent),
        (Read::DnsResource(_), Err(e)) if gone(&e) => return Ok(Reply::Dns(vec![])),
        (_, answer) => answer?,
    };
    let found = &*found;
    Ok(match read {
        Read::Machine(id) => {
            let machine = answers::machine(found)?;
            about(machine.system_id == *id, "machine")?;
            Reply::Machine(Box::new(machine))
        }
        // One that is left out here may be ours, and would be taken twice.
        Read::MachinesByMark(_) => Reply::Machines(answers::list(found, answers::machine)?),
        Read::Candidates(_) => Reply::Machines(answers::readable(found, answers::machine)?),
        Read::WhoAmI => Reply::User(answers::user(found)?),
        Read::Version => Reply::Text(answers::version(found)?),
        Read::Images => Reply::Images(answers::list(found, answers::image)?),
        Read::Zones | Read::Pools | Read::Tags | Read::Domains => {
            Reply::Names(answers::names(found)?)
        }
        Read::ErrorEvents(_) => Reply::Events(answers::events(found)?),
        Read::DnsByName(fqdn) => {
            let records = answers::list(found, answers::dns_resource)?;
            about(records.iter().all(|r| same_name(&r.fqdn, fqdn)), "DNS record")?;
            Reply::Dns(records)
        }
        Read::DnsResource(id) => {
            let record = answers::dns_resource(found)?;
            about(record.id == *id, "DNS record")?;
            Reply::Dns(vec![record])
        }
        Read::DnsRecords => Reply::Dns(answers::list(found, answers::dns_resource)?),
        Read::Reservation(ip) => {
            answers::reservation(found, ip)?.map_or(Reply::Absent, Reply::Reserved)
        }
        _ => return Err(not_ours()),
    })
}

/// A cache or a proxy that drops the query would make another's machine or record ours.
fn about(asked: bool, what: &str) -> Result<(), CallError> {
    let other = || format!("MAAS shows another {what} than the one that was asked for");
    asked.then_some(()).ok_or_else(|| CallError::new(Category::Malformed, other()))
}

/// A record whose name is not shown may be the one.
fn same_name(shown: &str, asked: &str) -> bool {
    let bare = |name: &str| name.trim_end_matches('.').to_ascii_lowercase();
    shown.is_empty() || bare(shown) == bare(asked)
}

fn not_ours() -> CallError {
    CallError::new(Category::Malformed, "not a question for MAAS")
}

/// The path of a machine. A system id is letters and digits; anything else would be another path.
pub(super) fn machine_path(id: &str) -> Result<String, CallError> {
    if id.is_empty() || !id.chars().all(|c| c.is_ascii_alphanumeric()) {
        let shown: String = id.chars().take(40).collect();
        return Err(CallError::new(
            Category::BadRequest,
            format!("{shown:?} is no MAAS system id"),
        ));
    }
    Ok(format!("machines/{id}/"))
}

/// The filters of a listing: the same constraints under which allocate would choose.
fn filters(within: &AllocateConstraints) -> Vec<(&'static str, String)> {
    let mut query = vec![("status", "ready".to_owned())];
    query.extend(constraint_parameters(within));
    query
}

/// Constraints as allocate and the listing both take them. MAAS ORs repeated zones and pools, ANDs
/// repeated tags, and does not split `not_tags` at commas.
pub(super) fn constraint_parameters(within: &AllocateConstraints) -> Vec<(&'static str, String)> {
    let c = &within.constraints;
    let mut parameters =
        vec![("cpu_count", c.min_cpu_cores.to_string()), ("mem", c.min_memory_mib.to_string())];
    let lists: [(&'static str, &[String]); 6] = [
        ("zone", &c.zones),
        ("pool", &c.pools),
        ("tags", &c.tags),
        ("not_in_zone", &c.not_zones),
        ("not_in_pool", &c.not_pools),
        ("not_tags", &c.not_tags),
    ];
    for (name, values) in lists {
        parameters.extend(values.iter().map(|v| (name, v.clone())));
    }
    if let Some(gb) = within.min_disk_gb {
        parameters.push(("storage", gb.to_string()));
    }
    parameters
}
