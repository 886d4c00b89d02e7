//! The contents of a pull secret; its first line and the rest, around a password.
#![no_main]

#[allow(dead_code)]
#[path = "../../host/tests/properties/registries.rs"]
mod registries;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    registries::pull_secret(data);
    if let Ok(text) = std::str::from_utf8(data) {
        let (before, after) = text.split_once('\n').unwrap_or((text, ""));
        registries::hides_credentials(before, after);
    }
});
