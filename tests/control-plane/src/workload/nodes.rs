//! What kubeadm and kubelets leave behind in a workload cluster.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::fleet::Host;

/// Says on a Node which deployment of which host it is.
const BOOT: &str = "control-plane.test/boot";
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
const STATIC_PODS: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// A writer into one workload cluster.
pub(super) struct Nodes {
    nodes: Api<Node>,
    pods: Api<Pod>,
    config_maps: Api<ConfigMap>,
}

/// What a host becomes.
pub(super) struct Birth<'a> {
    pub(super) host: &'a Host,
    pub(super) control_plane: bool,
    /// The Kubernetes version, like `v1.34.1`.
    pub(super) version: &'a str,
    /// Which deployment this is, in a word that [`Nodes::mark`] gives back.
    pub(super) mark: &'a str,
}

impl Nodes {
    pub(super) fn new(client: Client) -> Self {
        Self {
            nodes: Api::all(client.clone()),
            pods: Api::namespaced(client.clone(), "kube-system"),
            config_maps: Api::namespaced(client, "kube-system"),
        }
    }

    /// Whether `kubeadm init` has left its configuration.
    pub(super) async fn initialised(&self) -> Result<bool> {
        Ok(self.config_maps.get_opt("kubeadm-config").await?.is_some())
    }

    /// Leaves the configuration that `kubeadm init` leaves.
    pub(super) async fn initialise(&self, version: &str) -> Result<()> {
        let api = if minor(version) >= 31 { "v1beta4" } else { "v1beta3" };
        let cluster = format!(
            "apiVersion: kubeadm.k8s.io/{api}\nkind: ClusterConfiguration\nkubernetesVersion: {version}\n"
        );
        let kubelet = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
        // kubeadm-config last: with it Cluster API calls the cluster initialised
        for (name, key, text) in [
            ("kubelet-config", "kubelet", kubelet),
            ("kubeadm-config", "ClusterConfiguration", &cluster),
        ] {
            let map: ConfigMap = serde_json::from_value(json!({
                "metadata": {"name": name},
                "data": {key: text},
            }))?;
            tolerate(self.config_maps.create(&PostParams::default(), &map).await, 409)
                .with_context(|| format!("create the ConfigMap {name}"))?;
        }
        Ok(())
    }

    /// The mark of the Node of this name, if there is one.
    pub(super) async fn mark(&self, name: &str) -> Result<Option<String>> {
        let node = self.nodes.get_opt(name).await?;
        Ok(node.and_then(|node| node.annotations().get(BOOT).cloned()))
    }

    /// Makes a Node, and the static pods of a control plane; an older Node of the same name goes first.
    pub(super) async fn create(&self, birth: &Birth<'_>) -> Result<()> {
        let name = &birth.host.hostname;
        self.delete(name).await?;
        let (labels, taints) = if birth.control_plane {
            (
                json!({"kubernetes.io/hostname": name, CONTROL_PLANE: ""}),
                json!([{"key": CONTROL_PLANE, "effect": "NoSchedule"}]),
            )
        } else {
            (json!({"kubernetes.io/hostname": name}), json!([]))
        };
        // no providerID: that is the infrastructure provider's to set
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints},
        }))?;
        self.nodes
            .create(&PostParams::default(), &node)
            .await
            .with_context(|| format!("create the Node {name}"))?;
        if birth.control_plane {
            for component in STATIC_PODS {
                self.create_static_pod(name, component, birth.version).await?;
            }
        }
        let status = json!({"status": {
            "addresses": addresses(birth.host),
            "nodeInfo": node_info(birth),
            "conditions": conditions(true),
        }});
        self.nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await?;
        // last: a Node without a mark is one whose making was cut off
        let mark = json!({"metadata": {"annotations": {BOOT: birth.mark}}});
        self.nodes.patch(name, &PatchParams::default(), &Patch::Merge(mark)).await?;
        Ok(())
    }

    /// Tells whether a Node's kubelet reports; a Node that is gone stays gone.
    pub(super) async fn set_ready(&self, name: &str, ready: bool) -> Result<()> {
        let status = json!({"status": {"conditions": conditions(ready)}});
        let patched =
            self.nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await;
        tolerate(patched, 404).with_context(|| format!("set the readiness of Node {name}"))
    }

    /// Removes pods whose Node is gone, as the pod garbage collector would.
    pub(super) async fn sweep(&self) -> Result<()> {
        let nodes = self.nodes.list_metadata(&ListParams::default()).await?;
        let names: BTreeSet<String> = nodes.iter().map(ResourceExt::name_any).collect();
        for pod in self.pods.list(&ListParams::default()).await? {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
            if node.is_some_and(|node| !names.contains(node)) {
                self.delete_pod(&pod.name_any()).await?;
            }
        }
        Ok(())
    }

    async fn delete(&self, name: &str) -> Result<()> {
        for component in STATIC_PODS {
            self.delete_pod(&format!("{component}-{name}")).await?;
        }
        tolerate(self.nodes.delete(name, &DeleteParams::default()).await, 404)
            .with_context(|| format!("delete the stale Node {name}"))
    }

    async fn delete_pod(&self, name: &str) -> Result<()> {
        // there is no kubelet that would end it in its own time
        let at_once = DeleteParams::default().grace_period(0);
        tolerate(self.pods.delete(name, &at_once).await, 404)
            .with_context(|| format!("delete the pod {name}"))
    }

    async fn create_static_pod(&self, node: &str, component: &str, version: &str) -> Result<()> {
        let name = format!("{component}-{node}");
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {
                "name": name,
                "labels": {"component": component, "tier": "control-plane"},
                // marks the mirror of a static pod, which a drain leaves alone
                "annotations": {"kubernetes.io/config.mirror": "0", "kubernetes.io/config.source": "file"},
            },
            "spec": {
                "nodeName": node,
                "hostNetwork": true,
                "containers": [{"name": component, "image": format!("registry.k8s.io/{component}:{version}")}],
                "tolerations": [{"operator": "Exists"}],
            },
        }))?;
        self.pods
            .create(&PostParams::default(), &pod)
            .await
            .with_context(|| format!("create the pod {name}"))?;
        let status = json!({"status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
        }});
        self.pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok(())
    }
}

fn addresses(host: &Host) -> Vec<Value> {
    let mut addresses: Vec<Value> = host
        .ip_addresses
        .iter()
        .map(|address| json!({"type": "InternalIP", "address": address}))
        .collect();
    addresses.push(json!({"type": "Hostname", "address": host.hostname}));
    addresses
}

fn node_info(birth: &Birth<'_>) -> Value {
    let system_id = &birth.host.system_id;
    json!({
        "architecture": "amd64",
        "bootID": format!("{system_id}-{}", birth.host.deploys),
        "containerRuntimeVersion": "containerd://2.0.0",
        "kernelVersion": "6.8.0-generic",
        "kubeProxyVersion": birth.version,
        "kubeletVersion": birth.version,
        "machineID": system_id,
        "operatingSystem": "linux",
        "osImage": "Ubuntu 24.04 LTS",
        "systemUUID": system_id,
    })
}

/// The conditions of a kubelet that reports, or those that the node controller writes when it no longer does.
fn conditions(ready: bool) -> Vec<Value> {
    let now = k8s_openapi::jiff::Timestamp::now().to_string();
    let kinds = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID"),
        ("Ready", "True", "KubeletReady"),
    ];
    kinds
        .into_iter()
        .map(|(kind, status, reason)| {
            let (status, reason, message) = if ready {
                (status, reason, "kubelet reports")
            } else {
                ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
            };
            json!({
                "type": kind, "status": status, "reason": reason, "message": message,
                "lastHeartbeatTime": now, "lastTransitionTime": now,
            })
        })
        .collect()
}

fn minor(version: &str) -> u32 {
    let part = version.trim_start_matches('v').split('.').nth(1);
    part.and_then(|minor| minor.parse().ok()).unwrap_or(u32::MAX)
}

/// Makes one status code no error.
fn tolerate<T>(result: kube::Result<T>, code: u16) -> Result<()> {
    match result {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == code => Ok(()),
        Err(error) => Err(error.into()),
    }
}
