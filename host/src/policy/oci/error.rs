use std::fmt;

use super::super::bounded;

/// What went wrong, as one word that stays the same: for conditions, metrics and tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Category {
    /// The text is no reference to an artifact.
    BadReference,
    /// The registry has no such repository, tag or digest.
    NotFound,
    /// The registry wants other credentials, or some at all.
    Unauthorized,
    /// What came is not what its digest or its size says.
    DigestMismatch,
    /// It is larger than what is accepted.
    TooLarge,
    /// It took too long, or nothing came for too long.
    Timeout,
    /// The registry cannot be reached, or does not serve.
    Unreachable,
    /// The certificate is not accepted, or what is to be trusted cannot be read.
    Tls,
    /// It is there, and it is no policy.
    BadArtifact,
}

impl Category {
    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            Self::BadReference => "bad-reference",
            Self::NotFound => "not-found",
            Self::Unauthorized => "unauthorized",
            Self::DigestMismatch => "digest-mismatch",
            Self::TooLarge => "too-large",
            Self::Timeout => "timeout",
            Self::Unreachable => "unreachable",
            Self::Tls => "tls",
            Self::BadArtifact => "bad-artifact",
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Why a policy did not come from, or go to, a registry.
///
/// Its text is for the operator: it names the remedy where there is one. It holds no credential, no token, no query of an
/// URL and nothing that a registry wrote into a body, since any of these may be a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    category: Category,
    message: String,
}

impl Error {
    pub(super) fn new(category: Category, message: impl AsRef<str>) -> Self {
        Self { category, message: bounded(message.as_ref(), 600) }
    }

    /// What it is about.
    pub fn category(&self) -> Category {
        self.category
    }

    /// The words for the operator, at most 600 characters.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The same, with what it happened to in front.
    pub(super) fn about(self, what: &str) -> Self {
        Self::new(self.category, format!("{what}: {}", self.message))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.category, self.message)
    }
}

impl std::error::Error for Error {}

pub(super) type Result<T> = std::result::Result<T, Error>;
