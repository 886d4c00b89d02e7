use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use rand::Rng;
use rand::distr::Alphanumeric;

/// A MAAS API key. Neither `Debug` nor anything else shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey {
    consumer: String,
    token: String,
    secret: String,
}

impl ApiKey {
    /// Reads `consumer:token:secret`.
    ///
    /// # Errors
    /// When there are not exactly three parts of letters and digits; the text is not repeated.
    pub fn parse(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.trim().split(':').collect();
        let sound = |p: &&str| {
            !p.is_empty() && p.chars().all(|c| c.is_ascii_alphanumeric() || "-_.~".contains(c))
        };
        match parts.as_slice() {
            [consumer, token, secret] if parts.iter().all(sound) => Ok(Self {
                consumer: (*consumer).to_owned(),
                token: (*token).to_owned(),
                secret: (*secret).to_owned(),
            }),
            _ => bail!(
                "MAAS_API_KEY must be three parts joined by colons, consumer:token:secret, as shown \
                 in MAAS under the user's API keys (this one has {} parts)",
                parts.len()
            ),
        }
    }

    /// A text without the secret.
    pub(super) fn hidden_in(&self, text: &str) -> String {
        text.replace(&self.secret, "…")
    }

    /// OAuth 1.0a with signature method PLAINTEXT, which MAAS accepts in every version. MAAS
    /// refuses a nonce it has seen, so each attempt needs a header of its own.
    pub(super) fn authorization(&self) -> String {
        let nonce: String =
            rand::rng().sample_iter(Alphanumeric).take(24).map(char::from).collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        format!(
            "OAuth oauth_version=\"1.0\", oauth_signature_method=\"PLAINTEXT\", \
             oauth_consumer_key=\"{}\", oauth_token=\"{}\", oauth_signature=\"%26{}\", \
             oauth_nonce=\"{nonce}\", oauth_timestamp=\"{now}\"",
            self.consumer, self.token, self.secret
        )
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::ApiKey;

    #[test]
    fn a_key_has_three_parts_and_is_never_shown() {
        let key = ApiKey::parse(" abc:def:ghi \n").unwrap();
        assert_eq!(format!("{key:?}"), "ApiKey(…)");
        assert!(key.authorization().contains("oauth_signature=\"%26ghi\""));
        for bad in ["", "a:b", "a:b:c:d", "a::c", "a:b:c\"d"] {
            let error = ApiKey::parse(bad).unwrap_err().to_string();
            assert!(error.contains("consumer:token:secret"), "{error}");
        }
    }
}
