//! Compiled components: each once, however many policies are made of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Instant;

use anyhow::{Result, bail};
use wasmtime::component::Component;

use super::cache::CompiledCache;
use super::compile::{Compiled, Compiler};
use super::engine::Engine;
use super::load::aside;
use super::metrics::Metrics;
use super::shares::Shares;

/// Components that are compiled at once.
const COMPILERS: usize = 2;
/// Those of one namespace: a component that takes a minute to compile holds up no other namespace.
const OF_A_NAMESPACE: usize = 1;
/// What the compiled code of all components may take unless something else is said, MiB. That of a Python policy takes
/// 34 MiB (componentize-py 0.25), that of a Rust policy half of one.
pub const MOST_CODE_MIB: usize = 512;

/// Compiles, and shares what is compiled.
#[derive(Clone)]
pub(super) struct Components {
    engine: Engine,
    compiler: Compiler,
    compilers: Arc<Shares>,
    shelf: Arc<Mutex<Shelf>>,
    cache: Option<Arc<CompiledCache>>,
    /// What all that is on the shelf may take, bytes.
    most_code: usize,
    metrics: Metrics,
}

/// What is compiled, by digest, for as long as a policy is made of it; and who compiles now.
#[derive(Default)]
struct Shelf {
    compiled: HashMap<String, Weak<Component>>,
    under_way: HashMap<String, Weak<tokio::sync::Mutex<()>>>,
}

impl Shelf {
    /// What the compiled code takes of all components that are in use, bytes.
    fn taken(&mut self) -> usize {
        self.compiled.retain(|_, compiled| compiled.strong_count() > 0);
        self.compiled.values().filter_map(Weak::upgrade).map(|component| size(&component)).sum()
    }
}

/// What its compiled code takes, bytes.
pub(super) fn size(component: &Component) -> usize {
    let code = component.image_range();
    code.end.addr() - code.start.addr()
}

/// A component's bytes.
pub(super) enum Bytes {
    /// Our own.
    BuiltIn(&'static [u8]),
    /// Anybody's.
    Foreign(bytes::Bytes),
}

impl Bytes {
    pub(super) fn as_slice(&self) -> &[u8] {
        match self {
            Self::BuiltIn(bytes) => bytes,
            Self::Foreign(bytes) => bytes,
        }
    }
}

impl Components {
    pub(super) fn new(engine: Engine, compiler: Compiler, metrics: Metrics) -> Self {
        let compilers = Arc::new(Shares::new(COMPILERS, OF_A_NAMESPACE));
        let (shelf, cache, most_code) = (Arc::default(), None, MOST_CODE_MIB << 20);
        Self { engine, compiler, compilers, shelf, cache, most_code, metrics }
    }

    /// The same, that keeps what it compiles.
    pub(super) fn keeping(self, cache: Option<CompiledCache>) -> Self {
        Self { cache: cache.map(Arc::new), ..self }
    }

    /// The same, with so much room for compiled code, bytes.
    pub(super) fn within(self, most_code: usize) -> Self {
        Self { most_code, ..self }
    }

    /// The compiled component: from the shelf, or compiled now, by one of those who want it.
    pub(super) async fn get(
        &self,
        digest: &str,
        bytes: Bytes,
        namespace: &str,
    ) -> Result<Arc<Component>> {
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
        let ours = matches!(bytes, Bytes::BuiltIn(_));
        let component = Arc::new(self.kept_or_compiled(digest, bytes, namespace).await?);
        let mut shelf = self.shelf();
        shelf.under_way.retain(|_, turn| turn.strong_count() > 0);
        let taken = shelf.taken();
        let (wanted, most) = (size(&component), self.most_code);
        if !ours && taken + wanted > most {
            let mib = |bytes: usize| bytes.div_ceil(1 << 20);
            bail!(
                "its compiled code takes {} MiB, and of the {} MiB for all policies {} are taken: delete policies \
                 that nobody names, or give the controller a larger --policy-code-limit",
                mib(wanted),
                mib(most),
                mib(taken)
            );
        }
        shelf.compiled.insert(digest.to_owned(), Arc::downgrade(&component));
        Ok(component)
    }

    async fn kept_or_compiled(
        &self,
        digest: &str,
        bytes: Bytes,
        namespace: &str,
    ) -> Result<Component> {
        let Some(cache) = self.cache.clone() else {
            return self.compile(bytes, namespace).await?.load().await;
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
        let fresh = self.compile(bytes, namespace).await?;
        let engine = self.engine.clone();
        aside(move || fresh.keep(&cache, &of, &engine)).await
    }

    async fn compile(&self, bytes: Bytes, namespace: &str) -> Result<Fresh> {
        let engine = self.engine.clone();
        match bytes {
            Bytes::BuiltIn(bytes) => {
                let compile = move || Component::new(&engine.wasm, bytes).map_err(Into::into);
                Ok(Fresh::Here(aside(compile).await?))
            }
            Bytes::Foreign(bytes) => {
                let _place = self.compilers.take(namespace).await;
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
