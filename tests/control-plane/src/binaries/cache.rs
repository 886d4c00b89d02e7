//! The cache outside the tree: one folder per module, named after everything that goes into its programs.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow};
use sha2::{Digest, Sha256};

use super::modules::Module;
use super::progress::Progress;
use super::{go, source};

/// Holds the hash of a module's sources: with it an entry is found again where no Go is installed.
const SOURCES: &str = "sources.sha256";

pub(super) struct Cache {
    path: PathBuf,
    /// `go version`, or why there is none.
    go: std::result::Result<String, String>,
}

/// The folder of one module.
pub(super) struct Entry {
    path: PathBuf,
}

impl Entry {
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.path
    }
}

impl Cache {
    pub(super) fn open() -> Result<Self> {
        let path = root()?.join("control-plane");
        std::fs::create_dir_all(&path)
            .with_context(|| format!("create the cache {}", path.display()))?;
        let go = go::version().map_err(|error| format!("{error:#}"));
        Ok(Self { path, go })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until no other process builds.
    pub(super) fn lock(&self, progress: &Progress) -> Result<File> {
        let path = self.path.join(".lock");
        let file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
        if file.try_lock().is_err() {
            let step = progress.step("waiting", "another process builds");
            file.lock().with_context(|| format!("lock {}", path.display()))?;
            step.done();
        }
        Ok(file)
    }

    /// The folder into which a module is to be built.
    pub(super) fn entry(&self, module: &Module) -> Result<Entry> {
        if let Some(entry) = self.existing(module)? {
            return Ok(entry);
        }
        let version = self.go.as_ref().map_err(|error| anyhow!("{error}"))?;
        let sources = sources(module)?;
        let path = self.path.join(folder(module, &sources, version));
        std::fs::create_dir_all(&path)?;
        std::fs::write(path.join(SOURCES), sources)?;
        Ok(Entry { path })
    }

    /// The folder of a module if there is one. Without Go, one that any version of Go has built is good enough.
    pub(super) fn existing(&self, module: &Module) -> Result<Option<Entry>> {
        let sources = sources(module)?;
        if let Ok(version) = &self.go {
            let path = self.path.join(folder(module, &sources, version));
            return Ok(path.join(SOURCES).is_file().then_some(Entry { path }));
        }
        let prefix = format!("{}-", module.name);
        let mut newest: Option<(SystemTime, PathBuf)> = None;
        for entry in std::fs::read_dir(&self.path)? {
            let entry = entry?;
            let same =
                std::fs::read_to_string(entry.path().join(SOURCES)).is_ok_and(|s| s == sources);
            if same && entry.file_name().to_string_lossy().starts_with(&prefix) {
                let age = entry.metadata()?.modified()?;
                if newest.as_ref().is_none_or(|(best, _)| age > *best) {
                    newest = Some((age, entry.path()));
                }
            }
        }
        Ok(newest.map(|(_, path)| Entry { path }))
    }
}

/// `$CAPMAAS_CACHE`, else `capmaas` in the user's cache folder.
fn root() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let path = set("CAPMAAS_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("capmaas")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/capmaas")))
        .context("no place for the cache: set CAPMAAS_CACHE")?;
    Ok(std::path::absolute(path)?)
}

fn sources(module: &Module) -> Result<String> {
    let mut hash = Sha256::new();
    for file in ["go.mod", "go.sum"] {
        let path = source(module).join(file);
        hash.update(std::fs::read(&path).with_context(|| format!("read {}", path.display()))?);
        hash.update([0]);
    }
    hash.update(module.ldflags);
    Ok(hex(&hash.finalize()))
}

fn folder(module: &Module, sources: &str, go: &str) -> String {
    let digest = hex(&Sha256::digest(format!("{sources}\n{go}")));
    format!("{}-{}", module.name, &digest[..16])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
