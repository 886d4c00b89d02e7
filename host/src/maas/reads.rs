use std::collections::BTreeMap;

use capmaas_core::policy::AllocateConstraints;
use capmaas_core::{CallError, Category, Read, Reply};

use super::answers;
use super::wire::{Call, Wire};

/// Carries out one read.
pub(super) async fn read(maas: &Wire, read: &Read) -> Result<Reply, CallError> {
    match read {
        Read::Machine(id) => absent(maas.call(Call::get(&machine_path(id)?, vec![])).await, |v| {
            Ok(Reply::Machine(Box::new(answers::machine(v)?)))
        }),
        Read::MachinesByMark(mark) => {
            let query = vec![("agent_name", mark.clone())];
            machines(maas, query).await
        }
        Read::Candidates(within) => machines(maas, filters(within)).await,
        Read::WhoAmI => {
            let query = vec![("op", "whoami".to_owned())];
            Ok(Reply::User(answers::user(maas.call(Call::get("users/", query)).await?)?))
        }
        Read::Version => {
            Ok(Reply::Text(answers::version(maas.call(Call::get("version/", vec![])).await?)?))
        }
        Read::Images => {
            let list = maas.call(Call::get("boot-resources/", vec![])).await?;
            Ok(Reply::Images(answers::list(list, answers::image)?))
        }
        Read::Zones => names(maas, "zones/").await,
        Read::Pools => names(maas, "resourcepools/").await,
        Read::Tags => names(maas, "tags/").await,
        Read::Domains => names(maas, "domains/").await,
        Read::ErrorEvents(id) => {
            let query = vec![
                ("op", "query".to_owned()),
                ("id", id.clone()),
                ("level", "ERROR".to_owned()),
                ("limit", "5".to_owned()),
            ];
            Ok(Reply::Events(answers::events(maas.call(Call::get("events/", query)).await?)?))
        }
        Read::DnsByName(fqdn) => {
            let query = vec![("fqdn", fqdn.clone())];
            let found = maas.call(Call::get("dnsresources/", query)).await?;
            Ok(Reply::Dns(answers::list(found, answers::dns_resource)?))
        }
        Read::DnsResource(id) => {
            let path = format!("dnsresources/{id}/");
            match maas.call(Call::get(&path, vec![])).await {
                Ok(found) => Ok(Reply::Dns(vec![answers::dns_resource(found)?])),
                Err(error) if error.category == Category::NotFound => Ok(Reply::Dns(vec![])),
                Err(error) => Err(error),
            }
        }
        Read::Reservation(ip) => {
            let found = maas.call(Call::get("ipaddresses/", vec![("ip", ip.clone())])).await?;
            Ok(answers::reservation(found, ip)?.map_or(Reply::Absent, Reply::Reserved))
        }
        _ => Err(CallError::new(Category::Malformed, "not a question for MAAS")),
    }
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

fn absent(
    answer: Result<serde_json::Value, CallError>,
    present: impl FnOnce(serde_json::Value) -> Result<Reply, CallError>,
) -> Result<Reply, CallError> {
    match answer {
        Ok(value) => present(value),
        Err(error) if error.category == Category::NotFound => Ok(Reply::Absent),
        Err(error) => Err(error),
    }
}

/// Several machines at once, by system id. Those that MAAS does not show are missing; one that cannot be read spoils
/// no other.
pub(super) async fn machines_by_id(
    maas: &Wire,
    ids: &[String],
) -> Result<BTreeMap<String, Result<Reply, CallError>>, CallError> {
    let query = ids.iter().map(|id| ("id", id.clone())).collect();
    let found = maas.call(Call::get("machines/", query)).await?;
    let list = match found {
        serde_json::Value::Array(list) => list,
        _ => return Err(CallError::new(Category::Malformed, "MAAS shows no list of machines")),
    };
    let with_id = list.into_iter().filter_map(|machine| {
        let id = machine.get("system_id")?.as_str()?.to_owned();
        Some((id, answers::machine(machine).map(|m| Reply::Machine(Box::new(m)))))
    });
    Ok(with_id.collect())
}

async fn machines(maas: &Wire, query: Vec<(&str, String)>) -> Result<Reply, CallError> {
    let found = maas.call(Call::get("machines/", query)).await?;
    Ok(Reply::Machines(answers::list(found, answers::machine)?))
}

async fn names(maas: &Wire, path: &str) -> Result<Reply, CallError> {
    Ok(Reply::Names(answers::names(maas.call(Call::get(path, vec![])).await?)?))
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
