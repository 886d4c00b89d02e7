//! Watches every step, and says what must never happen.

use std::collections::{BTreeMap, BTreeSet};

use capmaas_api::{MaasMachine, names};
use capmaas_core::maas::{Power, Status};
use capmaas_core::ownership::annotation;
use capmaas_core::{Effect, Read, Reply, Step};

use crate::world::{Host, NAMESPACE, US, World, maas::touched};

/// What one reconcile was shown so far.
#[derive(Default)]
pub(crate) struct Guard {
    /// Every machine as it was when it was last shown.
    shown: BTreeMap<String, Host>,
    last: Option<String>,
    /// The machine that MAAS has just given us.
    allocated: Option<String>,
}

/// What outlives a reconcile.
#[derive(Default)]
pub(crate) struct Memory {
    /// When an address left the record.
    left: BTreeMap<String, u64>,
    /// Machines left broken because a policy said so.
    pub(crate) broken: BTreeSet<String>,
    /// Allocate calls that MAAS has still to carry out, and for which object.
    pub(crate) late: Vec<(String, Effect)>,
}

impl Guard {
    /// Takes note of the answer to the step before.
    pub(crate) fn answered(&mut self, world: &World, replies: &[Reply]) {
        let Some(id) = self.last.take() else { return };
        match replies.last() {
            Some(Reply::Machine(m)) => {
                if id.is_empty() {
                    self.allocated = Some(m.system_id.clone());
                }
                self.see(world, &m.system_id);
            }
            Some(Reply::Failed(_)) => {}
            _ => self.see(world, &id),
        }
    }

    fn see(&mut self, world: &World, id: &str) {
        if let Some(host) = world.maas.hosts.get(id) {
            self.shown.insert(id.to_owned(), host.clone());
        }
    }

    /// Judges a step that is about to be answered. `object` is the machine that is reconciled.
    pub(crate) fn judge<S>(
        &mut self,
        world: &World,
        memory: &mut Memory,
        object: Option<&str>,
        step: &Step<S>,
    ) {
        match step {
            Step::Read(Read::Machine(id)) => self.see(world, id),
            Step::Read(Read::MachinesByMark(mark)) => {
                for (id, host) in &world.maas.hosts {
                    if host.agent_name == *mark {
                        self.shown.insert(id.clone(), host.clone());
                    }
                }
            }
            Step::Do(effect) => {
                self.last = touched(effect).map(str::to_owned);
                if let Effect::Allocate { mark, .. } = effect {
                    self.last = Some(String::new());
                    let name = object.expect("a machine");
                    let waits = memory.late.iter().any(|(of, _)| of == name);
                    assert!(!waits, "allocates although MAAS still works on a call");
                    self.nothing_is_held(world, name, mark);
                }
                if let Some(id) = touched(effect) {
                    self.is_ours(world, object.expect("a machine"), id, effect);
                    self.has_left(world, memory, id, effect);
                }
                if let Effect::SetDnsAddresses { id, addresses, .. } = effect {
                    self.nobody_is_cut_off(world, memory, *id, addresses);
                }
                if let Effect::MarkBroken { machine, .. } = effect {
                    memory.broken.insert(machine.system_id().to_owned());
                }
            }
            _ => {}
        }
    }

    /// Never a second machine for one object.
    fn nothing_is_held(&self, world: &World, object: &str, mark: &str) {
        let object = world.kube.maas_machine(object).expect("the object exists");
        assert_eq!(object.spec.provider_id, None, "allocates although the object names a machine");
        let held: Vec<_> = world
            .maas
            .hosts
            .values()
            .filter(|h| h.agent_name == mark && h.shown.owner.as_deref() == Some(US))
            .map(|h| &h.shown.system_id)
            .collect();
        assert!(held.is_empty(), "allocates although {held:?} is held");
    }

    /// Never a call on a machine that was not seen to be ours directly before.
    fn is_ours(&self, world: &World, object: &str, id: &str, effect: &Effect) {
        let host = self.shown.get(id).unwrap_or_else(|| panic!("{effect:?}: never looked at"));
        let object = world.kube.maas_machine(object).expect("the object exists");
        // MAAS gives a machine to one caller alone, whatever somebody had written on it while it was free.
        let given = self.allocated.as_deref() == Some(id)
            && mark(&object).is_some_and(|mark| *mark == host.agent_name);
        assert!(given || ours(host, &object), "{effect:?} on {host:?}");
        let deleting = object.metadata.deletion_timestamp.is_some();
        let latched = object.status.as_ref().and_then(|s| s.initialization.as_ref());
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let copied = &world.kube.machines[name].spec.provider_id;
        let provisioned = latched.is_some_and(|i| i.provisioned == Some(true)) || copied.is_some();
        let named = names_host(&object, id);
        let destroys = matches!(
            effect,
            Effect::Release { .. } | Effect::MarkBroken { .. } | Effect::Deploy { .. }
        );
        assert!(
            !(destroys && named && provisioned && !deleting),
            "{effect:?} on a machine that was provisioned"
        );
    }

    /// An address leaves the record one TTL before its machine is released.
    fn has_left(&self, world: &World, memory: &Memory, id: &str, effect: &Effect) {
        if !matches!(effect, Effect::Release { .. }) {
            return;
        }
        let held: BTreeSet<String> = world.maas.records.values().flat_map(|r| r.ips()).collect();
        for ip in &self.shown[id].shown.ip_addresses {
            assert!(!held.contains(ip), "{id} is released and {ip} is in the record");
            let left = memory.left.get(ip).copied().unwrap_or(0);
            assert!(
                left + 10 <= world.now,
                "{id} is released {} s after {ip} left",
                world.now - left
            );
        }
    }

    /// An address is only taken out when its machine is going, or is off in two readings; the last
    /// one only when its machine is going.
    fn nobody_is_cut_off(&self, world: &World, memory: &mut Memory, id: u64, wanted: &[String]) {
        let Some(record) = world.maas.records.get(&id) else {
            return;
        };
        for ip in record.ips().into_iter().filter(|ip| !wanted.contains(ip)) {
            memory.left.insert(ip.clone(), world.now);
            for name in world.kube.names() {
                let object = world.kube.maas_machine(&name).expect("the object exists");
                let serves = |h: &&Host| {
                    h.shown.ip_addresses.contains(&ip)
                        && names_host(&object, &h.shown.system_id)
                        && h.shown.status == Status::Deployed
                        && ours(h, &object)
                };
                let Some(host) = self.shown.values().find(serves) else {
                    continue;
                };
                if object.metadata.deletion_timestamp.is_some() {
                    continue;
                }
                let off_before = object.status.and_then(|s| s.machine_powered) == Some(false);
                let off = host.shown.power == Power::Off && off_before;
                assert!(off, "{ip} is taken out by a passing reading of {host:?}");
                assert!(!wanted.is_empty(), "the record is emptied because {name} is off");
            }
        }
    }
}

fn names_host(object: &MaasMachine, id: &str) -> bool {
    object.spec.provider_id.as_ref().is_some_and(|p| p.ends_with(&format!("/{id}")))
}

fn mark(object: &MaasMachine) -> Option<&String> {
    object.metadata.annotations.as_ref()?.get(names::MARK_ANNOTATION)
}

/// Told independently of the core's own words.
pub(crate) fn ours(host: &Host, object: &MaasMachine) -> bool {
    let mark = mark(object);
    let stamped = host.shown.annotations.get(annotation::MARK);
    let in_namespace = host.shown.annotations.get(annotation::NAMESPACE);
    let by_annotation = stamped.is_some() && stamped == mark;
    let by_name = mark == Some(&host.agent_name) && stamped.is_none_or(|s| Some(s) == mark);
    let inherited = in_namespace.is_none()
        && host.shown.annotations.is_empty()
        && names_host(object, &host.shown.system_id)
        && host.shown.status != Status::Allocated;
    let namespace_fits = in_namespace.is_none_or(|n| n == NAMESPACE);
    host.shown.owner.as_deref() == Some(US)
        && namespace_fits
        && (by_annotation || by_name || inherited)
}
