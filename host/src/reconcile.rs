//! The step loop: performs what `core` asks for, one call at a time, and decides nothing.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use capmaas_api::MaasMachine;
use capmaas_core::machine::Sibling;
use capmaas_core::{CallError, Category, Done, Effect, Read, Reply, SecretState, Step};
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::{Api, Client};
use rand::Rng;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::decisions::DecisionLog;
use crate::kube::{Mirror, Seen, Workloads, call_error, patch_object, read_object};
use crate::maas;
use crate::policy::Metrics;

/// A reconcile takes a dozen steps; a transcript beyond this is a fault in `core`.
const MOST_STEPS: usize = 2000;

/// Everything the world outside consists of.
pub struct World {
    /// MAAS.
    pub maas: Arc<maas::Client>,
    /// The management cluster.
    pub kube: Client,
    /// What the watches have shown.
    pub mirror: Arc<Mirror>,
    /// The workload clusters.
    pub workloads: Arc<Workloads>,
    /// What counts the policies.
    pub metrics: Metrics,
    /// Where decisions are written down.
    pub decisions: Option<DecisionLog>,
}

/// Bootstrap data read in this reconcile, base64-encoded, by digest. It never enters a transcript.
type UserData = HashMap<String, String>;

/// How the telling of a reconcile ended.
pub enum Told<S> {
    /// It came to its end.
    Done(Box<Done<S>>),
    /// Before anything was done, the snapshot turned out to be old.
    Outdated,
    /// It did not end, which is a fault in `core`.
    Endless,
}

impl World {
    /// Runs a reconcile to its end. `stands` tells, before the first effect, whether what it began with is still so.
    pub async fn run<N: Serialize, S: Serialize>(
        &self,
        seen: &Seen<N>,
        next: impl Fn(&[Reply]) -> Step<S>,
        stands: impl Future<Output = bool>,
    ) -> Told<S> {
        let mut replies = Vec::new();
        let mut asked = false;
        let mut user_data = UserData::new();
        let mut stands = Some(stands);
        for _ in 0..MOST_STEPS {
            let reply = match next(&replies) {
                Step::Done(done) => {
                    self.metrics.compared(&done.compared);
                    if asked && let Some(log) = &self.decisions {
                        log.write(&seen.snapshot, &replies, &next).await;
                    }
                    return Told::Done(done);
                }
                Step::Read(read) => self.read(&read, &mut user_data).await,
                Step::Ask(ask) => {
                    asked = true;
                    seen.hand.ask(*ask).await
                }
                Step::Do(effect) => {
                    if let Some(stands) = stands.take()
                        && !stands.await
                    {
                        return Told::Outdated;
                    }
                    self.perform(&effect, &user_data).await
                }
            };
            replies.push(reply);
        }
        tracing::error!("a reconcile did not end within {MOST_STEPS} steps");
        Told::Endless
    }

    async fn read(&self, read: &Read, user_data: &mut UserData) -> Reply {
        match read {
            Read::BootstrapSecret { namespace, name } => {
                bootstrap(&self.kube, namespace, name, user_data).await
            }
            Read::Object(object) => read_object(&self.kube, object).await,
            Read::MaasMachines { namespace, cluster } => {
                maas_machines(&self.kube, namespace, cluster).await
            }
            Read::Siblings { namespace, cluster } => self.siblings(namespace, cluster).await,
            Read::Nodes { namespace, cluster } => self.workloads.nodes(namespace, cluster).await,
            Read::Mark => Reply::Text(random(MARK_ALPHABET, 20)),
            Read::Suffix => Reply::Text(random(MARK_ALPHABET, 6)),
            Read::Machine(_)
            | Read::MachinesByMark(_)
            | Read::Candidates(_)
            | Read::WhoAmI
            | Read::Version
            | Read::Images
            | Read::Zones
            | Read::Pools
            | Read::Tags
            | Read::Domains
            | Read::ErrorEvents(_)
            | Read::DnsByName(_)
            | Read::DnsResource(_)
            | Read::DnsRecords
            | Read::Reservation(_) => self.maas.read(read).await,
        }
    }

    async fn siblings(&self, namespace: &str, cluster: &str) -> Reply {
        if let Some(shown) = self.mirror.siblings(namespace, cluster).await {
            return Reply::Siblings(shown);
        }
        match list(&self.kube, namespace, cluster).await {
            Ok(objects) => Reply::Siblings(objects.iter().map(Sibling::of).collect()),
            Err(error) => Reply::Failed(call_error(&error)),
        }
    }

    async fn perform(&self, effect: &Effect, user_data: &UserData) -> Reply {
        match effect {
            Effect::Patch { object, patch } => {
                let reply = patch_object(&self.kube, object, patch).await;
                if let Reply::Written { resource_version, .. } = &reply {
                    let (kind, namespace) = (&object.kind, &object.namespace);
                    self.mirror.wrote(kind, namespace, &object.name, resource_version);
                }
                if let Reply::Failed(error) = &reply
                    && error.category != Category::Conflict
                {
                    let CallError { category, message, .. } = error;
                    let (kind, name) = (&object.kind, &object.name);
                    tracing::warn!(?category, message, kind, name, "an object cannot be written");
                }
                reply
            }
            Effect::SetNodeProviderId { namespace, cluster, node, provider_id } => {
                self.workloads.set_provider_id(namespace, cluster, node, provider_id).await
            }
            Effect::Deploy { user_data_digest, .. } => {
                let data = user_data.get(user_data_digest).map(String::as_str);
                self.maas.perform(effect, data).await
            }
            Effect::PowerOn { user_data_digest, .. } => {
                let data = user_data_digest.as_ref().and_then(|d| user_data.get(d));
                self.maas.perform(effect, data.map(String::as_str)).await
            }
            other => self.maas.perform(other, None).await,
        }
    }
}

const MARK_ALPHABET: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";

fn random(alphabet: &[u8], length: usize) -> String {
    let mut rng = rand::rng();
    (0..length).map(|_| char::from(alphabet[rng.random_range(0..alphabet.len())])).collect()
}

async fn bootstrap(client: &Client, namespace: &str, name: &str, kept: &mut UserData) -> Reply {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let secret = match secrets.get_opt(name).await {
        Ok(Some(secret)) => secret,
        Ok(None) => return Reply::Secret(SecretState::Missing),
        Err(error) => return Reply::Failed(call_error(&error)),
    };
    let data = secret.data.unwrap_or_default();
    let Some(value) = data.get("value").filter(|v| !v.0.is_empty()) else {
        return Reply::Secret(SecretState::Empty);
    };
    let format = data.get("format").and_then(|f| std::str::from_utf8(&f.0).ok());
    let format = format.map(str::trim).filter(|f| !f.is_empty()).unwrap_or("cloud-config");
    let digest: String = Sha256::digest(&value.0).iter().map(|b| format!("{b:02x}")).collect();
    kept.insert(digest.clone(), STANDARD.encode(&value.0));
    Reply::Secret(SecretState::Present { digest, format: format.to_owned() })
}

async fn maas_machines(client: &Client, namespace: &str, cluster: &str) -> Reply {
    match list(client, namespace, cluster).await {
        Ok(objects) => match objects.iter().map(serde_json::to_value).collect() {
            Ok(objects) => Reply::MaasMachines(objects),
            Err(_) => {
                Reply::Failed(CallError::new(Category::Malformed, "a MaasMachine cannot be read"))
            }
        },
        Err(error) => Reply::Failed(call_error(&error)),
    }
}

async fn list(
    client: &Client,
    namespace: &str,
    cluster: &str,
) -> Result<Vec<MaasMachine>, kube::Error> {
    let api: Api<MaasMachine> = Api::namespaced(client.clone(), namespace);
    let label = format!("{}={cluster}", capmaas_api::names::CLUSTER_NAME_LABEL);
    Ok(api.list(&ListParams::default().labels(&label)).await?.items)
}
