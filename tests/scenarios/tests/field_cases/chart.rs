//! The chart: rendered, refused, uninstalled.

use anyhow::{Context, Result, ensure};
use maas_sim::OperatorAct;
use scenarios::{Machine, chart, eventually};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::plane;
use crate::support::{stage, story};

const LEAST: &[&str] = &[
    "maas.endpoint=http://maas.example.com:5240/MAAS",
    "maas.apiKey=a:b:c",
    "image.repository=registry.example.com/capmaas",
];
const MOST: &[&str] = &[
    "maas.existingSecret=maas",
    "maas.caSecret=maas-ca",
    "image.repository=registry.example.com/capmaas",
    "controller.watchFilter=mine",
    "policies.configMap=policies",
    "policies.files.allocation=zone-spread.wasm",
];

/// What Helm makes of the chart, as text.
fn rendered(namespace: &str, values: &[&str]) -> Result<String> {
    let chart = chart();
    let path = chart.to_str().context("a path in UTF-8")?;
    let mut args = vec!["template", "capmaas", path, "--include-crds", "--namespace", namespace];
    for value in values {
        args.extend(["--set", value]);
    }
    plane().helm(&args)
}

/// The pod that the rendered Deployment would make.
fn pod_of(manifests: &str) -> Result<Value> {
    let documents = serde_yaml_ng::Deserializer::from_str(manifests);
    let documents = documents.map(Value::deserialize).collect::<Result<Vec<_>, _>>()?;
    let deployment = documents.into_iter().find(|d| d["kind"] == "Deployment");
    let template = deployment.context("a Deployment")?["spec"]["template"].clone();
    let metadata = json!({ "name": "pod", "labels": template["metadata"]["labels"] });
    Ok(json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"] }))
}

/// What the API server says of manifests, without keeping them.
fn tried(namespace: &str, manifests: &str) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("manifests.yaml");
    std::fs::write(&file, manifests)?;
    let file = file.to_str().context("a path in UTF-8")?;
    plane().kubectl(&["-n", namespace, "apply", "--dry-run=server", "-f", file])
}

/// Every manifest, and the pod that comes of it, in a namespace that takes only restricted pods.
#[test]
fn b083_b139_the_rendered_chart_is_accepted_by_a_restricted_api_server() -> Result<()> {
    let namespace = "field-restricted";
    plane().create_namespace(namespace)?;
    let label = "pod-security.kubernetes.io/enforce=restricted";
    plane().kubectl(&["label", "namespace", namespace, label])?;
    for values in [LEAST, MOST] {
        let manifests = rendered(namespace, values)?;
        for placeholder in ["caBundle", "conversion:"] {
            ensure!(!manifests.contains(placeholder), "{placeholder} is there to be filled in");
        }
        let said = tried(namespace, &manifests)?;
        for kind in ["deployment.apps/", "clusterrole.", "customresourcedefinition."] {
            ensure!(said.contains(kind), "{kind} was not tried: {said}");
        }
        let mut pod = pod_of(&manifests)?;
        tried(namespace, &pod.to_string())?;
        // The namespace does refuse what is not restricted.
        pod["spec"]["containers"][0]["securityContext"] = json!({ "privileged": true });
        let refusal = tried(namespace, &pod.to_string()).err().context("it was accepted")?;
        ensure!(format!("{refusal:#}").contains("violates PodSecurity"), "{refusal:#}");
    }
    plane().kubectl(&["delete", "namespace", namespace, "--wait=false"])?;
    Ok(())
}

/// With the rights of one namespace a machine is provisioned and released; uninstalling takes nothing away, and whoever
/// installs again goes on where it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b133_b137_an_uninstalled_chart_leaves_definitions_objects_and_machines() -> Result<()> {
    let stage = stage("field-confined").await?;
    stage.controller.kill();
    stage.confine()?;
    stage.controller.start()?;
    stage.controller.watching().await?;
    let account = format!("system:serviceaccount:{}:capmaas-manager", stage.namespace);
    let may = |args: &[&str]| {
        let all = [&["auth", "can-i", "--as", account.as_str()][..], args].concat();
        plane().kubectl(&all).is_ok()
    };
    ensure!(may(&["get", "secrets", "-n", &stage.namespace]));
    ensure!(!may(&["get", "secrets", "-n", "default"]) && !may(&["get", "secrets", "-A"]));
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::control_plane("cp"))?;
    stage.reason("cp", "DNSAttached", "DNSAttached").await?;
    let host = stage.provisioned("cp").await?;

    stage.controller.kill();
    stage.maas.clear_calls();
    stage.uninstall()?;
    for kind in ["maasclusters", "maasmachines", "maasmachinetemplates", "maasclustertemplates"] {
        plane().kubectl(&["get", "crd", &format!("{kind}.infrastructure.cluster.x-k8s.io")])?;
    }
    let object = stage.machines().get("cp").await?;
    ensure!(object.metadata.deletion_timestamp.is_none(), "{:?}", object.metadata);
    ensure!(stage.writes().is_empty() && stage.held().len() == 1, "{:?}", story(&stage));

    stage.confine()?;
    stage.maas.operator(&host.system_id, OperatorAct::PowerOff)?;
    stage.controller.start()?;
    stage.controller.watching().await?;
    eventually("it is looked after again", 60, async || Ok(stage.calls("power_on").pop())).await?;
    stage.provisioned("cp").await?;
    stage.strike().await
}
