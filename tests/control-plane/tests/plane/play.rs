//! A whole cluster comes up, with a provider of a few lines in the place of the one that this harness is meant to test.

use std::sync::{Arc, OnceLock};

use anyhow::Result;
use control_plane::{Boot, Fleet, ManagementPlane, Workload, WorkloadFollower};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, ListParams};

use crate::provider::{Maas, NAMESPACE, Provider, until};

/// A definition that takes anything.
pub(crate) fn crd(group: &str, version: &str, kind: &str, plural: &str) -> String {
    let singular = kind.to_lowercase();
    format!(
        "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: {plural}.{group}
  labels: {{cluster.x-k8s.io/v1beta2: {version}}}
spec:
  group: {group}
  scope: Namespaced
  names: {{kind: {kind}, listKind: {kind}List, plural: {plural}, singular: {singular}}}
  versions:
  - name: {version}
    served: true
    storage: true
    subresources: {{status: {{}}}}
    schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}
"
    )
}

/// Definitions of the infrastructure kinds, which Cluster API must find before it converts a reference to one.
pub(crate) fn define_infrastructure(plane: &ManagementPlane) {
    static DEFINED: OnceLock<()> = OnceLock::new();
    DEFINED.get_or_init(|| {
        let kinds = ["MaasCluster", "MaasMachine", "MaasMachineTemplate"];
        let group = "infrastructure.cluster.x-k8s.io";
        let yaml =
            kinds.map(|kind| crd(group, "v1beta1", kind, &format!("{}s", kind.to_lowercase())));
        plane.apply("default", &yaml.join("---")).expect("the definitions are taken");
        for kind in kinds {
            let name = format!("crd/{}s.{group}", kind.to_lowercase());
            plane
                .kubectl(&["wait", "--for=condition=Established", "--timeout=30s", &name])
                .expect("the definitions are served");
        }
    });
}

fn status_of(node: &Node) -> String {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.and_then(|all| all.iter().find(|c| c.type_ == "Ready"));
    ready.map(|condition| condition.status.clone()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_comes_up_and_goes() -> Result<()> {
    let plane = super::plane();
    define_infrastructure(plane);
    plane.create_namespace(NAMESPACE)?;
    let workload = Workload::start(plane, "play")?;
    workload.publish(&plane.client(), NAMESPACE, "play").await?;
    let maas = Arc::new(Maas::default());
    let follower = workload.follow(plane, Arc::clone(&maas), NAMESPACE, "play")?;
    let nodes: Api<Node> = Api::all(workload.client());
    let mut provider = Provider {
        maas: Arc::clone(&maas),
        management: plane.client(),
        nodes: nodes.clone(),
        wrong_data: None,
    };
    plane.apply(NAMESPACE, include_str!("cluster.yaml"))?;

    // The first control plane is deployed, but no name leads to it.
    until(&mut provider, "the first host is a Node", 60, async |_| {
        Ok(!nodes.list(&ListParams::default()).await?.items.is_empty())
    })
    .await?;
    assert_eq!(follower.boots().get("host01"), Some(&Boot::Init));
    assert!(!follower.gate_open(), "no DNS record, no way in");

    maas.dns.lock().expect("no panic").push("10.9.0.1".to_owned());
    until(&mut provider, "four machines run", 180, async |provider| {
        Ok(provider.running().await? == 4)
    })
    .await?;
    assert!(follower.gate_open());
    let described = plane.clusterctl(&["describe", "cluster", "play", "-n", NAMESPACE])?;
    assert!(described.contains("KubeadmControlPlane play/play"), "{described}");
    let boots = follower.boots();
    assert_eq!(boots.values().filter(|boot| **boot == Boot::Join).count(), 3, "{boots:?}");
    assert_eq!(follower.violations(), Vec::<String>::new());
    let pods: Api<Pod> = Api::namespaced(workload.client(), "kube-system");
    assert_eq!(pods.list(&ListParams::default()).await?.items.len(), 9);

    power_and_names(&mut provider, &nodes, &workload).await?;
    wrong_data(&mut provider, plane, &follower).await?;
    departure(&mut provider, plane, &nodes, &pods).await?;
    assert_eq!(follower.trouble(), None);
    follower.stop();
    plane.check()
}

/// A host without power is a Node that is not ready; a name that leads to it alone leads nowhere.
async fn power_and_names(
    provider: &mut Provider,
    nodes: &Api<Node>,
    workload: &Workload,
) -> Result<()> {
    let maas = Arc::clone(&provider.maas);
    maas.change("host01", |host| host.power = "off".to_owned());
    until(provider, "a host without power is not ready and not reached", 10, async |_| {
        Ok(status_of(&nodes.get("node-01").await?) == "Unknown" && !workload.gate_open())
    })
    .await?;
    maas.change("host01", |host| host.power = "on".to_owned());
    until(provider, "it is back", 10, async |_| {
        Ok(status_of(&nodes.get("node-01").await?) == "True" && workload.gate_open())
    })
    .await
}

/// A host that was given the data of another machine is no Node.
async fn wrong_data(
    provider: &mut Provider,
    plane: &ManagementPlane,
    follower: &WorkloadFollower,
) -> Result<()> {
    provider.wrong_data = provider.maas.hosts()[1].user_data.clone();
    plane.kubectl(&["-n", NAMESPACE, "scale", "machinedeployment", "play", "--replicas=2"])?;
    until(provider, "the wrong data is seen", 60, async |_| Ok(!follower.violations().is_empty()))
        .await?;
    let violations = follower.violations();
    assert!(
        violations[0].contains("host05") && violations[0].contains("other user data"),
        "{violations:?}"
    );
    assert!(provider.nodes.get_opt("node-05").await?.is_none());
    Ok(())
}

/// Cluster API drains and deletes the Nodes of a smaller control plane; their pods go with them.
async fn departure(
    provider: &mut Provider,
    plane: &ManagementPlane,
    nodes: &Api<Node>,
    pods: &Api<Pod>,
) -> Result<()> {
    plane.kubectl(&["-n", NAMESPACE, "scale", "kubeadmcontrolplane", "play", "--replicas=1"])?;
    until(provider, "one control plane is left", 180, async |provider| {
        let names = nodes.list(&ListParams::default()).await?;
        let masters = names
            .iter()
            .filter(|n| n.labels().contains_key("node-role.kubernetes.io/control-plane"));
        let masters: Vec<String> = masters.map(ResourceExt::name_any).collect();
        // the name follows the machines, as a provider makes it do
        let hosts = provider.maas.hosts();
        let serving =
            hosts.iter().filter(|h| h.status == "Deployed" && masters.contains(&h.hostname));
        *provider.maas.dns.lock().expect("no panic") =
            serving.flat_map(|h| h.ip_addresses.clone()).collect();
        Ok(masters.len() == 1 && pods.list(&ListParams::default()).await?.items.len() == 3)
    })
    .await
}
