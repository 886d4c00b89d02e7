//! The last good revision of every policy, remembered over a restart: a source that went bad while nobody ran displaces
//! nothing either.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use capmaas_api::{MaasPolicy, PolicyLimits};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cache::{oldest_first, write_whole};
use super::load::{Order, aside};
use super::oci;

/// Policies that are remembered; what was noted longest ago is forgotten.
const MOST: usize = 1000;
/// A record is about as large as the configuration, which the API server bounds.
const LONGEST: u64 = 4 << 20;

/// What is remembered: a record for each object, under its UID, and the components under their digests.
///
/// It is a cache: what cannot be kept or read is told in the log, and `onFailure` decides as if nothing were remembered.
#[derive(Clone)]
pub struct LastGood {
    records: Arc<Dir>,
    components: oci::Cache,
}

/// What was loaded, as it was asked for.
#[derive(Serialize, Deserialize, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
struct Record {
    /// `sha256:…` of the component.
    digest: String,
    config: Option<Value>,
    limits: Option<PolicyLimits>,
}

impl LastGood {
    /// Opens the folder, and makes it if it is not there. Components are kept among what was fetched.
    ///
    /// # Errors
    /// When that is not possible.
    pub fn open(path: &Path, components: oci::Cache) -> Result<Self> {
        let shown = || format!("--policy-cache {} cannot be used", path.display());
        std::fs::create_dir_all(path).with_context(shown)?;
        let dir = Dir::open_ambient_dir(path, ambient_authority()).with_context(shown)?;
        Ok(Self { records: Arc::new(dir), components })
    }

    /// This component, configured as the object says now, has passed every gate.
    pub async fn keep(&self, object: &MaasPolicy, digest: &str, wasm: bytes::Bytes) {
        if let Err(error) = self.try_keep(object, digest, wasm).await {
            tracing::warn!(error = format!("{error:#}"), "a policy's good revision is not kept");
        }
    }

    /// The last revision of this very object that passed every gate.
    pub async fn of(&self, object: &MaasPolicy) -> Option<(Order, Vec<u8>)> {
        let (records, name) = (self.records.clone(), name(object)?);
        let read = aside(move || read(&records, &name)).await;
        let Record { digest, config, limits } = read.inspect_err(tell).ok().flatten()?;
        let wasm = self.components.get(&digest.parse().ok()?).await?;
        let kind = object.spec.kind;
        let order = Order::meant(kind, config.as_ref(), limits.as_ref(), Some(digest));
        Some((order.inspect_err(tell).ok()?, wasm))
    }

    async fn try_keep(&self, object: &MaasPolicy, digest: &str, wasm: bytes::Bytes) -> Result<()> {
        let name = name(object).context("the object has no UID")?;
        let record = Record {
            digest: digest.to_owned(),
            config: object.spec.config.clone(),
            limits: object.spec.limits.clone(),
        };
        // The component first: a record never names one that was not written.
        self.components.put(&digest.parse()?, wasm).await;
        let records = self.records.clone();
        aside(move || write(&records, &name, &serde_json::to_vec(&record)?)).await
    }
}

fn tell(error: &anyhow::Error) {
    tracing::warn!(error = format!("{error:#}"), "a policy's last good revision is not known");
}

/// Another object by the same name is another policy.
fn name(object: &MaasPolicy) -> Option<String> {
    Some(format!("{}.json", object.metadata.uid.as_ref()?))
}

fn read(records: &Dir, name: &str) -> Result<Option<Record>> {
    let file = match records.open(name) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes)?;
    serde_json::from_slice(&bytes).with_context(|| format!("{name} is damaged")).map(Some)
}

fn write(records: &Dir, name: &str, record: &[u8]) -> Result<()> {
    write_whole(records, name, &[record])?;
    let all = oldest_first(records)?;
    for (_, _, name) in &all[..all.len().saturating_sub(MOST)] {
        // Another process may have been faster.
        let _ = records.remove_file(name);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use capmaas_api::{MaasPolicySpec, PolicyKind, PolicyMode, PolicySource};
    use serde_json::json;

    use super::super::digest;
    use super::*;

    fn object(uid: &str) -> MaasPolicy {
        let spec = MaasPolicySpec {
            kind: PolicyKind::Allocation,
            source: PolicySource::default(),
            config: Some(json!({"workers": true})),
            mode: PolicyMode::Enforce,
            on_failure: None,
            limits: Some(PolicyLimits { timeout: Some("50ms".into()), memory: None }),
            suspend: false,
        };
        let mut object = MaasPolicy::new("p", spec);
        object.metadata.uid = Some(uid.into());
        object
    }

    fn open(folder: &Path) -> LastGood {
        let components = oci::Cache::open(&folder.join("fetched"), 1000).unwrap();
        LastGood::open(&folder.join("last-good"), components).unwrap()
    }

    #[tokio::test]
    async fn another_process_finds_the_component_with_the_settings_it_had() {
        let folder = tempfile::tempdir().unwrap();
        let (good, its) = (b"a component".to_vec(), digest(b"a component"));
        open(folder.path()).keep(&object("a-1"), &its, good.clone().into()).await;
        let kept = open(folder.path());
        let mut changed = object("a-1");
        changed.spec.config = Some(json!({"workers": "all"}));
        changed.spec.limits = None;
        let (order, wasm) = kept.of(&changed).await.unwrap();
        assert_eq!((wasm, order.digest.as_ref()), (good, Some(&its)));
        assert_eq!(order.config, r#"{"workers":true}"#);
        assert_eq!(order.limits.timeout.as_millis(), 50);
        // One that was deleted and made again is another policy.
        assert!(kept.of(&object("a-2")).await.is_none());
    }

    #[tokio::test]
    async fn what_is_damaged_or_lost_is_not_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let kept = open(folder.path());
        for (uid, wasm) in [("a-1", b"one"), ("a-2", b"two")] {
            kept.keep(&object(uid), &digest(wasm), wasm.to_vec().into()).await;
        }
        let record = folder.path().join("last-good/a-1.json");
        std::fs::write(record, r#"{"digest": "sha256:"#).unwrap();
        assert!(kept.of(&object("a-1")).await.is_none());
        std::fs::remove_dir_all(folder.path().join("fetched/blobs")).unwrap();
        assert!(kept.of(&object("a-2")).await.is_none());
        // No UID leads out of the folder, and without one there is nothing to remember.
        kept.keep(&object("../a-3"), &digest(b"x"), b"x".to_vec().into()).await;
        assert!(!folder.path().join("a-3.json").exists());
    }
}
