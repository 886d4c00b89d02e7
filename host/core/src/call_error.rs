//! How a call can fail, in the words that decisions need.

use serde::{Deserialize, Serialize};

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
    /// An error that no HTTP status tells of.
    pub fn new(category: Category, message: impl Into<String>) -> Self {
        Self { category, status: None, message: message.into(), retry_after: None }
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
