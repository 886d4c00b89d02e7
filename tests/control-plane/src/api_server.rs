//! etcd and kube-apiserver.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use kube::{Client, Config};

use crate::audit;
use crate::binaries::Binaries;
use crate::kubeconfig::{self, Identity, write_private};
use crate::pki::{self, Authority, Pair};
use crate::ports;
use crate::process::{Nursery, Program, Running};

/// An etcd, shared by the API servers of a plane.
pub(crate) struct Etcd {
    pub(crate) process: Arc<Running>,
    pub(crate) url: String,
}

impl Etcd {
    pub(crate) fn spawn(nursery: &Arc<Nursery>, binaries: &Binaries, dir: &Path) -> Result<Self> {
        let url = format!("http://127.0.0.1:{}", ports::free()?);
        let peers = format!("http://127.0.0.1:{}", ports::free()?);
        let process = nursery.spawn(Program {
            name: "etcd".to_owned(),
            executable: binaries.etcd.clone(),
            arguments: vec![
                format!("--data-dir={}", dir.join("etcd").display()),
                format!("--listen-client-urls={url}"),
                format!("--advertise-client-urls={url}"),
                format!("--listen-peer-urls={peers}"),
                format!("--initial-advertise-peer-urls={peers}"),
                format!("--initial-cluster=default={peers}"),
                // a run that dies is thrown away: nothing needs to reach the disk
                "--unsafe-no-fsync".to_owned(),
                "--log-level=warn".to_owned(),
            ],
            environment: Vec::new(),
            log: dir.join("etcd.log"),
        })?;
        Ok(Self { process: Arc::new(process), url })
    }
}

/// A kube-apiserver with a certificate authority of its own.
pub(crate) struct ApiServer {
    pub(crate) process: Arc<Running>,
    pub(crate) url: String,
    pub(crate) authority: Authority,
    pub(crate) admin: Pair,
    pub(crate) serving: Pair,
    pub(crate) service_accounts: Pair,
    pub(crate) kubeconfig: PathBuf,
}

impl ApiServer {
    /// Starts one whose files are in `dir` and whose objects are below `prefix` in etcd.
    pub(crate) fn spawn(
        nursery: &Arc<Nursery>,
        binaries: &Binaries,
        etcd: &str,
        prefix: &str,
        dir: &Path,
    ) -> Result<Self> {
        let pki = dir.join("pki");
        std::fs::create_dir_all(&pki).with_context(|| format!("create {}", pki.display()))?;
        let authority = Authority::new("kubernetes")?;
        let serving = authority.serving()?;
        let admin = authority.client("admin", Some("system:masters"))?;
        let service_accounts = pki::service_account_keys()?;
        for (file, text) in [
            ("ca.crt", &authority.pair().certificate),
            ("apiserver.crt", &serving.certificate),
            ("apiserver.key", &serving.key),
            ("sa.pub", &service_accounts.certificate),
            ("sa.key", &service_accounts.key),
        ] {
            write_private(&pki.join(file), text)?;
        }
        let port = ports::free()?;
        let url = format!("https://127.0.0.1:{port}");
        let kubeconfig = dir.join("kubeconfig");
        let text = kubeconfig::render(
            &url,
            &authority.pair().certificate,
            &Identity::Certificate(&admin),
            "default",
        )?;
        write_private(&kubeconfig, &text)?;
        let process = nursery.spawn(Program {
            name: format!("kube-apiserver of {prefix}"),
            executable: binaries.kube_apiserver.clone(),
            arguments: [arguments(etcd, prefix, port, &pki), audit::flags(dir)?].concat(),
            environment: Vec::new(),
            log: dir.join("kube-apiserver.log"),
        })?;
        Ok(Self {
            process: Arc::new(process),
            url,
            authority,
            admin,
            serving,
            service_accounts,
            kubeconfig,
        })
    }

    /// The configuration of an administrator's client.
    pub(crate) async fn config(kubeconfig: &Path) -> Result<Config> {
        kubeconfig::parse(&std::fs::read_to_string(kubeconfig)?).await
    }
}

fn arguments(etcd: &str, prefix: &str, port: u16, pki: &Path) -> Vec<String> {
    let file = |name: &str| pki.join(name).display().to_string();
    vec![
        format!("--etcd-servers={etcd}"),
        format!("--etcd-prefix={prefix}"),
        format!("--secure-port={port}"),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--cert-dir={}", pki.display()),
        format!("--tls-cert-file={}", file("apiserver.crt")),
        format!("--tls-private-key-file={}", file("apiserver.key")),
        format!("--client-ca-file={}", file("ca.crt")),
        format!("--service-account-key-file={}", file("sa.pub")),
        format!("--service-account-signing-key-file={}", file("sa.key")),
        "--service-account-issuer=https://localhost".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        // pods here are records only: no token is mounted anywhere
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        "--allow-privileged=true".to_owned(),
    ]
}

/// Waits until `/readyz` says so, or says why it does not.
pub(crate) async fn wait_ready(
    client: &Client,
    watched: &[Arc<Running>],
    limit: Duration,
) -> Result<()> {
    let started = Instant::now();
    loop {
        let request = http::Request::get("/readyz").body(Vec::new())?;
        let answer =
            tokio::time::timeout(Duration::from_secs(2), client.request_text(request)).await;
        if matches!(answer, Ok(Ok(_))) {
            return Ok(());
        }
        for process in watched {
            process.check()?;
        }
        if started.elapsed() > limit {
            let logs: Vec<String> = watched.iter().map(|p| p.log_tail()).collect();
            bail!(
                "the API server is not ready after {} s: {answer:?}\n{}",
                limit.as_secs(),
                logs.join("\n")
            );
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
