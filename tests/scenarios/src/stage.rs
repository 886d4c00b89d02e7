use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use capmaas_api::{MaasCluster, MaasMachine};
use control_plane::ManagementPlane;
use gate::{Gate, Upstream};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams};
use maas_sim::{ClockMode, Inventory, Options, Simulator};

use crate::controller::{Controller, controller_binary};
use crate::install::install_chart;
use crate::machine::Machine;
use crate::quick;

/// A namespace, a MAAS and a controller of one's own, on a shared control plane.
pub struct Stage<'a> {
    /// The control plane.
    pub plane: &'a ManagementPlane,
    /// The namespace that the controller watches.
    pub namespace: String,
    /// The MAAS.
    pub maas: Arc<Simulator>,
    /// What stands between the controller and both servers.
    pub gate: Gate,
    /// The controller.
    pub controller: Arc<Controller>,
    /// A client of the management cluster, with all rights.
    pub client: kube::Client,
    /// Names of DNS records that belong to others, and stay.
    pub not_ours: Vec<String>,
    /// Objects are applied and deleted without kubectl, which costs more than everything else together.
    pub quick: bool,
    folder: tempfile::TempDir,
}

/// How a stage is set.
pub struct StageOptions {
    /// What MAAS holds.
    pub inventory: Inventory,
    /// How fast MAAS's time passes: 60 makes a deployment of five minutes take five seconds.
    pub speed: f64,
    /// The version MAAS says it has.
    pub version: String,
    /// Further flags of the controller.
    pub args: Vec<String>,
    /// Act as this MAAS user's key instead of the administrator's.
    pub key: Option<fn(&Simulator) -> String>,
}

impl Default for StageOptions {
    fn default() -> Self {
        Self {
            inventory: Inventory::default(),
            speed: 100.0,
            version: "3.7.3".into(),
            args: vec![],
            key: None,
        }
    }
}

/// A gate in front of the plane's API server and this MAAS.
async fn open_gate(plane: &ManagementPlane, maas: &Simulator) -> Result<Gate> {
    let region = format!("http://{}", maas.address());
    let kubernetes = Upstream { url: plane.server(), ca_pem: Some(plane.ca_pem()) };
    Gate::open(kubernetes, Upstream { url: &region, ca_pem: None }).await
}

/// Writes the same kubeconfig, with the gate for a server.
pub(crate) fn through_gate(gate: &Gate, kubeconfig: &Path, path: &Path) -> Result<PathBuf> {
    use base64::Engine;
    let authority = base64::engine::general_purpose::STANDARD.encode(gate.certificate());
    let mut config: serde_json::Value =
        serde_yaml_ng::from_str(&std::fs::read_to_string(kubeconfig)?)?;
    let cluster = &mut config["clusters"][0]["cluster"];
    cluster["server"] = gate.kubernetes_url().into();
    cluster["certificate-authority-data"] = authority.into();
    std::fs::write(path, serde_yaml_ng::to_string(&config)?)?;
    Ok(path.to_owned())
}

impl<'a> Stage<'a> {
    /// Sets a stage: a fresh namespace, a MAAS, and the controller watching.
    ///
    /// # Errors
    /// When anything does not start.
    pub async fn set(
        plane: &'a ManagementPlane,
        namespace: &str,
        options: StageOptions,
    ) -> Result<Stage<'a>> {
        let stage = Self::prepare(plane, namespace, options).await?;
        stage.controller.start()?;
        stage.controller.watching().await?;
        Ok(stage)
    }

    /// The same, with a controller that has not been started yet.
    ///
    /// # Errors
    /// When anything else does not start.
    pub async fn prepare(
        plane: &'a ManagementPlane,
        namespace: &str,
        options: StageOptions,
    ) -> Result<Stage<'a>> {
        let kubeconfig = install_chart(plane)?;
        plane
            .create_namespace(namespace)
            .with_context(|| format!("does another scenario have the namespace {namespace}?"))?;
        let clock = ClockMode::Speed(options.speed);
        let maas_options = Options { clock, version: options.version, ..Options::default() };
        let maas = Arc::new(Simulator::start(options.inventory, maas_options).await?);
        let folder = tempfile::tempdir()?;
        let key = options.key.map_or_else(|| maas.api_key(), |key| key(&maas));
        let mut args: Vec<String> = [
            "--namespace",
            namespace,
            "--health-addr=127.0.0.1:0",
            "--log=info,capmaas=debug",
            "--poll-interval=1",
            "--drift-interval=5",
            "--power-recheck=2",
            "--power-confirm=2",
            "--in-flight=6",
        ]
        .map(str::to_owned)
        .to_vec();
        args.extend(options.args);
        let gate = open_gate(plane, &maas).await?;
        let kubeconfig = through_gate(&gate, &kubeconfig, &folder.path().join("kubeconfig"))?;
        let log = folder.path().join("controller.log");
        let maas_at = (format!("{}/MAAS", gate.maas_url()), key);
        let controller = Controller::new(controller_binary()?, &kubeconfig, &log, maas_at, args);
        let controller = Arc::new(controller);
        let killed = controller.clone();
        gate.kills_with(move || killed.kill());
        let client = plane.client();
        let namespace = namespace.to_owned();
        let (not_ours, quick) = (vec![], false);
        Ok(Stage { plane, namespace, maas, gate, controller, client, not_ours, quick, folder })
    }

    /// Lets the controller act with another key of this MAAS from its next start on.
    pub fn use_key(&self, key: &str) {
        self.controller.use_maas(&format!("{}/MAAS", self.gate.maas_url()), key);
    }

    /// A folder that goes with the stage.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// `MaasMachine`s.
    pub fn machines(&self) -> Api<MaasMachine> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// `MaasCluster`s.
    pub fn clusters(&self) -> Api<MaasCluster> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Applies YAML in the stage's namespace.
    ///
    /// # Errors
    /// When the API server refuses.
    pub fn apply(&self, yaml: &str) -> Result<()> {
        if self.quick {
            return quick::apply(&self.client, &self.namespace, yaml);
        }
        self.plane.apply(&self.namespace, yaml).map(drop)
    }

    /// A Cluster with a MaasCluster in domain `maas`, and no control plane provider.
    ///
    /// # Errors
    /// When the API server refuses.
    pub fn cluster(&self, name: &str, cluster_spec: &str, maas_spec: &str) -> Result<()> {
        self.apply(&format!(
            r"
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: MaasCluster
metadata: {{name: {name}}}
spec: {{dnsDomain: maas{maas_spec}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {{name: {name}}}
spec:
  infrastructureRef: {{apiGroup: infrastructure.cluster.x-k8s.io, kind: MaasCluster, name: {name}}}
{cluster_spec}
"
        ))
    }

    /// A Machine with its MaasMachine and bootstrap Secret.
    ///
    /// # Errors
    /// When the API server refuses.
    pub fn machine(&self, cluster: &str, machine: &Machine) -> Result<()> {
        let name = &machine.name;
        let role = if machine.control_plane {
            "cluster.x-k8s.io/control-plane: \"\""
        } else {
            "scenario: worker"
        };
        let mut spec = vec!["minCPU: 2".to_owned(), "minMemory: 4096".to_owned()];
        if !machine.spec.iter().any(|e| e.starts_with("image:")) {
            spec.push("image: custom/u-2404-k8s".into());
        }
        spec.retain(|e| {
            let field = e.split(':').next().unwrap_or_default();
            !machine.spec.iter().any(|own| own.split(':').next() == Some(field))
        });
        spec.extend(machine.spec.clone());
        let spec = spec.join(", ");
        if let Some(data) = &machine.bootstrap {
            self.bootstrap_secret(cluster, name, data)?;
        }
        let domain = match &machine.failure_domain {
            Some(zone) => format!("  failureDomain: {zone}"),
            None => String::new(),
        };
        self.apply(&format!(
            r"
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: MaasMachine
metadata: {{name: {name}, labels: {{cluster.x-k8s.io/cluster-name: {cluster}, {role}}}}}
spec: {{{spec}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {{name: {name}, labels: {{cluster.x-k8s.io/cluster-name: {cluster}, {role}}}}}
spec:
  clusterName: {cluster}
  version: v1.34.1
  bootstrap: {{dataSecretName: {name}-bootstrap}}
  infrastructureRef: {{apiGroup: infrastructure.cluster.x-k8s.io, kind: MaasMachine, name: {name}}}
{domain}
"
        ))
    }

    /// The bootstrap Secret of a machine.
    ///
    /// # Errors
    /// When the API server refuses.
    pub fn bootstrap_secret(&self, cluster: &str, machine: &str, data: &str) -> Result<()> {
        use base64::Engine;
        let value = base64::engine::general_purpose::STANDARD.encode(data);
        self.apply(&format!(
            r"
apiVersion: v1
kind: Secret
type: cluster.x-k8s.io/secret
metadata: {{name: {machine}-bootstrap, labels: {{cluster.x-k8s.io/cluster-name: {cluster}}}}}
data: {{value: '{value}'}}
"
        ))
    }

    /// Deletes the Machine, as Cluster API's own controllers would.
    ///
    /// # Errors
    /// When the API server refuses.
    pub fn delete(&self, kind: &str, name: &str) -> Result<()> {
        if self.quick {
            return quick::delete(&self.client, &self.namespace, kind, name);
        }
        let args = ["-n", &self.namespace, "delete", kind, name, "--wait=false"];
        self.plane.kubectl(&args).map(drop)
    }

    /// Ends the stage: nothing was forbidden, no process ended, MAAS holds nothing of ours.
    ///
    /// # Errors
    /// When one of that is not so.
    pub async fn strike(self) -> Result<()> {
        self.strike_leaving(&[]).await
    }

    /// Ends the stage; these DNS records, whose names the user gave, stay behind without addresses.
    ///
    /// # Errors
    /// As [`Stage::strike`].
    pub async fn strike_leaving(self, names: &[&str]) -> Result<()> {
        self.check()?;
        let machines = self.machines();
        let kind = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "Cluster");
        let kind = ApiResource::from_gvk(&kind);
        let all: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &self.namespace, &kind);
        all.delete_collection(&DeleteParams::background(), &ListParams::default()).await?;
        machines.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        eventually("nothing is held in MAAS", 600, async || {
            let left = machines.list(&ListParams::default()).await?.items;
            let clusters = self.clusters().list(&ListParams::default()).await?.items;
            let empty = left.is_empty() && clusters.is_empty() && self.held().is_empty();
            Ok(empty.then_some(()))
        })
        .await
        .with_context(|| self.story())?;
        let mut records = self.maas.dns_records();
        records.retain(|r| !self.not_ours.contains(&r.fqdn));
        let left: Vec<&str> = records.iter().map(|r| r.fqdn.as_str()).collect();
        ensure!(left == names, "DNS records are left: {records:?}");
        ensure!(records.iter().all(|r| r.addresses.is_empty()), "addresses are left: {records:?}");
        let reserved = self.maas.reserved_addresses();
        ensure!(reserved.is_empty(), "reserved addresses are left: {reserved:?}");
        self.check()?;
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces.delete(&self.namespace, &DeleteParams::background()).await?;
        Ok(())
    }

    /// The controller runs, was refused nothing, and shows no fault.
    ///
    /// # Errors
    /// When one of that is not so.
    pub fn check(&self) -> Result<()> {
        self.controller.check()?;
        let forbidden = self.controller.forbidden();
        ensure!(forbidden.is_empty(), "the chart grants too little: {forbidden:#?}");
        let refused = self.plane.refused_calls(&self.namespace)?;
        ensure!(refused.is_empty(), "the chart grants too little: {refused:#?}");
        let faults = self.controller.faults();
        ensure!(faults.is_empty(), "the controller has a fault: {faults:#?}");
        self.plane.check()
    }
}

/// Asks until there is an answer, twice a second.
///
/// # Errors
/// When there is none in time, or the question itself fails.
pub async fn eventually<T>(
    what: &str,
    seconds: u64,
    mut ask: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let until = Instant::now() + Duration::from_secs(seconds);
    loop {
        match ask().await {
            Ok(Some(found)) => return Ok(found),
            Err(error) if !is_passing(&error) => return Err(error),
            Ok(None) | Err(_) => {}
        }
        if Instant::now() > until {
            bail!("not within {seconds} s: {what}");
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

/// A connection that broke: on a busy machine the API server gives up some of them.
pub fn is_passing(error: &anyhow::Error) -> bool {
    let broke = |e: &kube::Error| matches!(e, kube::Error::Service(_) | kube::Error::HyperError(_));
    error.chain().any(|cause| cause.downcast_ref::<kube::Error>().is_some_and(broke))
}
