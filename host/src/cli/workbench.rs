use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::policy::{CompiledCache, Compiler, Engine, Loaded, Loader, Metrics, Order, Rejected};

/// The controller's own sandbox, on an author's desk.
pub(super) struct Workbench {
    loader: Loader,
}

impl Workbench {
    pub(super) fn new() -> Result<Self> {
        let loader = Loader::new(Engine::new()?, Compiler::this_program()?, Metrics::default());
        // Compiling Python takes ten seconds, and an author does it again and again. Without a home it is done each time.
        let cache = cache_folder().and_then(|folder| CompiledCache::open(&folder).ok());
        Ok(Self { loader: loader.keeping(cache) })
    }

    /// Opens a component as far as what it says of itself.
    pub(super) async fn open(&self, file: &Path) -> Result<Loaded> {
        let opened = self.loader.open(component(file)?).await;
        opened.with_context(|| format!("{} is refused", file.display()))
    }

    /// The same component with a configuration.
    pub(super) async fn configure(
        &self,
        opened: &Loaded,
        config: &str,
    ) -> Result<Loaded, Rejected> {
        let order = Order { config: config.to_owned(), ..Order::of(opened.kind()) };
        self.loader.configure(opened, &order).await
    }
}

pub(super) fn component(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).with_context(|| format!("cannot read component {}", file.display()))
}

fn cache_folder() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(base.join("capmaas").join("compiled-policies"))
}
