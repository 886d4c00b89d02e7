//! The API key an operator gives: three parts, and shown nowhere.
#![no_main]

#[allow(dead_code)]
#[path = "../../host/tests/properties/addresses.rs"]
mod addresses;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    // An argument of a program ends at the first zero byte.
    addresses::key(text.split('\0').next().unwrap_or_default());
    let (before, after) = text.split_once('\n').unwrap_or((text, ""));
    addresses::keeps_the_secret(before, after);
});
