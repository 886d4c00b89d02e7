//! The Secrets that Cluster API would make for a cluster, made beforehand.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};

use crate::pki::Pair;

/// The certificates of a workload cluster.
pub(super) struct Certificates<'a> {
    pub(super) authority: &'a Pair,
    pub(super) service_accounts: &'a Pair,
    pub(super) etcd_client: &'a Pair,
}

/// Creates (or replaces) them. Cluster API finds them and takes them as the user's own.
pub(super) async fn publish(
    client: &Client,
    namespace: &str,
    cluster: &str,
    certificates: &Certificates<'_>,
    kubeconfig: &str,
) -> Result<()> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let pairs = [
        ("ca", certificates.authority),
        ("etcd", certificates.authority),
        ("proxy", certificates.authority),
        ("sa", certificates.service_accounts),
        ("apiserver-etcd-client", certificates.etcd_client),
    ];
    let mut wanted = Vec::new();
    for (purpose, pair) in pairs {
        let data = [("tls.crt", pair.certificate.as_str()), ("tls.key", &pair.key)];
        wanted.push(secret(cluster, purpose, "cluster.x-k8s.io/secret", &data));
    }
    // Opaque: one of Cluster API's own type is adopted, and its client certificate rotated.
    wanted.push(secret(cluster, "kubeconfig", "Opaque", &[("value", kubeconfig)]));
    for secret in wanted {
        let name = secret.metadata.name.clone().unwrap_or_default();
        let parameters = PatchParams::apply("control-plane-test").force();
        secrets
            .patch(&name, &parameters, &Patch::Apply(&secret))
            .await
            .with_context(|| format!("publish the Secret {namespace}/{name}"))?;
    }
    Ok(())
}

fn secret(cluster: &str, purpose: &str, type_: &str, data: &[(&str, &str)]) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some(format!("{cluster}-{purpose}"));
    secret.metadata.labels =
        Some(BTreeMap::from([("cluster.x-k8s.io/cluster-name".to_owned(), cluster.to_owned())]));
    secret.type_ = Some(type_.to_owned());
    let bytes =
        |(key, value): &(&str, &str)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec()));
    secret.data = Some(data.iter().map(bytes).collect());
    secret
}
