//! An allocation policy's two answers, and what a reconcile makes of them.
#![no_main]

mod guest;
#[allow(dead_code)]
#[path = "../../host/core/tests/properties/judgement.rs"]
mod judgement;
#[path = "../../host/core/tests/world/mod.rs"]
mod world;

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;

fn judge(data: &[u8]) -> Result<()> {
    let mut bytes = Unstructured::new(data);
    let short = guest::shortlisting(&mut bytes)?;
    judgement::takes_what_was_offered(short, guest::ranking(&mut bytes)?);
    judgement::narrows(&guest::constraints(&mut bytes)?, &guest::constraints(&mut bytes)?);
    Ok(())
}

fuzz_target!(|data: &[u8]| {
    let _ = judge(data);
});
