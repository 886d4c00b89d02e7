use std::fmt;
use std::str::FromStr;

use url::Url;

use super::digest::Digest;
use super::error::{Category, Error, Result};

/// The longest reference that is looked at, bytes: a host (253), a port, a repository (255), a tag (128) and a digest.
const LONGEST: usize = 1024;
/// What Docker calls its own registry.
const DOCKER_HUB: &str = "docker.io";

/// Where an artifact is: `registry.example.com:5000/team/policy:1.2@sha256:…`.
///
/// Written as for `docker pull`: without a host, Docker Hub's is meant; without tag and digest, the tag `latest`. Where there
/// is a digest, the tag is for the reader only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

impl Reference {
    /// The registry as it is written in credentials: `host` or `host:port`; Docker Hub's is `docker.io`.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The name within the registry.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag, if there is one, else `latest`.
    pub fn tag(&self) -> &str {
        self.tag.as_deref().unwrap_or("latest")
    }

    /// The digest of the manifest, if it is pinned.
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// The same, pinned to a manifest.
    #[must_use]
    pub fn at(&self, digest: Digest) -> Self {
        Self { digest: Some(digest), ..self.clone() }
    }

    /// Whether there is a tag that can be written.
    pub(super) fn has_tag(&self) -> bool {
        self.tag.is_some() || self.digest.is_none()
    }

    /// The host (and port) that serves the registry's API.
    pub(super) fn server(&self) -> &str {
        if self.registry == DOCKER_HUB { "registry-1.docker.io" } else { &self.registry }
    }
}

impl FromStr for Reference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.len() > LONGEST {
            return bad("the reference is longer than 1024 bytes");
        }
        if text.contains("://") {
            return bad(
                "write the reference without a scheme, as registry.example.com/team/policy",
            );
        }
        let (name, digest) = match text.split_once('@') {
            // The part before it may be a password: nothing of such a text is shown.
            Some((_, rest)) if rest.contains('@') || !rest.starts_with("sha256:") => {
                return bad(
                    "after an @ only a digest may follow (sha256:…): credentials belong into the Secret",
                );
            }
            Some((name, digest)) => (name, Some(digest.parse()?)),
            None => (text, None),
        };
        let (registry, path) = split_host(name);
        let (repository, tag) = match path.split_once(':') {
            Some((repository, tag)) => (repository, Some(tag)),
            None => (path, None),
        };
        check_host(registry)?;
        let (registry, hub) = match registry {
            DOCKER_HUB | "index.docker.io" | "registry-1.docker.io" => (DOCKER_HUB, true),
            other => (other, false),
        };
        let official = hub && !repository.is_empty() && !repository.contains('/');
        let repository =
            if official { format!("library/{repository}") } else { repository.to_owned() };
        check_repository(&repository)?;
        tag.map_or(Ok(()), check_tag)?;
        Ok(Self {
            registry: registry.to_owned(),
            repository,
            tag: tag.map(ToOwned::to_owned),
            digest,
        })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        match (&self.tag, &self.digest) {
            (None, Some(_)) => {}
            _ => write!(f, ":{}", self.tag())?,
        }
        self.digest.as_ref().map_or(Ok(()), |digest| write!(f, "@{digest}"))
    }
}

fn bad<T>(why: impl AsRef<str>) -> Result<T> {
    Err(Error::new(Category::BadReference, why))
}

/// The first part is a host when it looks like one: this is Docker's rule, and everybody's habit.
fn split_host(name: &str) -> (&str, &str) {
    match name.split_once('/') {
        Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => (host, path),
        _ => (DOCKER_HUB, name),
    }
}

fn check_host(host: &str) -> Result<()> {
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => {
            if address.parse::<std::net::Ipv6Addr>().is_err() {
                return bad(format!("{address:?} is no IPv6 address"));
            }
            (None, rest.strip_prefix(':').or_else(|| (!rest.is_empty()).then_some("")))
        }
        None => match host.split_once(':') {
            Some((name, port)) => (Some(name), Some(port)),
            None => (Some(host), None),
        },
    };
    if name.is_some_and(|name| !is_host_name(name)) {
        return bad(format!("{host:?} is no host of a registry"));
    }
    // Zeros in front would make another key of credentials, and a text of any length.
    let number = |port: &str| port.starts_with(|c: char| matches!(c, '1'..='9'));
    if port.is_some_and(|port| !number(port) || port.parse::<u16>().is_err()) {
        return bad(format!("{host:?} has no valid port"));
    }
    Ok(())
}

fn is_host_name(name: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    // Browsers' rules make numbers of some names, such as 127.1: credentials are looked up by what is written.
    let same = |url: Url| url.host_str().is_some_and(|host| host.eq_ignore_ascii_case(name));
    name.len() <= 253
        && name.split('.').all(label)
        && Url::parse(&format!("https://{name}/")).is_ok_and(same)
}

/// The grammar of repository names (OCI distribution specification 1.1, "Pulling manifests").
fn check_repository(name: &str) -> Result<()> {
    if name.is_empty() {
        return bad("the reference names no repository after the registry");
    }
    if name.len() > 255 {
        return bad("the name of the repository is longer than 255 characters");
    }
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let part = |part: &str| {
        let bytes = part.as_bytes();
        let ends = [bytes.first(), bytes.last()];
        let runs = part.split(|c: char| c.is_ascii() && alphanumeric(c as u8));
        ends.iter().all(|end| end.is_some_and(|b| alphanumeric(*b)))
            && runs
                .filter(|run| !run.is_empty())
                .all(|run| [".", "_", "__"].contains(&run) || run.bytes().all(|b| b == b'-'))
    };
    if name.split('/').all(part) {
        return Ok(());
    }
    bad(format!(
        "{name:?} is no name of a repository: lower-case letters and digits, separated by single dots, hyphens, one or two \
         underscores, or slashes"
    ))
}

fn check_tag(tag: &str) -> Result<()> {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let first = tag.bytes().next().is_some_and(word);
    if first && tag.len() <= 128 && tag.bytes().all(|b| word(b) || b == b'.' || b == b'-') {
        return Ok(());
    }
    bad(format!(
        "{tag:?} is no tag: at most 128 letters, digits, dots, hyphens and underscores, and neither dot nor hyphen in front"
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Category, Digest, Reference, Url};

    fn parsed(text: &str) -> Reference {
        text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    #[test]
    fn host_port_tag_and_digest_are_told_apart() {
        let digest = Digest::of(b"x");
        for (text, registry, repository, tag, pinned) in [
            (
                "registry.example.com:5000/team/policy",
                "registry.example.com:5000",
                "team/policy",
                "latest",
                false,
            ),
            (
                "registry.example.com:5000/team/policy:1.2_x-y",
                "registry.example.com:5000",
                "team/policy",
                "1.2_x-y",
                false,
            ),
            (&format!("ghcr.io/a/b/c@{digest}"), "ghcr.io", "a/b/c", "latest", true),
            (&format!("ghcr.io/a/b:v1@{digest}"), "ghcr.io", "a/b", "v1", true),
            ("localhost/a", "localhost", "a", "latest", false),
            ("[::1]:5000/a__b/c--d", "[::1]:5000", "a__b/c--d", "latest", false),
            ("[::1]/a", "[::1]", "a", "latest", false),
            ("policy", "docker.io", "library/policy", "latest", false),
            ("policy:1", "docker.io", "library/policy", "1", false),
            ("team/policy", "docker.io", "team/policy", "latest", false),
            ("docker.io/policy", "docker.io", "library/policy", "latest", false),
            ("index.docker.io/team/policy", "docker.io", "team/policy", "latest", false),
        ] {
            let found = parsed(text);
            assert_eq!(found.registry(), registry, "{text}");
            assert_eq!(found.repository(), repository, "{text}");
            assert_eq!(found.tag(), tag, "{text}");
            assert_eq!(found.digest().is_some(), pinned, "{text}");
            assert_eq!(
                parsed(&found.to_string()),
                Reference {
                    tag: found.tag.clone().or((!pinned).then(|| "latest".into())),
                    ..found
                },
                "{text}"
            );
        }
        assert_eq!(parsed("policy").server(), "registry-1.docker.io");
        assert_eq!(parsed("ghcr.io/policy").server(), "ghcr.io");
    }

    #[test]
    fn what_is_no_reference_is_refused_with_words() {
        for (text, words) in [
            ("", "names no repository"),
            ("ghcr.io/", "names no repository"),
            ("oci://ghcr.io/a/b", "without a scheme"),
            ("ghcr.io/Team/policy", "lower-case"),
            ("ghcr.io/a//b", "lower-case"),
            ("ghcr.io/a/../b", "lower-case"),
            ("ghcr.io/a___b", "lower-case"),
            ("ghcr.io/a/b?x=y", "lower-case"),
            ("ghcr.io/ä", "lower-case"),
            ("ghcr.io/a:", "no tag"),
            ("ghcr.io/a:.x", "no tag"),
            ("ghcr.io/a:b:c", "no tag"),
            ("ghcr.io:0/a", "valid port"),
            ("ghcr.io:+5/a", "valid port"),
            ("ghcr.io:0443/a", "valid port"),
            ("ghcr.io:/a", "valid port"),
            ("ghcr.io:99999/a", "valid port"),
            ("gh_cr.io/a", "no host"),
            ("-a.io/a", "no host"),
            ("127.1/a", "no host"),
            ("a.5/a", "no host"),
            ("[::g]/a", "no IPv6"),
            ("[::1]x/a", "valid port"),
            ("ghcr.io/a@sha512:00", "only a digest"),
            ("ghcr.io/a@sha256:00", "64"),
        ] {
            let error = text.parse::<Reference>().expect_err(text);
            assert_eq!(error.category(), Category::BadReference);
            assert!(error.message().contains(words), "{text}: {error}");
        }
        assert!("a".repeat(2000).parse::<Reference>().is_err());
        // `library/` is part of the name that the registry is asked for.
        assert_eq!(parsed(&"a".repeat(247)).repository().len(), 255);
        let error = "a".repeat(248).parse::<Reference>().unwrap_err();
        assert!(error.message().contains("longer than 255"), "{error}");
        assert!(
            format!("ghcr.io/a@{}", Digest::of(b"").to_string().to_uppercase())
                .parse::<Reference>()
                .is_err()
        );
    }

    #[test]
    fn a_password_in_a_reference_is_not_shown() {
        let error = "user:hunter2@ghcr.io/a/b".parse::<Reference>().unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_so_that_it_is_read_again(text in "[a-z:/@.0-9_-]{0,40}|.*") {
            if let Ok(found) = text.parse::<Reference>() {
                let again = parsed(&found.to_string());
                prop_assert_eq!(again.to_string(), found.to_string());
                prop_assert_eq!((again.registry(), again.repository()), (found.registry(), found.repository()));
                let url = format!("https://{}/v2/{}/", found.server(), found.repository());
                prop_assert!(Url::parse(&url).is_ok(), "{}", url);
            }
        }
    }
}
