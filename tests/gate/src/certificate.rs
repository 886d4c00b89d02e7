//! The gate's own certificate, for the side that speaks TLS.

use std::sync::Arc;

use anyhow::{Context, Result};
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;

/// A certificate for 127.0.0.1 that vouches for itself, and a server's configuration with it.
pub(crate) fn make() -> Result<(String, Arc<ServerConfig>)> {
    let key = KeyPair::generate()?;
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()])?;
    let certificate = params.self_signed(&key)?;
    let private = PrivateKeyDer::try_from(key.serialize_der())
        .map_err(|e| anyhow::anyhow!("the gate's key: {e}"))?;
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)
        .context("the gate's certificate")?;
    Ok((certificate.pem(), Arc::new(config)))
}
