//! One run: a fresh control plane and MAAS, N machines, one controller.

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use capmaas_api::MaasMachine;
use control_plane::{ManagementPlane, PlaneOptions};
use futures::StreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use maas_sim::{Call, CallFault, ClockMode, FaultAction, Inventory, Options, Simulator};
use serde::Serialize;
use serde_json::Value;

use crate::objects::{IMAGE, Maker, NAMESPACE};
use crate::process::Process;

/// How long MAAS takes for an answer.
const LATENCY: Duration = Duration::from_millis(50);
/// How long MAAS takes for a deployment, seconds.
const DEPLOYMENT: f64 = 20.0;

pub(crate) struct Plan<'a> {
    pub(crate) controller: &'a str,
    pub(crate) crds: &'a Path,
    pub(crate) machines: usize,
    pub(crate) idle: u64,
    pub(crate) patience: u64,
    pub(crate) logs: Option<&'a Path>,
}

/// From Pending to ready.
#[derive(Serialize)]
pub(crate) struct Provisioning {
    /// CPU of the controller, from its start until all were ready, seconds.
    cpu_s: f64,
    /// The most memory it held, MiB.
    rss_mib: f64,
    maas_calls_per_machine: f64,
    kube_writes_per_machine: f64,
    kube_reads_per_machine: f64,
    /// From the controller's start until all were ready, seconds.
    wall_s: f64,
    /// From Deployed in MAAS until the object says ready, seconds: median.
    ready_lag_s: f64,
    /// The same, the longest.
    ready_lag_max_s: f64,
    /// From its start to the first call that reaches MAAS, seconds.
    pub(crate) first_call_s: f64,
    /// Open descriptors at the end.
    fds: usize,
    /// MAAS calls by kind.
    maas_calls: BTreeMap<String, usize>,
    /// Kubernetes calls by kind.
    kube_calls: BTreeMap<String, usize>,
}

/// Nothing to do.
#[derive(Serialize)]
pub(crate) struct Idle {
    seconds: u64,
    maas_writes_per_min: f64,
    kube_writes_per_min: f64,
    /// Which these were.
    kube_writes: BTreeMap<String, usize>,
    maas_reads_per_machine_per_min: f64,
    cpu_s_per_min: f64,
    fds: usize,
    rss_mib: f64,
}

pub(crate) struct Outcome {
    pub(crate) provisioning: Provisioning,
    pub(crate) idle: Option<Idle>,
}

struct World {
    plane: ManagementPlane,
    maas: Arc<Simulator>,
    kubeconfig: std::path::PathBuf,
    folder: tempfile::TempDir,
}

pub(crate) async fn run(plan: &Plan<'_>) -> Result<Outcome> {
    let world = World::new(plan).await?;
    let maker = Maker::new(world.plane.client());
    let cluster = maker.cluster().await?;
    maker.machines(&cluster, plan.machines).await?;
    let mut ready = Ready::watch(&world, plan.machines);
    let log = match plan.logs {
        Some(dir) => dir.join(format!("controller-{}.log", plan.machines)),
        None => world.folder.path().join("controller.log"),
    };
    let kubeconfig = world.kubeconfig.display().to_string();
    let (endpoint, key) = (world.maas.url(), world.maas.api_key());
    let environment =
        [("MAAS_ENDPOINT", &*endpoint), ("MAAS_API_KEY", &*key), ("KUBECONFIG", &*kubeconfig)];
    let (begun, begun_maas) = (Instant::now(), world.maas.now());
    let mut process = Process::start(plan.controller, &environment, &log)?;
    let all = ready.all(&mut process, Duration::from_secs(plan.patience));
    let readied = all.await.with_context(|| tail(&log))?;
    let wall = begun.elapsed();
    let usage = process.usage()?;
    let calls = world.maas.calls();
    let audited = world.plane.audited_calls()?;
    let per = |count: usize| count as f64 / plan.machines as f64;
    let writes = audited.iter().filter(|c| writes(&c.verb)).count();
    // The simulator's clock in ours.
    let clock = |at: f64| begun + Duration::from_secs_f64((at - begun_maas.as_secs_f64()).max(0.0));
    let mut lags = lags(&world.maas, &calls, &readied, clock);
    lags.sort_by(f64::total_cmp);
    let provisioning = Provisioning {
        cpu_s: usage.cpu_s,
        rss_mib: usage.peak_mib,
        maas_calls_per_machine: per(calls.len()),
        kube_writes_per_machine: per(writes),
        kube_reads_per_machine: per(audited.len() - writes),
        wall_s: wall.as_secs_f64(),
        ready_lag_s: lags.get(lags.len() / 2).copied().unwrap_or_default(),
        ready_lag_max_s: lags.last().copied().unwrap_or_default(),
        first_call_s: calls.first().map_or(0.0, |c| (clock(c.at) - begun).as_secs_f64()),
        fds: usage.fds,
        maas_calls: by_kind(&calls),
        kube_calls: counted(audited.iter().map(|c| format!("{} {}", c.verb, c.resource))),
    };
    let idle = match plan.idle {
        0 => None,
        seconds => Some(rest(&world, &mut process, plan.machines, seconds).await?),
    };
    Ok(Outcome { provisioning, idle })
}

impl World {
    async fn new(plan: &Plan<'_>) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("capmaas-bench-").tempdir()?;
        let options = PlaneOptions { garbage_collection: false, cluster_api: false, keep: false };
        let plane = ManagementPlane::start(&folder.path().join("plane"), options)?;
        let core = plane.binaries().capi_manifests.join("core.yaml");
        let definitions = without_conversion(&std::fs::read_to_string(core)?)?;
        plane.apply("default", &definitions)?;
        let crds = plan.crds.display().to_string();
        plane.kubectl(&["apply", "--server-side", "-f", &crds])?;
        plane.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"])?;
        plane.apply(NAMESPACE, ACCOUNT)?;
        let kubeconfig = folder.path().join("kubeconfig");
        plane.service_account_kubeconfig(NAMESPACE, "controller", &kubeconfig)?;
        let options = Options { clock: ClockMode::Speed(1.0), ..Options::default() };
        let maas = Arc::new(Simulator::start(rack(plan.machines)?, options).await?);
        let millis = u64::try_from(LATENCY.as_millis())?;
        let action = FaultAction::Delay { ms: millis };
        let (method, path, op) = (None, None, None);
        maas.add_fault(CallFault { method, path, op, skip: 0, count: None, action });
        Ok(Self { plane, maas, kubeconfig, folder })
    }
}

/// The controller may do everything: rights are not what is measured.
const ACCOUNT: &str = r"
apiVersion: v1
kind: Namespace
metadata: {name: bench}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: controller, namespace: bench}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: bench}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: controller, namespace: bench}]
";

/// Cluster and Machine as the newest version only: the webhooks that convert are not there.
fn without_conversion(manifest: &str) -> Result<String> {
    use serde::Deserialize;
    let mut kept = String::new();
    for document in serde_yaml_ng::Deserializer::from_str(manifest) {
        let mut object = Value::deserialize(document)?;
        let wanted = ["clusters.cluster.x-k8s.io", "machines.cluster.x-k8s.io"];
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        if object["kind"] != "CustomResourceDefinition" || !wanted.contains(&name) {
            continue;
        }
        object["metadata"]["annotations"] = serde_json::json!({});
        object["spec"]["conversion"] = serde_json::json!({ "strategy": "None" });
        kept.push_str("---\n");
        kept.push_str(&serde_yaml_ng::to_string(&object)?);
    }
    Ok(kept)
}

/// As many machines as are wanted, and a tenth more.
fn rack(machines: usize) -> Result<Inventory> {
    let mut text = format!(
        "images: [{{name: {IMAGE}, filetype: root-tgz}}]\n\
         timings: {{deploy: {DEPLOYMENT}}}\n\
         subnets: [{{name: n, cidr: 10.20.0.0/16, auto: 10.20.1.0-10.20.200.0}}]\n\
         machines:\n"
    );
    for i in 0..machines + machines / 10 + 1 {
        text.push_str(&format!("  - {{hostname: host-{i:04}, cores: 4, memory: 8192}}\n"));
    }
    Inventory::from_yaml(&text)
}

/// When each object was first seen ready.
struct Ready {
    wanted: usize,
    news: tokio::sync::mpsc::UnboundedReceiver<(String, Instant)>,
    task: tokio::task::JoinHandle<()>,
}

impl Ready {
    fn watch(world: &World, wanted: usize) -> Self {
        let api: Api<MaasMachine> = Api::namespaced(world.plane.client(), NAMESPACE);
        let (sender, news) = tokio::sync::mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            let mut changes =
                pin!(watcher(api, watcher::Config::default()).default_backoff().applied_objects());
            while let Some(change) = changes.next().await {
                let Ok(object) = change else { continue };
                if object.status.as_ref().is_some_and(|s| s.ready) {
                    let host = object.spec.provider_id.as_deref().unwrap_or_default();
                    let id = host.rsplit('/').next().unwrap_or(&object.name_any()).to_owned();
                    let _ = sender.send((id, Instant::now()));
                }
            }
        });
        Self { wanted, news, task }
    }

    async fn all(
        &mut self,
        process: &mut Process,
        patience: Duration,
    ) -> Result<BTreeMap<String, Instant>> {
        let mut seen = BTreeMap::new();
        let until = Instant::now() + patience;
        while seen.len() < self.wanted {
            if let Ok(Some((id, at))) =
                tokio::time::timeout(Duration::from_secs(1), self.news.recv()).await
            {
                seen.entry(id).or_insert(at);
            }
            process.check()?;
            if Instant::now() > until {
                bail!("only {} of {} are ready in time", seen.len(), self.wanted);
            }
        }
        Ok(seen)
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Seconds from Deployed to ready, for each machine.
fn lags(
    maas: &Simulator,
    calls: &[Call],
    ready: &BTreeMap<String, Instant>,
    clock: impl Fn(f64) -> Instant,
) -> Vec<f64> {
    let mut found = vec![];
    for call in calls.iter().filter(|c| c.op.as_deref() == Some("deploy")) {
        let id = call.path.trim_matches('/').split('/').nth(1).unwrap_or_default();
        let deployed = clock(call.at + LATENCY.as_secs_f64() + DEPLOYMENT);
        if maas.machine(id).is_some()
            && let Some(at) = ready.get(id)
        {
            found.push(at.saturating_duration_since(deployed).as_secs_f64());
        }
    }
    found
}

fn writes(verb: &str) -> bool {
    !["get", "list", "watch"].contains(&verb)
}

fn counted(names: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for name in names {
        *kinds.entry(name).or_default() += 1;
    }
    kinds
}

/// Method and kind of object, or the operation.
fn by_kind(calls: &[Call]) -> BTreeMap<String, usize> {
    counted(calls.iter().map(|call| {
        let kind = call.path.split(['/', '?']).find(|p| !p.is_empty()).unwrap_or_default();
        let one = call.path.split('?').next().unwrap_or_default().matches('/').count() > 2;
        match &call.op {
            Some(op) => op.clone(),
            None if one => format!("{} {kind}/…", call.method),
            None => format!("{} {kind}", call.method),
        }
    }))
}

async fn rest(world: &World, process: &mut Process, machines: usize, seconds: u64) -> Result<Idle> {
    // What was under way comes to its end first.
    tokio::time::sleep(Duration::from_secs(30)).await;
    let before = (process.usage()?, world.maas.calls().len(), world.plane.audited_calls()?.len());
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    process.check()?;
    let usage = process.usage()?;
    let minutes = seconds as f64 / 60.0;
    let calls = world.maas.calls().split_off(before.1);
    let (written, read): (Vec<_>, Vec<_>) = calls.iter().partition(|c| c.method != "GET");
    let mut written_down = world.plane.audited_calls()?.split_off(before.2);
    written_down.retain(|call| writes(&call.verb));
    Ok(Idle {
        seconds,
        maas_writes_per_min: written.len() as f64 / minutes,
        kube_writes_per_min: written_down.len() as f64 / minutes,
        kube_writes: counted(written_down.iter().map(|c| format!("{} {}", c.verb, c.resource))),
        maas_reads_per_machine_per_min: read.len() as f64 / minutes / machines as f64,
        cpu_s_per_min: (usage.cpu_s - before.0.cpu_s) / minutes,
        fds: usage.fds,
        rss_mib: usage.rss_mib,
    })
}

fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}
