//! What MAAS answers, and what is made of it.

use capmaas::maas::{Answer, ApiKey, reply};
use capmaas_core::maas::{DnsResource, Machine, Power};
use capmaas_core::{CallError, Category, Read, Reply};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

const SECRET: &str = "7kQv2XwZb9TnR4sLd8HmYc3PfGj6AeUx";

/// A body in which our own secret stands, as something in between may repeat it.
pub(crate) fn with_secret(before: &str, after: &str, escaped: bool, form: bool) -> Vec<u8> {
    let text = format!("{before}{SECRET}{after}");
    let body = match form {
        true => json!({ "header": [text] }).to_string(),
        false => text,
    };
    let first = SECRET.chars().next().unwrap();
    let hidden = format!("\\u{:04x}{}", first as u32, &SECRET[1..]);
    (if escaped { body.replace(SECRET, &hidden) } else { body }).into_bytes()
}

fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).unwrap()
}

fn decent(error: &CallError) {
    assert!(!error.message.is_empty(), "{error:?}");
    assert!(error.message.chars().count() <= 500, "{error:?}");
    assert!(!error.message.chars().any(char::is_control), "{error:?}");
    let again = error.again(30);
    assert!((1..=3600).contains(&again), "{again}");
}

/// A body is JSON, nothing, or a refusal in decent words.
pub(crate) fn refuses(answer: &Answer) {
    let key = ApiKey::parse(&format!("consumer:token:{SECRET}")).unwrap();
    for reading in [true, false] {
        let error = match answer.json(reading, &key) {
            Ok(value) => {
                assert!((200..300).contains(&answer.status), "{}", answer.status);
                let blank = answer.body.iter().all(u8::is_ascii_whitespace);
                let said = serde_json::from_slice::<Value>(&answer.body).ok();
                assert_eq!(
                    said,
                    serde_json::from_str::<Value>(value.get()).ok().filter(|_| !blank)
                );
                assert!(!blank || value.get() == "null");
                continue;
            }
            Err(error) => error,
        };
        decent(&error);
        assert!(!format!("{error:?}").contains(SECRET), "{error:?}");
        if (200..300).contains(&answer.status) {
            let done = if reading { Category::Malformed } else { Category::Unknown };
            assert_eq!((error.category, error.status), (done, None));
            continue;
        }
        assert_eq!(error.status, Some(answer.status));
        assert_eq!(error.retry_after, answer.retry_after);
        match answer.status {
            401 => assert_eq!(error.category, Category::Unauthorized),
            404 => assert_eq!(error.category, Category::NotFound),
            // Nobody may take these for a no: it may have been done.
            500..=599 => assert!(error.ambiguous(), "{error:?}"),
            _ => {}
        }
    }
}

/// The answer to a read is about what was asked, and holds what was shown.
pub(crate) fn reads(read: &Read, shown: &Value) {
    match reply(read, Ok(raw(shown))) {
        Err(error) => {
            decent(&error);
            assert_eq!(error.category, Category::Malformed, "{read:?}");
        }
        Ok(reply) => holds(read, shown, reply),
    }
    let gone = || Err(CallError::new(Category::NotFound, "gone"));
    let absent = matches!(read, Read::Machine(_) | Read::DnsResource(_));
    assert_eq!(reply(read, gone()).is_ok(), absent, "{read:?}");
    let down = CallError::new(Category::Unavailable, "down");
    assert_eq!(reply(read, Err(down.clone())), Err(down), "{read:?}");
}

fn holds(read: &Read, shown: &Value, reply: Reply) {
    match (read, reply) {
        (Read::Machine(id), Reply::Machine(machine)) => {
            assert_eq!(machine.system_id, *id);
            is_machine(shown, &machine);
        }
        (Read::MachinesByMark(_), Reply::Machines(machines)) => {
            let all = entries(shown);
            assert_eq!(machines.len(), all.len(), "one that is left out may be ours");
            all.iter().zip(&machines).for_each(|(v, m)| is_machine(v, m));
        }
        (Read::Candidates(_), Reply::Machines(machines)) => {
            assert!(machines.iter().all(|m| !m.system_id.is_empty()));
            offers_the_readable(entries(shown));
        }
        (Read::WhoAmI, Reply::User(user)) => {
            assert_eq!(shown["username"], json!(user.name));
            assert!(!user.name.is_empty());
            assert_eq!(user.admin, shown["is_superuser"] == json!(true));
        }
        (Read::Version, Reply::Text(version)) => assert_eq!(shown["version"], json!(version)),
        (Read::Images, Reply::Images(images)) => {
            let names: Vec<String> = entries(shown).iter().map(|v| text(v, "name")).collect();
            assert_eq!(images.into_iter().map(|i| i.name).collect::<Vec<_>>(), names);
        }
        (Read::Zones | Read::Pools | Read::Tags | Read::Domains, Reply::Names(names)) => {
            let mut all: Vec<String> = entries(shown).iter().map(|v| text(v, "name")).collect();
            all.retain(|n| !n.is_empty());
            all.sort();
            assert_eq!(names, all);
        }
        (Read::ErrorEvents(_), Reply::Events(events)) => {
            let all = shown["events"].as_array().map_or(0, Vec::len);
            assert_eq!(events.len(), all);
        }
        (Read::DnsByName(name), Reply::Dns(records)) => {
            assert_eq!(records.len(), entries(shown).len());
            let ours = |r: &DnsResource| r.fqdn.is_empty() || r.fqdn.eq_ignore_ascii_case(name);
            assert!(records.iter().all(ours), "{records:?}");
            entries(shown).iter().zip(&records).for_each(|(v, r)| is_record(v, r));
        }
        (Read::DnsRecords, Reply::Dns(records)) => {
            assert_eq!(records.len(), entries(shown).len());
            entries(shown).iter().zip(&records).for_each(|(v, r)| is_record(v, r));
        }
        (Read::DnsResource(id), Reply::Dns(records)) => {
            assert_eq!((records.len(), records[0].id), (1, *id));
            is_record(shown, &records[0]);
        }
        (Read::Reservation(ip), Reply::Reserved(row)) => {
            assert_eq!(row.ip, *ip);
            let reserved =
                |v: &Value| v["alloc_type"].is_null() || whole(v, "alloc_type") == Some(4);
            assert!(entries(shown).iter().any(|v| text(v, "ip") == *ip && reserved(v)));
        }
        (Read::Reservation(_), Reply::Absent) => {}
        (read, reply) => panic!("{read:?} is answered by {reply:?}"),
    }
}

fn entries(shown: &Value) -> &[Value] {
    shown.as_array().expect("only a list is a list")
}

/// A text, or nothing where MAAS shows nothing. Anything else must not have been read.
fn text(shown: &Value, field: &str) -> String {
    match &shown[field] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => panic!("{field} was read from {other}"),
    }
}

/// A whole number, which may be shown as a float.
fn whole(shown: &Value, field: &str) -> Option<i64> {
    let value = &shown[field];
    value.as_i64().or_else(|| value.as_f64().map(|f| f.floor() as i64))
}

fn number(shown: &Value, field: &str) -> u64 {
    match &shown[field] {
        Value::Null => 0,
        other => {
            let read = whole(shown, field).and_then(|n| u64::try_from(n).ok());
            read.unwrap_or_else(|| panic!("{field} was read from {other}"))
        }
    }
}

/// A machine without a host name goes by its full name or its id.
fn host_name(shown: &Value) -> String {
    let (host, full) = (text(shown, "hostname"), text(shown, "fqdn"));
    let short = full.split('.').next().unwrap_or_default().to_owned();
    let names = [host, short, text(shown, "system_id")];
    names.into_iter().find(|n| !n.is_empty()).unwrap_or_default()
}

fn is_machine(shown: &Value, machine: &Machine) {
    assert!(!machine.system_id.is_empty());
    let texts = [
        ("system_id", machine.system_id.as_str()),
        ("fqdn", &machine.fqdn),
        ("status_name", machine.status.label()),
        ("status_message", &machine.status_message),
        ("error_description", &machine.error_description),
        ("owner", machine.owner.as_deref().unwrap_or_default()),
        ("architecture", &machine.architecture),
    ];
    for (field, read) in texts {
        assert_eq!(text(shown, field), read, "{field}");
    }
    assert_eq!(host_name(shown), machine.hostname);
    let names = [
        ("zone", machine.zone.as_str()),
        ("pool", &machine.pool),
        ("pod", machine.vm_host.as_deref().unwrap_or_default()),
    ];
    for (field, read) in names.into_iter().filter(|(field, _)| shown[field].is_object()) {
        assert_eq!(text(&shown[field], "name"), read, "{field}");
    }
    assert_eq!(number(shown, "cpu_count"), u64::from(machine.cpu_count));
    assert_eq!(number(shown, "memory"), u64::from(machine.memory));
    assert_eq!(whole(shown, "swap_size"), machine.swap_size);
    assert_eq!(shown["locked"] == json!(true), machine.locked);
    assert_eq!(shown["ephemeral_deploy"] == json!(true), machine.ephemeral);
    assert_eq!(machine.storage, shown["storage"].as_f64().unwrap_or_default() as u64);
    let or_empty = |field: &str, empty: Value| match &shown[field] {
        Value::Null => empty,
        value => value.clone(),
    };
    assert_eq!(json!(machine.tags), or_empty("tag_names", json!([])));
    assert_eq!(json!(machine.annotations), or_empty("workload_annotations", json!({})));
    let power = match shown["power_state"].as_str() {
        Some("on") => Power::On,
        Some("off") => Power::Off,
        Some("error") => Power::Error,
        _ => Power::Unknown,
    };
    assert_eq!(machine.power, power);
    let shown_ips = shown["ip_addresses"].as_array().into_iter().flatten();
    let ips: Vec<&str> = shown_ips.filter_map(Value::as_str).filter(|a| !a.is_empty()).collect();
    assert_eq!(machine.ip_addresses, ips);
}

fn is_record(shown: &Value, record: &DnsResource) {
    assert_eq!(number(shown, "id"), record.id);
    assert_eq!(whole(shown, "address_ttl"), record.ttl.map(i64::from));
    let rows = shown["ip_addresses"].as_array().into_iter().flatten();
    let rows: Vec<(String, bool)> = rows
        .map(|row| (text(row, "ip"), whole(row, "alloc_type") == Some(4)))
        .filter(|(ip, _)| !ip.is_empty())
        .collect();
    let read: Vec<(String, bool)> =
        record.addresses.iter().map(|a| (a.ip.clone(), a.reserved)).collect();
    assert_eq!(read, rows);
}

/// Those that can be read by themselves are offered, in their order, whatever stands beside them.
pub(crate) fn offers_the_readable(machines: &[Value]) {
    let alone = |v: &Value| match reply(&Read::MachinesByMark("m".into()), Ok(raw(&json!([v])))) {
        Ok(Reply::Machines(mut one)) => one.pop(),
        _ => None,
    };
    let readable: Vec<Machine> = machines.iter().filter_map(alone).collect();
    let offered = reply(&Read::Candidates(Box::default()), Ok(raw(&json!(machines))));
    assert_eq!(offered, Ok(Reply::Machines(readable.clone())));
    let marked = reply(&Read::MachinesByMark("m".into()), Ok(raw(&json!(machines))));
    assert_eq!(marked.is_ok(), readable.len() == machines.len(), "none of ours is overlooked");
}

/// A field that capmaas does not know makes no difference.
pub(crate) fn ignores_news(read: &Read, shown: &Value, value: &Value) {
    let before = reply(read, Ok(raw(shown)));
    let mut newer = shown.clone();
    let objects: Vec<&mut Value> = match &mut newer {
        Value::Array(list) => list.iter_mut().collect(),
        one => vec![one],
    };
    for object in objects.into_iter().filter_map(Value::as_object_mut) {
        object.insert("is_quantum".into(), value.clone());
    }
    assert_eq!(reply(read, Ok(raw(&newer))), before, "{read:?}");
}
