use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

/// Whom we take for MAAS: the HTTP client in use, and the file whose authorities it trusts.
///
/// The file is looked at before each call, which costs nothing beside the call, and not only when a certificate is
/// refused: an authority that was taken out of it must not be trusted for longer. Another client has connections and TLS
/// sessions of its own, so what the old one had verified counts no more.
pub(super) struct Trust {
    file: Option<PathBuf>,
    insecure: bool,
    current: Mutex<Current>,
}

struct Current {
    http: reqwest::Client,
    /// What the file held when it was last looked at, be it usable or not; `None` when it could not be read.
    seen: Option<Vec<u8>>,
    /// Why the client is older than the file.
    fault: Option<String>,
}

impl Trust {
    /// # Errors
    /// When the file cannot be read or holds no certificate.
    pub(super) fn new(file: Option<PathBuf>, insecure: bool) -> Result<Self> {
        let seen = file.as_deref().map(read).transpose()?;
        let http = client(file.as_deref().zip(seen.as_deref()), insecure)?;
        let current = Mutex::new(Current { http, seen, fault: None });
        Ok(Self { file, insecure, current })
    }

    /// The client to call with now.
    pub(super) fn http(&self) -> reqwest::Client {
        let mut current = self.current();
        if let Some(file) = &self.file {
            self.follow(file, &mut current);
        }
        current.http.clone()
    }

    /// What is wrong with the file, while the authorities that it held before are trusted.
    pub(super) fn fault(&self) -> Option<String> {
        self.current().fault.clone()
    }

    /// Contents that cannot be used are reported once, and leave the last good ones in force: the file may just be being
    /// written, and its fault is no reason to lose a MAAS that is well.
    fn follow(&self, file: &Path, current: &mut Current) {
        let found = read(file);
        if found.as_ref().ok() == current.seen.as_ref() {
            return;
        }
        let made = match &found {
            Ok(pem) => client(Some((file, pem)), self.insecure),
            Err(error) => Err(anyhow!("{error:#}")),
        };
        current.seen = found.ok();
        match made {
            Ok(http) => {
                (current.http, current.fault) = (http, None);
                tracing::info!(file = %file.display(), "the MAAS CA file was read anew");
            }
            Err(error) => {
                let fault = format!("{error:#}");
                tracing::warn!(error = fault, "the authorities trusted for MAAS stay as they are");
                current.fault = Some(fault);
            }
        }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(|e| e.into_inner())
    }
}

fn read(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).with_context(|| format!("cannot read the MAAS CA file {}", file.display()))
}

/// A client that trusts the authorities of this file, which holds this PEM, beside the system's.
fn client(authorities: Option<(&Path, &[u8])>, insecure: bool) -> Result<reqwest::Client> {
    let mut builder = reqwest::Client::builder()
        // Credentials never follow a redirect, and MAAS's API does not redirect.
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(10))
        .pool_idle_timeout(Duration::from_secs(60))
        .user_agent(concat!("capmaas/", env!("CARGO_PKG_VERSION")));
    if let Some((file, pem)) = authorities {
        let certificates = reqwest::Certificate::from_pem_bundle(pem)
            .ok()
            .filter(|found| !found.is_empty())
            .with_context(|| format!("{} holds no PEM certificate", file.display()))?;
        builder = builder.tls_certs_merge(certificates);
    }
    if insecure {
        builder = builder.tls_danger_accept_invalid_certs(true);
    }
    builder.build().context("cannot set up the HTTP client")
}
