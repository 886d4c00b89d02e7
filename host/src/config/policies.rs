//! Where policies come from, what is kept of them, and where decisions are written down.

use std::path::PathBuf;

use anyhow::{Context, Result};
use capmaas_api::ClusterPolicies;
use clap::Args;

use crate::decisions::DecisionLog;
use crate::policy::{
    Choice, Choices, CompiledCache, Kind, LastGood, MOST_CODE_MIB, PolicyDir, oci,
};

/// Flags about policies.
#[derive(Args, Debug, Clone)]
pub struct PolicyFlags {
    /// Folder that policy files are read from.
    #[arg(long)]
    pub policy_dir: Option<PathBuf>,
    /// KIND=FILE: use this component instead of the built-in one (allocation, dns-naming,
    /// failure-handling).
    #[arg(long = "policy", value_name = "KIND=FILE")]
    pub policies: Vec<String>,
    /// KIND=FILE: JSON configuration of that kind's policy.
    #[arg(long = "policy-config", value_name = "KIND=FILE")]
    pub policy_configs: Vec<String>,
    /// Name of a MaasPolicy that chooses machines for clusters that name none themselves. May be given several times: they are
    /// asked in this order.
    #[arg(long, value_name = "NAME")]
    pub default_allocation_policy: Vec<String>,
    /// Name of a MaasPolicy that names the endpoints of clusters that name none themselves.
    #[arg(long, value_name = "NAME")]
    pub default_dns_naming_policy: Option<String>,
    /// Name of a MaasPolicy that deals with failures for clusters that name none themselves.
    #[arg(long, value_name = "NAME")]
    pub default_failure_handling_policy: Option<String>,
    /// Name of a MaasPolicy that is asked beside the live ones, for every cluster. May be given several times.
    #[arg(long, value_name = "NAME")]
    pub default_shadow_policy: Vec<String>,
    /// Namespace of these; the controller's own without it. When one namespace only is watched, it is that one.
    #[arg(long, env = "POD_NAMESPACE", default_value = "")]
    pub policy_namespace: String,
    /// Folder in which what was fetched and compiled of policies is kept, so that the next start needs neither registry nor
    /// compiler, and knows the last good revision of a policy whose source has gone bad meanwhile.
    #[arg(long, value_name = "FOLDER")]
    pub policy_cache: Option<PathBuf>,
    /// What the compiled code of all policies may take, MiB. One that does not fit any more is not loaded, and says so.
    #[arg(long, value_name = "MIB", default_value_t = MOST_CODE_MIB)]
    pub policy_code_limit: usize,
    /// File to which every decision is written, with all that it was made from, as one line of JSON.
    #[arg(long, value_name = "FILE")]
    pub decision_log: Option<PathBuf>,
    /// Size at which that file is put aside, MiB.
    #[arg(long, default_value_t = 64)]
    pub decision_log_size: u64,
    /// How many of these are kept aside.
    #[arg(long, default_value_t = 4)]
    pub decision_log_kept: u32,
}

impl PolicyFlags {
    /// The policies, read from the policy folder.
    ///
    /// # Errors
    /// When a kind is unknown or a file cannot be read.
    pub fn choices(&self) -> Result<Choices> {
        let mut choices = Choices::default();
        if self.policies.is_empty() && self.policy_configs.is_empty() {
            return Ok(choices);
        }
        let folder = self.policy_dir.as_deref().context(
            "--policy and --policy-config name files below --policy-dir, which is not set",
        )?;
        let dir = PolicyDir::open(folder)?;
        for text in &self.policies {
            let (kind, file) = kind_and_file("--policy", text)?;
            slot(&mut choices, kind).component = Choice::from_file(&dir, file)?.component;
        }
        for text in &self.policy_configs {
            let (kind, file) = kind_and_file("--policy-config", text)?;
            let bytes = dir.read(file).with_context(|| format!("policy configuration {file:?}"))?;
            let config = String::from_utf8(bytes)
                .with_context(|| format!("policy configuration {file:?} is not UTF-8"))?;
            slot(&mut choices, kind).config = Some(config);
        }
        Ok(choices)
    }

    /// Who decides for clusters that name no policies, and the namespace of these. `watched` is the one namespace that is watched, or
    /// empty; `own` is the controller's.
    pub fn defaults(&self, watched: &str, own: &str) -> (String, ClusterPolicies) {
        let named = [watched, self.policy_namespace.as_str(), own];
        let namespace = named.into_iter().find(|n| !n.is_empty()).unwrap_or_default().to_owned();
        let policies = ClusterPolicies {
            allocation: self.default_allocation_policy.clone(),
            dns_naming: self.default_dns_naming_policy.clone(),
            failure_handling: self.default_failure_handling_policy.clone(),
            shadow: self.default_shadow_policy.clone(),
        };
        (namespace, policies)
    }

    /// The folder of policy files.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn folder(&self) -> Result<Option<PolicyDir>> {
        self.policy_dir.as_deref().map(PolicyDir::open).transpose()
    }

    /// What the compiled code of all policies may take, bytes.
    pub fn code_limit(&self) -> usize {
        self.policy_code_limit.saturating_mul(1 << 20)
    }

    /// Where compiled policies are kept.
    ///
    /// # Errors
    /// When the folder cannot be used.
    pub fn compiled(&self) -> Result<Option<CompiledCache>> {
        let folder = self.policy_cache.as_ref().map(|folder| folder.join("compiled"));
        folder.as_deref().map(CompiledCache::open).transpose()
    }

    /// Where what registries have given is kept.
    ///
    /// # Errors
    /// When the folder cannot be used.
    pub fn fetched(&self) -> Result<Option<oci::Cache>> {
        let folder = self.policy_cache.as_ref().map(|folder| folder.join("fetched"));
        let open = |folder| oci::Cache::open(folder, oci::Cache::DEFAULT_LIMIT);
        folder.as_deref().map(open).transpose()
    }

    /// Where the last good revision of each policy is kept; its component among what was `fetched`.
    ///
    /// # Errors
    /// When the folder cannot be used.
    pub fn last_good(&self, fetched: Option<&oci::Cache>) -> Result<Option<LastGood>> {
        let folder = self.policy_cache.as_ref().map(|folder| folder.join("last-good"));
        let both = folder.zip(fetched.cloned());
        both.map(|(folder, fetched)| LastGood::open(&folder, fetched)).transpose()
    }

    /// The decision log.
    ///
    /// # Errors
    /// When its file cannot be opened.
    pub fn decisions(&self) -> Result<Option<DecisionLog>> {
        let size = self.decision_log_size.max(1) << 20;
        let open = |path| DecisionLog::open(path, size, self.decision_log_kept);
        self.decision_log.as_deref().map(open).transpose()
    }
}

fn kind_and_file<'a>(flag: &str, text: &'a str) -> Result<(Kind, &'a str)> {
    let kinds = "allocation, dns-naming or failure-handling";
    let (kind, file) = text
        .split_once('=')
        .with_context(|| format!("{flag} {text:?} is not KIND=FILE (KIND is {kinds})"))?;
    let kind = Kind::from_word(kind)
        .with_context(|| format!("{flag} {text:?}: {kind:?} is no kind of policy ({kinds})"))?;
    Ok((kind, file))
}

fn slot(choices: &mut Choices, kind: Kind) -> &mut Choice {
    match kind {
        Kind::Allocation => &mut choices.allocation,
        Kind::DnsNaming => &mut choices.dns_naming,
        Kind::FailureHandling => &mut choices.failure_handling,
    }
}
