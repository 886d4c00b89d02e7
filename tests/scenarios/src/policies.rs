use std::path::Path;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use capmaas_api::{Condition, MaasPolicy, MaasPolicyStatus};
use kube::Api;

use crate::quick;
use crate::stage::{Stage, eventually};

/// A built component, by name.
///
/// # Errors
/// When it was not built.
pub fn component(name: &str) -> Result<Vec<u8>> {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins/dist");
    let file = dist.join(format!("{name}.wasm"));
    std::fs::read(&file)
        .with_context(|| format!("{} is missing: run `make plugins`", file.display()))
}

/// Another build of a component, which decides alike: it differs in a custom section, whose name is one letter.
pub fn rebuilt(wasm: &[u8], letter: u8) -> Vec<u8> {
    [wasm, &[0, 2, 1, letter]].concat()
}

/// Policies as objects.
impl Stage<'_> {
    /// `MaasPolicy`s.
    pub fn policies(&self) -> Api<MaasPolicy> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// A ConfigMap that holds a component under the key `policy.wasm`.
    ///
    /// # Errors
    /// When the API server refuses.
    pub fn component_in_config_map(&self, name: &str, wasm: &[u8]) -> Result<()> {
        // Server-side: kubectl would copy it into an annotation, which is too small for some.
        let yaml = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\nbinaryData: {{policy.wasm: '{}'}}\n",
            STANDARD.encode(wasm)
        );
        quick::apply(&self.client, &self.namespace, &yaml)
    }

    /// A MaasPolicy; `spec` is what a YAML flow mapping holds.
    ///
    /// # Errors
    /// When the API server refuses.
    pub fn policy(&self, name: &str, spec: &str) -> Result<()> {
        self.apply(&format!(
            "apiVersion: policy.capmaas.io/v1alpha1\nkind: MaasPolicy\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"
        ))
    }

    /// A policy that is obeyed, whose component is in a ConfigMap by the same name.
    ///
    /// # Errors
    /// When the API server refuses.
    pub fn enforced(&self, name: &str, kind: &str, wasm: &[u8], more: &str) -> Result<()> {
        self.component_in_config_map(name, wasm)?;
        self.policy(
            name,
            &format!("kind: {kind}, mode: Enforce, source: {{configMap: {{name: {name}}}}}{more}"),
        )
    }

    /// A condition of a MaasPolicy.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn policy_condition(&self, policy: &str, kind: &str) -> Result<Option<Condition>> {
        let status = self.policies().get(policy).await?.status;
        let conditions = status.and_then(|s| s.conditions).unwrap_or_default();
        Ok(conditions.into_iter().find(|c| c.kind == kind))
    }

    /// Waits until a condition of a MaasPolicy has a reason, and returns its message.
    ///
    /// # Errors
    /// When it does not come; the text shows what there was.
    pub async fn policy_reason(&self, policy: &str, kind: &str, reason: &str) -> Result<String> {
        let mut last = String::new();
        let found = eventually(&format!("{policy}: {kind} {reason}"), 60, async || {
            let condition = self.policy_condition(policy, kind).await?;
            last = format!("{condition:?}");
            Ok(condition.filter(|c| c.reason.as_deref() == Some(reason)))
        })
        .await;
        let condition = found.with_context(|| format!("last seen: {last}"))?;
        Ok(condition.message.unwrap_or_default())
    }

    /// Waits until a condition of a MaasPolicy says this.
    ///
    /// # Errors
    /// When it does not; the text shows what it said.
    pub async fn policy_says(&self, policy: &str, kind: &str, words: &[&str]) -> Result<()> {
        let mut last = String::new();
        let found = eventually(&format!("{policy}: {kind} says {words:?}"), 60, async || {
            let condition = self.policy_condition(policy, kind).await?;
            last = condition.and_then(|c| c.message).unwrap_or_default();
            Ok(words.iter().all(|w| last.contains(w)).then_some(()))
        })
        .await;
        found.with_context(|| format!("last said: {last}"))
    }

    /// Waits until what the object means is in use, and returns its status.
    ///
    /// # Errors
    /// When it does not come to that.
    pub async fn policy_ready(&self, policy: &str) -> Result<MaasPolicyStatus> {
        let mut last = None;
        let found = eventually(&format!("{policy} is in use"), 60, async || {
            let object = self.policies().get(policy).await?;
            let status = object.status.unwrap_or_default();
            last = Some(status.clone());
            let ready =
                status.conditions.iter().flatten().any(|c| c.kind == "Ready" && c.status == "True");
            Ok((ready && status.observed_generation == object.metadata.generation)
                .then_some(status))
        })
        .await;
        found.with_context(|| format!("last seen: {last:?}"))
    }

    /// What the controller's metrics say, as text.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn metrics(&self) -> Result<String> {
        let (status, text) = self.served("metrics").await?;
        ensure!(status == 200, "{status}");
        Ok(text)
    }

    /// Status and text of `/readyz`.
    ///
    /// # Errors
    /// When the controller does not listen.
    pub async fn ready(&self) -> Result<(u16, String)> {
        self.served("readyz").await
    }

    async fn served(&self, path: &str) -> Result<(u16, String)> {
        let log = self.controller.log();
        let line = log.lines().rev().find(|l| l.contains("health and metrics are served"));
        let line: serde_json::Value = serde_json::from_str(line.context("it serves metrics")?)?;
        let address = line["address"].as_str().context("an address")?;
        let answer = reqwest::get(format!("http://{address}/{path}")).await?;
        Ok((answer.status().as_u16(), answer.text().await?))
    }

    /// The value of the first sample whose name and labels hold all these words; 0 without one.
    ///
    /// # Errors
    /// When the metrics cannot be read.
    pub async fn metric(&self, words: &[&str]) -> Result<f64> {
        let text = self.metrics().await?;
        let samples = text.lines().filter(|l| !l.starts_with('#'));
        let mut of = samples.filter(|l| words.iter().all(|w| l.contains(w)));
        let value = of.next().and_then(|l| l.rsplit(' ').next()).map(str::parse).transpose()?;
        Ok(value.unwrap_or(0.0))
    }
}
