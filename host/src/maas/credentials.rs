use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
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

    /// Reads the key from a file.
    ///
    /// # Errors
    /// When the file cannot be read or holds no key; the text names the file and shows nothing of it.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the MAAS API key from {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("in {}", path.display()))
    }

    /// Reads the key from the first of these files that is there; `None` when none is.
    ///
    /// # Errors
    /// As [`ApiKey::read`].
    pub fn find(files: &[PathBuf]) -> Result<Option<Self>> {
        let absent = |e: &anyhow::Error| {
            let cause = e.downcast_ref::<std::io::Error>();
            cause.is_some_and(|e| e.kind() == ErrorKind::NotFound)
        };
        for file in files {
            match Self::read(file) {
                Err(error) if absent(&error) => {}
                found => return found.map(Some),
            }
        }
        Ok(None)
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

/// The key in use, and the files where another may be found.
pub(super) struct Credentials {
    key: Mutex<ApiKey>,
    files: Vec<PathBuf>,
}

impl Credentials {
    pub(super) fn new(key: ApiKey, files: Vec<PathBuf>) -> Self {
        Self { key: Mutex::new(key), files }
    }

    /// The key to call with now.
    pub(super) fn key(&self) -> ApiKey {
        self.in_use().clone()
    }

    /// MAAS does not accept `refused`: whether there is another key now. One that cannot be read changes nothing, as a
    /// file may just be being written.
    pub(super) fn renewed(&self, refused: &ApiKey) -> bool {
        let found = match ApiKey::find(&self.files) {
            Ok(Some(found)) => found,
            Ok(None) => return false,
            Err(error) => {
                tracing::warn!(error = format!("{error:#}"), "the MAAS API key stays as it is");
                return false;
            }
        };
        let mut key = self.in_use();
        if *key == found {
            // Another call may have been faster.
            return found != *refused;
        }
        *key = found;
        tracing::info!("the MAAS API key was read anew");
        true
    }

    fn in_use(&self) -> MutexGuard<'_, ApiKey> {
        self.key.lock().unwrap_or_else(|e| e.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::{ApiKey, Credentials};

    #[test]
    fn a_key_that_is_refused_is_replaced_by_what_the_file_holds_now() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        std::fs::write(&file, "a:b:old\n").unwrap();
        let old = ApiKey::read(&file).unwrap();
        let credentials = Credentials::new(old.clone(), vec![file.clone()]);
        assert!(!credentials.renewed(&old), "the same again");
        std::fs::write(&file, "half").unwrap();
        assert!(!credentials.renewed(&old) && credentials.key() == old);
        std::fs::write(&file, "a:b:new\n").unwrap();
        assert!(credentials.renewed(&old));
        assert_eq!(credentials.key(), ApiKey::parse("a:b:new").unwrap());
        assert!(credentials.renewed(&old), "a call that began before with the old one");
        assert!(!credentials.renewed(&credentials.key()));
        let fixed = Credentials::new(old.clone(), vec![]);
        assert!(!fixed.renewed(&old));
    }

    #[test]
    fn a_file_without_a_key_is_named_and_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        for content in [None, Some("secret-but-no-key")] {
            if let Some(content) = content {
                std::fs::write(&file, content).unwrap();
            }
            let error = format!("{:#}", ApiKey::read(&file).unwrap_err());
            assert!(error.contains("/key") && !error.contains("secret-but"), "{error}");
        }
    }

    #[test]
    fn the_first_file_that_is_there_counts() {
        let folder = tempfile::tempdir().unwrap();
        let files = ["MAAS_API_KEY", "MAAS_API_TOKEN"].map(|name| folder.path().join(name));
        assert_eq!(ApiKey::find(&files).unwrap(), None);
        std::fs::write(&files[1], "a:b:older").unwrap();
        assert_eq!(ApiKey::find(&files).unwrap(), ApiKey::parse("a:b:older").ok());
        std::fs::write(&files[0], "a:b:newer").unwrap();
        assert_eq!(ApiKey::find(&files).unwrap(), ApiKey::parse("a:b:newer").ok());
        // One that is there and holds no key is a mistake to be told, and nothing to pass over.
        std::fs::write(&files[0], "half").unwrap();
        assert!(ApiKey::find(&files).is_err());
    }

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
