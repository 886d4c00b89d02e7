//! The answer to a read: a letter that says which read, then JSON.
#![no_main]

#[allow(dead_code)]
#[path = "../../host/tests/properties/answers.rs"]
mod answers;

use capmaas_core::Read;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

fn read(letter: u8) -> Read {
    match letter {
        b'm' => Read::Machine("abc123".into()),
        b'k' => Read::MachinesByMark("m".into()),
        b'c' => Read::Candidates(Box::default()),
        b'u' => Read::WhoAmI,
        b'v' => Read::Version,
        b'i' => Read::Images,
        b'e' => Read::ErrorEvents("abc123".into()),
        b'n' => Read::DnsByName("api.maas".into()),
        b'd' => Read::DnsResource(7),
        b'r' => Read::Reservation("10.0.0.1".into()),
        _ => Read::Zones,
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((letter, body)) = data.split_first() else { return };
    let Ok(shown) = serde_json::from_slice::<Value>(body) else { return };
    let read = read(*letter);
    answers::reads(&read, &shown);
    answers::ignores_news(&read, &shown, &json!({ "qubits": 3 }));
});
