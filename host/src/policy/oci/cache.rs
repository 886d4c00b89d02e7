use std::io::{Read, Write};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirBuilder, OpenOptions};
use rand::Rng as _;

use super::artifact::LARGEST_LAYER;
use super::digest::Digest;

const BLOBS: &str = "blobs/sha256";
/// What is being written; a rename makes an entry of it.
const INCOMING: &str = "incoming";
/// When what was being written is nobody's any more: far longer than writing takes.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Manifests and components that were fetched once, in a folder, under their digests.
///
/// It makes a restart independent of the registry. It is no secret store: whoever may name a digest gets what is kept under
/// it, whatever credentials it was fetched with. What is read is hashed again, so a damaged entry is as good as none, and so
/// is any failure: the registry is asked then. Several processes may use one folder.
#[derive(Clone, Debug)]
pub struct Cache {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    dir: Dir,
    limit: u64,
}

impl Cache {
    /// How much is kept unless something else is said, bytes.
    pub const DEFAULT_LIMIT: u64 = 512 << 20;

    /// Opens the folder, or makes it, for this user alone. At most `limit` bytes are kept: what was not used for longest
    /// goes first.
    ///
    /// # Errors
    /// When it cannot be made or written to.
    pub fn open(path: &Path, limit: u64) -> Result<Self> {
        let mut private = std::fs::DirBuilder::new();
        let shown = || format!("the policy cache {}", path.display());
        private.recursive(true).mode(0o700).create(path).with_context(shown)?;
        let dir = Dir::open_ambient_dir(path, ambient_authority()).with_context(shown)?;
        for folder in ["blobs", BLOBS, INCOMING] {
            let mut private = DirBuilder::new();
            cap_std::fs::DirBuilderExt::mode(&mut private, 0o700);
            match dir.create_dir_with(folder, &private) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                made => made.with_context(shown)?,
            }
        }
        let inner = Inner { dir, limit };
        inner.make_room().with_context(shown)?;
        Ok(Self { inner: Arc::new(inner) })
    }

    /// What is kept under a digest.
    pub(in crate::policy) async fn get(&self, digest: &Digest) -> Option<Vec<u8>> {
        let (inner, digest) = (self.inner.clone(), digest.clone());
        tokio::task::spawn_blocking(move || inner.get(&digest)).await.ok().flatten()
    }

    /// Keeps these bytes under their digest.
    pub(in crate::policy) async fn put(&self, digest: &Digest, bytes: bytes::Bytes) {
        let (inner, digest) = (self.inner.clone(), digest.clone());
        let kept = tokio::task::spawn_blocking(move || inner.put(&digest, &bytes)).await;
        if let Ok(Err(error)) = kept {
            tracing::warn!(
                error = format!("{error:#}"),
                "a policy could not be put into the cache"
            );
        }
    }
}

impl Inner {
    fn get(&self, digest: &Digest) -> Option<Vec<u8>> {
        let name = format!("{BLOBS}/{}", digest.hex());
        let file = self.dir.open(&name).ok()?.into_std();
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        // Who was used last is seen by this time, since many file systems do not keep that of reading. A cache that cannot
        // be written to still serves.
        let _ = file.set_modified(SystemTime::now());
        let mut bytes = Vec::new();
        file.take(LARGEST_LAYER as u64 + 1).read_to_end(&mut bytes).ok()?;
        if Digest::of(&bytes) == *digest {
            return Some(bytes);
        }
        tracing::warn!(%digest, "an entry of the policy cache is damaged and is dropped");
        let _ = self.dir.remove_file(&name);
        None
    }

    fn put(&self, digest: &Digest, bytes: &[u8]) -> Result<()> {
        if bytes.len() as u64 > self.limit {
            return Ok(());
        }
        let incoming = format!("{INCOMING}/{}-{:016x}", digest.hex(), rand::rng().random::<u64>());
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        cap_std::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let written = self.dir.open_with(&incoming, &options).and_then(|mut file| {
            file.write_all(bytes)?;
            self.dir.rename(&incoming, &self.dir, format!("{BLOBS}/{}", digest.hex()))
        });
        if written.is_err() {
            let _ = self.dir.remove_file(&incoming);
        }
        written?;
        self.make_room()
    }

    /// Another process may do the same at the same time: whoever finds a file gone already is content.
    fn make_room(&self) -> Result<()> {
        for (name, _, modified) in self.files(INCOMING)? {
            if modified.elapsed().is_ok_and(|age| age > ABANDONED) {
                let _ = self.dir.remove_file(format!("{INCOMING}/{name}"));
            }
        }
        let mut kept = self.files(BLOBS)?;
        kept.sort_by_key(|(_, _, modified)| *modified);
        let mut sum: u64 = kept.iter().map(|(_, size, _)| size).sum();
        for (name, size, _) in kept {
            if sum <= self.limit {
                break;
            }
            let _ = self.dir.remove_file(format!("{BLOBS}/{name}"));
            sum -= size;
        }
        Ok(())
    }

    /// Name, size and time of all files in one of our folders.
    fn files(&self, folder: &str) -> Result<Vec<(String, u64, SystemTime)>> {
        let mut found = Vec::new();
        for entry in self.dir.read_dir(folder)? {
            let entry = entry?;
            let Ok(metadata) = entry.metadata() else { continue };
            let Ok(modified) = metadata.modified() else { continue };
            let name = entry.file_name().to_string_lossy().into_owned();
            if metadata.is_file() {
                found.push((name, metadata.len(), modified.into_std()));
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::{Path, PathBuf};
    use std::time::{Duration, SystemTime};

    use super::{Cache, Digest};

    fn file(folder: &Path, bytes: &[u8]) -> PathBuf {
        folder.join("blobs/sha256").join(Digest::of(bytes).hex())
    }

    fn age(folder: &Path, bytes: &[u8], hours: u64) {
        let file = std::fs::File::open(file(folder, bytes)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(hours * 3600)).unwrap();
    }

    async fn put(cache: &Cache, bytes: &'static [u8]) {
        cache.put(&Digest::of(bytes), bytes.into()).await;
    }

    async fn get(cache: &Cache, bytes: &[u8]) -> Option<Vec<u8>> {
        cache.get(&Digest::of(bytes)).await
    }

    #[tokio::test]
    async fn what_was_kept_is_found_by_another_process_and_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        let cache = Cache::open(&path, 100).unwrap();
        assert_eq!(get(&cache, b"one").await, None);
        put(&cache, b"one").await;
        put(&cache, b"one").await;
        let other = Cache::open(&path, 100).unwrap();
        assert_eq!(get(&other, b"one").await.unwrap(), b"one");
        for folder in
            [&path, &path.join("blobs"), &path.join("blobs/sha256"), &path.join("incoming")]
        {
            let mode = std::fs::metadata(folder).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{}", folder.display());
        }
        assert_eq!(std::fs::read_dir(path.join("incoming")).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_damaged_entry_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path(), 1000).unwrap();
        for damage in [&b"two"[..], b"", &[0; 500]] {
            put(&cache, b"one").await;
            std::fs::write(file(folder.path(), b"one"), damage).unwrap();
            assert_eq!(get(&cache, b"one").await, None);
            assert!(!file(folder.path(), b"one").exists());
        }
    }

    #[tokio::test]
    async fn what_was_not_used_for_longest_goes_first() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path(), 10).unwrap();
        put(&cache, b"one").await;
        put(&cache, b"two").await;
        put(&cache, b"six").await;
        age(folder.path(), b"one", 2);
        age(folder.path(), b"two", 1);
        assert!(get(&cache, b"one").await.is_some(), "used just now");
        put(&cache, b"ten").await;
        assert_eq!(get(&cache, b"two").await, None);
        for kept in [b"one", b"six", b"ten"] {
            assert!(get(&cache, kept).await.is_some());
        }
        put(&cache, b"more than fits").await;
        assert_eq!(get(&cache, b"more than fits").await, None);
        assert!(get(&cache, b"one").await.is_some(), "nothing went for what cannot be kept");
        Cache::open(folder.path(), 3).unwrap();
        assert_eq!(std::fs::read_dir(folder.path().join("blobs/sha256")).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn what_a_dead_process_was_writing_is_removed_in_time() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path(), 100).unwrap();
        for (name, hours) in [("old", 2), ("new", 0)] {
            let file = std::fs::File::create(folder.path().join("incoming").join(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(hours * 3600)).unwrap();
        }
        put(&cache, b"one").await;
        assert!(!folder.path().join("incoming/old").exists());
        assert!(folder.path().join("incoming/new").exists());
    }

    #[tokio::test]
    async fn no_link_leads_out_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let outside = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(outside.path(), "one").unwrap();
        let cache = Cache::open(folder.path(), 100).unwrap();
        std::os::unix::fs::symlink(outside.path(), file(folder.path(), b"one")).unwrap();
        assert_eq!(get(&cache, b"one").await, None);
    }
}
