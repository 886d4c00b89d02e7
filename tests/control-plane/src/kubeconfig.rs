//! kubeconfig files, everything embedded.

use std::path::Path;

use anyhow::{Context, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::pki::Pair;

/// Who somebody is towards an API server.
pub(crate) enum Identity<'a> {
    Certificate(&'a Pair),
    Token(&'a str),
}

/// The YAML of a kubeconfig for one server and one identity.
pub(crate) fn render(
    server: &str,
    ca_pem: &str,
    identity: &Identity<'_>,
    namespace: &str,
) -> Result<String> {
    let user: Value = match identity {
        Identity::Certificate(pair) => json!({
            "client-certificate-data": STANDARD.encode(&pair.certificate),
            "client-key-data": STANDARD.encode(&pair.key),
        }),
        Identity::Token(token) => json!({ "token": token }),
    };
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {
            "server": server,
            "certificate-authority-data": STANDARD.encode(ca_pem),
        }}],
        "users": [{"name": "test", "user": user}],
        "contexts": [{"name": "test", "context": {
            "cluster": "test", "user": "test", "namespace": namespace,
        }}],
        "current-context": "test",
    });
    Ok(serde_yaml_ng::to_string(&config)?)
}

/// The client configuration of such a YAML.
pub(crate) async fn parse(yaml: &str) -> Result<Config> {
    let kubeconfig = Kubeconfig::from_yaml(yaml)?;
    Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}

/// Writes a file that holds keys: readable by its owner only.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("write {}", path.display()))
}
