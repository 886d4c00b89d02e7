//! The management plane: etcd, kube-apiserver, kube-controller-manager and Cluster API.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{Api, PostParams};
use kube::{Client, Config};

use crate::api_server::{ApiServer, Etcd, wait_ready};
use crate::binaries::{Binaries, Progress};
use crate::cluster_api::{Footing, Plan};
use crate::engine::{Engine, Gear};
use crate::kubeconfig::{self, Identity, write_private};
use crate::ports;
use crate::process::{Janitor, Nursery, Program, Running};

/// On a busy machine with a slow disk the programs take minutes to come up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// What a plane consists of, beyond etcd and kube-apiserver.
#[derive(Clone, Copy, Debug)]
pub struct PlaneOptions {
    /// kube-controller-manager with garbage collection and the deletion of namespaces.
    pub garbage_collection: bool,
    /// The three managers of Cluster API, their definitions and webhooks. Without them `clusterctl init` can be tried.
    pub cluster_api: bool,
    /// Leave the run folder behind, to read logs. `CONTROL_PLANE_KEEP=1` in the environment does the same.
    pub keep: bool,
}

impl Default for PlaneOptions {
    fn default() -> Self {
        Self { garbage_collection: true, cluster_api: true, keep: false }
    }
}

/// A running control plane. All of it is gone when this is dropped or when this process dies.
pub struct ManagementPlane {
    // dropped in this order: processes first, then those who could notice
    processes: Mutex<Vec<Arc<Running>>>,
    nursery: Arc<Nursery>,
    etcd_url: String,
    server: ApiServer,
    config: Config,
    engine: Engine,
    janitor: Mutex<Option<Janitor>>,
    dir: PathBuf,
    keep: bool,
    closed: AtomicBool,
    binaries: Binaries,
}

impl ManagementPlane {
    /// Starts a plane whose files are in `dir`, a folder that does not exist yet or is empty, and waits until it is
    /// ready. Blocks; may be called inside a tokio runtime all the same.
    ///
    /// # Errors
    /// When a program cannot be built or does not become ready; the message quotes its log.
    pub fn start(dir: &Path, options: PlaneOptions) -> Result<Self> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let binaries = Binaries::ensure(Progress::Told)?;
        let dir = std::path::absolute(dir)?;
        std::fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
        if std::fs::read_dir(&dir)?.next().is_some() {
            bail!("{} is not empty: a plane removes its folder at the end", dir.display());
        }
        let keep = options.keep || std::env::var_os("CONTROL_PLANE_KEEP").is_some_and(|v| v == "1");
        if keep {
            // not `eprintln!`, which the test harness captures
            let _ =
                writeln!(std::io::stderr(), "the control plane's files stay in {}", dir.display());
        }
        let janitor = if keep { None } else { Some(Janitor::watch(&dir)?) };
        let nursery = Nursery::new()?;
        let engine = Engine::new()?;
        let etcd = Etcd::spawn(&nursery, &binaries, &dir)?;
        let server = ApiServer::spawn(&nursery, &binaries, &etcd.url, "/management", &dir)?;
        let kubeconfig = server.kubeconfig.clone();
        let watched = vec![etcd.process.clone(), server.process.clone()];
        let config = engine.gear().wait(async move {
            let config = ApiServer::config(&kubeconfig).await?;
            let client = Client::try_from(config.clone())?;
            wait_ready(&client, &watched, PATIENCE).await?;
            Ok(config)
        })?;
        let plane = Self {
            processes: Mutex::new(vec![etcd.process, server.process.clone()]),
            nursery,
            etcd_url: etcd.url,
            server,
            config,
            engine,
            janitor: Mutex::new(janitor),
            dir,
            keep,
            closed: AtomicBool::new(false),
            binaries,
        };
        plane.complete(options)?;
        Ok(plane)
    }

    /// The plane that all tests of this process share; started by whoever asks first, never stopped before the process
    /// ends.
    ///
    /// # Errors
    /// When it could not be started; every later call then says the same.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: OnceLock<Result<ManagementPlane, String>> = OnceLock::new();
        let plane = SHARED.get_or_init(|| {
            let start = || -> Result<Self> {
                let dir = tempfile::Builder::new().prefix("control-plane-").tempdir()?.keep();
                Self::start(&dir, PlaneOptions::default())
            };
            start().map_err(|error| format!("{error:#}"))
        });
        plane.as_ref().map_err(|error| anyhow!("{error}"))
    }

    fn complete(&self, options: PlaneOptions) -> Result<()> {
        if options.garbage_collection {
            let process = self.spawn_controller_manager()?;
            self.processes().push(process);
        }
        if options.cluster_api {
            self.install_cluster_api()?;
        }
        Ok(())
    }

    /// Cluster API on a plane that was started without it: definitions, webhooks and the three managers, ready.
    ///
    /// # Errors
    /// When one of the managers does not become ready; the message quotes its log.
    pub fn install_cluster_api(&self) -> Result<()> {
        let plan = Plan::new(&self.binaries)?;
        let footing = Footing::read(&plan, &self.binaries.capi_manifests, self.ca_pem())?;
        let config = self.config.clone();
        self.gear().wait(async move { footing.lay(&Client::try_from(config)?).await })?;
        let managers = plan.spawn(&self.nursery, &self.server, &self.dir)?;
        self.processes().extend(managers.processes());
        self.gear().wait(managers.wait_ready(PATIENCE))?;
        Ok(())
    }

    fn spawn_controller_manager(&self) -> Result<Arc<Running>> {
        let kubeconfig = self.kubeconfig().display();
        let process = self.nursery.spawn(Program {
            name: "kube-controller-manager".to_owned(),
            executable: self.binaries.kube_controller_manager.clone(),
            arguments: vec![
                format!("--kubeconfig={kubeconfig}"),
                format!("--authentication-kubeconfig={kubeconfig}"),
                format!("--authorization-kubeconfig={kubeconfig}"),
                "--bind-address=127.0.0.1".to_owned(),
                format!("--secure-port={}", ports::free()?),
                format!("--cert-dir={}", self.dir.join("controller-manager").display()),
                "--leader-elect=false".to_owned(),
                "--controllers=garbage-collector-controller,namespace-controller".to_owned(),
            ],
            environment: Vec::new(),
            log: self.dir.join("kube-controller-manager.log"),
        })?;
        Ok(Arc::new(process))
    }

    /// The administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.server.kubeconfig
    }

    /// The address of the API server, like `https://127.0.0.1:12345`.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server.url
    }

    /// The certificate authority of the API server.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.server.authority.pair().certificate
    }

    /// The run folder: logs (`*.log`) and everything else.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where the programs are.
    #[must_use]
    pub fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    /// A new administrator's client. It belongs to the tokio runtime in which this is called, and must be called in one.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::try_from(self.config.clone())
            .expect("a client of a configuration that worked before")
    }

    /// Creates a namespace.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn create_namespace(&self, name: &str) -> Result<()> {
        let config = self.config.clone();
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        self.gear().wait(async move {
            let namespaces: Api<Namespace> = Api::all(Client::try_from(config)?);
            namespaces.create(&PostParams::default(), &namespace).await?;
            Ok(())
        })
    }

    /// Writes a kubeconfig that acts as a service account which exists, with a token good for a day.
    ///
    /// # Errors
    /// When the server gives no token, or the file cannot be written.
    pub fn service_account_kubeconfig(
        &self,
        namespace: &str,
        name: &str,
        path: &Path,
    ) -> Result<()> {
        let config = self.config.clone();
        let (owner, account) = (namespace.to_owned(), name.to_owned());
        let token = self.gear().wait(async move {
            let accounts: Api<ServiceAccount> = Api::namespaced(Client::try_from(config)?, &owner);
            let request = TokenRequest {
                spec: TokenRequestSpec {
                    expiration_seconds: Some(86_400),
                    ..TokenRequestSpec::default()
                },
                ..TokenRequest::default()
            };
            let answer = accounts
                .create_token_request(&account, &PostParams::default(), &request)
                .await
                .with_context(|| format!("a token for {owner}/{account}"))?;
            answer.status.map(|s| s.token).context("an answer without a token")
        })?;
        let identity = Identity::Token(&token);
        let text = kubeconfig::render(self.server(), self.ca_pem(), &identity, namespace)?;
        write_private(path, &text)
    }

    /// Fails, quoting a log, if a process of the plane has ended.
    ///
    /// # Errors
    /// When one has.
    pub fn check(&self) -> Result<()> {
        self.processes().iter().try_for_each(|process| process.check())
    }

    /// What ServiceAccounts have asked of the API server so far; the shipped controller is one.
    ///
    /// # Errors
    /// When the audit log cannot be read.
    pub fn audited_calls(&self) -> Result<Vec<crate::AuditedCall>> {
        crate::audit::read(&self.dir)
    }

    /// What ServiceAccounts asked in a namespace and had no right to.
    ///
    /// # Errors
    /// When the audit log cannot be read.
    pub fn refused_calls(&self, namespace: &str) -> Result<Vec<crate::AuditedCall>> {
        crate::audit::refused(&self.dir, namespace)
    }

    /// Name and resident memory (MiB) of each process.
    #[must_use]
    pub fn memory_mib(&self) -> Vec<(String, u64)> {
        self.processes()
            .iter()
            .filter_map(|p| Some((p.name().to_owned(), p.memory_mib()?)))
            .collect()
    }

    /// Kills every process, and removes the run folder unless it is to be kept. Dropping the plane does the same.
    pub fn shutdown(&self) {
        if self.closed.swap(true, Ordering::SeqCst) {
            return;
        }
        self.nursery.kill_all();
        drop(lock(&self.janitor).take());
        if self.keep {
            return;
        }
        let deadline = Instant::now() + Duration::from_secs(3);
        while std::fs::remove_dir_all(&self.dir).is_err()
            && self.dir.exists()
            && Instant::now() < deadline
        {
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub(crate) fn gear(&self) -> Gear {
        self.engine.gear()
    }

    pub(crate) fn nursery(&self) -> &Arc<Nursery> {
        &self.nursery
    }

    pub(crate) fn etcd_url(&self) -> &str {
        &self.etcd_url
    }

    fn processes(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Running>>> {
        lock(&self.processes)
    }
}

impl Drop for ManagementPlane {
    fn drop(&mut self) {
        self.shutdown();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
