//! The Node of a deployed machine gets its provider id: once, and only from empty.
//!
//! MAAS has no cloud controller, so without this Cluster API never finds the Node. It runs apart
//! from the machine's own reconcile: a dead workload cluster holds nothing up.

use serde::{Deserialize, Serialize};

use crate::call_error::{CallError, Category};
use crate::step::{Done, Effect, Read, Reply, Step};
use crate::transcript::{Flow, Transcript};

/// A deployed machine whose Node is looked for.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// Namespace of the cluster.
    pub namespace: String,
    /// Name of the `Cluster`.
    pub cluster: String,
    /// The provider id.
    pub provider_id: String,
    /// Short host name in MAAS.
    pub hostname: String,
    /// Full host name in MAAS.
    pub fqdn: String,
    /// Addresses in MAAS.
    pub addresses: Vec<String>,
    /// How soon to look again, seconds.
    pub poll: u64,
    /// How soon to look again once all is well, seconds.
    pub drift: u64,
}

/// A Node of the workload cluster.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct NodeView {
    /// Name.
    pub name: String,
    /// `spec.providerID`; empty when unset.
    #[serde(default)]
    pub provider_id: String,
    /// Label `kubernetes.io/hostname`.
    #[serde(default)]
    pub hostname: String,
    /// `status.addresses` of type InternalIP.
    #[serde(default)]
    pub internal_ips: Vec<String>,
}

/// How it stands with the Node.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum NodeState {
    /// The Node carries the provider id.
    Set,
    /// There is no such Node yet.
    Waiting,
    /// The Node carries another provider id, which cannot be changed.
    Mismatch,
    /// The workload cluster does not answer.
    Unreachable,
    /// The name of its API server leads nowhere from here.
    Unresolvable,
}

/// What was last seen of the Node.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct NodeObservation {
    /// How it stands.
    pub state: NodeState,
    /// A sentence for the condition; empty when all is well.
    pub message: String,
}

/// The next step towards the Node's provider id.
pub fn next(snapshot: &Snapshot, replies: &[Reply]) -> Step<NodeObservation> {
    match look(snapshot, &mut Transcript::new(replies)) {
        Ok((state, message)) => {
            let settled = state == NodeState::Set;
            Step::Done(Box::new(Done {
                status: Some(NodeObservation { state, message }),
                resource_version: String::new(),
                events: vec![],
                compared: vec![],
                requeue: Some(if settled { snapshot.drift } else { snapshot.poll }),
            }))
        }
        Err(step) => *step,
    }
}

fn look(
    wanted: &Snapshot,
    transcript: &mut Transcript<'_>,
) -> Flow<(NodeState, String), NodeObservation> {
    let (namespace, cluster) = (wanted.namespace.clone(), wanted.cluster.clone());
    let nodes = match transcript.read(Read::Nodes { namespace, cluster })? {
        Ok(Reply::Nodes(nodes)) => nodes,
        Ok(_) => return Ok((NodeState::Unreachable, "unexpected reply".into())),
        Err(error) => return Ok(unreachable(&error)),
    };
    let Some(node) = find(wanted, &nodes) else {
        let message = format!("no Node named {} has registered yet", wanted.hostname);
        return Ok((NodeState::Waiting, message));
    };
    if node.provider_id == wanted.provider_id {
        return Ok((NodeState::Set, String::new()));
    }
    if !node.provider_id.is_empty() {
        let message = format!(
            "Node {} has provider id {:?}, which cannot be changed: delete the Node",
            node.name, node.provider_id
        );
        return Ok((NodeState::Mismatch, message));
    }
    let effect = Effect::SetNodeProviderId {
        namespace: wanted.namespace.clone(),
        cluster: wanted.cluster.clone(),
        node: node.name.clone(),
        provider_id: wanted.provider_id.clone(),
    };
    Ok(match transcript.perform(effect)? {
        Ok(_) => (NodeState::Set, String::new()),
        Err(error) => unreachable(&error),
    })
}

fn unreachable(error: &CallError) -> (NodeState, String) {
    if error.category == Category::NotFound {
        let message = "the workload cluster's kubeconfig Secret does not exist yet";
        return (NodeState::Waiting, message.into());
    }
    if error.category == Category::Unreachable {
        let message = "the name of the workload cluster's API server does not resolve from the \
                       controller: let its DNS ask MAAS for the domain";
        return (NodeState::Unresolvable, message.into());
    }
    // Without the address and the time-out's length: the message must stay the same.
    (NodeState::Unreachable, "the workload cluster does not answer".into())
}

/// By the provider id it has already, by exact name, by full name, by host-name label, by address;
/// by address only if it is one.
fn find<'a>(wanted: &Snapshot, nodes: &'a [NodeView]) -> Option<&'a NodeView> {
    let host = wanted.hostname.to_ascii_lowercase();
    let fqdn = wanted.fqdn.to_ascii_lowercase();
    let settled = nodes.iter().find(|n| n.provider_id == wanted.provider_id);
    let named = |name: &str| nodes.iter().find(|n| !name.is_empty() && n.name == name);
    let labelled = || nodes.iter().find(|n| !host.is_empty() && n.hostname == host);
    let mut by_address =
        nodes.iter().filter(|n| n.internal_ips.iter().any(|ip| wanted.addresses.contains(ip)));
    let only = by_address.next().filter(|_| by_address.next().is_none());
    settled.or_else(|| named(&host)).or_else(|| named(&fqdn)).or_else(labelled).or(only)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> Snapshot {
        Snapshot {
            namespace: "default".into(),
            cluster: "c".into(),
            provider_id: "maas:///az1/abc123".into(),
            hostname: "calm-heron".into(),
            fqdn: "calm-heron.maas".into(),
            addresses: vec!["10.0.0.5".into()],
            poll: 15,
            drift: 240,
        }
    }

    fn node(name: &str, id: &str, ips: &[&str]) -> NodeView {
        NodeView {
            name: name.into(),
            provider_id: id.into(),
            hostname: name.into(),
            internal_ips: ips.iter().map(|s| (*s).to_owned()).collect(),
        }
    }

    fn state(step: Step<NodeObservation>) -> NodeState {
        match step {
            Step::Done(done) => done.status.unwrap().state,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn b087_an_empty_provider_id_is_set_once() {
        let replies = [Reply::Nodes([node("calm-heron", "", &[])].into())];
        let step = next(&wanted(), &replies);
        assert!(matches!(step, Step::Do(Effect::SetNodeProviderId { .. })), "{step:?}");
        let set = [Reply::Nodes([node("calm-heron", "maas:///az1/abc123", &[])].into())];
        assert_eq!(state(next(&wanted(), &set)), NodeState::Set);
    }

    #[test]
    fn b087_another_provider_id_is_never_overwritten() {
        let replies = [Reply::Nodes([node("calm-heron", "aws:///x", &[])].into())];
        assert_eq!(state(next(&wanted(), &replies)), NodeState::Mismatch);
    }

    /// Which of the Nodes is taken for the machine's.
    fn chosen(nodes: &[NodeView]) -> Option<String> {
        match next(&wanted(), &[Reply::Nodes(nodes.into())]) {
            Step::Do(Effect::SetNodeProviderId { node, .. }) => Some(node),
            _ => None,
        }
    }

    #[test]
    fn b067_a_node_is_known_by_its_id_then_by_either_name_then_by_its_address() {
        let id = wanted().provider_id;
        let by_id = [node("calm-heron", "aws:///x", &[]), node("renamed", &id, &[])];
        assert_eq!(state(next(&wanted(), &[Reply::Nodes(by_id.into())])), NodeState::Set);
        let (short, full) = (node("calm-heron", "", &[]), node("calm-heron.maas", "", &[]));
        let other = node("other", "", &["10.0.0.5"]);
        let all = [other.clone(), full.clone(), short];
        assert_eq!(chosen(&all).as_deref(), Some("calm-heron"));
        assert_eq!(chosen(&[other.clone(), full]).as_deref(), Some("calm-heron.maas"));
        assert_eq!(chosen(&[other, node("else", "", &[])]).as_deref(), Some("other"));
        assert_eq!(chosen(&[node("else", "", &["10.0.0.6"])]), None);
    }

    #[test]
    fn b011_a_name_that_does_not_resolve_is_told_apart_from_a_server_that_is_down() {
        let failed =
            |category| state(next(&wanted(), &[Reply::Failed(CallError::new(category, ""))]));
        assert_eq!(failed(Category::Unreachable), NodeState::Unresolvable);
        assert_eq!(failed(Category::Unknown), NodeState::Unreachable);
        assert_eq!(failed(Category::NotFound), NodeState::Waiting);
    }

    #[test]
    fn two_nodes_with_the_address_are_no_match() {
        let both = vec![node("a", "", &["10.0.0.5"]), node("b", "", &["10.0.0.5"])];
        assert_eq!(state(next(&wanted(), &[Reply::Nodes(both.into())])), NodeState::Waiting);
    }
}
