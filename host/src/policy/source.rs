use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, MetadataExt};

/// Largest component or configuration that is read, bytes.
const LARGEST: u64 = 32 << 20;

/// The folder that policies and their configurations come from. No name and no link leads out.
pub struct PolicyDir {
    dir: Dir,
}

impl PolicyDir {
    /// Opens the folder.
    ///
    /// # Errors
    /// When it does not exist or cannot be read.
    pub fn open(path: &Path) -> Result<Self> {
        let dir = Dir::open_ambient_dir(path, ambient_authority())
            .with_context(|| format!("cannot open --policy-dir {}", path.display()))?;
        Ok(Self { dir })
    }

    /// Reads a file below the folder.
    ///
    /// # Errors
    /// When it is not there, lies outside, or is larger than 32 MiB.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        let file = self.dir.open(name).with_context(|| {
            format!("cannot open {name:?} (policies are read from below --policy-dir only)")
        })?;
        let mut bytes = Vec::new();
        file.take(LARGEST + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > LARGEST {
            bail!("{name:?} is larger than {} MiB", LARGEST >> 20);
        }
        Ok(bytes)
    }

    /// What tells a file from what it was before; `None` when there is none.
    pub fn fingerprint(&self, name: &str) -> Option<Fingerprint> {
        let meta = self.dir.metadata(name).ok()?;
        let modified = meta.modified().ok().map(cap_std::time::SystemTime::into_std);
        Some(Fingerprint { modified, length: meta.len(), place: (meta.dev(), meta.ino()) })
    }
}

/// What tells a file from what it was before, without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    modified: Option<std::time::SystemTime>,
    length: u64,
    /// Device and inode: a file that took the place of another.
    place: (u64, u64),
}

#[cfg(test)]
mod tests {
    use super::PolicyDir;

    #[test]
    fn no_name_and_no_link_leads_out_of_the_folder() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "x").unwrap();
        let inside = tempfile::tempdir().unwrap();
        std::fs::write(inside.path().join("a.wasm"), "a").unwrap();
        std::os::unix::fs::symlink(outside.path().join("secret"), inside.path().join("link"))
            .unwrap();
        let dir = PolicyDir::open(inside.path()).unwrap();
        assert_eq!(dir.read("a.wasm").unwrap(), b"a");
        assert!(dir.read("link").is_err());
        assert!(dir.read("../secret").is_err());
        assert!(dir.read(outside.path().join("secret").to_str().unwrap()).is_err());
    }
}
