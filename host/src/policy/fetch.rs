//! Where the bytes of a policy come from.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use capmaas_api::{
    ConfigMapSource, MaasPolicy, NameReference, OciSource, PolicySource, ResolvedTag,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client, ResourceExt};

use super::oci;
use super::source::{Fingerprint, PolicyDir};

/// Reads the sources of policies.
pub struct Fetcher {
    client: Client,
    dir: Option<Arc<PolicyDir>>,
    cache: Option<oci::Cache>,
}

/// A component as its source holds it.
pub struct Fetched {
    /// The component.
    pub wasm: Vec<u8>,
    /// The digest that it must have.
    pub pinned: Option<String>,
    /// What a tag was resolved to.
    pub resolved: Option<ResolvedTag>,
}

impl Fetcher {
    /// Files are read from this folder alone; what registries have given is kept in the cache.
    pub fn new(client: Client, dir: Option<Arc<PolicyDir>>, cache: Option<oci::Cache>) -> Self {
        Self { client, dir, cache }
    }

    /// What the object's source holds now.
    ///
    /// # Errors
    /// When that cannot be read; the text says what to do.
    pub async fn fetch(&self, object: &MaasPolicy) -> Result<Fetched> {
        let namespace = object.namespace().unwrap_or_default();
        match &object.spec.source {
            PolicySource { file: Some(file), config_map: None, oci: None } => {
                let wasm = self.file(&file.path).await?;
                Ok(Fetched { wasm, pinned: file.digest.clone(), resolved: None })
            }
            PolicySource { file: None, config_map: Some(source), oci: None } => {
                let wasm = self.config_map(&namespace, source).await?;
                Ok(Fetched { wasm, pinned: source.digest.clone(), resolved: None })
            }
            PolicySource { file: None, config_map: None, oci: Some(source) } => {
                self.oci(&namespace, source, object).await.context("spec.source.oci")
            }
            _ => bail!("spec.source: give exactly one of file, configMap and oci"),
        }
    }

    /// What tells a file from what it was before; `None` when there is none.
    pub fn fingerprint(&self, path: &str) -> Option<Fingerprint> {
        self.dir.as_ref()?.fingerprint(path)
    }

    async fn file(&self, path: &str) -> Result<Vec<u8>> {
        let dir = self.dir.clone().context(
            "spec.source.file: the controller has no --policy-dir that files could be read from",
        )?;
        let path = path.to_owned();
        let read = tokio::task::spawn_blocking(move || dir.read(&path));
        read.await.context("reading broke off")?.context("spec.source.file")
    }

    async fn oci(
        &self,
        namespace: &str,
        source: &OciSource,
        object: &MaasPolicy,
    ) -> Result<Fetched> {
        let image: oci::Reference = source.image.parse()?;
        let access = self.access(namespace, source).await?;
        let resolved_before = || {
            let status = object.status.as_ref()?;
            let current = status.observed_generation == object.metadata.generation;
            status.resolved.clone().filter(|r| current && r.image == source.image)
        };
        let (pinned, resolved) = match (&source.digest, image.digest()) {
            (Some(pinned), named) => {
                let pinned: oci::Digest = pinned.parse()?;
                if named.is_some_and(|named| *named != pinned) {
                    bail!("image and digest name two digests: leave one of them out");
                }
                (pinned, None)
            }
            (None, Some(named)) => (named.clone(), None),
            (None, None) => match resolved_before() {
                Some(before) => (before.digest.parse()?, Some(before)),
                None => {
                    let digest = oci::resolve(&image, &access).await?;
                    let image = source.image.clone();
                    let resolved = ResolvedTag { image, digest: digest.to_string() };
                    (digest, Some(resolved))
                }
            },
        };
        let pulled = oci::pull(&image.at(pinned), &access, self.cache.as_ref()).await?;
        // The manifest was pinned, and names the component's digest itself.
        Ok(Fetched { wasm: pulled.wasm, pinned: None, resolved })
    }

    /// What the object's Secrets say of its registry.
    async fn access(&self, namespace: &str, source: &OciSource) -> Result<oci::Access> {
        let mut access = oci::Access { plain_http: source.plain_http, ..oci::Access::default() };
        for NameReference { name } in source.pull_secrets.iter().flatten() {
            let secret = self.secret(namespace, name).await.context("pullSecrets")?;
            let keychain = oci::Keychain::from_secret(&secret);
            access.keychain.extend(keychain.with_context(|| format!("pullSecrets: {name}"))?);
        }
        if let Some(NameReference { name }) = &source.ca_secret {
            let mut secret = self.secret(namespace, name).await.context("caSecret")?;
            let pem = secret.data.as_mut().and_then(|data| data.remove("ca.crt"));
            let pem = pem.with_context(|| format!("caSecret: {name} has no key ca.crt"))?;
            access.ca_pem = Some(pem.0);
        }
        Ok(access)
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Secret> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let found = api.get_opt(name).await.context("a Secret cannot be read")?;
        found.with_context(|| format!("there is no Secret {namespace}/{name}"))
    }

    async fn config_map(&self, namespace: &str, source: &ConfigMapSource) -> Result<Vec<u8>> {
        let name = &source.name;
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let found = api.get_opt(name).await.with_context(|| {
            format!("spec.source.configMap: ConfigMap {namespace}/{name} cannot be read")
        })?;
        let Some(mut found) = found else {
            bail!("spec.source.configMap: there is no ConfigMap {namespace}/{name}");
        };
        let mut binary = found.binary_data.take().unwrap_or_default();
        let keys = binary.keys().cloned().collect::<Vec<_>>().join(", ");
        let value = match &source.key {
            Some(key) => binary.remove(key).with_context(|| {
                let text = found.data.iter().flatten().any(|(k, _)| k == key);
                let hint = if text { ", which is in data: a component is binary" } else { "" };
                format!(
                    "spec.source.configMap.key: binaryData of ConfigMap {namespace}/{name} has no \
                     key {key:?}{hint} (it has: {keys})"
                )
            })?,
            None if binary.len() == 1 => {
                binary.into_values().next().context("the ConfigMap is empty")?
            }
            None => bail!(
                "spec.source.configMap.key: binaryData of ConfigMap {namespace}/{name} has {} keys \
                 ({keys}): name one (kubectl create configmap NAME --from-file=policy.wasm makes it)",
                binary.len()
            ),
        };
        Ok(value.0)
    }
}
