//! What a registry asks for: the `WWW-Authenticate` of RFC 9110, section 11.6.1.

use reqwest::header::{HeaderMap, WWW_AUTHENTICATE};

/// Longest header that is looked at, bytes.
const LONGEST: usize = 8 << 10;

/// How a registry wants to be shown credentials.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// A token from the service at this address.
    Bearer {
        /// The address.
        realm: String,
        /// How the token service calls this registry.
        service: Option<String>,
    },
    /// Name and password.
    Basic,
}

impl Challenge {
    /// The best of those that were offered: a token keeps the password from the registry's storage hosts.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let values = headers.get_all(WWW_AUTHENTICATE).iter();
        let texts = values.filter(|value| value.len() <= LONGEST).filter_map(|v| v.to_str().ok());
        let mut basic = None;
        for (scheme, parameters) in texts.flat_map(offers) {
            let parameter = |name: &str| {
                let found = parameters.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
                found.map(|(_, value)| value.clone())
            };
            if scheme.eq_ignore_ascii_case("bearer") {
                if let Some(realm) = parameter("realm") {
                    return Some(Self::Bearer { realm, service: parameter("service") });
                }
            } else if scheme.eq_ignore_ascii_case("basic") {
                basic = Some(Self::Basic);
            }
        }
        basic
    }
}

type Offer = (String, Vec<(String, String)>);

/// The schemes of one header, each with its parameters.
fn offers(text: &str) -> Vec<Offer> {
    let mut offers: Vec<Offer> = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([',', ' ', '\t']);
        let end = rest.find([',', ' ', '\t', '=']).unwrap_or(rest.len());
        if end == 0 {
            return offers;
        }
        let (word, after) = rest.split_at(end);
        match (after.trim_start().strip_prefix('='), offers.last_mut()) {
            (Some(value), Some((_, parameters))) => {
                let (value, left) = parameter(value.trim_start());
                parameters.push((word.to_owned(), value));
                rest = left;
            }
            (Some(_), None) => return offers,
            (None, _) => {
                offers.push((word.to_owned(), Vec::new()));
                rest = after;
            }
        }
    }
}

/// A value, quoted or not, and what follows it.
fn parameter(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            other => value.push(other),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use reqwest::header::{HeaderMap, HeaderValue, WWW_AUTHENTICATE};

    use super::Challenge;

    fn of(values: &[&str]) -> Option<Challenge> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(WWW_AUTHENTICATE, value.parse().unwrap());
        }
        Challenge::of(&headers)
    }

    fn bearer(realm: &str, service: Option<&str>) -> Option<Challenge> {
        Some(Challenge::Bearer { realm: realm.into(), service: service.map(Into::into) })
    }

    #[test]
    fn challenges_of_real_registries_are_read() {
        let hub = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull,push""#;
        assert_eq!(of(&[hub]), bearer("https://auth.docker.io/token", Some("registry.docker.io")));
        assert_eq!(of(&["Basic realm=\"Registry Realm\""]), Some(Challenge::Basic));
        assert_eq!(
            of(&["Basic realm=x, bearer Realm=https://a/b , service=s"]),
            bearer("https://a/b", Some("s"))
        );
        assert_eq!(
            of(&["Basic", r#"Bearer realm="https://a/\"x\"""#]),
            bearer("https://a/\"x\"", None)
        );
    }

    #[test]
    fn nonsense_asks_for_nothing() {
        for value in [
            "",
            ",",
            "=",
            "Bearer",
            "Bearer realm",
            "Digest realm=x",
            "realm=x",
            "\"",
            "Bearer =x",
            ", ,",
        ] {
            assert_eq!(of(&[value]), None, "{value:?}");
        }
        assert_eq!(of(&["Bearer realm=\"https://a"]), bearer("https://a", None));
        let long = format!("Bearer realm=\"https://a/{}\"", "x".repeat(9000));
        assert_eq!(of(&[&long]), None);
        assert_eq!(of(&[]), None);
    }

    proptest! {
        #[test]
        fn any_header_is_read_to_its_end(bytes in prop::collection::vec(prop::sample::select(&b"Bearer=\"\\,; \t\x80x"[..]), 0..200)) {
            if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                let found = Challenge::of(&HeaderMap::from_iter([(WWW_AUTHENTICATE, value)]));
                if let Some(Challenge::Bearer { realm, service }) = found {
                    prop_assert!(realm.len() + service.unwrap_or_default().len() <= bytes.len());
                }
            }
        }

        #[test]
        fn a_challenge_is_read_as_it_was_written(
            realm in "[ -~\t]{0,40}",
            service in prop::option::of("[ -~\t]{0,20}"),
            before in prop::sample::select(&["", "Basic realm=\"x\", ", "Negotiate YQ==, ", "Basic, ,"][..]),
            space in "[ \t]{0,2}",
        ) {
            let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
            let mut value = format!("{before}bEaReR rEaLm{space}={space}{}", quoted(&realm));
            if let Some(service) = &service {
                value.push_str(&format!("{space},{space}service={}", quoted(service)));
            }
            prop_assert_eq!(of(&[&value]), bearer(&realm, service.as_deref()), "{}", value);
        }
    }
}
