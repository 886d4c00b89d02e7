//! The HTTP client, and whose certificates it trusts.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use anyhow::{Context, Result};

/// A client, and the authorities in PEM that it was made with.
#[derive(Clone)]
pub(super) struct Trusting {
    pub(super) http: reqwest::Client,
    authorities: Vec<u8>,
}

/// The client in use, and the file where other authorities may be found.
pub(super) struct Transport {
    current: Mutex<Trusting>,
    ca_file: Option<PathBuf>,
    insecure: bool,
}

impl Transport {
    /// # Errors
    /// When the CA file cannot be read or holds no certificate.
    pub(super) fn new(ca_file: Option<PathBuf>, insecure: bool) -> Result<Self> {
        if insecure {
            tracing::warn!("any certificate of MAAS is trusted: whoever answers gets the API key");
        }
        let current = Mutex::new(trusting(ca_file.as_deref(), insecure)?);
        Ok(Self { current, ca_file, insecure })
    }

    /// The client to call with now.
    pub(super) fn current(&self) -> Trusting {
        self.in_use().clone()
    }

    /// The certificate of MAAS is not trusted: whether the file holds other authorities than `refusing` has. A file that
    /// cannot be used changes nothing, as it may just be being written.
    pub(super) fn renewed(&self, refusing: &Trusting) -> bool {
        let Some(file) = &self.ca_file else {
            return false;
        };
        let found = match trusting(Some(file), self.insecure) {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(error = format!("{error:#}"), "the CA of MAAS stays as it is");
                return false;
            }
        };
        if found.authorities == refusing.authorities {
            return false;
        }
        tracing::info!(file = %file.display(), "the CA of MAAS was read anew");
        *self.in_use() = found;
        true
    }

    fn in_use(&self) -> MutexGuard<'_, Trusting> {
        self.current.lock().unwrap_or_else(|e| e.into_inner())
    }
}

fn trusting(ca_file: Option<&Path>, insecure: bool) -> Result<Trusting> {
    let mut builder = reqwest::Client::builder()
        // Credentials never follow a redirect, and MAAS's API does not redirect.
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(10))
        .pool_idle_timeout(Duration::from_secs(60))
        .user_agent(concat!("capmaas/", env!("CARGO_PKG_VERSION")));
    let mut authorities = Vec::new();
    if let Some(path) = ca_file {
        authorities = std::fs::read(path)
            .with_context(|| format!("cannot read the MAAS CA file {}", path.display()))?;
        let certificates = reqwest::Certificate::from_pem_bundle(&authorities)
            .ok()
            .filter(|found| !found.is_empty())
            .with_context(|| format!("{} holds no PEM certificate", path.display()))?;
        builder = builder.tls_certs_merge(certificates);
    }
    if insecure {
        builder = builder.tls_danger_accept_invalid_certs(true);
    }
    let http = builder.build().context("cannot set up the HTTP client")?;
    Ok(Trusting { http, authorities })
}
