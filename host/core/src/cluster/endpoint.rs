//! Which name the API server has, and whose the record is.

use std::collections::BTreeMap;

use capmaas_api::{ApiEndpoint, Network, names};
use serde_json::json;

use super::{ClusterFlow, DNS_NAMING, End, LOAD_BALANCER_READY, Run, TTL, unexpected};
use crate::call_error::Category;
use crate::policy::decisions::{self, Decided, compared, default_used, no_answer};
use crate::policy::{
    Answer, Answered, Context, NameRequest, Panel, PolicyId, Question, Seat, fqdn, is_dns_name,
};
use crate::step::{Effect, EventKind, ObjectPatch, Read, Reply};
use crate::text::bounded;

/// Names to try before it is the policy's fault.
const MOST_NAMES: u32 = 5;

/// The endpoint of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// An address or a name outside the cluster's domain: no DNS is managed.
    Elsewhere,
    /// A name the user gave inside the domain: its record is filled, never deleted.
    Given(String),
    /// A name that was generated: its record is ours.
    Generated(String),
}

impl Run<'_> {
    /// Settles name and port, and writes both before the cluster counts as provisioned.
    pub(super) fn decide_endpoint(&mut self) -> ClusterFlow<Endpoint> {
        self.ensure_finalizer()?;
        let endpoint = self.endpoint_kind();
        let endpoint = match endpoint {
            Some(endpoint) => endpoint,
            None => Endpoint::Generated(self.generate_name()?),
        };
        let host = match &endpoint {
            Endpoint::Given(name) | Endpoint::Generated(name) => name.clone(),
            Endpoint::Elsewhere => self.given_host().unwrap_or_default(),
        };
        self.publish_endpoint(&host)?;
        match &endpoint {
            Endpoint::Elsewhere => {
                self.status.network = None;
                let message = "the endpoint is not in the cluster's MAAS domain: no DNS is managed";
                self.conditions.set(LOAD_BALANCER_READY, true, "EndpointNotManaged", message);
            }
            Endpoint::Given(name) | Endpoint::Generated(name) => {
                let network = self.status.network.get_or_insert_with(Network::default);
                network.dns_name = Some(name.clone());
            }
        }
        Ok(endpoint)
    }

    fn ensure_finalizer(&mut self) -> ClusterFlow<()> {
        if self.finalizers.iter().any(|f| f == names::CLUSTER_FINALIZER) {
            return Ok(());
        }
        let mut all = self.finalizers.clone();
        all.push(names::CLUSTER_FINALIZER.to_owned());
        self.patch(ObjectPatch { finalizers: Some(all), ..ObjectPatch::default() })
    }

    fn domain(&self) -> &str {
        self.seen.object.spec.dns_domain.trim().trim_end_matches('.')
    }

    /// The host in the Cluster, else in the MaasCluster. Ours comes back to us in both.
    fn given_host(&self) -> Option<String> {
        let user = self.seen.cluster.as_ref().and_then(|c| c.endpoint_host());
        let own = Some(self.endpoint.host.as_str()).filter(|h| !h.is_empty());
        user.or(own).map(|h| h.trim_end_matches('.').to_owned())
    }

    /// What is already settled; `None` when a name is still to be found.
    pub(super) fn endpoint_kind(&self) -> Option<Endpoint> {
        let generated = self.annotations.get(names::DNS_NAME_ANNOTATION).cloned();
        let Some(host) = self.given_host() else {
            // The Go provider recorded a generated name in the status alone.
            let recorded =
                self.seen.object.status.as_ref().and_then(|s| s.network.as_ref()?.dns_name.clone());
            return match (generated, recorded) {
                (Some(name), _) => Some(Endpoint::Generated(name)),
                (None, Some(name)) => Some(Endpoint::Given(name)),
                (None, None) => None,
            };
        };
        if generated.as_deref() == Some(host.as_str()) {
            return Some(Endpoint::Generated(host));
        }
        Some(if in_domain(&host, self.domain()) {
            Endpoint::Given(host)
        } else {
            Endpoint::Elsewhere
        })
    }

    /// Asks the naming policy until a name is free, and writes it down before anything exists.
    fn generate_name(&mut self) -> ClusterFlow<String> {
        let mut taken = Vec::new();
        for attempt in 0..MOST_NAMES {
            let (name, by) = self.propose(attempt, &taken)?;
            match self.read(Read::DnsByName(name.clone()))? {
                Ok(Reply::Dns(found)) if found.is_empty() => {
                    let note = format!("the API server is called {name}, by policy {by}");
                    self.event(EventKind::Normal, "EndpointNamed", "Name", note);
                    self.annotate(names::DNS_NAME_ANNOTATION, Some(name.clone()))?;
                    return Ok(name);
                }
                Ok(Reply::Dns(_)) => taken.push(name),
                Err(error) if error.category == Category::NotFound => {
                    return Err(self.domain_missing()?);
                }
                other => return Err(self.maas_trouble(&unexpected(other))),
            }
        }
        let message = format!("every proposed name exists in MAAS already: {}", taken.join(", "));
        Err(self.no_name(&message))
    }

    /// The cluster's own domain, and the one the operator gave to all clusters.
    fn allowed_domains(&self, own: &str) -> Vec<String> {
        let others = self.seen.settings.dns_domain.iter().filter(|d| *d != own);
        std::iter::once(own.to_owned()).chain(others.cloned()).collect()
    }

    /// A name, and the policy that gave it.
    fn propose(&mut self, attempt: u32, taken: &[String]) -> ClusterFlow<(String, PolicyId)> {
        let suffix = match self.read(Read::Suffix)? {
            Ok(Reply::Text(suffix)) => suffix,
            other => return Err(self.maas_trouble(&unexpected(other))),
        };
        let domain = self.domain().to_owned();
        let uid = self.seen.object.metadata.uid.clone().unwrap_or_default();
        let request = NameRequest {
            context: Context {
                decision_id: format!("{uid}/dns-naming"),
                now: self.seen.now,
                namespace: self.namespace().to_owned(),
                cluster: self.cluster_name().to_owned(),
                attributes: vec![],
            },
            suffix,
            allowed_domains: self.allowed_domains(&domain),
            default_domain: domain,
            taken: taken.to_vec(),
            attempt,
        };
        let (name, by) = self.named(&request)?;
        for seat in Panel::shadows(&self.seen.policies.dns_naming.clone()) {
            if let Ok(Answered { answer: Answer::Named(its), .. }) =
                self.transcript.ask(&seat, Question::Name(request.clone()))?
                && let Ok(its) = fqdn(its.as_ref(), &request)
            {
                let difference = || format!("it would have named it {its}; its name is {name}");
                self.compared(&seat, (its != name).then(difference));
            }
        }
        Ok((name, by))
    }

    /// The name that the policy gives, or the built-in one where that may take its place.
    fn named(&mut self, request: &NameRequest) -> ClusterFlow<(String, PolicyId)> {
        let seat = Panel::obeyed(&self.seen.policies.dns_naming).swap_remove(0);
        if seat.loading {
            let message = format!("policy {} is being loaded", seat.called());
            self.conditions.set(LOAD_BALANCER_READY, false, "WaitForDNSName", &message);
            return Err(self.done(Some(1)));
        }
        match self.asked_for_name(&seat, request)? {
            Ok(name) => Ok(name),
            Err(why) if seat.use_default => {
                self.events.push(default_used(&seat, &why));
                match self.asked_for_name(&Seat::default(), request)? {
                    Ok(name) => Ok(name),
                    Err(why) => Err(self.no_name(&why)),
                }
            }
            Err(why) => Err(self.no_name(&why)),
        }
    }

    /// What one policy says, or why that cannot be used.
    fn asked_for_name(
        &mut self,
        seat: &Seat,
        request: &NameRequest,
    ) -> ClusterFlow<Result<(String, PolicyId), String>> {
        let (policy, name) = match self.transcript.ask(seat, Question::Name(request.clone()))? {
            Ok(Answered { policy, answer: Answer::Named(name) }) => (policy, name),
            other => return Ok(Err(no_answer(other))),
        };
        match fqdn(name.as_ref(), request) {
            Ok(fqdn) => {
                let reason = if name.is_none() { "it left the name to the host" } else { "" };
                self.decided(seat, &policy, &fqdn, reason);
                Ok(Ok((fqdn, policy)))
            }
            Err(problem) => {
                Ok(Err(format!("policy {policy} gave a name that cannot be used: {problem}")))
            }
        }
    }

    fn decided(&mut self, seat: &Seat, policy: &PolicyId, answer: &str, reason: &str) {
        let (kind, at) = (DNS_NAMING, self.seen.now);
        let decided = Decided { kind, seat, policy, answer, reason, at };
        decisions::keep(&mut self.status.decisions, &decided);
    }

    fn compared(&mut self, seat: &Seat, difference: Option<String>) {
        let (comparison, event) = compared(seat, DNS_NAMING, difference);
        self.compared.push(comparison);
        self.events.extend(event);
    }

    pub(super) fn no_name(&mut self, message: &str) -> End {
        let bounded = bounded(message, 400);
        if self.conditions.reason_before(LOAD_BALANCER_READY) != Some("WaitForDNSName") {
            self.event(EventKind::Warning, "DNSNamingFailed", "Name", bounded.clone());
        }
        self.conditions.set(LOAD_BALANCER_READY, false, "WaitForDNSName", &bounded);
        let again = self.seen.settings.poll.saturating_mul(2);
        self.done(Some(again))
    }

    pub(super) fn domain_missing(&mut self) -> ClusterFlow<End> {
        let have = match self.read(Read::Domains)? {
            Ok(Reply::Names(names)) => names.join(", "),
            _ => "others".into(),
        };
        let message = format!(
            "MAAS has no DNS domain {:?} (it has {have}): create it in MAAS, or make the cluster \
             anew with an existing spec.dnsDomain",
            self.domain()
        );
        Ok(self.no_name(&message))
    }

    /// Host and port in our own spec, from where Cluster API copies them.
    fn publish_endpoint(&mut self, host: &str) -> ClusterFlow<()> {
        let port = self.seen.cluster.as_ref().map_or(6443, |c| c.api_server_port());
        let users = self.seen.cluster.as_ref().and_then(|c| c.spec.control_plane_endpoint.clone());
        let wanted = match users.filter(ApiEndpoint::is_set) {
            Some(endpoint) => endpoint,
            None => ApiEndpoint { host: host.to_owned(), port },
        };
        // A valid endpoint of our own is never rewritten: Cluster API would not follow.
        if host.is_empty() || self.endpoint.is_set() {
            return Ok(());
        }
        let value = json!({ "host": wanted.host, "port": wanted.port });
        let spec = BTreeMap::from([("controlPlaneEndpoint".to_owned(), value)]);
        self.patch(ObjectPatch { spec, ..ObjectPatch::default() })?;
        self.endpoint = wanted;
        Ok(())
    }

    /// Makes the record of a generated name. It holds no address yet, which MAAS allows.
    pub(super) fn create_record(&mut self, name: &str) -> ClusterFlow<crate::maas::DnsResource> {
        match self.perform(Effect::CreateDns { fqdn: name.to_owned(), ttl: TTL })? {
            Ok(Reply::Dns(mut records)) if !records.is_empty() => Ok(records.swap_remove(0)),
            Err(error) if error.category == Category::NotFound => Err(self.domain_missing()?),
            Err(error) if error.ambiguous() && !error.endpoint_wide() => {
                // It may exist now: the next look by name tells.
                Err(self.finished(None, Some(2)))
            }
            // Somebody was faster with the name: the next look by name finds it.
            Err(error) if error.message.contains("must be unique") => {
                Err(self.finished(None, Some(1)))
            }
            Err(error) if error.category == Category::BadRequest => {
                let message = format!("MAAS does not accept DNS name {name}: {}", error.message);
                Err(self.no_name(&message))
            }
            other => Err(self.maas_trouble(&unexpected(other))),
        }
    }
}

/// Inside the domain: one or more labels in front of it. An address is never inside, and neither is
/// what MAAS could not even look up.
fn in_domain(host: &str, domain: &str) -> bool {
    let address = host.parse::<std::net::IpAddr>().is_ok();
    !address
        && is_dns_name(host)
        && host
            .to_ascii_lowercase()
            .strip_suffix(&domain.to_ascii_lowercase())
            .is_some_and(|front| front.len() > 1 && front.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::in_domain;

    #[test]
    fn an_address_or_a_foreign_name_is_not_ours_to_manage() {
        assert!(in_domain("api.maas", "maas") && in_domain("API.Maas", "maas"));
        for elsewhere in ["10.0.0.1", "fd00::1", "api.corp", "maas", "xmaas", ".maas"] {
            assert!(!in_domain(elsewhere, "maas"), "{elsewhere}");
        }
    }

    #[test]
    fn what_is_no_name_is_not_looked_up() {
        assert!(in_domain("a-1.b_2.maas", "maas"));
        for none in [" api.maas", "a..maas", "..maas", "a\nb.maas", "\u{c}api.maas", "ä.maas"] {
            assert!(!in_domain(none, "maas"), "{none:?}");
        }
        assert!(!in_domain(&format!("{}.maas", "a.".repeat(130)), "maas"));
    }
}
