//! A component, of which only the outside is looked at.
#![no_main]

#[allow(dead_code)]
#[path = "../../host/tests/properties/policies.rs"]
mod policies;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|wasm: &[u8]| policies::component(wasm));
