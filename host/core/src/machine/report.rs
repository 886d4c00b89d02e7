//! The ends of the story: statuses, conditions, and when to look again.

use capmaas_api::{FailureState, MaasMachineStatus, MachineAddress};

use super::{DEPLOYED, Run};
use crate::call_error::{CallError, Category};
use crate::maas::{Machine, Power};
use crate::step::{Done, EventKind, Step};
use crate::text::{LONGEST_MESSAGE, bounded};

pub(super) type End = Box<Step<MaasMachineStatus>>;

impl Run<'_> {
    /// Ends without a word.
    pub(super) fn untouched(&mut self, requeue: Option<u64>) -> End {
        self.finished(None, requeue)
    }

    pub(super) fn finished(
        &mut self,
        status: Option<MaasMachineStatus>,
        requeue: Option<u64>,
    ) -> End {
        Box::new(Step::Done(Box::new(Done {
            status,
            resource_version: self.resource_version.clone(),
            events: std::mem::take(&mut self.events),
            compared: std::mem::take(&mut self.compared),
            requeue,
        })))
    }

    /// Ends with the status as it was put together.
    pub(super) fn done(&mut self, requeue: Option<u64>) -> End {
        self.conditions.summarise(&[DEPLOYED]);
        let mut status = self.status.clone();
        status.conditions = Some(self.conditions.clone().finish());
        self.finished(Some(status), requeue)
    }

    /// Waits for something that comes by itself.
    pub(super) fn waiting(&mut self, reason: &str, message: &str, requeue: Option<u64>) -> End {
        if !self.provisioned() {
            self.status.ready = false;
        }
        self.conditions.set(DEPLOYED, false, reason, message);
        self.done(requeue)
    }

    /// Cannot go on until a person does something; said once as a warning event.
    pub(super) fn unable(&mut self, reason: &str, message: &str) -> End {
        if self.conditions.reason_before(DEPLOYED) != Some(reason) {
            self.event(EventKind::Warning, reason, "Provision", message.to_owned());
        }
        let again = self.seen.settings.poll.saturating_mul(2);
        self.waiting(reason, message, Some(again))
    }

    /// MAAS did not answer properly. A machine that was ready stays so: nothing is known of it.
    pub(super) fn maas_trouble(&mut self, error: &CallError) -> End {
        if self.seen.object.metadata.deletion_timestamp.is_some() {
            return self.deletion_trouble(error);
        }
        let (reason, message) = explain(error);
        let again = error.again(self.seen.settings.poll.saturating_mul(2));
        if self.status.ready {
            return self.untouched(Some(again));
        }
        if self.conditions.reason_before(DEPLOYED) != Some(reason) {
            self.event(EventKind::Warning, reason, "Provision", message.clone());
        }
        self.waiting(reason, &message, Some(again))
    }

    /// A once-provisioned host is not what it was. Nothing is done about it: Cluster API replaces
    /// the Machine when its owner or a MachineHealthCheck asks for it.
    pub(super) fn lost(&mut self, reason: &str, message: &str) -> End {
        if self.conditions.reason_before(DEPLOYED) != Some(reason) {
            self.event(
                EventKind::Warning,
                "MachineUnexpectedTermination",
                "Observe",
                message.to_owned(),
            );
        }
        self.status.ready = false;
        self.status.failure_reason = Some("UpdateError".into());
        self.status.failure_message = Some(bounded(message, LONGEST_MESSAGE));
        self.conditions.set(DEPLOYED, false, reason, message);
        let drift = self.seen.settings.drift;
        self.done(Some(drift))
    }

    /// Takes over what MAAS shows of the machine.
    pub(super) fn record(&mut self, machine: &Machine) {
        self.status.machine_state = Some(machine.status.label().to_owned());
        self.status.machine_powered = match machine.power {
            Power::On => Some(true),
            Power::Off => Some(false),
            Power::Unknown | Power::Error => None,
        };
        self.status.hostname = Some(machine.hostname.clone()).filter(|h| !h.is_empty());
        self.status.failure_domain = Some(machine.zone.clone()).filter(|z| !z.is_empty());
    }

    pub(super) fn record_addresses(&mut self, machine: &Machine) {
        self.status.addresses = Some(addresses(machine));
    }

    /// Counts a failure: the same stage and category in a row is the same failure.
    pub(super) fn count_failure(&mut self, stage: &str, category: &str) -> FailureState {
        let now = super::signed(self.seen.now);
        let before = self.status.failure.clone();
        let same = before.filter(|f| f.stage == stage && f.category == category);
        let counted = match same {
            Some(f) => FailureState {
                occurrences: f.occurrences.saturating_add(1),
                last_seen: now,
                retry_at: None,
                ..f
            },
            None => FailureState {
                stage: stage.into(),
                category: category.into(),
                first_seen: now,
                last_seen: now,
                occurrences: 1,
                retry_at: None,
                gave_up: false,
            },
        };
        self.status.failure = Some(counted.clone());
        counted
    }

    /// Seconds until the failure that is being dealt with may be tried again.
    pub(super) fn held_back(&self, stages: &[&str]) -> Option<u64> {
        let failure = self.status.failure.as_ref()?;
        let retry_at = u64::try_from(failure.retry_at?).ok()?;
        let counts = stages.contains(&failure.stage.as_str());
        (counts && retry_at > self.seen.now).then(|| retry_at - self.seen.now)
    }
}

/// Reason and sentence for a MAAS that does not serve us.
pub(crate) fn explain(error: &CallError) -> (&'static str, String) {
    let said = &error.message;
    match error.category {
        Category::Unauthorized if said.contains("xpired timestamp") => (
            "MaasClockSkew",
            format!(
                "MAAS refuses our time stamp ({said}): set the clocks of MAAS and of this cluster"
            ),
        ),
        Category::Unauthorized => (
            "MaasUnauthorized",
            "MAAS does not accept the API key: check MAAS_API_KEY (consumer:token:secret)".into(),
        ),
        Category::Tls => certificate(said),
        Category::Unavailable | Category::Unreachable | Category::Unknown => (
            "MaasUnavailable",
            format!("MAAS cannot be reached ({said}): check MAAS_ENDPOINT and that MAAS is up"),
        ),
        Category::Forbidden => ("MaasForbidden", format!("MAAS forbids the call: {said}")),
        _ => ("MaasError", format!("MAAS answered with an error: {said}")),
    }
}

/// What is wrong with a certificate, by the words of the TLS library.
fn certificate(said: &str) -> (&'static str, String) {
    let untrusted = "MaasCertificateUntrusted";
    let (reason, what, advice) = match () {
        () if said.contains("certificate expired") => {
            ("MaasCertificateExpired", "has expired", "renew it in MAAS")
        }
        () if said.contains("not valid yet") => {
            (untrusted, "is not valid yet", "set the clocks of MAAS and of this cluster")
        }
        () if said.contains("not valid for name") => {
            (untrusted, "is for another name", "use a name in MAAS_ENDPOINT that it is for")
        }
        () => (untrusted, "is not trusted", "give its CA to capmaas"),
    };
    (reason, format!("the certificate of MAAS {what} ({said}): {advice}"))
}

fn addresses(machine: &Machine) -> Vec<MachineAddress> {
    let entry = |kind: &str, address: &str| MachineAddress {
        kind: kind.to_owned(),
        address: address.to_owned(),
    };
    let mut list = Vec::new();
    if !machine.fqdn.is_empty() {
        list.push(entry("ExternalDNS", &machine.fqdn));
        list.push(entry("InternalDNS", &machine.fqdn));
    }
    if !machine.hostname.is_empty() {
        list.push(entry("Hostname", &machine.hostname));
    }
    for ip in machine.ip_addresses.iter().filter(|ip| !ip.is_empty()) {
        list.push(entry("ExternalIP", ip));
        list.push(entry("InternalIP", ip));
    }
    // One element that Cluster API's schema refuses would stop the whole Machine.
    list.retain(|a| (1..=256).contains(&a.address.len()));
    list.truncate(256);
    let mut seen = Vec::new();
    list.retain(|a| {
        let new = !seen.contains(a);
        seen.push(a.clone());
        new
    });
    list
}
