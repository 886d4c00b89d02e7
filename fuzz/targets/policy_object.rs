//! A `MaasPolicy` as JSON; its first line and the rest, as timeout and memory.
#![no_main]

#[allow(dead_code)]
#[path = "../../host/tests/properties/policies.rs"]
mod policies;

use capmaas_api::PolicyLimits;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    policies::object(text);
    let mut lines = text.splitn(2, '\n').map(str::to_owned);
    policies::limits(Some(&PolicyLimits { timeout: lines.next(), memory: lines.next() }));
});
