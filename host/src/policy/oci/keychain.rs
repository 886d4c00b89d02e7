//! Credentials for registries, as `docker login` and `kubectl create secret docker-registry` write them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use k8s_openapi::api::core::v1::Secret;
use secrecy::SecretString;
use serde::Deserialize;

use super::error::{Category, Error, Result};
use super::pattern::Pattern;
use super::reference::Reference;

/// Largest file or Secret that is read, bytes; Kubernetes takes no larger Secret.
const LARGEST: usize = 1 << 20;
/// How many credentials are tried for one artifact: more may match than one, for example while they are changed.
const MOST_TRIED: usize = 4;

/// What a registry is shown. Never printed.
#[derive(Clone, Debug)]
pub(super) enum Credential {
    /// Name and password, for the registry or for its token service.
    Basic {
        /// Who.
        username: String,
        /// And the proof of it.
        password: SecretString,
    },
    /// A token for the token service (`identitytoken`, an OAuth 2 refresh token).
    Identity(SecretString),
    /// A token for the registry itself (`registrytoken`).
    Registry(SecretString),
}

/// Credentials by registry.
///
/// Which of them belongs to an artifact is decided as kubelet does (`pkg/credentialprovider/keyring.go`): keys are hosts,
/// with a port if the reference has one, possibly with a path, which then has to be the beginning of the repository's name;
/// `*` and `?` stand for parts of one label of a host name; a scheme and `/v1/` or `/v2/` are no part of a key. The longest
/// path comes first, and a host without a wild card before one with it. Unlike kubelet, paths are compared part by part:
/// what is for `example.com/team` is not for `example.com/team-b`.
#[derive(Clone, Default)]
pub struct Keychain {
    entries: Vec<Entry>,
    /// Whether programs were named that would know more.
    helpers: bool,
}

#[derive(Clone)]
struct Entry {
    pattern: Pattern,
    /// Or what is wrong with it, which matters only to whoever needs it.
    credential: std::result::Result<Credential, &'static str>,
}

#[derive(Deserialize)]
struct DockerConfig {
    #[serde(default)]
    auths: BTreeMap<String, AuthConfig>,
    #[serde(default, rename = "credsStore")]
    creds_store: Option<String>,
    #[serde(default, rename = "credHelpers")]
    cred_helpers: BTreeMap<String, String>,
}

/// The names are Docker's (`cli/config/types/authconfig.go`).
#[derive(Deserialize, Default)]
struct AuthConfig {
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
    #[serde(default)]
    auth: String,
    #[serde(default)]
    identitytoken: String,
    #[serde(default)]
    registrytoken: String,
}

impl Keychain {
    /// Nothing: every registry is asked without credentials.
    pub fn anonymous() -> Self {
        Self::default()
    }

    /// Reads the contents of a `config.json` or of `.dockerconfigjson`.
    ///
    /// # Errors
    /// When it is not such a file. An entry that is wrong is an error only when it is needed.
    pub fn from_dockerconfigjson(json: &[u8]) -> Result<Self> {
        let config: DockerConfig = parse(json)?;
        let helpers = config.creds_store.is_some_and(|store| !store.is_empty())
            || !config.cred_helpers.is_empty();
        Ok(Self { entries: entries(config.auths), helpers })
    }

    /// Reads the contents of the older `.dockercfg`, which is a map of hosts alone.
    ///
    /// # Errors
    /// When it is not such a file.
    pub fn from_dockercfg(json: &[u8]) -> Result<Self> {
        Ok(Self { entries: entries(parse(json)?), helpers: false })
    }

    /// Reads a Secret of type `kubernetes.io/dockerconfigjson` or `kubernetes.io/dockercfg`.
    ///
    /// # Errors
    /// When it has neither key, or what is in there cannot be read.
    pub fn from_secret(secret: &Secret) -> Result<Self> {
        let name = secret.metadata.name.as_deref().unwrap_or_default();
        let key = |key| secret.data.as_ref().and_then(|data| data.get(key));
        let found = match (key(".dockerconfigjson"), key(".dockercfg")) {
            (Some(json), _) => Self::from_dockerconfigjson(&json.0),
            (None, Some(json)) => Self::from_dockercfg(&json.0),
            (None, None) => Err(unusable(
                "it has neither .dockerconfigjson nor .dockercfg: make it with `kubectl create secret docker-registry`",
            )),
        };
        found.map_err(|error| error.about(&format!("Secret {name:?}")))
    }

    /// What the user of this process has: the file that `$REGISTRY_AUTH_FILE` names (as of podman and skopeo), and Docker's:
    /// `$DOCKER_CONFIG/config.json`, else `~/.docker/config.json`. A file that does not exist holds nothing.
    ///
    /// # Errors
    /// When a file is there and cannot be read.
    pub fn of_user() -> Result<Self> {
        Self::of_user_in(|name| std::env::var_os(name).filter(|value| !value.is_empty()))
    }

    fn of_user_in(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self> {
        let path = |name| variable(name).map(PathBuf::from);
        let docker = path("DOCKER_CONFIG")
            .or_else(|| path("HOME").map(|home| home.join(".docker")))
            .map(|folder| folder.join("config.json"));
        let mut all = Self::default();
        for file in [path("REGISTRY_AUTH_FILE"), docker].into_iter().flatten() {
            let shown = file.display().to_string();
            if let Some(json) = read(&file).map_err(|e| e.about(&shown))? {
                all.extend(Self::from_dockerconfigjson(&json).map_err(|e| e.about(&shown))?);
            }
        }
        Ok(all)
    }

    /// Adds those of another one, after these: for several Secrets, in their order.
    pub fn extend(&mut self, other: Self) {
        self.entries.extend(other.entries);
        self.helpers |= other.helpers;
    }

    /// Those to show for an artifact, the best first; none means to ask without.
    pub(super) fn lookup(&self, reference: &Reference) -> Result<Vec<Credential>> {
        let mut matching: Vec<&Entry> =
            self.entries.iter().filter(|entry| entry.pattern.matches(reference)).collect();
        matching.sort_by_key(|entry| entry.pattern.rank());
        let usable: Vec<_> =
            matching.iter().filter_map(|entry| entry.credential.as_ref().ok()).cloned().collect();
        match matching.iter().find_map(|entry| entry.credential.as_ref().err()) {
            Some(fault) if usable.is_empty() => {
                Err(unusable(&format!("the credentials for {}: {fault}", reference.registry())))
            }
            _ => Ok(usable.into_iter().take(MOST_TRIED).collect()),
        }
    }

    /// Whether credential helpers were named; they are programs, and none is run.
    pub(super) fn names_helpers(&self) -> bool {
        self.helpers
    }
}

impl fmt::Debug for Keychain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keychain({} entries)", self.entries.len())
    }
}

fn entries(auths: BTreeMap<String, AuthConfig>) -> Vec<Entry> {
    let entry = |(key, auth): (String, AuthConfig)| {
        Some(Entry { pattern: Pattern::parse(&key)?, credential: auth.credential().transpose()? })
    };
    auths.into_iter().filter_map(entry).collect()
}

impl AuthConfig {
    /// Nothing for an entry that holds nothing, as `docker login` leaves it when a helper has the password.
    fn credential(self) -> std::result::Result<Option<Credential>, &'static str> {
        if !self.registrytoken.is_empty() {
            return Ok(Some(Credential::Registry(self.registrytoken.into())));
        }
        if !self.identitytoken.is_empty() {
            return Ok(Some(Credential::Identity(self.identitytoken.into())));
        }
        let (username, password) = match self.auth.trim() {
            "" => (self.username, self.password),
            auth => decode(auth).ok_or("`auth` is not the base64 of username:password")?,
        };
        if username.is_empty() && password.is_empty() {
            return Ok(None);
        }
        if username.contains(':') {
            return Err("a username cannot have a colon");
        }
        Ok(Some(Credential::Basic { username, password: password.into() }))
    }
}

/// The two halves of `auth`, which some write without padding.
fn decode(auth: &str) -> Option<(String, String)> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &STANDARD,
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
    );
    let decoded = String::from_utf8(LENIENT.decode(auth).ok()?).ok()?;
    let (username, password) = decoded.split_once(':')?;
    // Docker cuts these, too: some versions have written them.
    Some((username.to_owned(), password.trim_matches('\0').to_owned()))
}

fn parse<T: for<'de> Deserialize<'de>>(json: &[u8]) -> Result<T> {
    if json.len() > LARGEST {
        return Err(unusable("it is larger than 1 MiB"));
    }
    // What serde says may quote what it has read, which may be a password.
    serde_json::from_slice(json).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        unusable(&format!("it is no Docker configuration (JSON, line {line}, column {column})"))
    })
}

/// The contents of a file, or nothing if there is none.
fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(&format!("cannot be read: {error}"))),
    };
    let mut bytes = Vec::new();
    let read = file.take(LARGEST as u64 + 1).read_to_end(&mut bytes);
    read.map(|_| Some(bytes)).map_err(|error| unusable(&format!("cannot be read: {error}")))
}

fn unusable(why: &str) -> Error {
    Error::new(Category::Unauthorized, why)
}

#[cfg(test)]
#[path = "keychain_tests.rs"]
mod tests;
