//! MAAS's JSON, turned into what `core` reasons about. Everything may be absent or null.

use std::collections::BTreeMap;

use capmaas_core::maas::{
    DnsAddress, DnsResource, Image, MaasEvent, Machine, Power, ReservedAddress, Status, User,
};
use capmaas_core::{CallError, Category};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

fn wire<T: DeserializeOwned>(value: Value, what: &str) -> Result<T, CallError> {
    let read = serde_json::from_value::<Object<T>>(value);
    read.map(|object| object.0).map_err(|e| {
        let message = format!("MAAS shows a {what} that cannot be read: {e}");
        CallError::new(Category::Malformed, &message)
    })
}

/// An object by its fields. Serde would take a list for one too, field after field as we name them.
#[derive(Default)]
struct Object<T>(T);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = Map::deserialize(deserializer)?;
        T::deserialize(Value::Object(fields)).map(Self).map_err(D::Error::custom)
    }
}

fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Named {
    #[serde(deserialize_with = "or_default")]
    name: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireMachine {
    system_id: String,
    #[serde(deserialize_with = "or_default")]
    hostname: String,
    #[serde(deserialize_with = "or_default")]
    fqdn: String,
    #[serde(deserialize_with = "or_default")]
    status_name: String,
    #[serde(deserialize_with = "or_default")]
    status_message: String,
    #[serde(deserialize_with = "or_default")]
    error_description: String,
    owner: Option<String>,
    #[serde(deserialize_with = "or_default")]
    workload_annotations: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    zone: Object<Named>,
    #[serde(deserialize_with = "or_default")]
    pool: Object<Named>,
    #[serde(deserialize_with = "or_default")]
    tag_names: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    power_state: String,
    #[serde(deserialize_with = "or_default")]
    architecture: String,
    #[serde(deserialize_with = "or_default")]
    cpu_count: u32,
    #[serde(deserialize_with = "or_default")]
    memory: u32,
    #[serde(deserialize_with = "or_default")]
    storage: f64,
    swap_size: Option<i64>,
    #[serde(deserialize_with = "or_default")]
    ip_addresses: Vec<Option<String>>,
    #[serde(deserialize_with = "or_default")]
    locked: bool,
    #[serde(deserialize_with = "or_default")]
    ephemeral_deploy: bool,
    pod: Option<Object<Named>>,
}

pub(super) fn machine(value: Value) -> Result<Machine, CallError> {
    let wire: WireMachine = wire(value, "machine")?;
    if wire.system_id.is_empty() {
        return Err(CallError::new(
            Category::Malformed,
            "MAAS shows a machine without a system_id",
        ));
    }
    Ok(Machine {
        system_id: wire.system_id,
        hostname: wire.hostname,
        fqdn: wire.fqdn,
        status: Status::from_label(&wire.status_name),
        status_message: wire.status_message,
        error_description: wire.error_description,
        owner: wire.owner.filter(|o| !o.is_empty()),
        annotations: wire.workload_annotations,
        zone: wire.zone.0.name,
        pool: wire.pool.0.name,
        tags: wire.tag_names,
        power: match wire.power_state.as_str() {
            "on" => Power::On,
            "off" => Power::Off,
            "error" => Power::Error,
            _ => Power::Unknown,
        },
        architecture: wire.architecture,
        cpu_count: wire.cpu_count,
        memory: wire.memory,
        storage: wire.storage.max(0.0) as u64,
        swap_size: wire.swap_size,
        ip_addresses: wire.ip_addresses.into_iter().flatten().filter(|a| !a.is_empty()).collect(),
        locked: wire.locked,
        ephemeral: wire.ephemeral_deploy,
        vm_host: wire.pod.map(|p| p.0.name).filter(|n| !n.is_empty()),
    })
}

pub(super) fn list<T>(
    value: Value,
    each: impl Fn(Value) -> Result<T, CallError>,
) -> Result<Vec<T>, CallError> {
    match value {
        Value::Array(items) => items.into_iter().map(each).collect(),
        _ => Err(CallError::new(Category::Malformed, "MAAS shows no list where one belongs")),
    }
}

/// The entries that can be read; the others are noted in the log.
pub(super) fn readable<T>(
    value: Value,
    each: fn(Value) -> Result<T, CallError>,
) -> Result<Vec<T>, CallError> {
    let entries = list(value, |entry| Ok(each(entry)))?;
    let noted = |e: &CallError| tracing::warn!(error = e.message, "left out of a listing");
    Ok(entries.into_iter().filter_map(|entry| entry.inspect_err(noted).ok()).collect())
}

pub(super) fn names(value: Value) -> Result<Vec<String>, CallError> {
    let name = |entry| Ok(wire::<Named>(entry, "named thing")?.name);
    let mut names = list(value, name)?;
    names.retain(|n| !n.is_empty());
    names.sort();
    Ok(names)
}

pub(super) fn user(value: Value) -> Result<User, CallError> {
    #[derive(Deserialize)]
    struct WireUser {
        username: String,
        #[serde(default, deserialize_with = "or_default")]
        is_superuser: bool,
    }
    let user: WireUser = wire(value, "user")?;
    if user.username.is_empty() {
        return Err(CallError::new(Category::Malformed, "MAAS shows a user without a name"));
    }
    Ok(User { name: user.username, admin: user.is_superuser })
}

pub(super) fn image(value: Value) -> Result<Image, CallError> {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct WireImage {
        #[serde(deserialize_with = "or_default")]
        name: String,
        #[serde(deserialize_with = "or_default")]
        architecture: String,
    }
    let image: WireImage = wire(value, "image")?;
    Ok(Image { name: image.name, architecture: image.architecture })
}

pub(super) fn events(value: Value) -> Result<Vec<MaasEvent>, CallError> {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct WireEvent {
        #[serde(rename = "type", deserialize_with = "or_default")]
        kind: String,
        #[serde(deserialize_with = "or_default")]
        description: String,
    }
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct WireEvents {
        #[serde(deserialize_with = "or_default")]
        events: Vec<Object<WireEvent>>,
    }
    let events: WireEvents = wire(value, "list of events")?;
    let into =
        |Object(e): Object<WireEvent>| MaasEvent { kind: e.kind, description: e.description };
    Ok(events.events.into_iter().map(into).collect())
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireAddress {
    ip: Option<String>,
    alloc_type: Option<u32>,
}

/// MAAS's number for a row that a user reserved; a DNS record reserves what it does not know.
const USER_RESERVED: u32 = 4;

pub(super) fn dns_resource(value: Value) -> Result<DnsResource, CallError> {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct WireResource {
        id: Option<i64>,
        #[serde(deserialize_with = "or_default")]
        fqdn: String,
        address_ttl: Option<u32>,
        #[serde(deserialize_with = "or_default")]
        ip_addresses: Vec<Object<WireAddress>>,
    }
    let resource: WireResource = wire(value, "DNS resource")?;
    // The entries that MAAS makes up for machines have the id -1.
    let id = resource.id.and_then(|id| u64::try_from(id).ok()).ok_or_else(|| {
        CallError::new(Category::Malformed, "MAAS shows a DNS resource without an id")
    })?;
    let addresses = resource
        .ip_addresses
        .into_iter()
        // The row of a released machine keeps hanging on the record, without an address.
        .filter_map(|Object(a)| Some((a.ip.filter(|ip| !ip.is_empty())?, a.alloc_type)))
        .map(|(ip, kind)| DnsAddress { ip, reserved: kind == Some(USER_RESERVED) })
        .collect();
    Ok(DnsResource { id, fqdn: resource.fqdn, ttl: resource.address_ttl, addresses })
}

pub(super) fn reservation(value: Value, ip: &str) -> Result<Option<ReservedAddress>, CallError> {
    let rows: Vec<WireAddress> = list(value, |row| wire(row, "address"))?;
    let ours = |r: &WireAddress| {
        r.ip.as_deref() == Some(ip) && r.alloc_type.is_none_or(|t| t == USER_RESERVED)
    };
    Ok(rows.iter().any(ours).then(|| ReservedAddress { ip: ip.to_owned() }))
}

pub(super) fn version(value: Value) -> Result<String, CallError> {
    #[derive(Deserialize)]
    struct WireVersion {
        version: String,
    }
    let version: WireVersion = wire(value, "version")?;
    Ok(version.version)
}
