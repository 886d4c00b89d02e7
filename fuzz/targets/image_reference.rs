//! The image of a policy; its first line and the rest, around a password.
#![no_main]

#[allow(dead_code)]
#[path = "../../host/tests/properties/registries.rs"]
mod registries;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    registries::reference(text);
    let (before, after) = text.split_once('\n').unwrap_or((text, ""));
    registries::hides_a_password(before, after);
});
