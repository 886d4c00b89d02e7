use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use capmaas_core::node::NodeView;
use capmaas_core::{CallError, Category, Reply};
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use serde_json::json;

use super::call_error;
use super::writes::FIELD_MANAGER;

/// A workload cluster that does not answer within this is not waited for.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How old a look at the Nodes may be that another machine has taken.
const SHARED: Duration = Duration::from_secs(2);
/// Nodes on one page of a listing; only what is needed of each is kept.
const PAGE: u32 = 500;

/// Clients of workload clusters, by their `<cluster>-kubeconfig` Secret.
pub struct Workloads {
    management: Client,
    clients: Mutex<HashMap<(String, String), (String, Client)>>,
    looks: Mutex<HashMap<(String, String), Arc<Look>>>,
}

/// The last look at the Nodes of a cluster.
#[derive(Default)]
struct Look(tokio::sync::Mutex<Option<(Instant, Reply)>>);

impl Workloads {
    /// No client yet.
    pub fn new(management: Client) -> Self {
        Self { management, clients: Mutex::default(), looks: Mutex::default() }
    }

    /// All Nodes of a workload cluster. Machines that ask at about the same time share a look.
    pub async fn nodes(&self, namespace: &str, cluster: &str) -> Reply {
        let look = self.look(namespace, cluster);
        let mut look = look.0.lock().await;
        if let Some((at, reply)) = &*look
            && at.elapsed() < SHARED
        {
            return reply.clone();
        }
        let reply = self.seen(namespace, cluster).await;
        *look = Some((Instant::now(), reply.clone()));
        reply
    }

    fn look(&self, namespace: &str, cluster: &str) -> Arc<Look> {
        let mut looks = self.looks.lock().unwrap_or_else(|e| e.into_inner());
        // One that nobody uses is worth keeping only while it is new.
        let old = |look: &Look| {
            let last = look.0.try_lock().ok().and_then(|l| l.as_ref().map(|(at, _)| *at));
            last.is_none_or(|at| at.elapsed() >= SHARED)
        };
        looks.retain(|_, look| Arc::strong_count(look) > 1 || !old(look));
        looks.entry((namespace.to_owned(), cluster.to_owned())).or_default().clone()
    }

    async fn seen(&self, namespace: &str, cluster: &str) -> Reply {
        match self.try_nodes(namespace, cluster).await {
            Ok(nodes) => Reply::Nodes(nodes.into()),
            Err(error) => self.failed(namespace, cluster, error),
        }
    }

    /// Gives a Node its provider id; Kubernetes refuses to change one that is set.
    pub async fn set_provider_id(
        &self,
        namespace: &str,
        cluster: &str,
        node: &str,
        provider_id: &str,
    ) -> Reply {
        let patch = json!({ "spec": { "providerID": provider_id } });
        let params =
            PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..Default::default() };
        let done = async {
            let client = self.client(namespace, cluster).await?;
            let nodes: Api<Node> = Api::all(client);
            let patch = Patch::Merge(&patch);
            within(async { nodes.patch(node, &params, &patch).await.map_err(|e| call_error(&e)) })
                .await
        };
        match done.await {
            Ok(_) => Reply::Completed,
            Err(error) => self.failed(namespace, cluster, error),
        }
    }

    async fn try_nodes(&self, namespace: &str, cluster: &str) -> Result<Vec<NodeView>, CallError> {
        let client = self.client(namespace, cluster).await?;
        let nodes: Api<Node> = Api::all(client);
        let mut params = ListParams::default().limit(PAGE);
        let mut seen = Vec::new();
        loop {
            let page =
                within(async { nodes.list(&params).await.map_err(|e| call_error(&e)) }).await?;
            seen.extend(page.items.iter().map(view));
            match page.metadata.continue_.filter(|c| !c.is_empty()) {
                Some(next) => params = params.continue_token(&next),
                None => return Ok(seen),
            }
        }
    }

    /// A connection that failed is made anew next time: certificates are rotated.
    fn failed(&self, namespace: &str, cluster: &str, error: CallError) -> Reply {
        if error.category != Category::NotFound {
            let mut clients = self.clients.lock().unwrap_or_else(|e| e.into_inner());
            clients.remove(&(namespace.to_owned(), cluster.to_owned()));
        }
        Reply::Failed(error)
    }

    async fn client(&self, namespace: &str, cluster: &str) -> Result<Client, CallError> {
        let secrets: Api<Secret> = Api::namespaced(self.management.clone(), namespace);
        let name = format!("{cluster}-kubeconfig");
        let secret = secrets.get(&name).await.map_err(|e| call_error(&e))?;
        let version = secret.resource_version().unwrap_or_default();
        let key = (namespace.to_owned(), cluster.to_owned());
        {
            let clients = self.clients.lock().unwrap_or_else(|e| e.into_inner());
            if let Some((known, client)) = clients.get(&key)
                && *known == version
            {
                return Ok(client.clone());
            }
        }
        let text = secret.data.as_ref().and_then(|d| d.get("value"));
        let text = text.and_then(|v| std::str::from_utf8(&v.0).ok()).unwrap_or_default();
        let client = connect(text).await?;
        let mut clients = self.clients.lock().unwrap_or_else(|e| e.into_inner());
        clients.insert(key, (version, client.clone()));
        Ok(client)
    }
}

async fn within<T>(call: impl Future<Output = Result<T, CallError>>) -> Result<T, CallError> {
    let late = || CallError::new(Category::Unavailable, "no answer in time");
    tokio::time::timeout(TIMEOUT, call).await.unwrap_or_else(|_| Err(late()))
}

async fn connect(kubeconfig: &str) -> Result<Client, CallError> {
    let unusable = |_| CallError::new(Category::Malformed, "the kubeconfig cannot be used");
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).map_err(unusable)?;
    if !self_contained(&kubeconfig) {
        let message = "the kubeconfig names files or commands, which are not used";
        return Err(CallError::new(Category::Malformed, message));
    }
    let options = KubeConfigOptions::default();
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(unusable)?;
    config.connect_timeout = Some(Duration::from_secs(5));
    config.read_timeout = Some(TIMEOUT);
    config.write_timeout = Some(TIMEOUT);
    Client::try_from(config)
        .map_err(|_| CallError::new(Category::Malformed, "the kubeconfig cannot be used"))
}

/// Whoever may write the Secret must not make the controller run a command or read its files.
fn self_contained(kubeconfig: &Kubeconfig) -> bool {
    let users = kubeconfig.auth_infos.iter().filter_map(|u| u.auth_info.as_ref()).all(|u| {
        u.exec.is_none()
            && u.auth_provider.is_none()
            && u.token_file.is_none()
            && u.client_certificate.is_none()
            && u.client_key.is_none()
    });
    let clusters = kubeconfig.clusters.iter().filter_map(|c| c.cluster.as_ref());
    users && clusters.into_iter().all(|c| c.certificate_authority.is_none())
}

fn view(node: &Node) -> NodeView {
    let spec = node.spec.as_ref();
    let addresses = node.status.as_ref().and_then(|s| s.addresses.as_deref()).unwrap_or_default();
    NodeView {
        name: node.name_any(),
        provider_id: spec.and_then(|s| s.provider_id.clone()).unwrap_or_default(),
        hostname: node.labels().get("kubernetes.io/hostname").cloned().unwrap_or_default(),
        internal_ips: addresses
            .iter()
            .filter(|a| a.type_ == "InternalIP")
            .map(|a| a.address.clone())
            .collect(),
    }
}
