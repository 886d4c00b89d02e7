//! The MAAS endpoint an operator gives, in the first line, and a path below it, in the rest.
#![no_main]

#[allow(dead_code)]
#[path = "../../host/tests/properties/addresses.rs"]
mod addresses;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let (endpoint, path) = text.split_once('\n').unwrap_or((text, "machines/abc123/"));
    addresses::endpoint(endpoint, path);
});
