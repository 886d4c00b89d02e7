//! Policies as objects: operators swap them in a running controller, try them in shadow, and are told what is wrong.

mod explained;
mod failing;
mod gates;
mod hostile;
mod kept;
mod registry;
mod reported;
mod shadow;
mod swap;
mod ten_minutes;

use anyhow::{Context, Result};
use capmaas_api::Decision;
use scenarios::{Stage, eventually};

/// The last decision of a kind about a machine.
async fn decided(stage: &Stage<'_>, machine: &str, kind: &str) -> Result<Decision> {
    eventually(&format!("a decision about {machine}: {kind}"), 60, async || {
        let status = stage.machines().get(machine).await?.status.unwrap_or_default();
        Ok(status.decisions.into_iter().flatten().rfind(|d| d.kind == kind))
    })
    .await
}

/// Waits for an event about an object with this reason, and returns what it says.
async fn said(stage: &Stage<'_>, object: &str, reason: &str) -> Result<String> {
    let what = format!("{object} is told {reason}");
    let found = eventually(&what, 40, async || {
        let events = stage.events(object).await?;
        Ok(events.into_iter().find(|(of, _)| of == reason).map(|(_, note)| note))
    });
    found.await.with_context(|| stage.controller.log())
}
