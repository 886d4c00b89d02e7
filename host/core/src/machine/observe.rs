//! The object names a machine: what does MAAS say of it, and what follows.

use std::convert::Infallible;

use capmaas_api::Initialization;

use super::failure::Trouble;
use super::{DNS_ATTACHED, MachineFlow, NODE_PROVIDER_ID, Run, unexpected};
use crate::maas::{Machine, Power, Status, User};
use crate::node::NodeState;
use crate::ownership::{self, OwnedMachine, Ownership};
use crate::policy::Stage;
use crate::step::{Effect, EventKind, Read, Reply, SecretState};

impl Run<'_> {
    pub(super) fn observe(mut self, user: &User, id: &str) -> MachineFlow<Infallible> {
        self.ensure_finalizer()?;
        let machine = match self.read(Read::Machine(id.to_owned()))? {
            Ok(Reply::Machine(machine)) => *machine,
            Ok(Reply::Absent) => return Err(self.vanished(id)),
            other => return Err(self.maas_trouble(&unexpected(other))),
        };
        self.record(&machine);
        let ownership = self.judge(&machine, user)?;
        if let Some(host) = self.outgoing(id) {
            return Err(self.see_off(host, Some(machine), ownership));
        }
        match ownership {
            Ownership::Ours(owned) => {
                self.inherited_no_more()?;
                self.ours(user, machine, owned)
            }
            Ownership::Unstamped(_) if self.mark().is_none() => {
                self.mint_mark(id)?;
                // What is done to the machine follows from a reading directly before.
                self.observe(user, id)
            }
            Ownership::Unstamped(owned) => {
                let (machine, owned) = self.stamp(user, machine, owned)?;
                self.inherited_no_more()?;
                self.ours(user, machine, owned)
            }
            Ownership::Nobody => Err(self.released_outside(machine)),
            Ownership::Unproven(why) | Ownership::Foreign(why) => Err(self.foreign(machine, &why)),
            Ownership::Disputed(why) => Err(self.disputed(&machine, &why)),
        }
    }

    fn ensure_finalizer(&mut self) -> MachineFlow<()> {
        let Some(finalizers) = self.with_finalizer() else {
            return Ok(());
        };
        let patch = crate::step::ObjectPatch { finalizers: Some(finalizers), ..Default::default() };
        match self.patch(patch)? {
            Ok(()) => Ok(()),
            Err(error) => Err(self.patch_failed(&error)),
        }
    }

    /// A machine without annotations is ours if MAAS finds it under our mark: the crash came between
    /// taking and stamping it, or somebody cleared them. The mark goes when a release begins.
    pub(super) fn judge(&mut self, machine: &Machine, user: &User) -> MachineFlow<Ownership> {
        let plain = ownership::judge(machine, &self.claim(user));
        if !matches!(plain, Ownership::Unproven(_)) {
            return Ok(plain);
        }
        let held = self.marked(user)?;
        let found = held.into_iter().find(|(m, _)| m.system_id == machine.system_id);
        Ok(found.map_or(plain, |(_, owned)| Ownership::Unstamped(owned)))
    }

    /// The state table for a machine that is ours.
    pub(super) fn ours(
        mut self,
        user: &User,
        machine: Machine,
        owned: OwnedMachine,
    ) -> MachineFlow<Infallible> {
        self.record(&machine);
        let provisioned = self.provisioned();
        match (&machine.status, provisioned) {
            (Status::Allocated, false) => self.prepare(user, machine, owned),
            (Status::Deploying, false) => Err(self.deploying(machine)),
            (Status::Deployed, _) => self.deployed(user, machine, owned),
            (status, false) if gone_wrong(status) => {
                let message = failure_text(&machine);
                Err(self.deployment_failed("machine-failed", message, machine))
            }
            (status, true) if gone_wrong(status) => {
                let message = format!(
                    "host {} was deployed and is {:?} in MAAS now: replace the Machine",
                    machine.hostname,
                    status.label()
                );
                Err(self.lost(reason_when_lost(status), &message))
            }
            (Status::Allocated | Status::Reserved, true) => {
                let message = format!(
                    "host {} was deployed and is only {:?} in MAAS now: replace the Machine",
                    machine.hostname,
                    machine.status.label()
                );
                Err(self.lost("MachineStateUndefined", &message))
            }
            (Status::Deploying, true) => {
                let message = "the host is being deployed again, not by this controller";
                let drift = self.seen.settings.drift;
                self.status.ready = false;
                Err(self.waiting("MachineDeploying", message, Some(drift)))
            }
            (other, _) => {
                let message = format!("MAAS shows {:?}; waiting until that is over", other.label());
                let poll = self.seen.settings.poll.saturating_mul(2);
                self.status.ready = false;
                Err(self.waiting("MachineStateUndefined", &message, Some(poll)))
            }
        }
    }

    pub(super) fn deployment_failed(
        &mut self,
        category: &'static str,
        message: String,
        machine: Machine,
    ) -> super::report::End {
        let machine = Some(machine);
        self.fail(Trouble { stage: Stage::Deploy, category, message, machine })
    }

    fn deployed(
        mut self,
        user: &User,
        machine: Machine,
        owned: OwnedMachine,
    ) -> MachineFlow<Infallible> {
        let in_memory = machine.ephemeral || self.seen.object.spec.deploy_in_memory == Some(true);
        if machine.power == Power::Off {
            if in_memory {
                let message = format!(
                    "host {} ran from memory and lost power: its state is gone, and powering it on \
                     would install it anew; replace the Machine",
                    machine.hostname
                );
                return Err(self.lost("MachinePoweredOff", &message));
            }
            return Err(self.power_on(machine, owned)?);
        }
        if !self.provisioned() {
            // Minutes after the allocate: has a call that we had given up been carried out after all?
            self.give_back_all_but(&machine.system_id, user)?;
        }
        Err(self.settled(&machine))
    }

    fn power_on(
        &mut self,
        machine: Machine,
        owned: OwnedMachine,
    ) -> MachineFlow<super::report::End> {
        if let Some(left) = self.held_back(&["power"]) {
            return Ok(self.done(Some(left.max(1))));
        }
        let failure = self.status.failure.as_ref();
        if failure.is_some_and(|f| f.gave_up && f.stage == Stage::Power.word()) {
            let message = self.status.failure_message.clone().unwrap_or_default();
            let drift = self.seen.settings.drift;
            return Ok(self.waiting("MachinePoweredOff", &message, Some(drift)));
        }
        // Powering on without user-data would erase what MAAS has stored (MAAS 3.5 – 3.7).
        let digest = self.stored_user_data()?;
        let effect = Effect::PowerOn { machine: owned, user_data_digest: digest };
        match self.perform(effect)? {
            Ok(_) => {
                self.status.ready = false;
                let first = self.conditions.reason_before(super::DEPLOYED);
                if first != Some("MachinePoweredOff") {
                    let note = format!("{} was off and was powered on", machine.hostname);
                    self.event(EventKind::Warning, "MachinePoweredOff", "PowerOn", note);
                }
                let message = "the host was found powered off and was powered on";
                let again = self.seen.settings.power_recheck;
                Ok(self.waiting("MachinePoweredOff", message, Some(again)))
            }
            Err(error) if error.endpoint_wide() => Ok(self.maas_trouble(&error)),
            Err(_) if machine.locked => {
                let message = format!("{} is off and locked in MAAS: unlock it", machine.hostname);
                Ok(self.unable("MachineLocked", &message))
            }
            Err(error) => {
                let message =
                    format!("{} cannot be powered on: {}", machine.hostname, error.message);
                self.status.ready = false;
                let category = "machine-failed";
                let machine = Some(machine);
                Ok(self.fail(Trouble { stage: Stage::Power, category, message, machine }))
            }
        }
    }

    fn stored_user_data(&mut self) -> MachineFlow<Option<String>> {
        let machine = self.seen.machine.as_ref();
        let name = machine.and_then(|m| m.spec.bootstrap.data_secret_name.clone());
        let Some(name) = name.filter(|n| !n.is_empty()) else {
            return Ok(None);
        };
        let namespace = self.namespace().to_owned();
        match self.read(Read::BootstrapSecret { namespace, name })? {
            Ok(Reply::Secret(SecretState::Present { digest, .. })) => Ok(Some(digest)),
            Ok(_) => Ok(None),
            // Not known: powering on without it might erase it.
            Err(_) => {
                let poll = self.seen.settings.poll;
                Err(self.untouched(Some(poll)))
            }
        }
    }

    /// Deployed and on.
    fn settled(&mut self, machine: &Machine) -> super::report::End {
        let first = !self.status.ready;
        self.record_addresses(machine);
        self.status.ready = true;
        self.status.initialization = Some(Initialization { provisioned: Some(true) });
        self.status.failure = None;
        self.status.failure_reason = None;
        self.status.failure_message = None;
        self.conditions.set(super::DEPLOYED, true, "MachineDeployed", "");
        if first {
            let note = format!("{} is deployed and on", machine.hostname);
            self.event(EventKind::Normal, "MachineDeployed", "Deploy", note);
        }
        // News of the record and of the Node come by themselves: nothing to poll for.
        self.report_dns(machine);
        self.report_node();
        let drift = self.seen.settings.drift;
        self.done(Some(drift))
    }

    /// Control planes: is the address in the record, as the MaasCluster last saw it?
    fn report_dns(&mut self, machine: &Machine) {
        let status = self.seen.maas_cluster.as_ref().and_then(|c| c.status.as_ref());
        let network = status.and_then(|s| s.network.as_ref());
        let managed = network.is_some_and(|n| n.dns_name.is_some());
        if !self.control_plane() || !managed {
            self.conditions.remove(DNS_ATTACHED);
            self.status.dns_attached = None;
            return;
        }
        let record = network.and_then(|n| n.addresses.as_deref()).unwrap_or_default();
        let attached = machine.ip_addresses.iter().any(|ip| record.contains(ip));
        self.status.dns_attached = Some(attached);
        if attached {
            self.conditions.set(DNS_ATTACHED, true, "DNSAttached", "");
        } else {
            let message = "waiting until the cluster's DNS record holds the address";
            self.conditions.set(DNS_ATTACHED, false, "DNSAttachPending", message);
        }
    }

    fn report_node(&mut self) {
        let Some(node) = &self.seen.node else {
            let message = "the workload cluster's Node has not been looked for yet";
            self.conditions.set_unknown(NODE_PROVIDER_ID, "WaitingForNode", message);
            return;
        };
        let (known, reason) = match node.state {
            NodeState::Set => (Some(true), "NodeProviderIDSet"),
            NodeState::Waiting => (Some(false), "WaitingForNode"),
            NodeState::Mismatch => (Some(false), "NodeProviderIDMismatch"),
            NodeState::Unreachable => (None, "ConnectionDown"),
            NodeState::Unresolvable => (None, "EndpointUnresolvable"),
        };
        match known {
            Some(set) => self.conditions.set(NODE_PROVIDER_ID, set, reason, &node.message),
            None => self.conditions.set_unknown(NODE_PROVIDER_ID, reason, &node.message),
        }
    }

    /// MAAS does not know the machine any more.
    fn vanished(&mut self, id: &str) -> super::report::End {
        if let Some(host) = self.outgoing(id) {
            return self.see_off(host, None, Ownership::Nobody);
        }
        self.status.machine_state = None;
        self.status.machine_powered = None;
        let message = format!("MAAS does not know machine {id} any more");
        if self.provisioned() {
            return self.lost("MachineNotFound", &format!("{message}: replace the Machine"));
        }
        self.fail(Trouble {
            stage: Stage::Deploy,
            category: "machine-failed",
            message,
            machine: None,
        })
    }

    /// The machine was released behind our back.
    fn released_outside(&mut self, machine: Machine) -> super::report::End {
        let message = format!(
            "host {} is {:?} in MAAS and nobody's: it was released outside of capmaas",
            machine.hostname,
            machine.status.label()
        );
        if self.provisioned() {
            let reason = reason_when_lost(&machine.status);
            return self.lost(reason, &format!("{message}; replace the Machine"));
        }
        self.deployment_failed("machine-failed", message, machine)
    }

    /// Ours by its annotations, another user's by its owner: a person has to say which.
    pub(super) fn disputed(&mut self, machine: &Machine, why: &str) -> super::report::End {
        let message = format!(
            "host {}: {why}; it is left alone until it belongs to our user again",
            machine.hostname
        );
        self.unable("MachineNotOwned", &message)
    }

    /// Somebody else's machine: never touched.
    fn foreign(&mut self, machine: Machine, why: &str) -> super::report::End {
        let message = format!("host {} is not ours: {why}", machine.hostname);
        if self.provisioned() {
            return self.lost("MachineNotOwned", &format!("{message}; it is left alone"));
        }
        if self.mark().is_some() {
            return self.deployment_failed("machine-failed", message, machine);
        }
        let message = format!("{message}; it is left alone. Remove spec.providerID or the object");
        self.unable("MachineNotOwned", &message)
    }
}

/// States in which a host that is ours will not become Deployed any more.
fn gone_wrong(status: &Status) -> bool {
    status.releasing()
        || matches!(
            status,
            Status::FailedDeployment
                | Status::Broken
                | Status::Ready
                | Status::New
                | Status::ReleasingFailed
                | Status::FailedDiskErasing
        )
}

fn reason_when_lost(status: &Status) -> &'static str {
    match status {
        Status::FailedDeployment => "MachineDeployFailed",
        Status::Broken => "MachineStateUndefined",
        _ => "MachineTerminatedReason",
    }
}

fn failure_text(machine: &Machine) -> String {
    let why = match machine.error_description.as_str() {
        "" => machine.status_message.as_str(),
        text => text,
    };
    let state = machine.status.label();
    match why {
        "" => format!("host {} is {state:?} in MAAS", machine.hostname),
        why => format!("host {} is {state:?} in MAAS: {why}", machine.hostname),
    }
}
