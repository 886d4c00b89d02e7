//! Which artifacts a key of a Docker configuration is for.

use super::reference::Reference;

/// A key: a host, possibly with wild cards, a port and the beginning of a path.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    host: String,
    port: Option<String>,
    path: Vec<String>,
}

impl Pattern {
    /// Nothing if the key cannot be one.
    pub(super) fn parse(key: &str) -> Option<Self> {
        let key = key.trim();
        let rest = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://"));
        let (authority, path) = split_at_slash(rest.unwrap_or(key));
        if authority.is_empty() || authority.contains('@') {
            return None;
        }
        let (host, port) = split_port(authority);
        // Docker's first API had its version in the key, and for Docker Hub it still has.
        let path = match split_at_slash(path) {
            ("v1" | "v2", rest) => rest,
            _ => path,
        };
        let path = path.split('/').filter(|part| !part.is_empty()).map(ToOwned::to_owned);
        let host = host.to_ascii_lowercase();
        Some(Self { host, port: port.map(ToOwned::to_owned), path: path.collect() })
    }

    pub(super) fn matches(&self, reference: &Reference) -> bool {
        let hosts = match reference.registry() {
            "docker.io" => &["docker.io", "index.docker.io", "registry-1.docker.io"][..],
            other => &[other],
        };
        let repository: Vec<&str> = reference.repository().split('/').collect();
        hosts.iter().any(|host| self.matches_host(host))
            && repository.len() >= self.path.len()
            && self.path.iter().zip(repository).all(|(wanted, part)| wanted == part)
    }

    /// Smaller for what is more exact.
    pub(super) fn rank(&self) -> (std::cmp::Reverse<usize>, bool) {
        let length = self.path.iter().map(|part| part.len() + 1).sum();
        (std::cmp::Reverse(length), self.host.contains(['*', '?']))
    }

    fn matches_host(&self, registry: &str) -> bool {
        let (host, port) = split_port(registry);
        let host = host.to_ascii_lowercase();
        let (patterns, labels) = (self.host.split('.'), host.split('.'));
        self.port.as_deref() == port
            && patterns.clone().count() == labels.clone().count()
            && patterns.zip(labels).all(|(p, label)| glob(p.as_bytes(), label.as_bytes()))
    }
}

fn split_at_slash(text: &str) -> (&str, &str) {
    text.split_once('/').unwrap_or((text, ""))
}

fn split_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => (host, Some(port)),
        _ => (authority, None),
    }
}

/// `*` is any run of characters, `?` any one. In time proportional to the product of the lengths, whatever the pattern.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&b) if b == b'?' || b == text[t] => (p, t) = (p + 1, t + 1),
            _ => match star {
                // The last star takes one character more.
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    (p, t) = (at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|b| *b == b'*')
}

#[cfg(test)]
mod tests {
    use super::{Pattern, glob};

    #[test]
    fn keys_match_as_in_kubelet_and_paths_part_by_part() {
        for (key, reference, matches) in [
            ("example.com", "example.com/a/b", true),
            ("Example.com", "example.com/a/b", true),
            ("example.com", "sub.example.com/a", false),
            ("example.com", "example.com:5000/a", false),
            ("example.com:5000", "example.com:5000/a", true),
            ("example.com:5000", "example.com/a", false),
            ("https://example.com/v1/", "example.com/a", true),
            ("https://example.com/v2/", "example.com/a", true),
            ("https://example.com/v2/team", "example.com/team/a", true),
            ("http://example.com/", "example.com/a", true),
            ("example.com/team", "example.com/team/a", true),
            ("example.com/team/", "example.com/team/a", true),
            ("example.com/team/a", "example.com/team/a", true),
            ("example.com/team", "example.com/team-b/a", false),
            ("example.com/team/a/b", "example.com/team/a", false),
            ("*.example.com", "a.example.com/x", true),
            ("*.example.com", "example.com/x", false),
            ("*.example.com", "a.b.example.com/x", false),
            ("*.*.example.com", "a.b.example.com/x", true),
            ("*.example.com", "a.example.com:5000/x", false),
            ("reg?.example.com", "reg1.example.com/x", true),
            ("https://index.docker.io/v1/", "policy", true),
            ("index.docker.io", "team/policy", true),
            ("docker.io", "team/policy", true),
            ("docker.io/library", "policy", true),
            ("docker.io/team", "other/policy", false),
            ("https://index.docker.io/v1/", "ghcr.io/a", false),
            ("[::1]:5000", "[::1]:5000/a", true),
        ] {
            let pattern = Pattern::parse(key).expect(key);
            assert_eq!(pattern.matches(&reference.parse().unwrap()), matches, "{key} {reference}");
        }
        for key in ["", "https://", "user@example.com", "/path"] {
            assert!(Pattern::parse(key).is_none(), "{key:?}");
        }
    }

    #[test]
    fn wild_cards_are_quick_whatever_is_asked() {
        assert!(glob(b"a*b*c", b"aXXbYYc"));
        assert!(!glob(b"a*b*c", b"aXXbYY"));
        assert!(glob(b"**", b""));
        assert!(!glob("*a".repeat(200).as_bytes(), "a".repeat(190).as_bytes()));
    }
}
