//! The three managers of Cluster API, as plain processes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::api_server::ApiServer;
use crate::binaries::Binaries;
use crate::kubeconfig::write_private;
use crate::manifests::{self, adapt};
use crate::ports;
use crate::process::{Nursery, Program, Running};

/// One manager, planned or running.
struct Component {
    name: &'static str,
    executable: PathBuf,
    namespace: &'static str,
    topology: bool,
    webhook_port: u16,
    health_port: u16,
}

/// The three managers before they run: their definitions must be served when they start, or they end at once.
pub(crate) struct Plan(Vec<Component>);

/// The three managers.
pub(crate) struct Managers(Vec<(Component, Arc<Running>)>);

impl Plan {
    /// Chooses their ports.
    pub(crate) fn new(binaries: &Binaries) -> Result<Self> {
        let component = |name, executable: &Path, namespace, topology| -> Result<Component> {
            Ok(Component {
                name,
                executable: executable.to_owned(),
                namespace,
                topology,
                webhook_port: ports::free()?,
                health_port: ports::free()?,
            })
        };
        let (core, bootstrap) = (&binaries.capi_core, &binaries.capi_bootstrap);
        let control_plane = &binaries.capi_control_plane;
        Ok(Self(vec![
            component("core", core, "capi-system", true)?,
            component("bootstrap-kubeadm", bootstrap, "capi-kubeadm-bootstrap-system", false)?,
            component(
                "control-plane-kubeadm",
                control_plane,
                "capi-kubeadm-control-plane-system",
                true,
            )?,
        ]))
    }

    /// Starts them.
    pub(crate) fn spawn(
        self,
        nursery: &Arc<Nursery>,
        server: &ApiServer,
        dir: &Path,
    ) -> Result<Managers> {
        let certificates = dir.join("webhook-certificates");
        std::fs::create_dir_all(&certificates)?;
        write_private(&certificates.join("tls.crt"), &server.serving.certificate)?;
        write_private(&certificates.join("tls.key"), &server.serving.key)?;
        let mut running = Vec::new();
        for component in self.0 {
            let process = nursery.spawn(Program {
                name: format!("Cluster API {}", component.name),
                executable: component.executable.clone(),
                arguments: component.arguments(&server.kubeconfig, &certificates)?,
                environment: vec![("POD_NAMESPACE".to_owned(), component.namespace.to_owned())],
                log: dir.join(format!("cluster-api-{}.log", component.name)),
            })?;
            running.push((component, Arc::new(process)));
        }
        Ok(Managers(running))
    }
}

impl Component {
    fn arguments(&self, kubeconfig: &Path, certificates: &Path) -> Result<Vec<String>> {
        let mut arguments = vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--webhook-port={}", self.webhook_port),
            format!("--webhook-cert-dir={}", certificates.display()),
            // a taken diagnostics port ends the process, and that shows up as webhooks that do not answer
            format!("--diagnostics-address=127.0.0.1:{}", ports::free()?),
            "--insecure-diagnostics".to_owned(),
            format!("--health-addr=127.0.0.1:{}", self.health_port),
            "--leader-elect=false".to_owned(),
        ];
        if self.topology {
            arguments.push("--feature-gates=ClusterTopology=true".to_owned());
        }
        Ok(arguments)
    }
}

impl Managers {
    /// Their processes.
    pub(crate) fn processes(&self) -> impl Iterator<Item = Arc<Running>> {
        self.0.iter().map(|(_, process)| Arc::clone(process))
    }

    /// Waits until each says that its webhooks answer.
    pub(crate) async fn wait_ready(self, limit: Duration) -> Result<()> {
        let started = Instant::now();
        for (component, process) in self.0 {
            while !healthy(component.health_port).await {
                process.check()?;
                if started.elapsed() > limit {
                    let (name, tail) = (process.name(), process.log_tail());
                    bail!("{name} is not ready after {} s\n{tail}", limit.as_secs());
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        Ok(())
    }
}

/// What the managers answer to: definitions, roles and webhooks.
pub(crate) struct Footing {
    documents: Vec<serde_json::Value>,
}

impl Footing {
    /// Reads the rendered manifests.
    pub(crate) fn read(plan: &Plan, manifests: &Path, ca_pem: &str) -> Result<Self> {
        let mut documents = Vec::new();
        for component in &plan.0 {
            let path = manifests.join(format!("{}.yaml", component.name));
            let yaml = std::fs::read_to_string(&path)
                .with_context(|| format!("read {}", path.display()))?;
            documents.extend(adapt(&yaml, component.webhook_port, ca_pem)?);
        }
        Ok(Self { documents })
    }

    /// Applies them and waits until the API server serves the new kinds.
    pub(crate) async fn lay(self, client: &Client) -> Result<()> {
        manifests::apply(client, self.documents).await?;
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let started = Instant::now();
        loop {
            let pending: Vec<String> = definitions
                .list(&ListParams::default())
                .await?
                .into_iter()
                .filter(|crd| !established(crd))
                .map(|crd| crd.name_any())
                .collect();
            if pending.is_empty() {
                return Ok(());
            }
            if started.elapsed() > Duration::from_secs(60) {
                bail!("not established after a minute: {}", pending.join(", "));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn established(crd: &CustomResourceDefinition) -> bool {
    let status = crd.status.as_ref();
    let conditions = status.and_then(|s| s.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Established" && c.status == "True"))
}

/// Asks `/readyz`. One plain request; no HTTP client is worth having for it.
async fn healthy(port: u16) -> bool {
    let ask = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.write_all(b"GET /readyz HTTP/1.0\r\nHost: localhost\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    match tokio::time::timeout(Duration::from_secs(2), ask).await {
        Ok(Ok(answer)) => answer.split_whitespace().nth(1) == Some("200"),
        _ => false,
    }
}
