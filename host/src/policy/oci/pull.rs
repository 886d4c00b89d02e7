use bytes::Bytes;

use super::Access;
use super::artifact::{self, ACCEPTED, LARGEST_MANIFEST, Layer};
use super::cache::Cache;
use super::digest::Digest;
use super::error::{Category, Error, Result};
use super::reference::Reference;
use super::session::{Action, Session};
use super::transport::Follow;

/// A policy that was pulled, and is what its digests say.
#[derive(Clone, PartialEq, Eq)]
pub struct Pulled {
    /// The digest to pin: the manifest's.
    pub manifest_digest: Digest,
    /// The component, at most 32 MiB.
    pub wasm: Vec<u8>,
}

impl std::fmt::Debug for Pulled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pulled({}, {} bytes)", self.manifest_digest, self.wasm.len())
    }
}

/// Fetches a policy. If the reference has a digest and the cache holds all of it, no registry is asked; if it has a tag
/// alone, the registry is asked which manifest that is now.
///
/// # Errors
/// When it cannot be had, or is not what its digests say, or is no policy. See [`Category`].
pub async fn pull(reference: &Reference, access: &Access, cache: Option<&Cache>) -> Result<Pulled> {
    let kept = Kept(cache);
    let known = match reference.digest() {
        Some(digest) => kept.get(digest).await.map(|manifest| (digest.clone(), manifest)),
        None => None,
    };
    if let Some((digest, manifest)) = &known {
        let layer = artifact::layer_of(manifest).map_err(|e| e.about(&reference.to_string()))?;
        if let Some(wasm) = kept.get(&layer.digest).await {
            check(&layer, &wasm).map_err(|e| e.about(&reference.to_string()))?;
            return Ok(Pulled { manifest_digest: digest.clone(), wasm });
        }
    }
    access.timeouts.allow(reference, fetch(reference, access, known, kept)).await
}

/// Which manifest a tag names now. A reference that has a digest names that one, whatever the registry says.
///
/// # Errors
/// When the registry cannot be asked, or there is no policy under that tag. See [`Category`].
pub async fn resolve(reference: &Reference, access: &Access) -> Result<Digest> {
    if let Some(digest) = reference.digest() {
        return Ok(digest.clone());
    }
    let resolved = async {
        let mut session = Session::new(reference, access, Action::Pull)?;
        let (digest, manifest) = manifest(&mut session, reference).await?;
        artifact::layer_of(&manifest).map(|_| digest)
    };
    access.timeouts.allow(reference, resolved).await
}

async fn fetch(
    reference: &Reference,
    access: &Access,
    known: Option<(Digest, Vec<u8>)>,
    kept: Kept<'_>,
) -> Result<Pulled> {
    let mut session = Session::new(reference, access, Action::Pull)?;
    let (manifest_digest, manifest) = match known {
        Some(known) => known,
        None => manifest(&mut session, reference).await?,
    };
    let layer = artifact::layer_of(&manifest)?;
    kept.put(&manifest_digest, manifest.into()).await;
    if let Some(wasm) = kept.get(&layer.digest).await {
        check(&layer, &wasm)?;
        return Ok(Pulled { manifest_digest, wasm });
    }
    let path = format!("blobs/{}", layer.digest);
    let answer = session.get(&path, "*/*", Follow::Away).await?;
    if answer.response.status() != 200 {
        return Err(session.refusal(&answer, "component, though its manifest is there"));
    }
    let wasm = session.body(answer, layer.size).await.map_err(|error| match error.category() {
        // It is within what is accepted, and more than what the manifest says.
        Category::TooLarge => Error::new(
            Category::DigestMismatch,
            format!("the component is larger than the {} bytes that its manifest says", layer.size),
        ),
        _ => error,
    })?;
    check(&layer, &wasm)?;
    let wasm = Bytes::from(wasm);
    kept.put(&layer.digest, wasm.clone()).await;
    Ok(Pulled { manifest_digest, wasm: wasm.into() })
}

/// The manifest that a reference names, and its digest.
async fn manifest(session: &mut Session<'_>, reference: &Reference) -> Result<(Digest, Vec<u8>)> {
    let name = reference.digest().map_or_else(|| reference.tag().to_owned(), ToString::to_string);
    let path = format!("manifests/{name}");
    let answer = session.get(&path, ACCEPTED, Follow::Home).await?;
    if answer.response.status() != 200 {
        return Err(session.refusal(&answer, "artifact of this name"));
    }
    let said = answer.response.headers().get("docker-content-digest").cloned();
    let manifest = session.body(answer, LARGEST_MANIFEST).await?;
    let digest = Digest::of(&manifest);
    if reference.digest().is_some_and(|pinned| *pinned != digest) {
        return Err(mismatch(&format!("the registry sent the manifest {digest} instead")));
    }
    // Of another algorithm it may say what it likes: ours is what counts.
    let said =
        said.as_ref().and_then(|said| said.to_str().ok()).filter(|s| s.starts_with("sha256:"));
    if said.is_some_and(|said| said != digest.to_string()) {
        return Err(mismatch("the manifest is not what the registry says that it is"));
    }
    Ok((digest, manifest))
}

fn check(layer: &Layer, wasm: &[u8]) -> Result<()> {
    if wasm.len() != layer.size {
        let (is, said) = (wasm.len(), layer.size);
        return Err(mismatch(&format!(
            "the component has {is} bytes, and its manifest says {said}"
        )));
    }
    if Digest::of(wasm) != layer.digest {
        return Err(mismatch("the component is not the one that its manifest names"));
    }
    Ok(())
}

fn mismatch(why: &str) -> Error {
    Error::new(Category::DigestMismatch, why)
}

/// The cache, if there is one.
#[derive(Clone, Copy)]
struct Kept<'a>(Option<&'a Cache>);

impl Kept<'_> {
    async fn get(self, digest: &Digest) -> Option<Vec<u8>> {
        self.0?.get(digest).await
    }

    async fn put(self, digest: &Digest, bytes: Bytes) {
        if let Some(cache) = self.0 {
            cache.put(digest, bytes).await;
        }
    }
}
