//! A real OCI registry on loopback: Debian's `docker-registry`, and the client `oras` for it.

mod tokens;

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::binaries::{Binaries, Progress};
use crate::pki::Authority;
use crate::ports;
use crate::process::{Janitor, Nursery, Program, Running};
use tokens::Signer;

/// How long it may take until it listens; mostly a fraction of a second.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a registry is like.
#[derive(Clone, Debug, Default)]
pub struct RegistryOptions {
    /// Whose name and password it wants (HTTP Basic); anybody may do everything otherwise.
    pub user: Option<(String, String)>,
    /// The address of a token service, whose tokens it wants instead. The service is the test's; [`Registry::token`] makes
    /// what it gives.
    pub token_service: Option<String>,
    /// Whether it speaks TLS, with a certificate of an authority of its own.
    pub tls: bool,
}

/// A registry; stopped, and its content removed, when dropped.
pub struct Registry {
    // Stopped before the janitor and the folder go.
    process: Option<Running>,
    nursery: std::sync::Arc<Nursery>,
    _janitor: Janitor,
    folder: tempfile::TempDir,
    options: RegistryOptions,
    signer: Signer,
    ca_pem: Option<String>,
    port: u16,
}

impl Registry {
    /// Starts one on a free port, and waits until it listens. Blocks.
    ///
    /// # Errors
    /// When `docker-registry` is not installed, or does not listen in time; the message quotes its log.
    pub fn start(options: RegistryOptions) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("registry-").tempdir()?;
        let mut registry = Self {
            process: None,
            nursery: Nursery::new()?,
            _janitor: Janitor::watch(folder.path())?,
            ca_pem: None,
            port: ports::free()?,
            folder,
            signer: Signer::new()?,
            options,
        };
        registry.configure()?;
        registry.resume()?;
        Ok(registry)
    }

    /// Host and port, as references to artifacts begin.
    #[must_use]
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The certificate of the authority that vouches for it, if it speaks TLS.
    #[must_use]
    pub fn ca_pem(&self) -> Option<&str> {
        self.ca_pem.as_deref()
    }

    /// The content of a Secret of type `kubernetes.io/dockerconfigjson` with which this registry can be used.
    #[must_use]
    pub fn dockerconfigjson(&self) -> String {
        let auths = self.options.user.as_ref().map(|(name, password)| {
            let auth = BASE64_STANDARD.encode(format!("{name}:{password}"));
            serde_json::json!({ self.host(): { "auth": auth } })
        });
        serde_json::json!({ "auths": auths.unwrap_or_else(|| serde_json::json!({})) }).to_string()
    }

    /// A token that it believes, for a scope as clients ask for it.
    ///
    /// # Errors
    /// When it cannot be signed.
    pub fn token(&self, scope: &str) -> Result<String> {
        self.signer.sign(scope)
    }

    /// Stops it; its content stays.
    pub fn stop(&mut self) {
        self.process = None;
    }

    /// Starts it again, on the same port.
    ///
    /// # Errors
    /// When it does not listen in time.
    pub fn resume(&mut self) -> Result<()> {
        let process = self
            .nursery
            .spawn(Program {
                name: "docker-registry".to_owned(),
                executable: "docker-registry".into(),
                arguments: vec!["serve".to_owned(), self.file("config.yml")],
                environment: Vec::new(),
                log: self.folder.path().join("log"),
            })
            .context(
                "Debian's package docker-registry brings it: apt-get install docker-registry",
            )?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let started = Instant::now();
        while TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err() {
            process.check().context("is the package docker-registry installed?")?;
            if started.elapsed() > PATIENCE {
                bail!("the registry does not listen. {}", process.log_tail());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.process = Some(process);
        Ok(())
    }

    /// Lines of its access log so far, one for each request that it has answered.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn requests(&self) -> Result<Vec<String>> {
        let log = std::fs::read(self.folder.path().join("log"))?;
        let log = String::from_utf8_lossy(&log);
        let requests = log.lines().filter(|line| line.contains("\" ") && line.contains(" HTTP/1."));
        Ok(requests.map(ToOwned::to_owned).collect())
    }

    /// Runs oras in a folder, with what is needed to use this registry: its output. The sub-command has to be one that talks
    /// to a registry (`push`, `pull`, `manifest fetch` …); builds oras if it is missing.
    ///
    /// # Errors
    /// When it cannot be built or run, or fails; then with what it said.
    pub fn oras(&self, folder: &Path, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(Binaries::ensure_oras(Progress::Told)?);
        command
            .args(arguments)
            .args(["--registry-config", &self.file("client.json")])
            .current_dir(folder)
            .env("HOME", self.folder.path())
            .stdin(Stdio::null());
        match self.ca_pem {
            Some(_) => command.args(["--ca-file", &self.file("ca.crt")]),
            None => command.arg("--plain-http"),
        };
        let output = command.output().context("run oras")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("`oras {}` failed: {said}", arguments.join(" "));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Writes the files that it and its clients read.
    fn configure(&mut self) -> Result<()> {
        let write = |name: &str, text: &str| -> Result<String> {
            let path = self.folder.path().join(name);
            std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
            Ok(path.display().to_string())
        };
        let mut http = serde_json::json!({ "addr": self.host() });
        let mut ca_pem = None;
        if self.options.tls {
            let authority = Authority::new("registry-ca")?;
            let serving = authority.serving()?;
            http["tls"] = serde_json::json!({
                "certificate": write("tls.crt", &serving.certificate)?,
                "key": write("tls.key", &serving.key)?,
            });
            write("ca.crt", &authority.pair().certificate)?;
            ca_pem = Some(authority.pair().certificate.clone());
        }
        let mut config = serde_json::json!({
            "version": 0.1,
            "log": { "level": "warn", "accesslog": { "disabled": false } },
            "storage": { "filesystem": { "rootdirectory": self.file("content") } },
            "http": http,
        });
        if let Some(realm) = &self.options.token_service {
            let bundle = write("tokens.crt", self.signer.bundle())?;
            config["auth"] = Signer::configuration(realm, &bundle);
        } else if let Some((name, password)) = &self.options.user {
            // The lowest cost there is: nobody is to guess this password.
            let hash = bcrypt::hash(password, 4)?;
            let path = write("htpasswd", &format!("{name}:{hash}\n"))?;
            config["auth"] = serde_json::json!({ "htpasswd": { "realm": "tests", "path": path } });
        }
        write("config.yml", &serde_yaml_ng::to_string(&config)?)?;
        write("client.json", &self.dockerconfigjson())?;
        self.ca_pem = ca_pem;
        Ok(())
    }
}
