//! Tests of the harness itself: what the other tests rely on really happens.

mod play;
mod provider;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use control_plane::{ManagementPlane, PlaneOptions, Workload};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::Api;

fn plane() -> &'static ManagementPlane {
    ManagementPlane::shared().expect("the shared plane starts")
}

/// Waits until something holds.
fn eventually(what: &str, seconds: u64, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(seconds), "not within {seconds} s: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn refusal<T: std::fmt::Debug>(result: Result<T>) -> String {
    format!("{:#}", result.expect_err("is refused"))
}

#[test]
fn cluster_api_converts_defaults_and_validates() -> Result<()> {
    let plane = plane();
    play::define_infrastructure(plane);
    plane.create_namespace("webhooks")?;
    plane.apply(
        "webhooks",
        r"
apiVersion: cluster.x-k8s.io/v1beta1
kind: Cluster
metadata: {name: good}
spec:
  infrastructureRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: MaasCluster, name: good}
---
apiVersion: cluster.x-k8s.io/v1beta1
kind: MachineDeployment
metadata: {name: good}
spec:
  clusterName: good
  selector: {}
  template:
    spec:
      clusterName: good
      version: 1.34.1
      bootstrap: {dataSecretName: x}
      infrastructureRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: MaasMachineTemplate, name: good}
",
    )?;
    let read = |kind: &str, path: &str| {
        plane.kubectl(&[
            "-n",
            "webhooks",
            "get",
            kind,
            "good",
            "-o",
            &format!("jsonpath={{{path}}}"),
        ])
    };
    let group = read("clusters.v1beta2.cluster.x-k8s.io", ".spec.infrastructureRef.apiGroup")?;
    assert_eq!(group, "infrastructure.cluster.x-k8s.io");
    assert_eq!(read("machinedeployments", ".spec.template.spec.version")?, "v1.34.1");
    let bad = "
apiVersion: cluster.x-k8s.io/v1beta1
kind: Cluster
metadata: {name: bad}
spec:
  clusterNetwork: {pods: {cidrBlocks: [nonsense]}}
  infrastructureRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: MaasCluster, name: bad}
";
    let said = refusal(plane.apply("webhooks", bad));
    assert!(said.contains("invalid CIDR address: nonsense"), "{said}");
    Ok(())
}

#[test]
fn orphans_and_namespaces_are_collected() -> Result<()> {
    let plane = plane();
    plane.create_namespace("garbage")?;
    plane.kubectl(&["-n", "garbage", "create", "configmap", "owner"])?;
    let uid = plane.kubectl(&[
        "-n",
        "garbage",
        "get",
        "configmap",
        "owner",
        "-o",
        "jsonpath={.metadata.uid}",
    ])?;
    plane.apply(
        "garbage",
        &format!(
            "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: owned, ownerReferences: \
             [{{apiVersion: v1, kind: ConfigMap, name: owner, uid: {uid}}}]}}}}"
        ),
    )?;
    plane.kubectl(&["-n", "garbage", "delete", "configmap", "owner"])?;
    eventually("the owned ConfigMap is collected", 30, || {
        plane.kubectl(&["-n", "garbage", "get", "configmap", "owned"]).is_err()
    });
    plane.kubectl(&["delete", "namespace", "garbage", "--wait=false"])?;
    eventually("the namespace is gone", 60, || {
        plane.kubectl(&["get", "namespace", "garbage"]).is_err()
    });
    Ok(())
}

fn write_chart(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir.join("templates"))?;
    std::fs::create_dir_all(dir.join("crds"))?;
    std::fs::write(dir.join("Chart.yaml"), "apiVersion: v2\nname: tiny\nversion: 0.1.0\n")?;
    std::fs::write(dir.join("values.yaml"), "word: none\n")?;
    std::fs::write(
        dir.join("templates/map.yaml"),
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: tiny}\ndata: {word: {{ .Values.word | quote }}}\n",
    )?;
    std::fs::write(
        dir.join("crds/things.yaml"),
        play::crd("tiny.example.com", "v1", "Thing", "things"),
    )?;
    Ok(())
}

#[test]
fn helm_installs_a_chart_with_definitions() -> Result<()> {
    let plane = plane();
    let dir = tempfile::tempdir()?;
    write_chart(dir.path())?;
    plane.helm_install(dir.path(), "tiny", "helm", &[("word", "spoken")])?;
    let word = plane.kubectl(&[
        "-n",
        "helm",
        "get",
        "configmap",
        "tiny",
        "-o",
        "jsonpath={.data.word}",
    ])?;
    assert_eq!(word, "spoken");
    plane.kubectl(&["get", "crd", "things.tiny.example.com"])?;
    let again = refusal(plane.helm_install(dir.path(), "tiny", "helm", &[]));
    assert!(again.contains("tiny"), "{again}");
    Ok(())
}

#[test]
fn a_service_account_may_do_only_what_its_roles_say() -> Result<()> {
    let plane = plane();
    plane.create_namespace("accounts")?;
    plane.kubectl(&["-n", "accounts", "create", "serviceaccount", "reader"])?;
    let role = ["--verb=get,list", "--resource=configmaps"];
    plane.kubectl(&[&["-n", "accounts", "create", "role", "reader"][..], &role].concat())?;
    let binding = ["--role=reader", "--serviceaccount=accounts:reader"];
    plane.kubectl(
        &[&["-n", "accounts", "create", "rolebinding", "reader"][..], &binding].concat(),
    )?;
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("kubeconfig");
    plane.service_account_kubeconfig("accounts", "reader", &path)?;
    let file = format!("--kubeconfig={}", path.display());
    plane.kubectl(&[&file, "get", "configmaps"])?;
    let said = refusal(plane.kubectl(&[&file, "get", "secrets"]));
    assert!(said.contains("Forbidden") && said.contains("accounts:reader"), "{said}");
    Ok(())
}

#[test]
fn a_workload_answers_only_through_an_open_gate() -> Result<()> {
    let plane = plane();
    let started = Instant::now();
    let workload = Workload::start(plane, "gate")?;
    println!("workload ready after {:?}, {:?} MiB", started.elapsed(), workload.memory_mib());
    let file = format!("--kubeconfig={}", workload.kubeconfig_through_gate().display());
    let ask = || plane.kubectl(&[&file, "get", "--raw", "/readyz", "--request-timeout=5s"]);
    assert!(ask().is_err(), "a new gate is closed");
    workload.set_gate(true);
    assert_eq!(ask()?, "ok");
    workload.set_gate(false);
    assert!(ask().is_err(), "a closed gate is closed");
    let inside = std::fs::read_to_string(workload.kubeconfig())?;
    let port = inside.split("https://").nth(1).and_then(|rest| rest.lines().next());
    let port = port.expect("an address").to_owned();
    std::net::TcpStream::connect(&port)?;
    drop(workload);
    assert!(std::net::TcpStream::connect(&port).is_err(), "its API server is gone");
    Ok(())
}

#[test]
fn workloads_of_the_same_name_share_nothing() -> Result<()> {
    let plane = plane();
    let first = Workload::start(plane, "twin")?;
    let second = Workload::start(plane, "twin")?;
    let file = |workload: &Workload| format!("--kubeconfig={}", workload.kubeconfig().display());
    plane.kubectl(&[&file(&first), "create", "namespace", "only-here"])?;
    assert!(plane.kubectl(&[&file(&second), "get", "namespace", "only-here"]).is_err());
    Ok(())
}

#[tokio::test]
async fn clients_belong_to_whoever_asks() -> Result<()> {
    // blocking calls are allowed here too: nothing of the plane runs in this runtime
    let started = Instant::now();
    let plane = plane();
    println!("shared plane after {:?}: {:?} MiB", started.elapsed(), plane.memory_mib());
    plane.create_namespace("clients")?;
    let namespaces: Api<Namespace> = Api::all(plane.client());
    ensure!(namespaces.get_opt("clients").await?.is_some());
    Ok(())
}

#[test]
fn a_plane_leaves_nothing_behind() -> Result<()> {
    let parent = tempfile::tempdir()?;
    let dir = parent.path().join("run");
    let options =
        PlaneOptions { garbage_collection: false, cluster_api: false, ..PlaneOptions::default() };
    let started = Instant::now();
    let plane = ManagementPlane::start(&dir, options)?;
    println!("bare plane ready after {:?}", started.elapsed());
    plane.check()?;
    let port = plane.server().trim_start_matches("https://").to_owned();
    std::net::TcpStream::connect(&port)?;
    drop(plane);
    assert!(!dir.exists(), "the run folder is removed");
    assert!(std::net::TcpStream::connect(&port).is_err(), "the API server is gone");
    Ok(())
}
