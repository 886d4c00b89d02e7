//! The chart: rendered, refused, uninstalled.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use maas_sim::OperatorAct;
use scenarios::{Machine, Pod, Stage, StageOptions, Surroundings, chart, component, eventually};
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
    "policies.defaults.allocation={site,rack}",
    "policies.defaults.dnsNaming=names",
    "policies.defaults.failureHandling=failures",
    "policies.defaults.shadow={trial}",
    "decisionLog.enabled=true",
    "decisionLog.existingClaim=decisions",
    "metrics.annotations=true",
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

/// The Deployment among them.
fn deployment_of(manifests: &str) -> Result<Value> {
    let documents = serde_yaml_ng::Deserializer::from_str(manifests);
    let documents = documents.map(Value::deserialize).collect::<Result<Vec<_>, _>>()?;
    documents.into_iter().find(|d| d["kind"] == "Deployment").context("a Deployment")
}

/// The pod that the rendered Deployment would make.
fn pod_of(manifests: &str) -> Result<Value> {
    let template = deployment_of(manifests)?["spec"]["template"].clone();
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

/// What values are for: the controller runs with the flags of a rendered pod and does what they say.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_policy_values_of_the_chart_reach_the_controller() -> Result<()> {
    let namespace = "field-values";
    let stage = Stage::prepare(plane(), namespace, StageOptions::default()).await?;
    let own = format!("controller.namespace={namespace}");
    let values = [
        own.as_str(),
        "maas.existingSecret=maas",
        "image.repository=none",
        "policies.configMap=policies",
        "policies.defaults.allocation={site}",
        "policies.defaults.shadow={trial}",
        "decisionLog.enabled=true",
        "decisionLog.sizeMiB=1",
        "decisionLog.kept=0",
    ];
    let deployment = deployment_of(&rendered(namespace, &values)?)?;
    let endpoint = format!("{}/MAAS", stage.gate.maas_url());
    let secret =
        BTreeMap::from([("MAAS_ENDPOINT", endpoint), ("MAAS_API_KEY", stage.maas.api_key())]);
    let config_map = BTreeMap::from([("spread.wasm", component("allocation-zone-spread")?)]);
    let folder = stage.folder().join("pod");
    let around = Surroundings { namespace, secret: &secret, config_map: &config_map };
    let pod = Pod::of(serde_json::from_value(deployment)?, &around, &folder)?;
    let by_the_stage = ["--namespace=", "--log=", "--health-addr="];
    let flags = pod.args.into_iter().filter(|f| !by_the_stage.iter().any(|own| f.starts_with(own)));
    stage.controller.replace_flags(&[], &flags.collect::<Vec<_>>());
    stage.controller.use_environment(pod.environment);
    stage.controller.start()?;
    stage.controller.watching().await?;

    let source = "source: {file: {path: spread.wasm}}, config: {workers: true}";
    stage.policy("site", &format!("kind: Allocation, mode: Enforce, {source}"))?;
    stage.policy("trial", &format!("kind: Allocation, {source}"))?;
    stage.policy_ready("site").await?;
    stage.policy_ready("trial").await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    stage.provisioned("w").await?;
    let status = stage.machines().get("w").await?.status.unwrap_or_default();
    let by = status.decisions.into_iter().flatten().find(|d| d.kind == "allocation");
    ensure!(by.as_ref().is_some_and(|d| d.by.as_deref() == Some("field-values/site")), "{by:?}");
    let compared = ["capmaas_policy_comparisons_total", "field-values/trial"];
    ensure!(stage.metric(&compared).await? >= 1.0, "{}", stage.metrics().await?);
    let log = std::fs::read_to_string(folder.join("decision-log/decisions.jsonl"))?;
    ensure!(log.contains("field-values/site"), "{log}");
    let compiled = std::fs::read_dir(folder.join("policy-cache/compiled"))?.count();
    ensure!(compiled == 4, "three are built in, one came from the folder, and {compiled} are kept");
    stage.strike().await
}

/// Values that mean nothing are refused before anything is installed.
#[test]
fn values_that_are_misspelt_or_of_the_wrong_sort_are_refused() -> Result<()> {
    let wrong = [
        "policies.default.allocation={site}",
        "policies.defaults.allocation=site",
        "policies.defaults.dns-naming=names",
        "policies.cache.sizeLimit=much",
        "decisionLog.sizeMiB=0",
        "metrics.annotations=yes",
    ];
    for value in wrong {
        let error = rendered("default", &[LEAST, &[value]].concat()).err();
        let error = format!("{:#}", error.with_context(|| format!("{value} was accepted"))?);
        ensure!(error.contains("values don't meet the specifications"), "{value}: {error}");
    }
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
