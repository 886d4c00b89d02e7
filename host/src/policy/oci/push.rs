use std::collections::BTreeMap;

use bytes::Bytes;
use reqwest::header::LOCATION;
use reqwest::{Method, Url};

use super::Access;
use super::artifact::{Artifact, MANIFEST};
use super::digest::Digest;
use super::error::{Category, Error, Result};
use super::reference::Reference;
use super::session::{Action, Session};
use super::transport::{Answer, Ask, Follow, host, unreachable};

/// Writes a policy under the reference's tag, and returns the digest of its manifest: the same one for the same component
/// and annotations, at any time. A reference with a digest and no tag writes under that digest alone.
///
/// # Errors
/// When it is no component, the registry refuses, or the reference has another digest. See [`Category`].
pub async fn push(
    reference: &Reference,
    access: &Access,
    wasm: Vec<u8>,
    annotations: &BTreeMap<String, String>,
) -> Result<Digest> {
    access.timeouts.allow(reference, write(reference, access, wasm, annotations)).await
}

async fn write(
    reference: &Reference,
    access: &Access,
    wasm: Vec<u8>,
    annotations: &BTreeMap<String, String>,
) -> Result<Digest> {
    let artifact = Artifact::of(&wasm, annotations)?;
    let digest = Digest::of(&artifact.manifest);
    if reference.digest().is_some_and(|wanted| *wanted != digest) {
        let why =
            format!("what would be pushed has the digest {digest}, not the one of the reference");
        return Err(Error::new(Category::BadReference, why));
    }
    let mut session = Session::new(reference, access, Action::Push)?;
    blob(&mut session, wasm.into()).await?;
    blob(&mut session, artifact.config.into()).await?;
    let name = if reference.has_tag() { reference.tag().to_owned() } else { digest.to_string() };
    let ask = Ask {
        method: Method::PUT,
        url: session.url(&format!("manifests/{name}"))?,
        accept: "*/*",
        body: Some((MANIFEST, artifact.manifest.into())),
        follow: Follow::Nowhere,
    };
    let answer = session.ask(&ask).await?;
    accepted(&session, &answer, "manifest")?;
    Ok(digest)
}

/// Uploads a blob that is not there yet, in one piece.
async fn blob(session: &mut Session<'_>, bytes: Bytes) -> Result<()> {
    let digest = Digest::of(&bytes);
    let head = Ask {
        method: Method::HEAD,
        ..Ask::get(session.url(&format!("blobs/{digest}"))?, "*/*", Follow::Away)
    };
    let answer = session.ask(&head).await?;
    if answer.response.status().is_success() {
        return Ok(());
    }
    let begin = Ask {
        method: Method::POST,
        url: session.url("blobs/uploads/")?,
        accept: "*/*",
        body: Some(("application/octet-stream", Bytes::new())),
        follow: Follow::Nowhere,
    };
    let answer = session.ask(&begin).await?;
    accepted(session, &answer, "upload")?;
    let to = answer.response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
    let mut url = place(&begin.url, to)?;
    url.query_pairs_mut().append_pair("digest", &digest.to_string());
    let upload =
        Ask { method: Method::PUT, url, body: Some(("application/octet-stream", bytes)), ..begin };
    let answer = session.ask(&upload).await?;
    accepted(session, &answer, "blob")
}

/// Where to upload to. It is shown the credentials, so it has to be the registry itself; one behind a proxy that ends TLS
/// often calls itself http, and is asked over TLS all the same.
fn place(registry: &Url, to: Option<&str>) -> Result<Url> {
    let to = to.and_then(|to| registry.join(to).ok());
    let to =
        to.ok_or_else(|| unreachable(format!("{} says no place to upload to", host(registry))))?;
    if to.host() != registry.host() || to.port() != registry.port() {
        let (is, said) = (host(registry), host(&to));
        return Err(unreachable(format!("{is} wants the upload to go to another host, {said}")));
    }
    let mut place = registry.clone();
    place.set_path(to.path());
    place.set_query(to.query());
    Ok(place)
}

fn accepted(session: &Session<'_>, answer: &Answer, what: &str) -> Result<()> {
    if answer.response.status().is_success() { Ok(()) } else { Err(session.refusal(answer, what)) }
}

#[cfg(test)]
mod tests {
    use reqwest::Url;

    use super::{Category, place};

    #[test]
    fn uploads_go_to_the_registry_alone() {
        let registry = Url::parse("https://r.example.com/v2/a/blobs/uploads/").unwrap();
        for to in [
            "/v2/a/blobs/uploads/1?_state=x",
            "1?_state=x",
            "https://r.example.com/v2/a/blobs/uploads/1?_state=x",
            "http://r.example.com/v2/a/blobs/uploads/1?_state=x",
            "https://user:secret@r.example.com:443/v2/a/blobs/uploads/1?_state=x",
        ] {
            let place = place(&registry, Some(to)).unwrap();
            assert_eq!(
                place.as_str(),
                "https://r.example.com/v2/a/blobs/uploads/1?_state=x",
                "{to}"
            );
        }
        for to in [
            None,
            Some("https://other.example.com/x?secret"),
            Some("//other/x"),
            Some("https://r.example.com:8443/x"),
        ] {
            let error = place(&registry, to).unwrap_err();
            assert_eq!(error.category(), Category::Unreachable);
            assert!(!error.message().contains("secret"), "{error}");
        }
    }
}
