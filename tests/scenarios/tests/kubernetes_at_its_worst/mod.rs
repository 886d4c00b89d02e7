//! Kubernetes refuses, forgets and changes: no machine is lost or taken twice over it.

mod definitions;
mod edits;
mod refusals;
mod statuses;
mod watches;

use anyhow::{Result, ensure};
use scenarios::Stage;

use crate::support::{self, story};

/// One machine came of it: taken once, deployed once, with its own data.
async fn one_machine_came_of_it(stage: &Stage<'_>, machine: &str) -> Result<()> {
    support::one_machine_came_of_it(stage, machine).await?;
    ensure!(stage.calls("allocate").len() == 1, "{:?}", story(stage));
    Ok(())
}

/// kubectl in the stage's namespace.
fn kubectl(stage: &Stage<'_>, args: &[&str]) -> Result<String> {
    stage.plane.kubectl(&[&["-n", &stage.namespace][..], args].concat())
}
