//! Kubernetes refuses, forgets and changes: no machine is lost or taken twice over it.

mod edits;
mod refusals;
mod statuses;
mod watches;

use anyhow::{Result, ensure};
use scenarios::Stage;

use crate::support::{bootstrap_of, story};

/// One machine came of it: taken once, deployed once, with its own data.
async fn one_machine_came_of_it(stage: &Stage<'_>, machine: &str) -> Result<()> {
    let host = stage.provisioned(machine).await?;
    ensure!(stage.held().len() == 1, "{:?}", stage.held());
    ensure!(host.deploys == 1 && host.user_data == Some(bootstrap_of(machine)), "{host:?}");
    ensure!(stage.calls("allocate").len() == 1, "{:?}", story(stage));
    Ok(())
}

/// kubectl in the stage's namespace.
fn kubectl(stage: &Stage<'_>, args: &[&str]) -> Result<String> {
    stage.plane.kubectl(&[&["-n", &stage.namespace][..], args].concat())
}
