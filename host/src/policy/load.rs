//! The gates a component passes before it is asked anything: its form (size, is a component, imports,
//! exports), compiling within limits, types, describe, configuration.

use std::fmt;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use capmaas_core::bounded;
use capmaas_core::policy::{Answer, PolicyId, Question, Refused};
use sha2::{Digest, Sha256};
use wasmtime::component::{Component, HasSelf, Linker};

use super::bindings::allocation::AllocationPolicyPre;
use super::bindings::dns_naming::DnsNamingPolicyPre;
use super::bindings::failure_handling::FailureHandlingPolicyPre;
use super::compile::Compiler;
use super::engine::{Engine, Share};
use super::sandbox::{CallState, Limits, broken, store};
use super::{Choice, convert, form, refused};

/// What a policy decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Which machine to take.
    Allocation,
    /// How to name a cluster's endpoint.
    DnsNaming,
    /// What to do when something fails.
    FailureHandling,
}

impl Kind {
    /// The word on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Allocation => "allocation",
            Self::DnsNaming => "dns-naming",
            Self::FailureHandling => "failure-handling",
        }
    }

    /// The kind with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        let all = [Self::Allocation, Self::DnsNaming, Self::FailureHandling];
        all.into_iter().find(|k| k.word() == word)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A component whose exports fit its kind.
enum Policy {
    /// Which machine to take.
    Allocation(AllocationPolicyPre<CallState>),
    /// How to name a cluster's endpoint.
    DnsNaming(DnsNamingPolicyPre<CallState>),
    /// What to do when something fails.
    FailureHandling(FailureHandlingPolicyPre<CallState>),
}

/// A policy that passed every gate.
pub struct Loaded {
    pub(super) engine: Engine,
    pub(super) share: Share,
    policy: Policy,
    id: PolicyId,
    config: String,
    limits: Limits,
}

/// Name and version, as the component tells them.
struct Description {
    name: String,
    version: String,
}

pub(super) struct Loader {
    pub(super) engine: Engine,
    pub(super) compiler: Compiler,
}

impl Loader {
    /// Loads what the operator chose, else the built-in component.
    pub(super) async fn load(
        &self,
        kind: Kind,
        choice: Choice,
        built_in: &'static [u8],
    ) -> Result<Arc<Loaded>> {
        let Choice { component, config } = choice;
        let (label, bytes, foreign) = match component {
            Some((name, bytes)) => (name, bytes, true),
            None => ("the built-in component".to_owned(), built_in.to_vec(), false),
        };
        let loaded = self.pass_gates(kind, bytes, foreign, config).await;
        loaded.map(Arc::new).with_context(|| format!("{kind} policy {label} cannot be loaded"))
    }

    async fn pass_gates(
        &self,
        kind: Kind,
        wasm: Vec<u8>,
        foreign: bool,
        config: Option<String>,
    ) -> Result<Loaded> {
        let looked_at = aside(move || {
            form::check(&wasm, kind)?;
            let digest: String = Sha256::digest(&wasm).iter().map(|b| format!("{b:02x}")).collect();
            Ok((wasm, format!("sha256:{digest}")))
        });
        let (wasm, digest) = looked_at.await?;
        let config = config.unwrap_or_else(|| "{}".into());
        serde_json::from_str::<serde_json::Value>(&config)
            .context("its configuration is not JSON")?;
        let compiled = if foreign { Some(self.compiler.compile(&wasm).await?) } else { None };
        let engine = self.engine.clone();
        let bound = aside(move || {
            let component = match compiled {
                Some(compiled) => compiled.component(&engine)?,
                None => Component::new(&engine.wasm, wasm).map_err(anyhow::Error::from)?,
            };
            bind(&engine, &component, kind)
        });
        let policy = bound.await?;
        let id = PolicyId { name: kind.word().into(), digest };
        let engine = self.engine.clone();
        let (share, limits) = (Share::default(), Limits::default());
        let loaded = Loaded { engine, share: share.clone(), policy, id, config, limits };
        // The first that it is asked. It may hang like any other call.
        let met = self.engine.enter(&share, move || loaded.introduced()).await;
        met.map_err(|r| anyhow!(r.message))?
    }
}

/// Work that takes a while but enters no guest, on a thread where it holds up nobody.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.context("loading broke off")?
}

fn bind(engine: &Engine, component: &Component, kind: Kind) -> Result<Policy> {
    use super::bindings::allocation::capmaas::policy::{host, types};
    let mut linker: Linker<CallState> = Linker::new(&engine.wasm);
    host::add_to_linker::<_, HasSelf<_>>(&mut linker, |s| s).map_err(anyhow::Error::from)?;
    types::add_to_linker::<_, HasSelf<_>>(&mut linker, |s| s).map_err(anyhow::Error::from)?;
    let pre = linker.instantiate_pre(component).map_err(anyhow::Error::from)?;
    let wrong = |e: wasmtime::Error| {
        anyhow!(
            "it does not export what a policy of kind {kind} exports ({e:#}); see wit/policy.wit"
        )
    };
    Ok(match kind {
        Kind::Allocation => Policy::Allocation(AllocationPolicyPre::new(pre).map_err(wrong)?),
        Kind::DnsNaming => Policy::DnsNaming(DnsNamingPolicyPre::new(pre).map_err(wrong)?),
        Kind::FailureHandling => {
            Policy::FailureHandling(FailureHandlingPolicyPre::new(pre).map_err(wrong)?)
        }
    })
}

/// Instantiates a world in a fresh store and calls it.
macro_rules! call {
    ($loaded:expr, $pre:expr, |$instance:ident, $store:ident| $call:expr) => {{
        let mut $store = store(&$loaded.engine, &$loaded.limits, &$loaded.id.name);
        match $pre.instantiate(&mut $store) {
            Ok($instance) => $call.map_err(|e| broken(&$store, &e)),
            Err(error) => Err(broken(&$store, &error)),
        }
    }};
}

impl Loaded {
    /// Name, version and digest.
    pub fn id(&self) -> &PolicyId {
        &self.id
    }

    /// The policy under the name it gives itself, after it has accepted its configuration. Blocks.
    fn introduced(mut self) -> Result<Self> {
        let described = self.describe().map_err(|r| anyhow!("describe: {}", r.message))?;
        self.id.name = format!("{} {}", described.name, described.version);
        self.check_config()?;
        Ok(self)
    }

    fn describe(&self) -> Result<Description, Refused> {
        match &self.policy {
            Policy::Allocation(pre) => {
                let d = call!(self, pre, |i, s| i.capmaas_policy_metadata().call_describe(&mut s))?;
                described(d.name, d.version)
            }
            Policy::DnsNaming(pre) => {
                let d = call!(self, pre, |i, s| i.capmaas_policy_metadata().call_describe(&mut s))?;
                described(d.name, d.version)
            }
            Policy::FailureHandling(pre) => {
                let d = call!(self, pre, |i, s| i.capmaas_policy_metadata().call_describe(&mut s))?;
                described(d.name, d.version)
            }
        }
    }

    fn check_config(&self) -> Result<()> {
        let config = self.config.as_str();
        macro_rules! check {
            ($pre:expr) => {
                call!(self, $pre, |i, s| i
                    .capmaas_policy_metadata()
                    .call_check_config(&mut s, config))
                .map(|r| r.map_err(|l| l.into_iter().map(|i| (i.pointer, i.problem)).collect()))
            };
        }
        let checked: Result<Result<(), Vec<(String, String)>>, Refused> = match &self.policy {
            Policy::Allocation(pre) => check!(pre),
            Policy::DnsNaming(pre) => check!(pre),
            Policy::FailureHandling(pre) => check!(pre),
        };
        match checked.map_err(|r| anyhow!("check-config: {}", r.message))? {
            Ok(()) => Ok(()),
            Err(issues) => {
                let list: Vec<String> = issues
                    .iter()
                    .take(5)
                    .map(|(at, problem)| {
                        let at = if at.is_empty() { "/" } else { at };
                        bounded(&format!("{at}: {problem}"), 400)
                    })
                    .collect();
                bail!("it does not accept its configuration: {}", list.join("; "))
            }
        }
    }

    /// Asks one question, in a store of its own. Blocks.
    pub(super) fn ask(&self, question: &Question) -> Result<Answer, Refused> {
        let lists = convert::Lists::new();
        match (&self.policy, question) {
            (Policy::Allocation(pre), Question::Shortlist(request)) => {
                let request = lists.allocation_request(request, &self.config);
                let answer = call!(self, pre, |i, s| i
                    .capmaas_policy_allocation()
                    .call_shortlist(&mut s, request))?;
                answer.map(convert::shortlisting).map_err(convert::refusal)
            }
            (Policy::Allocation(pre), Question::Rank { request, candidates }) => {
                let request = lists.allocation_request(request, &self.config);
                let candidates = lists.candidates(candidates);
                let answer = call!(self, pre, |i, s| i
                    .capmaas_policy_allocation()
                    .call_rank(&mut s, request, candidates))?;
                answer.map(convert::ranking).map_err(convert::refusal)
            }
            (Policy::DnsNaming(pre), Question::Name(request)) => {
                let request = lists.name_request(request, &self.config);
                let answer = call!(self, pre, |i, s| i
                    .capmaas_policy_dns_naming()
                    .call_propose(&mut s, request))?;
                answer.map(convert::name).map_err(convert::refusal)
            }
            (Policy::FailureHandling(pre), Question::Handle(failure)) => {
                let failure = lists.failure(failure, &self.config);
                let answer = call!(self, pre, |i, s| i
                    .capmaas_policy_failure_handling()
                    .call_handle(&mut s, failure))?;
                answer.map(convert::action).map_err(convert::refusal)
            }
            _ => Err(refused("unavailable", "the question is of another kind")),
        }
    }
}

fn described(name: String, version: String) -> Result<Description, Refused> {
    let sound = |s: &str, longest: usize| {
        (1..=longest).contains(&s.len()) && s.chars().all(|c| c.is_ascii_graphic())
    };
    if !sound(&name, 63) || !sound(&version, 40) {
        let message =
            "describe() must give a name of 1-63 and a version of 1-40 printable characters";
        return Err(refused("bad-answer", message));
    }
    Ok(Description { name, version })
}
