//! Compiled components on disk, so that a restart need not compile them again: Python takes ten seconds.
//!
//! What is in here is machine code, and is run as it is. So nothing is ever put in but by this program, and the folder has to
//! be the program's own: made by it with mode 0700, or at least owned by its user and writable by nobody else. An entry also
//! carries its own hash, for a disk may be full or a machine lose power in the middle of it.

use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use sha2::{Digest, Sha256};

use super::compile::LARGEST;
use super::engine::Engine;

/// Bytes of all entries together; the ones that were used longest ago go.
const MOST: u64 = 512 << 20;
/// Length of a SHA-256.
const HASH: usize = 32;

/// A folder of compiled components.
pub struct CompiledCache {
    dir: Dir,
}

impl CompiledCache {
    /// Opens the folder, and makes it if it is not there.
    ///
    /// # Errors
    /// When that is not possible, or others may write into it.
    pub fn open(path: &Path) -> Result<Self> {
        let shown = path.display();
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .with_context(|| format!("--policy-cache {shown} cannot be made"))?;
        let meta = std::fs::metadata(path)?;
        let ours = std::fs::metadata("/proc/self").map_or(meta.uid(), |this| this.uid());
        if meta.uid() != ours || meta.mode() & 0o022 != 0 {
            bail!(
                "--policy-cache {shown} belongs to somebody else, or others may write into it, and \
                 what is in it is run as it is: give a folder of one's own (chmod 700)"
            );
        }
        let dir = Dir::open_ambient_dir(path, ambient_authority())
            .with_context(|| format!("--policy-cache {shown} cannot be opened"))?;
        Ok(Self { dir })
    }

    /// What was compiled of the component with this digest, for this engine. A damaged entry is none.
    pub(super) fn get(&self, digest: &str, engine: &Engine) -> Option<Vec<u8>> {
        let name = name(digest, engine);
        let file = self.dir.open(&name).ok()?;
        let mut bytes = Vec::new();
        file.take(LARGEST + HASH as u64).read_to_end(&mut bytes).ok()?;
        let compiled = bytes.split_off(bytes.len().min(HASH));
        if bytes != Sha256::digest(&compiled).as_slice() {
            let _ = self.dir.remove_file(&name);
            return None;
        }
        // Used now: others go before it.
        if let Ok(file) = self.dir.open(&name) {
            let _ = file.into_std().set_modified(SystemTime::now());
        }
        Some(compiled)
    }

    /// Keeps what was compiled. It is a cache: what cannot be kept is compiled again.
    pub(super) fn put(&self, digest: &str, engine: &Engine, compiled: &[u8]) {
        if let Err(error) = self.write(&name(digest, engine), compiled) {
            tracing::warn!(error = format!("{error:#}"), "a compiled policy is not kept");
        }
    }

    fn write(&self, name: &str, compiled: &[u8]) -> Result<()> {
        self.make_room(compiled.len() as u64)?;
        write_whole(&self.dir, name, &[&Sha256::digest(compiled), compiled])
    }

    fn make_room(&self, length: u64) -> Result<()> {
        let entries = oldest_first(&self.dir)?;
        let mut total: u64 = entries.iter().map(|(_, length, _)| length).sum();
        for (_, its, name) in entries {
            if total + length <= MOST {
                break;
            }
            // Another process may have been faster.
            let _ = self.dir.remove_file(name);
            total -= its;
        }
        Ok(())
    }
}

/// Writes a file so that it is never seen half-written, and never by two at once.
pub(super) fn write_whole(dir: &Dir, name: &str, parts: &[&[u8]]) -> Result<()> {
    let passing = format!("{name}.{}", std::process::id());
    let mut file = dir.create(&passing)?;
    parts.iter().try_for_each(|part| file.write_all(part))?;
    dir.rename(&passing, dir, name)?;
    Ok(())
}

/// When each file was last written, how long it is, and its name.
pub(super) fn oldest_first(dir: &Dir) -> Result<Vec<(SystemTime, u64, OsString)>> {
    let mut entries = Vec::new();
    for entry in dir.entries()? {
        let entry = entry?;
        let meta = entry.metadata()?;
        entries.push((meta.modified()?.into_std(), meta.len(), entry.file_name()));
    }
    entries.sort();
    Ok(entries)
}

/// Another version of wasmtime, or other settings, make another entry.
fn name(digest: &str, engine: &Engine) -> String {
    let mut hasher = DefaultHasher::new();
    engine.wasm.precompile_compatibility_hash().hash(&mut hasher);
    let hex = digest.strip_prefix("sha256:").unwrap_or(digest);
    format!("{hex}-{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_was_compiled_is_found_again_and_what_is_damaged_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache");
        let engine = Engine::new().unwrap();
        let cache = CompiledCache::open(&path).unwrap();
        assert_eq!(cache.get("sha256:ab", &engine), None);
        cache.put("sha256:ab", &engine, b"machine code");
        assert_eq!(cache.get("sha256:ab", &engine).unwrap(), b"machine code");
        let file = std::fs::read_dir(&path).unwrap().next().unwrap().unwrap().path();
        let mut bytes = std::fs::read(&file).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&file, bytes).unwrap();
        assert_eq!(cache.get("sha256:ab", &engine), None);
        assert!(!file.exists(), "it is compiled again");
    }

    #[test]
    fn a_folder_that_others_may_write_into_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let error = CompiledCache::open(folder.path()).err().unwrap().to_string();
        assert!(error.contains("others may write") && error.contains("chmod 700"), "{error}");
    }
}
