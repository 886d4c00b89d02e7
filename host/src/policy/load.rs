//! The gates a component passes before it is asked anything: its form (size, is a component), its digest, imports and
//! exports, compiling within limits, types, describe, schema, configuration.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use capmaas_api::PolicyKind;
use capmaas_core::policy::{Gate, PolicyId, Refused};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use wasmtime::component::{Component, HasSelf, Linker};

use super::bindings::allocation::AllocationPolicyPre;
use super::bindings::dns_naming::DnsNamingPolicyPre;
use super::bindings::failure_handling::FailureHandlingPolicyPre;
use super::cache::CompiledCache;
use super::compile::{Compiled, Compiler};
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

impl Order {
    /// A component of a kind, with an empty configuration and the usual limits.
    pub fn of(kind: Kind) -> Self {
        Self { kind, digest: None, config: "{}".into(), limits: Limits::default() }
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

/// Components that are compiled at once.
const COMPILERS: usize = 2;

/// Loads components: compiles each once, however many policies are made of it.
#[derive(Clone)]
pub struct Loader {
    engine: Engine,
    compiler: Compiler,
    compilers: Arc<Semaphore>,
    shelf: Arc<Mutex<Shelf>>,
    cache: Option<Arc<CompiledCache>>,
    metrics: Metrics,
}

/// What is compiled, by digest, for as long as a policy is made of it; and who compiles now.
#[derive(Default)]
struct Shelf {
    compiled: HashMap<String, Weak<Component>>,
    under_way: HashMap<String, Weak<tokio::sync::Mutex<()>>>,
}

/// A component's bytes.
enum Bytes {
    /// Our own.
    BuiltIn(&'static [u8]),
    /// Anybody's.
    Foreign(Vec<u8>),
}

impl Bytes {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::BuiltIn(bytes) => bytes,
            Self::Foreign(bytes) => bytes,
        }
    }
}

impl Loader {
    /// A loader for one engine.
    pub fn new(engine: Engine, compiler: Compiler, metrics: Metrics) -> Self {
        let compilers = Arc::new(Semaphore::new(COMPILERS));
        Self { engine, compiler, compilers, shelf: Arc::default(), cache: None, metrics }
    }

    /// The same, that keeps what it compiles for its next start.
    #[must_use]
    pub fn keeping(self, cache: Option<CompiledCache>) -> Self {
        Self { cache: cache.map(Arc::new), ..self }
    }

    /// Loads what the operator chose, else the built-in component.
    pub(super) async fn load_choice(
        &self,
        kind: Kind,
        choice: Choice,
        built_in: &'static [u8],
    ) -> Result<Arc<Loaded>> {
        let Choice { component, config } = choice;
        let order = Order { config: config.unwrap_or_else(|| "{}".into()), ..Order::of(kind) };
        let (label, bytes) = match component {
            Some((name, bytes)) => (name, Bytes::Foreign(bytes)),
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
        wasm: Vec<u8>,
        health: Health,
    ) -> Result<Arc<Loaded>, Rejected> {
        let loaded = self.pass_gates(order, Bytes::Foreign(wasm), health).await;
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
        self.described(&Order::of(kind), Bytes::Foreign(wasm), Health::default()).await
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
        let component = at(Gate::Loaded, self.component(&digest, bytes).await)?;
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
            _component: component,
        };
        let described = asked(loaded, "describe", Loaded::describe).await;
        let (mut loaded, description) = at(Gate::Loaded, described)?;
        loaded.id.name = format!("{} {}", description.name, description.version);
        loaded.description = description;
        Ok(loaded)
    }

    /// Whether it accepts its configuration, by its schema and by its own word.
    async fn configured(&self, loaded: Loaded, foreign: bool) -> Result<Loaded, Rejected> {
        let parsed = serde_json::from_str::<serde_json::Value>(&loaded.config);
        let parsed = at(Gate::ConfigValid, parsed.context("its configuration is not JSON"))?;
        let schema = &loaded.description.config_schema;
        let by_schema = schema::check(&self.compiler, foreign, schema, &parsed).await;
        at(Gate::ConfigValid, by_schema.and_then(no_issues))?;
        let checked = asked(loaded, "check-config", Loaded::check_config).await;
        let (loaded, issues) = at(Gate::ConfigValid, checked)?;
        at(Gate::ConfigValid, no_issues(issues))?;
        Ok(loaded)
    }

    /// The compiled component: from the shelf, or compiled now, by one of those who want it.
    async fn component(&self, digest: &str, bytes: Bytes) -> Result<Arc<Component>> {
        let turn = {
            let mut shelf = self.shelf();
            let known = shelf.under_way.get(digest).and_then(Weak::upgrade);
            let turn = known.unwrap_or_default();
            shelf.under_way.insert(digest.to_owned(), Arc::downgrade(&turn));
            turn
        };
        let _first = turn.lock().await;
        if let Some(compiled) = self.shelf().compiled.get(digest).and_then(Weak::upgrade) {
            return Ok(compiled);
        }
        let component = Arc::new(self.kept_or_compiled(digest, bytes).await?);
        let mut shelf = self.shelf();
        shelf.compiled.retain(|_, compiled| compiled.strong_count() > 0);
        shelf.under_way.retain(|_, turn| turn.strong_count() > 0);
        shelf.compiled.insert(digest.to_owned(), Arc::downgrade(&component));
        Ok(component)
    }

    async fn kept_or_compiled(&self, digest: &str, bytes: Bytes) -> Result<Component> {
        let Some(cache) = self.cache.clone() else {
            return self.compile(bytes).await?.load().await;
        };
        let (engine, of) = (self.engine.clone(), digest.to_owned());
        let kept = aside({
            let (cache, of) = (cache.clone(), of.clone());
            move || {
                let kept = Compiled::from_cache(&cache, &of, &engine);
                // One that another build of wasmtime made is as good as none.
                Ok(kept.and_then(|kept| kept.component(&engine).ok()))
            }
        });
        if let Some(component) = kept.await? {
            return Ok(component);
        }
        let fresh = self.compile(bytes).await?;
        let engine = self.engine.clone();
        aside(move || fresh.keep(&cache, &of, &engine)).await
    }

    async fn compile(&self, bytes: Bytes) -> Result<Fresh> {
        let engine = self.engine.clone();
        match bytes {
            Bytes::BuiltIn(bytes) => {
                let compile = move || Component::new(&engine.wasm, bytes).map_err(Into::into);
                Ok(Fresh::Here(aside(compile).await?))
            }
            Bytes::Foreign(bytes) => {
                let _one = self.compilers.acquire().await.context("the controller is stopping")?;
                let begun = Instant::now();
                let compiled = self.compiler.compile(&bytes).await?;
                self.metrics.compiled(begun.elapsed());
                Ok(Fresh::ByChild(compiled, engine))
            }
        }
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// A component that was just compiled.
enum Fresh {
    /// Ours, in this process.
    Here(Component),
    /// Anybody's, by a child.
    ByChild(Compiled, Engine),
}

impl Fresh {
    async fn load(self) -> Result<Component> {
        match self {
            Self::Here(component) => Ok(component),
            Self::ByChild(compiled, engine) => aside(move || compiled.component(&engine)).await,
        }
    }

    fn keep(self, cache: &CompiledCache, digest: &str, engine: &Engine) -> Result<Component> {
        match self {
            Self::Here(component) => {
                if let Ok(compiled) = component.serialize() {
                    cache.put(digest, engine, &compiled);
                }
                Ok(component)
            }
            Self::ByChild(compiled, engine) => {
                let component = compiled.component(&engine)?;
                cache.put(digest, &engine, compiled.bytes());
                Ok(component)
            }
        }
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
