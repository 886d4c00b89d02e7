//! A failure policy's action and a naming policy's name, and what a reconcile makes of them.
#![no_main]

mod guest;
#[allow(dead_code)]
#[path = "../../host/core/tests/properties/judgement.rs"]
mod judgement;
#[path = "../../host/core/tests/world/mod.rs"]
mod world;

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;

use world::Destiny;

fn judge(data: &[u8]) -> Result<()> {
    let mut bytes = Unstructured::new(data);
    let destiny = if bytes.arbitrary()? { Destiny::Fails } else { Destiny::Hangs };
    let allocated = bytes.arbitrary()?;
    judgement::handles_a_failure(guest::action(&mut bytes)?, destiny, allocated);
    let name = guest::name(&mut bytes)?;
    judgement::names_validly(name.clone(), "blue", "maas");
    judgement::is_called_validly(name, "maas");
    Ok(())
}

fuzz_target!(|data: &[u8]| {
    let _ = judge(data);
});
