use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use super::error::{Category, Error};

/// The digest of a manifest or a blob. Of the algorithms that OCI knows, only sha256 is in use here.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest {
    hex: String,
}

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let hex = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        Self { hex }
    }

    /// The hash alone: 64 lower-case hexadecimal digits.
    pub fn hex(&self) -> &str {
        &self.hex
    }
}

impl FromStr for Digest {
    type Err = Error;

    /// Reads `sha256:` and 64 lower-case hexadecimal digits.
    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = |why: &str| Err(Error::new(Category::BadReference, why));
        let Some((algorithm, hex)) = text.split_once(':') else {
            return bad("a digest is written sha256:… with 64 hexadecimal digits");
        };
        if algorithm != "sha256" {
            return bad("the digest is not a sha256 one, and no other algorithm is accepted");
        }
        if hex.len() != 64 || !hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return bad("a sha256 digest has 64 lower-case hexadecimal digits, this one has not");
        }
        Ok(Self { hex: hex.to_owned() })
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
