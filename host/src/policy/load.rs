//! The gates a component passes before it is asked anything: its form (size, is a component), its digest, imports and
//! exports, compiling within limits, types, describe, schema, configuration.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use capmaas_api::{PolicyKind, PolicyLimits};
use capmaas_core::policy::{Gate, PolicyId, Refused};
use serde_json::Value;
use sha2::{Digest, Sha256};
use wasmtime::component::{Component, HasSelf, Linker};

use super::bindings::allocation::AllocationPolicyPre;
use super::bindings::dns_naming::DnsNamingPolicyPre;
use super::bindings::failure_handling::FailureHandlingPolicyPre;
use super::cache::CompiledCache;
use super::compile::Compiler;
use super::components::{Bytes, Components};
use super::engine::{Engine, Share};
use super::health::Health;
use super::loaded::{Description, Issue, Loaded, Policy};
use super::metrics::Metrics;
use super::sandbox::{CallState, Limits};
use super::{Choice, form, schema};

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

impl From<PolicyKind> for Kind {
    fn from(kind: PolicyKind) -> Self {
        match kind {
            PolicyKind::Allocation => Self::Allocation,
            PolicyKind::DnsNaming => Self::DnsNaming,
            PolicyKind::FailureHandling => Self::FailureHandling,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// What is to be loaded.
#[derive(Clone, Debug)]
pub struct Order {
    /// What it is to decide.
    pub kind: Kind,
    /// `sha256:…` that the component must have; `None` takes any.
    pub digest: Option<String>,
    /// Configuration, as JSON text.
    pub config: String,
    /// What a call may use.
    pub limits: Limits,
}

/// A configuration that says nothing.
const EMPTY: &str = "{}";

impl Order {
    /// What an object means.
    ///
    /// # Errors
    /// When it may not have these limits; the text names the field.
    pub fn meant(
        kind: PolicyKind,
        config: Option<&Value>,
        limits: Option<&PolicyLimits>,
        digest: Option<String>,
    ) -> Result<Self> {
        let config = config.map_or(EMPTY.into(), ToString::to_string);
        Ok(Self { kind: kind.into(), digest, config, limits: Limits::of(limits)? })
    }

    /// A component of a kind, with an empty configuration and the usual limits.
    pub fn of(kind: Kind) -> Self {
        Self { kind, digest: None, config: EMPTY.into(), limits: Limits::default() }
    }
}

/// A component did not pass a gate.
#[derive(Debug)]
pub struct Rejected {
    /// Which one.
    pub gate: Gate,
    /// Why, for the author.
    pub why: anyhow::Error,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.why)
    }
}

impl std::error::Error for Rejected {}

/// Tells the gate at which something went wrong.
pub(super) fn at<T>(gate: Gate, outcome: Result<T>) -> Result<T, Rejected> {
    outcome.map_err(|why| Rejected { gate, why })
}

/// Loads components: compiles each once, however many policies are made of it.
#[derive(Clone)]
pub struct Loader {
    engine: Engine,
    compiler: Compiler,
    components: Components,
    metrics: Metrics,
}

impl Loader {
    /// A loader for one engine.
    pub fn new(engine: Engine, compiler: Compiler, metrics: Metrics) -> Self {
        let components = Components::new(engine.clone(), compiler.clone(), metrics.clone());
        Self { engine, compiler, components, metrics }
    }

    /// The same, that keeps what it compiles for its next start.
    #[must_use]
    pub fn keeping(self, cache: Option<CompiledCache>) -> Self {
        Self { components: self.components.keeping(cache), ..self }
    }

    /// The same, in which the compiled code of all policies may take so much, bytes. What does not fit any more is not loaded.
    #[must_use]
    pub fn within(self, code: usize) -> Self {
        Self { components: self.components.within(code), ..self }
    }

    /// Loads what the operator chose, else the built-in component.
    pub(super) async fn load_choice(
        &self,
        kind: Kind,
        choice: Choice,
        built_in: &'static [u8],
    ) -> Result<Arc<Loaded>> {
        let Choice { component, config } = choice;
        let order = Order { config: config.unwrap_or_else(|| EMPTY.into()), ..Order::of(kind) };
        let (label, bytes) = match component {
            Some((name, bytes)) => (name, Bytes::Foreign(bytes.into())),
            None => ("the built-in component".to_owned(), Bytes::BuiltIn(built_in)),
        };
        let loaded = self.pass_gates(order, bytes, Health::default()).await;
        let failed = || format!("{kind} policy {label} cannot be loaded");
        loaded.map(Arc::new).map_err(|rejected| rejected.why).with_context(failed)
    }

    /// Loads somebody's component. `health` is told how it fares.
    ///
    /// # Errors
    /// When it does not pass a gate; the text is for its author.
    pub async fn load(
        &self,
        order: Order,
        wasm: impl Into<bytes::Bytes>,
        health: Health,
    ) -> Result<Arc<Loaded>, Rejected> {
        let loaded = self.pass_gates(order, Bytes::Foreign(wasm.into()), health).await;
        self.metrics.loaded(loaded.as_ref().map(drop).map_err(|rejected| rejected.gate));
        loaded.map(Arc::new)
    }

    /// Opens somebody's component as far as `describe`: for tools that look at it, or configure it in several ways. What it is
    /// to decide is what it exports.
    ///
    /// # Errors
    /// When it does not pass a gate; the text is for its author.
    pub async fn open(&self, wasm: Vec<u8>) -> Result<Loaded, Rejected> {
        let kind = at(Gate::Verified, form::check_form(&wasm).and_then(|()| form::kind_of(&wasm)))?;
        self.described(&Order::of(kind), Bytes::Foreign(wasm.into()), Health::default()).await
    }

    /// The same component with this configuration, if it accepts it.
    ///
    /// # Errors
    /// When it does not; the text names every fault.
    pub async fn configure(&self, opened: &Loaded, order: &Order) -> Result<Loaded, Rejected> {
        let loaded = opened.again(order.config.clone(), order.limits.clone());
        self.configured(loaded, true).await
    }

    async fn pass_gates(
        &self,
        order: Order,
        bytes: Bytes,
        health: Health,
    ) -> Result<Loaded, Rejected> {
        let begun = Instant::now();
        let foreign = matches!(bytes, Bytes::Foreign(_));
        let loaded = self.described(&order, bytes, health).await?;
        let mut loaded = self.configured(loaded, foreign).await?;
        loaded.load_millis = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(loaded)
    }

    /// Everything up to what it says of itself.
    async fn described(
        &self,
        order: &Order,
        bytes: Bytes,
        health: Health,
    ) -> Result<Loaded, Rejected> {
        let Order { kind, digest: pinned, config, limits } = order.clone();
        let looked_at = aside(move || {
            form::check_form(bytes.as_slice())?;
            let digest = digest(bytes.as_slice());
            if let Some(pinned) = pinned.filter(|pinned| *pinned != digest) {
                bail!("its digest is {digest}, and {pinned} is asked for");
            }
            form::check_surface(bytes.as_slice(), kind)?;
            Ok((bytes, digest))
        });
        let (bytes, digest) = at(Gate::Verified, looked_at.await)?;
        let component = self.components.get(&digest, bytes, health.namespace()).await;
        let component = at(Gate::Loaded, component)?;
        let policy = at(Gate::Loaded, bind(&self.engine, &component, kind))?;
        let loaded = Loaded {
            engine: self.engine.clone(),
            share: Share::default(),
            policy,
            id: PolicyId { name: kind.word().into(), digest },
            description: Description::default(),
            config,
            limits,
            peak: AtomicUsize::new(0),
            health,
            load_millis: 0,
            loaded_at: crate::kube::now(),
            component,
        };
        let described = asked(loaded, "describe", Loaded::describe).await;
        let (mut loaded, description) = at(Gate::Loaded, described)?;
        loaded.id.name = format!("{} {}", description.name, description.version);
        loaded.description = description;
        Ok(loaded)
    }

    /// Whether it accepts its configuration, by its schema and by its own word.
    async fn configured(&self, loaded: Loaded, foreign: bool) -> Result<Loaded, Rejected> {
        let parsed = serde_json::from_str::<Value>(&loaded.config);
        let parsed = at(Gate::ConfigValid, parsed.context("its configuration is not JSON"))?;
        // Our own accept an empty one, as their golden cases show.
        if foreign || loaded.config != EMPTY {
            let schema = &loaded.description.config_schema;
            let by_schema = schema::check(&self.compiler, schema, &parsed).await;
            at(Gate::ConfigValid, by_schema.and_then(no_issues))?;
        }
        let checked = asked(loaded, "check-config", Loaded::check_config).await;
        let (loaded, issues) = at(Gate::ConfigValid, checked)?;
        at(Gate::ConfigValid, no_issues(issues))?;
        Ok(loaded)
    }
}

/// `sha256:…` of these bytes.
pub fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect();
    format!("sha256:{hex}")
}

fn no_issues(issues: Vec<Issue>) -> Result<()> {
    if issues.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = issues.iter().map(Issue::to_string).collect();
    bail!("it does not accept its configuration: {}", list.join("; "))
}

/// What a new policy is asked about itself. It may hang like any other call.
async fn asked<T: Send + 'static>(
    loaded: Loaded,
    what: &'static str,
    question: fn(&Loaded) -> Result<T, Refused>,
) -> Result<(Loaded, T)> {
    let (engine, share, memory) =
        (loaded.engine.clone(), loaded.share.clone(), loaded.limits.memory);
    let entered = engine.enter(&share, memory, move || {
        let given = question(&loaded);
        (loaded, given)
    });
    let (loaded, given) = entered.await.map_err(|r| anyhow!(r.message))?;
    let given = given.map_err(|r| anyhow!("{what}: {}", r.message))?;
    Ok((loaded, given))
}

/// Work that takes a while but enters no guest, on a thread where it holds up nobody.
pub(super) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
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
