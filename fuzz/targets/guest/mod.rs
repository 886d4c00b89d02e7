//! A guest's answer, made of whatever bytes there are.
#![allow(dead_code)] // each target uses its own part

use capmaas_core::policy::{
    Action, Constraints, Delay, Name, Ranking, Rejection, Replacement, Shortlisting,
};
use libfuzzer_sys::arbitrary::{Result, Unstructured};

type Bytes<'a, 'b> = &'b mut Unstructured<'a>;

/// The names that mean something to the host, and every other text.
fn words(u: Bytes) -> Result<String> {
    let known = ["", "default", "maas", "corp.example", "a", "b"];
    Ok(match u.int_in_range(0..=known.len())? {
        other if other == known.len() => u.arbitrary()?,
        index => known[index].to_owned(),
    })
}

fn list(u: Bytes) -> Result<Vec<String>> {
    (0..u.int_in_range(0..=3)?).map(|_| words(u)).collect()
}

fn delay(u: Bytes) -> Result<Delay> {
    Ok(Delay { seconds: u.arbitrary()?, reason: words(u)? })
}

pub(crate) fn constraints(u: Bytes) -> Result<Constraints> {
    Ok(Constraints {
        min_cpu_cores: u.arbitrary()?,
        min_memory_mib: u.arbitrary()?,
        zones: list(u)?,
        pools: list(u)?,
        tags: list(u)?,
        not_zones: list(u)?,
        not_pools: list(u)?,
        not_tags: list(u)?,
    })
}

pub(crate) fn shortlisting(u: Bytes) -> Result<Shortlisting> {
    Ok(match u.int_in_range(0..=4)? {
        0 => Shortlisting::Inspect(Constraints::default()),
        1 => Shortlisting::Inspect(constraints(u)?),
        2 => Shortlisting::Narrow(constraints(u)?),
        3 => Shortlisting::Defer(delay(u)?),
        _ => Shortlisting::Reject(words(u)?),
    })
}

/// Mostly indices that exist.
fn index(u: Bytes) -> Result<u32> {
    if u.ratio(7, 8)? { u.int_in_range(0..=3) } else { u.arbitrary() }
}

pub(crate) fn ranking(u: Bytes) -> Result<Ranking> {
    let order = (0..u.int_in_range(0..=4)?).map(|_| index(u)).collect::<Result<_>>()?;
    let rejected = (0..u.int_in_range(0..=3)?)
        .map(|_| Ok(Rejection { index: index(u)?, reason: words(u)? }))
        .collect::<Result<_>>()?;
    Ok(Ranking { order, rejected })
}

pub(crate) fn name(u: Bytes) -> Result<Option<Name>> {
    if u.arbitrary()? {
        return Ok(None);
    }
    let domain = if u.arbitrary()? { Some(words(u)?) } else { None };
    Ok(Some(Name { label: words(u)?, domain, ttl_seconds: u.arbitrary()? }))
}

fn replacement(u: Bytes) -> Result<Replacement> {
    Ok(Replacement { delay: delay(u)?, avoid_seconds: u.arbitrary()? })
}

pub(crate) fn action(u: Bytes) -> Result<Action> {
    Ok(match u.int_in_range(0..=5)? {
        0 => Action::UseDefault,
        1 => Action::Retry(delay(u)?),
        2 => Action::ReleaseAndReplace(replacement(u)?),
        3 => Action::MarkBrokenAndReplace(replacement(u)?),
        4 => Action::PowerCycle(delay(u)?),
        _ => Action::GiveUp(words(u)?),
    })
}
