//! What a registry with a token service believes: JSON Web Tokens, signed by whom its configuration names
//! (<https://distribution.github.io/distribution/spec/auth/jwt/>).

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};

use crate::pki::{Authority, Pair};

/// How the registry calls itself towards the token service.
pub(super) const SERVICE: &str = "registry.test";
const ISSUER: &str = "tokens.test";
/// How long a token is good, seconds. The specification wants 60 at least.
const GOOD_FOR: u64 = 300;

/// Who signs the tokens.
pub(super) struct Signer {
    authority: Authority,
    pair: Pair,
}

impl Signer {
    pub(super) fn new() -> Result<Self> {
        let authority = Authority::new("registry-tokens-ca")?;
        let pair = authority.serving()?;
        Ok(Self { authority, pair })
    }

    /// PEM of those whose signatures count.
    pub(super) fn bundle(&self) -> &str {
        &self.authority.pair().certificate
    }

    /// The registry's `auth` section, with the token service at this address.
    pub(super) fn configuration(realm: &str, bundle: &str) -> Value {
        json!({ "token": { "realm": realm, "service": SERVICE, "issuer": ISSUER, "rootcertbundle": bundle } })
    }

    /// A token for a scope as clients ask for it: `repository:team/policy:pull,push`; nothing is granted for any other.
    pub(super) fn sign(&self, scope: &str) -> Result<String> {
        let access = match scope.splitn(3, ':').collect::<Vec<_>>()[..] {
            [kind, name, actions] => {
                let actions: Vec<&str> = actions.split(',').collect();
                json!([{ "type": kind, "name": name, "actions": actions }])
            }
            _ => json!([]),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let certificate = CertificateDer::from_pem_slice(self.pair.certificate.as_bytes())
            .map_err(|e| anyhow!("{e}"))?;
        let header =
            json!({ "typ": "JWT", "alg": "ES256", "x5c": [BASE64_STANDARD.encode(certificate)] });
        let claims = json!({
            "iss": ISSUER, "aud": SERVICE, "sub": "", "jti": "1", "access": access,
            "iat": now, "nbf": now - 10, "exp": now + GOOD_FOR,
        });
        let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", part(&header), part(&claims));
        let key = PrivatePkcs8KeyDer::from_pem_slice(self.pair.key.as_bytes())
            .map_err(|e| anyhow!("{e}"))?;
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let key = EcdsaKeyPair::from_pkcs8(algorithm, key.secret_pkcs8_der(), &random)
            .ok()
            .context("the key of the token service is none for ES256")?;
        let signature = key.sign(&random, text.as_bytes()).ok().context("sign a token")?;
        Ok(format!("{text}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
    }
}
