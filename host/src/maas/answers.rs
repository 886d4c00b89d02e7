//! MAAS's JSON, turned into what `core` reasons about. Everything may be absent or null.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use capmaas_core::maas::{
    DnsAddress, DnsResource, Hardware, Image, MaasEvent, Machine, Power, ReservedAddress, Status,
    User,
};
use capmaas_core::{CallError, Category};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

fn wire<T: DeserializeOwned>(json: &RawValue, what: &str) -> Result<T, CallError> {
    let read = serde_json::from_str::<Object<T>>(json.get());
    read.map(|object| object.0).map_err(|e| {
        let problem = e.to_string();
        // Where in a body that nobody sees is of no use.
        let problem = problem.split(" at line ").next().unwrap_or_default();
        let message = format!("MAAS shows a {what} that cannot be read: {problem}");
        CallError::new(Category::Malformed, &message)
    })
}

/// An object by its fields. Serde would take a list for one too, field after field as we name them.
#[derive(Default)]
struct Object<T>(T);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);

        impl<'de, T: DeserializeOwned> Visitor<'de> for Fields<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(fields))
            }
        }

        deserializer.deserialize_map(Fields(PhantomData)).map(Self)
    }
}

fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// A whole number that may come as a float: MAAS stores some sizes as such (`2097152.0`).
fn whole<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i64>,
{
    /// From here on a float may stand for several whole numbers.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let Some(shown) = Option::<serde_json::Number>::deserialize(deserializer)? else {
        return Ok(None);
    };
    let float = || shown.as_f64().filter(|f| f.abs() < EXACT).map(|f| f.floor() as i64);
    let fits = shown.as_i64().or_else(float).and_then(|n| T::try_from(n).ok());
    fits.map(Some).ok_or_else(|| serde::de::Error::custom(format!("{shown} is out of range")))
}

fn whole_or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i64> + Default,
{
    Ok(whole(deserializer)?.unwrap_or_default())
}

/// What only describes a machine never makes it unreadable.
fn if_readable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    let shown = Box::<RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(shown.get()).unwrap_or_default())
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
    #[serde(deserialize_with = "whole_or_default")]
    cpu_count: u32,
    #[serde(deserialize_with = "whole_or_default")]
    memory: u32,
    #[serde(deserialize_with = "or_default")]
    storage: f64,
    #[serde(deserialize_with = "whole")]
    swap_size: Option<i64>,
    #[serde(deserialize_with = "or_default")]
    ip_addresses: Vec<Option<String>>,
    #[serde(deserialize_with = "or_default")]
    locked: bool,
    #[serde(deserialize_with = "or_default")]
    ephemeral_deploy: bool,
    pod: Option<Object<Named>>,
    #[serde(deserialize_with = "if_readable")]
    hardware_info: Object<WireHardware>,
    #[serde(deserialize_with = "if_readable")]
    numanode_set: Vec<IgnoredAny>,
    #[serde(deserialize_with = "if_readable")]
    cpu_speed: f64,
    #[serde(deserialize_with = "if_readable")]
    power_type: String,
    #[serde(deserialize_with = "if_readable")]
    bios_boot_method: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireHardware {
    #[serde(deserialize_with = "if_readable")]
    cpu_model: String,
    #[serde(deserialize_with = "if_readable")]
    system_vendor: String,
    #[serde(deserialize_with = "if_readable")]
    system_product: String,
}

fn hardware(wire: &mut WireMachine) -> Hardware {
    // MAAS's word for what it has not found out.
    let known = |text: &mut String| Some(std::mem::take(text)).filter(|t| t.trim() != "Unknown");
    let told = &mut wire.hardware_info.0;
    Hardware {
        cpu_model: known(&mut told.cpu_model).unwrap_or_default(),
        cpu_speed: wire.cpu_speed as u32,
        system_vendor: known(&mut told.system_vendor).unwrap_or_default(),
        system_product: known(&mut told.system_product).unwrap_or_default(),
        numa_nodes: u32::try_from(wire.numanode_set.len()).unwrap_or(u32::MAX),
        power_type: std::mem::take(&mut wire.power_type),
        bios_boot_method: std::mem::take(&mut wire.bios_boot_method),
    }
}

pub(super) fn machine(json: &RawValue) -> Result<Machine, CallError> {
    let mut wire: WireMachine = wire(json, "machine")?;
    if wire.system_id.is_empty() {
        return Err(CallError::new(
            Category::Malformed,
            "MAAS shows a machine without a system_id",
        ));
    }
    let hostname = host_name(&wire);
    let hardware = hardware(&mut wire);
    Ok(Machine {
        system_id: wire.system_id,
        hostname,
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
        hardware,
    })
}

/// What people call a machine: without a host name the first part of the full one, else its id.
fn host_name(wire: &WireMachine) -> String {
    let short = wire.fqdn.split('.').next().unwrap_or_default();
    let names = [wire.hostname.as_str(), short, &wire.system_id];
    names.into_iter().find(|n| !n.is_empty()).unwrap_or_default().to_owned()
}

pub(super) fn list<T>(
    json: &RawValue,
    each: impl Fn(&RawValue) -> Result<T, CallError>,
) -> Result<Vec<T>, CallError> {
    match serde_json::from_str::<Vec<&RawValue>>(json.get()) {
        Ok(items) => items.into_iter().map(each).collect(),
        Err(_) => Err(CallError::new(Category::Malformed, "MAAS shows no list where one belongs")),
    }
}

/// The entries that can be read; the others are noted in the log.
pub(super) fn readable<T>(
    json: &RawValue,
    each: fn(&RawValue) -> Result<T, CallError>,
) -> Result<Vec<T>, CallError> {
    let entries = list(json, |entry| Ok(each(entry)))?;
    let noted = |e: &CallError| tracing::warn!(error = e.message, "left out of a listing");
    Ok(entries.into_iter().filter_map(|entry| entry.inspect_err(noted).ok()).collect())
}

/// The system id of something that may not be readable otherwise.
pub(super) fn system_id(json: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct WireId {
        system_id: String,
    }
    wire::<WireId>(json, "machine").ok().map(|wire| wire.system_id)
}

pub(super) fn names(json: &RawValue) -> Result<Vec<String>, CallError> {
    let name = |entry: &RawValue| Ok(wire::<Named>(entry, "named thing")?.name);
    let mut names = list(json, name)?;
    names.retain(|n| !n.is_empty());
    names.sort();
    Ok(names)
}

pub(super) fn user(json: &RawValue) -> Result<User, CallError> {
    #[derive(Deserialize)]
    struct WireUser {
        username: String,
        #[serde(default, deserialize_with = "or_default")]
        is_superuser: bool,
    }
    let user: WireUser = wire(json, "user")?;
    if user.username.is_empty() {
        return Err(CallError::new(Category::Malformed, "MAAS shows a user without a name"));
    }
    Ok(User { name: user.username, admin: user.is_superuser })
}

pub(super) fn image(json: &RawValue) -> Result<Image, CallError> {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct WireImage {
        #[serde(deserialize_with = "or_default")]
        name: String,
        #[serde(deserialize_with = "or_default")]
        architecture: String,
    }
    let image: WireImage = wire(json, "image")?;
    Ok(Image { name: image.name, architecture: image.architecture })
}

pub(super) fn events(json: &RawValue) -> Result<Vec<MaasEvent>, CallError> {
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
    let events: WireEvents = wire(json, "list of events")?;
    let into =
        |Object(e): Object<WireEvent>| MaasEvent { kind: e.kind, description: e.description };
    Ok(events.events.into_iter().map(into).collect())
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireAddress {
    ip: Option<String>,
    #[serde(deserialize_with = "whole")]
    alloc_type: Option<u32>,
}

/// MAAS's number for a row that a user reserved; a DNS record reserves what it does not know.
const USER_RESERVED: u32 = 4;

pub(super) fn dns_resource(json: &RawValue) -> Result<DnsResource, CallError> {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct WireResource {
        #[serde(deserialize_with = "whole")]
        id: Option<i64>,
        #[serde(deserialize_with = "or_default")]
        fqdn: String,
        #[serde(deserialize_with = "whole")]
        address_ttl: Option<u32>,
        #[serde(deserialize_with = "or_default")]
        ip_addresses: Vec<Object<WireAddress>>,
    }
    let resource: WireResource = wire(json, "DNS resource")?;
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

pub(super) fn reservation(json: &RawValue, ip: &str) -> Result<Option<ReservedAddress>, CallError> {
    let rows: Vec<WireAddress> = list(json, |row: &RawValue| wire(row, "address"))?;
    let ours = |r: &WireAddress| {
        r.ip.as_deref() == Some(ip) && r.alloc_type.is_none_or(|t| t == USER_RESERVED)
    };
    Ok(rows.iter().any(ours).then(|| ReservedAddress { ip: ip.to_owned() }))
}

pub(super) fn version(json: &RawValue) -> Result<String, CallError> {
    #[derive(Deserialize)]
    struct WireVersion {
        version: String,
    }
    let version: WireVersion = wire(json, "version")?;
    Ok(version.version)
}
