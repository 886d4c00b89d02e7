//! Policies that are objects: rebuilt, broken, hostile, suspended and deleted while machines come and go.

use anyhow::Result;
use kube::api::DeleteParams;
use scenarios::{Dice, Stage, component, rebuilt};

/// What half of the clusters name.
pub(crate) const NAMED: &str =
    ", policies: {allocation: [soak-choice], failureHandling: soak-failures}";

/// Name, kind, component and settings of a policy as its operator wants it.
const WANTED: [(&str, &str, &str, &str); 2] = [
    ("soak-choice", "Allocation", "allocation-zone-spread", "{workers: true}"),
    ("soak-failures", "FailureHandling", "failure-handling-default", "{firstDelaySeconds: 2}"),
];

/// Every policy as it is wanted.
pub(crate) fn put_right(stage: &Stage<'_>) -> Result<()> {
    for (name, kind, built, config) in WANTED {
        let wanted = format!(", config: {config}, suspend: false");
        stage.enforced(name, kind, &component(built)?, &wanted)?;
    }
    Ok(())
}

/// Something happens to one of them.
pub(crate) async fn disturb(
    stage: &Stage<'_>,
    dice: &mut Dice,
    cluster: &str,
) -> Result<&'static str> {
    let Some((name, kind, built, config)) = dice.one_of(&WANTED).copied() else {
        return Ok("nothing");
    };
    match dice.below(6) {
        0 | 1 => {
            let letter = dice.one_of(b"abcdefgh").copied().unwrap_or_default();
            stage.component_in_config_map(name, &rebuilt(&component(built)?, letter))?;
            Ok("policy rebuilt")
        }
        2 => {
            stage.component_in_config_map(name, b"#!/bin/sh\n")?;
            Ok("policy broken")
        }
        3 => {
            let deeds = ["spin", "panic", "grow", "flood"];
            let deed = dice.one_of(&deeds).copied().unwrap_or_default();
            let config = format!(", config: {{how: '{deed} {cluster}'}}");
            stage.enforced(name, kind, &component("hostile")?, &config)?;
            Ok("policy hostile")
        }
        4 => {
            let suspended = format!(", config: {config}, suspend: true");
            stage.enforced(name, kind, &component(built)?, &suspended)?;
            Ok("policy suspended")
        }
        _ => {
            // It may be gone already.
            let _ = stage.policies().delete(name, &DeleteParams::default()).await;
            Ok("policy deleted")
        }
    }
}
