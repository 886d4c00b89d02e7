//! The wire: one HTTP call at a time, its slots, and what its answer means.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use capmaas_core::{CallError, Category};
use reqwest::{Method, header};
use serde_json::value::RawValue;
use tokio::sync::Semaphore;

use super::credentials::Credentials;
use super::health::Health;
use super::trust::Trust;
use super::{Answer, ApiKey, Endpoint};

/// A region has 16 request slots in all (4 workers of 4), and power calls block them for seconds.
const IN_FLIGHT: usize = 6;
/// So many of them may be writes: releases that wait for a BMC must not keep DNS from being looked at.
const WRITES_IN_FLIGHT: usize = 4;
/// MAAS answers a release only when the machine is off, which may take minutes.
const WRITE_TIMEOUT: Duration = Duration::from_secs(180);
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// A machine is tens of KB, and a listing of thousands has to fit.
const LARGEST_BODY: usize = 64 << 20;

/// How MAAS is reached.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where.
    pub endpoint: Endpoint,
    /// As whom.
    pub key: ApiKey,
    /// Files where another key may be found when MAAS does not accept this one any more: the first that is there counts.
    pub key_files: Vec<PathBuf>,
    /// PEM file with certificate authorities to trust in addition to the system's; its contents may change.
    pub ca_file: Option<PathBuf>,
    /// Trust any certificate.
    pub insecure: bool,
}

/// The connection to one MAAS.
pub(super) struct Wire {
    trust: Trust,
    endpoint: Endpoint,
    credentials: Credentials,
    slots: Semaphore,
    write_slots: Semaphore,
    health: Health,
}

/// A call: method, path below `/api/2.0/`, query or form.
pub(super) struct Call<'a> {
    pub(super) method: Method,
    pub(super) path: &'a str,
    pub(super) query: Vec<(&'a str, String)>,
    pub(super) form: Vec<(&'a str, String)>,
}

impl<'a> Call<'a> {
    pub(super) fn get(path: &'a str, query: Vec<(&'a str, String)>) -> Self {
        Self { method: Method::GET, path, query, form: vec![] }
    }

    pub(super) fn send(
        method: Method,
        path: &'a str,
        op: Option<&'a str>,
        form: Vec<(&'a str, String)>,
    ) -> Self {
        let query = op.map(|op| ("op", op.to_owned())).into_iter().collect();
        Self { method, path, query, form }
    }
}

impl Wire {
    /// A connection over which nothing has been called yet.
    ///
    /// # Errors
    /// When the CA file cannot be read or holds no certificate.
    pub(super) fn new(options: Options) -> Result<Self> {
        Ok(Self {
            trust: Trust::new(options.ca_file, options.insecure)?,
            endpoint: options.endpoint,
            credentials: Credentials::new(options.key, options.key_files),
            slots: Semaphore::new(IN_FLIGHT),
            write_slots: Semaphore::new(WRITES_IN_FLIGHT),
            health: Health::default(),
        })
    }

    /// One call; the JSON of its answer, `null` when there is none.
    pub(super) async fn call(&self, call: Call<'_>) -> Result<Box<RawValue>, CallError> {
        let reading = call.method == Method::GET;
        let closed = |_| CallError::new(Category::Unreachable, "shutting down");
        let _write = match reading {
            true => None,
            false => Some(self.write_slots.acquire().await.map_err(closed)?),
        };
        let _slot = self.slots.acquire().await.map_err(closed)?;
        let admission = self.health.admit()?;
        let key = self.credentials.key();
        let outcome = self.exchange(call, reading, &key).await;
        let refused = outcome.as_ref().is_err_and(|error| error.category == Category::Unauthorized);
        if refused && self.credentials.renewed(&key) {
            // MAAS is well, and may know us as somebody else now: the caller begins anew, at once.
            return outcome.map_err(|error| CallError { retry_after: Some(1), ..error });
        }
        admission.concluded(reading, outcome.as_ref().map(drop));
        outcome
    }

    async fn exchange(
        &self,
        call: Call<'_>,
        reading: bool,
        key: &ApiKey,
    ) -> Result<Box<RawValue>, CallError> {
        let mut url = self.endpoint.url(call.path);
        if !call.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&call.query);
        }
        let timeout = if reading { READ_TIMEOUT } else { WRITE_TIMEOUT };
        let mut request = self
            .trust
            .http()
            .request(call.method.clone(), url)
            .timeout(timeout)
            .header(header::ACCEPT, "application/json")
            .header(header::AUTHORIZATION, key.authorization());
        if !reading && call.method != Method::DELETE {
            // JSON bodies lose parameters without an error (MAAS 3.5 – 3.7).
            request = request.form(&call.form);
        }
        let response = request.send().await.map_err(|e| self.explained(transport(&e)))?;
        let answer = self.answer(response, reading, key).await;
        tracing::debug!(
            method = %call.method,
            path = call.path,
            op = call.query.iter().find(|(k, _)| *k == "op").map(|(_, v)| v.as_str()),
            status = answer.as_ref().err().and_then(|e| e.status).unwrap_or(200),
            "MAAS call"
        );
        answer
    }

    /// A certificate that is refused may be so because the file with its authority is of no use.
    fn explained(&self, error: CallError) -> CallError {
        match self.trust.fault() {
            Some(fault) if error.category == Category::Tls => {
                let message = format!("{}; the CA file is of no use: {fault}", error.message);
                CallError::new(error.category, message)
            }
            _ => error,
        }
    }

    async fn answer(
        &self,
        mut response: reqwest::Response,
        reading: bool,
        key: &ApiKey,
    ) -> Result<Box<RawValue>, CallError> {
        let mut answer = Answer::of(&response);
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if answer.body.len() + chunk.len() <= LARGEST_BODY => {
                    answer.body.extend_from_slice(&chunk);
                }
                Ok(Some(_)) => {
                    return Err(CallError::new(Category::Malformed, "the answer is too large"));
                }
                Ok(None) => break,
                // The call was carried out; only what it says is lost.
                Err(_) if reading => {
                    return Err(CallError::new(Category::Unavailable, "the answer broke off"));
                }
                Err(_) => return Err(CallError::new(Category::Unknown, "the answer broke off")),
            }
        }
        answer.json(reading, key)
    }
}

/// What a request that got no answer means for an effect.
fn transport(error: &reqwest::Error) -> CallError {
    let root = anyhow::Chain::new(error).skip(1).last();
    let text = root.map(ToString::to_string).unwrap_or_default();
    let tls = text.contains("certificate") || text.contains("CertificateRequired");
    let category = match () {
        () if tls => Category::Tls,
        // Nothing was sent, so nothing was done.
        () if error.is_connect() || error.is_builder() => Category::Unreachable,
        () => Category::Unknown,
    };
    let message = match () {
        () if error.is_timeout() && !error.is_connect() => "no answer in time".to_owned(),
        () if text.is_empty() => "the connection broke".to_owned(),
        () => text,
    };
    CallError::new(category, &message)
}
