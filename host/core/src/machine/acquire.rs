//! No machine yet: find the one we already hold, or take one.

use std::collections::BTreeMap;
use std::convert::Infallible;

use capmaas_api::names;
use serde_json::Value;

use super::{MachineFlow, Run, unexpected};
use crate::image;
use crate::maas::{Machine, User, Version};
use crate::ownership::{self, OwnedMachine};
use crate::step::{Effect, EventKind, ObjectPatch, Read, Reply, SecretState};

impl Run<'_> {
    pub(super) fn acquire(mut self, user: &User) -> MachineFlow<Infallible> {
        if self.mark().is_some()
            && let Some((machine, owned)) = self.adopt(user)?
        {
            return self.prepare_or_observe(user, machine, owned);
        }
        self.wait_for_turn()?;
        self.check_request()?;
        let choice = self.choose_host()?;
        self.declare_intent()?;
        self.allocate(user, choice)
    }

    /// Machines that MAAS holds under our mark: the lowest id is ours, every other one goes back.
    fn adopt(&mut self, user: &User) -> MachineFlow<Option<(Machine, OwnedMachine)>> {
        let mut held = self.marked(user)?;
        if held.is_empty() {
            return Ok(None);
        }
        let (machine, owned) = held.remove(0);
        let note = format!("found {} in MAAS under this object's mark", machine.hostname);
        self.event(EventKind::Normal, "MachineAdopted", "Allocate", note);
        // First the object, which may name another one by now, then the surplus.
        self.publish(&machine, &owned)?;
        if !held.is_empty() {
            self.give_back_all_but(&machine.system_id, user)?;
        }
        Ok(Some((machine, owned)))
    }

    /// Every other machine that MAAS holds under our mark, as seen directly before.
    pub(super) fn give_back_all_but(&mut self, kept: &str, user: &User) -> MachineFlow<()> {
        for (surplus, proof) in self.marked(user)? {
            if surplus.system_id != kept {
                self.give_back(proof, &surplus.system_id)?;
            }
        }
        Ok(())
    }

    /// All machines held under our mark, by system id.
    pub(super) fn marked(&mut self, user: &User) -> MachineFlow<Vec<(Machine, OwnedMachine)>> {
        let Some(mark) = self.mark() else {
            return Ok(Vec::new());
        };
        let claim = self.claim(user);
        match self.read(Read::MachinesByMark(mark))? {
            Ok(Reply::Machines(machines)) => {
                let mut held: Vec<_> = machines
                    .into_iter()
                    .filter_map(|m| ownership::by_mark(&m, &claim).map(|o| (m, o)))
                    .collect();
                held.sort_by(|a, b| a.0.system_id.cmp(&b.0.system_id));
                Ok(held)
            }
            other => Err(self.maas_trouble(&unexpected(other))),
        }
    }

    /// Releases a machine that was taken in excess.
    pub(super) fn give_back(&mut self, owned: OwnedMachine, id: &str) -> MachineFlow<()> {
        let comment =
            format!("capmaas: taken twice for MaasMachine {}/{}", self.namespace(), self.name());
        let note = format!("gave back {id}, which was held in addition under this object's mark");
        match self.perform(Effect::Release { machine: owned, comment })? {
            Ok(_) => {
                self.event(EventKind::Warning, "SurplusMachineReleased", "Release", note);
                Ok(())
            }
            Err(error) => Err(self.maas_trouble(&error)),
        }
    }

    /// Waits while an allocate may still be running, and while a failure holds us back.
    fn wait_for_turn(&mut self) -> MachineFlow<()> {
        if let Some(left) = self.allocation_in_flight() {
            let message = "an allocate call went unanswered; looking for its machine until MAAS \
                           can no longer be working on it";
            let again = left.clamp(1, self.seen.settings.poll.max(1));
            return Err(self.waiting("AllocationUnanswered", message, Some(again)));
        }
        if self.status.failure.as_ref().is_some_and(|f| f.gave_up) {
            let message = self.status.failure_message.clone().unwrap_or_default();
            let drift = self.seen.settings.drift;
            return Err(self.waiting("MachineDeployFailed", &message, Some(drift)));
        }
        // Whoever corrected the object need not wait for what was wrong with it.
        let edited = self.conditions.edited_since(super::DEPLOYED);
        let refused = self.held_back(&["allocate"]).filter(|_| !edited);
        let held = refused.into_iter().chain(self.pause_before_next()).max();
        match held {
            // The message was set when the failure was met; it stays as it is.
            Some(left) => Err(self.done(Some(left.max(1)))),
            None => Ok(()),
        }
    }

    /// Seconds for which an allocate that we sent may still be carried out by MAAS.
    pub(super) fn allocation_in_flight(&self) -> Option<u64> {
        let since: u64 = self.annotations.get(names::ALLOCATING_SINCE_ANNOTATION)?.parse().ok()?;
        let concluded = self.status.failure.as_ref().is_some_and(|f| {
            f.stage == "allocate"
                && f.category != "unreachable"
                && f.last_seen >= super::signed(since)
        });
        let until = since.saturating_add(self.seen.settings.in_flight);
        (!concluded && until > self.seen.now).then(|| until - self.seen.now)
    }

    /// Everything that can be seen to be impossible before a machine is taken.
    fn check_request(&mut self) -> MachineFlow<()> {
        self.bootstrap_data()?;
        let spec = &self.seen.object.spec;
        if spec.deploy_in_memory == Some(true) {
            let version = match self.read(Read::Version)? {
                Ok(Reply::Text(version)) => version,
                other => return Err(self.maas_trouble(&unexpected(other))),
            };
            if !Version::parse(&version).is_some_and(Version::deploys_to_memory) {
                let message = format!(
                    "spec.deployInMemory needs MAAS 3.5.10, 3.6.3, 3.7.1 or newer, and this is \
                     MAAS {version}: upgrade MAAS or deploy to disk"
                );
                return Err(self.unable("InMemoryUnsupported", &message));
            }
        }
        match self.read(Read::Images)? {
            Ok(Reply::Images(images)) => match image::missing(spec.image.trim(), &images) {
                Some(problem) => Err(self.unable("ImageNotFound", &problem)),
                None => Ok(()),
            },
            other => Err(self.maas_trouble(&unexpected(other))),
        }
    }

    /// Digest of the bootstrap data; stops while there is none.
    pub(super) fn bootstrap_data(&mut self) -> MachineFlow<String> {
        const REASON: &str = "WaitingForBootstrapData";
        if let Some(digest) = &self.bootstrap {
            return Ok(digest.clone());
        }
        let machine = self.seen.machine.as_ref();
        let secret = machine.and_then(|m| m.spec.bootstrap.data_secret_name.clone());
        let Some(name) = secret.filter(|n| !n.is_empty()) else {
            let message = "waiting until Machine.spec.bootstrap.dataSecretName is set";
            // The Machine's own change comes as an event; this is for the one that is missed.
            let drift = self.seen.settings.drift;
            return Err(self.waiting(REASON, message, Some(drift)));
        };
        let namespace = self.namespace().to_owned();
        let state = match self.read(Read::BootstrapSecret { namespace, name: name.clone() })? {
            Ok(Reply::Secret(state)) => state,
            other => {
                let error = unexpected(other);
                let message = format!("cannot read bootstrap Secret {name:?}: {}", error.message);
                return Err(self.unable(REASON, &message));
            }
        };
        match state {
            SecretState::Present { digest, format } if format == "cloud-config" => {
                self.bootstrap = Some(digest.clone());
                Ok(digest)
            }
            SecretState::Present { format, .. } => {
                let message = format!(
                    "bootstrap Secret {name:?} has format {format:?}; MAAS images take cloud-config"
                );
                Err(self.unable("BootstrapFormatUnsupported", &message))
            }
            SecretState::Missing => {
                let message = format!("bootstrap Secret {name:?} does not exist");
                Err(self.unable(REASON, &message))
            }
            SecretState::Empty => {
                let message = format!("bootstrap Secret {name:?} has no data under key \"value\"");
                Err(self.unable(REASON, &message))
            }
        }
    }

    /// Finalizer, mark and "allocating since", before the first effect in MAAS.
    fn declare_intent(&mut self) -> MachineFlow<()> {
        let mut annotations = BTreeMap::from([(
            names::ALLOCATING_SINCE_ANNOTATION.to_owned(),
            Some(self.seen.now.to_string()),
        )]);
        if self.mark().is_none() {
            let mark = self.fresh_mark()?;
            annotations.insert(names::MARK_ANNOTATION.to_owned(), Some(mark));
        }
        let finalizers = self.with_finalizer();
        let patch = ObjectPatch { annotations, finalizers, ..ObjectPatch::default() };
        match self.patch(patch)? {
            Ok(()) => Ok(()),
            Err(error) => Err(self.patch_failed(&error)),
        }
    }

    fn fresh_mark(&mut self) -> MachineFlow<String> {
        match self.read(Read::Mark)? {
            Ok(Reply::Text(mark)) => Ok(mark),
            other => {
                let error = unexpected(other);
                Err(self.patch_failed(&error))
            }
        }
    }

    /// A machine of the Go provider has no mark, and its annotations need one.
    /// Until they are set, the machine is noted as inherited.
    pub(super) fn mint_mark(&mut self, system_id: &str) -> MachineFlow<()> {
        let mark = self.fresh_mark()?;
        let annotations = BTreeMap::from([
            (names::MARK_ANNOTATION.to_owned(), Some(mark)),
            (names::INHERITED_ANNOTATION.to_owned(), Some(system_id.to_owned())),
        ]);
        match self.patch(ObjectPatch { annotations, ..ObjectPatch::default() })? {
            Ok(()) => Ok(()),
            Err(error) => Err(self.patch_failed(&error)),
        }
    }

    /// The machine carries our annotations now: without them it is no longer ours.
    pub(super) fn inherited_no_more(&mut self) -> MachineFlow<()> {
        if !self.annotations.contains_key(names::INHERITED_ANNOTATION) {
            return Ok(());
        }
        let annotations = BTreeMap::from([(names::INHERITED_ANNOTATION.to_owned(), None)]);
        match self.patch(ObjectPatch { annotations, ..ObjectPatch::default() })? {
            Ok(()) => Ok(()),
            Err(error) => Err(self.patch_failed(&error)),
        }
    }

    pub(super) fn with_finalizer(&self) -> Option<Vec<String>> {
        let mut all = self.finalizers.clone();
        (!self.holds_finalizer()).then(|| {
            all.push(names::MACHINE_FINALIZER.to_owned());
            all
        })
    }
}

/// A policy's or MAAS's words, cut to what fits a condition.
pub(super) fn bounded(text: &str) -> String {
    crate::text::bounded(text, 400)
}

/// `null` for a spec field.
pub(super) const NOTHING: Value = Value::Null;
