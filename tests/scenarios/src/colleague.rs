//! Somebody else who works with the same MAAS, over its API.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use maas_sim::Simulator;
use serde_json::Value;

/// A client of MAAS that is not the controller.
pub struct Colleague {
    http: reqwest::Client,
    api: String,
    key: String,
}

impl Colleague {
    /// Another administrator.
    pub fn of(maas: &Simulator) -> Self {
        Self::with_key(maas, maas.other_admin_api_key())
    }

    /// Whoever has this key.
    pub fn with_key(maas: &Simulator, key: String) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let api = format!("http://{}/MAAS/api/2.0", maas.address());
        Self { http: reqwest::Client::new(), api, key }
    }

    /// Calls MAAS past the gate.
    ///
    /// # Errors
    /// When MAAS refuses or does not answer.
    pub async fn call(&self, method: &str, path: &str, form: &[(&str, &str)]) -> Result<Value> {
        let mut request = self
            .http
            .request(method.parse()?, format!("{}{path}", self.api))
            .header("Authorization", self.authorization()?);
        if method != "GET" && method != "DELETE" {
            request = request.form(form);
        }
        let answer = request.send().await?;
        let (status, text) = (answer.status(), answer.text().await?);
        ensure!(status.is_success(), "{method} {path}: {status} {text}");
        Ok(serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    fn authorization(&self) -> Result<String> {
        static NONCE: AtomicU64 = AtomicU64::new(0);
        let parts: Vec<&str> = self.key.split(':').collect();
        let [consumer, token, secret] = parts[..] else { anyhow::bail!("a key has three parts") };
        let nonce = NONCE.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        Ok(format!(
            "OAuth oauth_version=\"1.0\", oauth_signature_method=\"PLAINTEXT\", \
             oauth_consumer_key=\"{consumer}\", oauth_token=\"{token}\", \
             oauth_signature=\"%26{secret}\", oauth_nonce=\"colleague{nonce}\", \
             oauth_timestamp=\"{now}\""
        ))
    }

    /// Makes a DNS record and returns its id.
    ///
    /// # Errors
    /// When MAAS refuses.
    pub async fn makes_record(&self, fqdn: &str, addresses: &str) -> Result<u64> {
        let form = [("fqdn", fqdn), ("ip_addresses", addresses)];
        let made = self.call("POST", "/dnsresources/", &form).await?;
        made["id"].as_u64().with_context(|| format!("{made}"))
    }

    /// Gives a DNS record these addresses and no others.
    ///
    /// # Errors
    /// When MAAS refuses.
    pub async fn edits_record(&self, id: u64, addresses: &str) -> Result<()> {
        let form = [("ip_addresses", addresses)];
        self.call("PUT", &format!("/dnsresources/{id}/"), &form).await.map(drop)
    }

    /// Gives back an address that MAAS reserved for an edit of a record.
    ///
    /// # Errors
    /// When MAAS refuses.
    pub async fn frees_address(&self, ip: &str) -> Result<()> {
        self.call("POST", "/ipaddresses/?op=release", &[("ip", ip)]).await.map(drop)
    }

    /// Deletes a DNS record.
    ///
    /// # Errors
    /// When MAAS refuses.
    pub async fn deletes_record(&self, id: u64) -> Result<()> {
        self.call("DELETE", &format!("/dnsresources/{id}/"), &[]).await.map(drop)
    }
}
