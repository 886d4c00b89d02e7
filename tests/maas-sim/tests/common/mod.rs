//! A plain HTTP client for the tests: every request is signed and sent as a provider would.

#![allow(dead_code)]

use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) fn client() -> Client {
    static PROVIDER: OnceLock<()> = OnceLock::new();
    PROVIDER.get_or_init(|| {
        // Another test of this process may have been first.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    let builder = Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    builder.build().expect("an HTTP client")
}

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

pub(crate) fn nonce() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("n{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The header that MAAS's own client sends.
pub(crate) fn plaintext(key: &str) -> String {
    let parts: Vec<&str> = key.split(':').collect();
    let (consumer, token, secret) = (parts[0], parts[1], parts[2]);
    format!(
        "OAuth oauth_nonce=\"{}\", oauth_timestamp=\"{}\", oauth_version=\"1.0\", \
         oauth_signature_method=\"PLAINTEXT\", oauth_consumer_key=\"{consumer}\", oauth_token=\"{token}\", \
         oauth_signature=\"%26{secret}\"",
        nonce(),
        now()
    )
}

#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text)
            .unwrap_or_else(|_| panic!("not JSON: {} {}", self.status, self.text))
    }

    pub(crate) fn str(&self, field: &str) -> String {
        self.json()[field].as_str().unwrap_or_default().to_owned()
    }
}

pub(crate) async fn send(request: RequestBuilder) -> Result<Answer, reqwest::Error> {
    let response = request.send().await?;
    let status = response.status().as_u16();
    let content_type = response
        .headers()
        .get("content-type")
        .and_then(|v| v.to_str().ok())
        .unwrap_or("")
        .to_owned();
    Ok(Answer { status, content_type, text: response.text().await? })
}

/// A MAAS user with a client.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) client: Client,
    pub(crate) url: String,
    pub(crate) key: String,
}

impl Caller {
    pub(crate) fn new(url: &str, key: &str) -> Self {
        Self { client: client(), url: url.into(), key: key.into() }
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> RequestBuilder {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let request = self.client.request(method, format!("{}/api/2.0{path}", self.url));
        request.header("Authorization", plaintext(&self.key))
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        send(self.request("GET", path)).await.expect("a reply")
    }

    pub(crate) async fn post(&self, path: &str, form: &[(&str, &str)]) -> Answer {
        send(self.request("POST", path).form(form)).await.expect("a reply")
    }

    pub(crate) async fn put(&self, path: &str, form: &[(&str, &str)]) -> Answer {
        send(self.request("PUT", path).form(form)).await.expect("a reply")
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        send(self.request("DELETE", path)).await.expect("a reply")
    }

    pub(crate) async fn machine(&self, id: &str) -> Value {
        self.get(&format!("/machines/{id}/")).await.json()
    }
}
