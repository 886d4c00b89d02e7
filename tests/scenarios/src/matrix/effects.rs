//! Which of core's effects becomes which call, compared with what was seen.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use gate::Side;

use super::boundary::Boundary;
use super::story::Story;

/// Where the effects are declared.
const DECLARATION: &str = include_str!("../../../../host/core/src/step.rs");

/// Effect, side, and how the name of its call begins.
const CALLS: [(&str, Side, &str); 14] = [
    ("Allocate", Side::Maas, "POST machines op=allocate"),
    ("Annotate", Side::Maas, "POST machines/{} op=set_workload_annotations"),
    ("SwapOff", Side::Maas, "PUT machines/{}"),
    ("Deploy", Side::Maas, "POST machines/{} op=deploy"),
    ("Release", Side::Maas, "POST machines/{} op=release"),
    ("MarkBroken", Side::Maas, "POST machines/{} op=mark_broken"),
    ("PowerOn", Side::Maas, "POST machines/{} op=power_on"),
    ("PowerOff", Side::Maas, "POST machines/{} op=power_off"),
    ("CreateDns", Side::Maas, "POST dnsresources"),
    ("SetDnsAddresses", Side::Maas, "PUT dnsresources/{}"),
    ("DeleteDns", Side::Maas, "DELETE dnsresources/{}"),
    ("ReleaseAddress", Side::Maas, "POST ipaddresses op=release"),
    ("Patch", Side::Kubernetes, "PATCH maas"),
    ("SetNodeProviderId", Side::Kubernetes, "PATCH nodes/{} spec.providerID"),
];

/// The effects that core declares.
pub fn declared() -> BTreeSet<&'static str> {
    let from = DECLARATION.split("pub enum Effect {").nth(1).unwrap_or_default();
    let body = from.split("\n}").next().unwrap_or_default();
    let variant = |line: &'static str| {
        let name = line.strip_prefix("    ")?.strip_suffix(" {")?;
        name.starts_with(char::is_uppercase).then_some(name)
    };
    body.lines().filter_map(variant).collect()
}

fn effect_of(boundary: &Boundary) -> Option<&'static str> {
    let fits = |(_, side, call): &&(&str, Side, &str)| match *side {
        Side::Maas => boundary.side == Side::Maas && boundary.call == *call,
        Side::Kubernetes => boundary.side == *side && boundary.call.starts_with(call),
    };
    CALLS.iter().find(fits).map(|(effect, ..)| *effect)
}

/// Every effect that the story must perform was seen, and MAAS was told nothing that no effect declares.
///
/// # Errors
/// When it is not so, or when core declares an effect that nobody has a call for here.
pub fn compare(story: Story, seen: &[Boundary]) -> Result<()> {
    let known: BTreeSet<&str> = CALLS.iter().map(|(effect, ..)| *effect).collect();
    let declared = declared();
    ensure!(known == declared, "core declares {declared:?}, and calls are known of {known:?}");
    let performed: BTreeSet<&str> = seen.iter().filter_map(effect_of).collect();
    for effect in story.effects() {
        ensure!(performed.contains(effect), "{}: no call of {effect} was seen", story.name());
    }
    for boundary in seen.iter().filter(|b| b.side == Side::Maas && b.writes()) {
        ensure!(effect_of(boundary).is_some(), "{}: no effect declares {boundary}", story.name());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::declared;

    #[test]
    fn core_declares_what_is_known_here() {
        assert_eq!(declared(), super::CALLS.iter().map(|(effect, ..)| *effect).collect());
    }
}
