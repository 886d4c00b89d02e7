//! How a call can fail, in the words that decisions need.

use serde::{Deserialize, Serialize};

use crate::text::bounded;

/// The longest message, characters.
const LONGEST: usize = 500;
/// The longest wait that another side is granted, seconds.
const LONGEST_WAIT: u64 = 3600;

/// What kind of failure a call met.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[serde(rename_all = "kebab-case")]
pub enum Category {
    /// 400: MAAS or Kubernetes does not accept the parameters.
    BadRequest,
    /// 401, or MAAS's 400 "Unrecognised signature": the key is not accepted.
    Unauthorized,
    /// 403: not allowed, or the machine is locked.
    Forbidden,
    /// 404.
    NotFound,
    /// 409 as text: the state does not allow it, or there is no capacity.
    State,
    /// 409 as HTML or from Kubernetes: somebody was faster; read and try again.
    Conflict,
    /// 5xx with a text of MAAS.
    Server,
    /// 502, 503, 504 as HTML: the region does not answer its proxy, which may have passed the call on.
    Unavailable,
    /// No connection, or none tried because the last ones failed: nothing was sent.
    Unreachable,
    /// The request was sent and no reply came: it may have been carried out.
    Unknown,
    /// The certificate is not trusted.
    Tls,
    /// A reply that is not what MAAS documents.
    Malformed,
}

/// A failed call.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct CallError {
    /// What kind.
    pub category: Category,
    /// HTTP status, if there was a reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The other side's own words, trimmed; never the body of a 401, which may hold the secret.
    pub message: String,
    /// Seconds the other side asked to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
}

impl CallError {
    /// An error that no HTTP status tells of. Of the message one line is kept, cut to 500 characters.
    pub fn new(category: Category, message: impl AsRef<str>) -> Self {
        let message = bounded(message.as_ref(), LONGEST);
        Self { category, status: None, message, retry_after: None }
    }

    /// When to try again, seconds: as the other side asked, within an hour, else `otherwise`.
    ///
    /// Whoever asks for a year, or for no wait at all, gets neither.
    pub fn again(&self, otherwise: u64) -> u64 {
        self.retry_after.map_or(otherwise, |asked| asked.min(LONGEST_WAIT)).max(1)
    }

    /// The effect may have been carried out although it failed: read before repeating.
    pub fn ambiguous(&self) -> bool {
        matches!(
            self.category,
            Category::Unknown | Category::Server | Category::Unavailable | Category::Malformed
        )
    }

    /// MAAS as a whole does not serve us, whatever we ask: key, certificate, connection.
    pub fn endpoint_wide(&self) -> bool {
        matches!(
            self.category,
            Category::Unauthorized
                | Category::Unavailable
                | Category::Unreachable
                | Category::Unknown
                | Category::Tls
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_makes_us_wait_for_ever_or_not_at_all() {
        let asked = |seconds| CallError {
            retry_after: seconds,
            ..CallError::new(Category::Unavailable, "busy")
        };
        assert_eq!(asked(None).again(30), 30);
        assert_eq!(asked(Some(7)).again(30), 7);
        assert_eq!(asked(Some(u64::MAX)).again(30), 3600);
        assert_eq!(asked(Some(0)).again(30), 1);
    }

    #[test]
    fn a_message_is_one_bounded_line() {
        let error = CallError::new(Category::Server, format!("a\nb\u{1b}[31m{}", "x".repeat(9000)));
        assert!(error.message.starts_with("a b[31mx"), "{}", error.message);
        assert_eq!(error.message.chars().count(), 500);
    }
}
