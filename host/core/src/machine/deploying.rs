//! MAAS deploys: how long it has taken, and what it says of its progress.

use capmaas_api::Deployment;

use super::{DEPLOYED, Run, report::End, signed};
use crate::maas::Machine;
use crate::time::spoken;

impl Run<'_> {
    pub(super) fn deploying(&mut self, machine: Machine) -> End {
        let now = self.seen.now;
        let known = self.status.deployment.take().filter(|d| d.system_id == machine.system_id);
        let mut deployment = known.unwrap_or_else(|| Deployment {
            system_id: machine.system_id.clone(),
            started_at: signed(now),
            progress_at: None,
        });
        let began = u64::try_from(deployment.started_at).unwrap_or(now);
        let timeout = self.seen.settings.deploy_timeout;
        if now.saturating_sub(began) >= timeout {
            let message = format!(
                "{} is still deploying after {} (MAAS: {})",
                machine.hostname,
                spoken(timeout),
                machine.status_message
            );
            self.status.deployment = Some(deployment);
            return self.deployment_failed("timeout", message, machine);
        }
        let message = self.progress(&machine, &mut deployment);
        self.status.deployment = Some(deployment);
        let again = self.next_look(now.saturating_sub(began));
        self.waiting("MachineDeploying", &message, Some(again))
    }

    /// What MAAS says of a deployment. It changes every few seconds, and each change would be a write for every machine
    /// that is being deployed: it is followed at the pace at which MAAS is asked anyway.
    fn progress(&self, machine: &Machine, deployment: &mut Deployment) -> String {
        let image = self.seen.object.spec.image.trim();
        let message = match machine.status_message.as_str() {
            "" | "Deploying" => format!("MAAS deploys {image}"),
            progress => format!("MAAS deploys {image}: {progress}"),
        };
        let now = self.seen.now;
        let last = deployment.progress_at.unwrap_or(deployment.started_at);
        let quiet =
            u64::try_from(last).is_ok_and(|at| now < at.saturating_add(self.seen.settings.poll));
        let Some(told) = self.conditions.before(DEPLOYED, "MachineDeploying") else {
            return message;
        };
        if told == message {
            return message;
        }
        if quiet {
            return told.to_owned();
        }
        deployment.progress_at = Some(signed(now));
        message
    }
}
