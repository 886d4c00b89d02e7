//! Policies from and to OCI registries.
//!
//! [`pull`] fetches a policy by digest, or by tag, [`resolve`] says which digest a tag has now, and [`push`] writes one. What
//! an operator pins is the digest of the *manifest*; that names the digest of the component. Both are verified, so that with
//! a pin neither the registry nor anybody on the way is trusted with more than to be there. Without one, the registry is.
//!
//! A registry is a stranger: what it sends is bounded in bytes ([`Error`] `too-large`), in time ([`Timeouts`]) and in where
//! it may lead. Credentials are shown to the registry's own host, and to the token service that it names, if that is
//! reached over TLS; see `docs/adr/0009`. Plain HTTP is used only when it was said, never because TLS failed.
//!
//! As everywhere here, rustls needs a default provider when the first client is made (`main` installs ring's).

mod artifact;
mod cache;
mod challenge;
mod digest;
mod error;
mod keychain;
mod pattern;
mod pull;
mod push;
mod reference;
mod session;
mod transport;

use std::time::Duration;

pub use cache::Cache;
pub use digest::Digest;
pub use error::{Category, Error};
pub use keychain::Keychain;
pub use pull::{Pulled, pull, resolve};
pub use push::push;
pub use reference::Reference;

/// How a registry is reached.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// What it is shown when it asks.
    pub keychain: Keychain,
    /// Certificates of authorities to trust beside the system's, as PEM.
    pub ca_pem: Option<Vec<u8>>,
    /// Whether to speak plain HTTP, without TLS: everybody on the way sees the credentials.
    pub plain_http: bool,
    /// How long it may take.
    pub timeouts: Timeouts,
}

/// How long a pull, a resolve or a push may take.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// All of it together, with tokens and redirects; 60 seconds.
    pub overall: Duration,
    /// Until something is heard from a server, at each step; 15 seconds.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { overall: Duration::from_secs(60), idle: Duration::from_secs(15) }
    }
}

impl Timeouts {
    /// Lets something take the time for all of it, and says with which artifact it failed.
    async fn allow<T>(
        self,
        reference: &Reference,
        work: impl Future<Output = error::Result<T>>,
    ) -> error::Result<T> {
        let done = tokio::time::timeout(self.overall, work).await.unwrap_or_else(|_| {
            let why = format!("it was not done within {:?}", self.overall);
            Err(Error::new(Category::Timeout, why))
        });
        done.map_err(|error| error.about(&reference.to_string()))
    }
}
