//! Exchanges with a server that may be hostile: bounded in bytes, in time, and in where they may lead.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE};
use reqwest::header::{HeaderValue, LOCATION};
use reqwest::{Method, Response, StatusCode, Url};

use super::Access;
use super::error::{Category, Error, Result};

/// How many redirects are followed.
const MOST_REDIRECTS: usize = 3;
const CONNECT: Duration = Duration::from_secs(10);

/// Where redirects may lead.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Follow {
    /// Nowhere.
    Nowhere,
    /// To the same host.
    Home,
    /// To other hosts, which are shown no credentials: registries keep blobs in storage of others.
    Away,
}

/// What is asked.
#[derive(Clone)]
pub(super) struct Ask {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) accept: &'static str,
    /// Its type, and the body.
    pub(super) body: Option<(&'static str, Bytes)>,
    pub(super) follow: Follow,
}

impl Ask {
    pub(super) fn get(url: Url, accept: &'static str, follow: Follow) -> Self {
        Self { method: Method::GET, url, accept, body: None, follow }
    }
}

/// An answer, and whether it is from the host that was asked.
pub(super) struct Answer {
    pub(super) response: Response,
    pub(super) home: bool,
}

/// A client that trusts whom this access trusts.
pub(super) struct Transport {
    http: reqwest::Client,
    plain_http: bool,
    idle: Duration,
}

impl Transport {
    /// # Errors
    /// When the authorities to trust cannot be read.
    pub(super) fn new(access: &Access) -> Result<Self> {
        let mut builder = reqwest::Client::builder()
            // Where they lead and what is shown there is decided here.
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            // A small body that becomes a large one is of no use to anybody but an attacker. (Without these, a feature that
            // another crate asks of reqwest would turn it on.)
            .no_gzip()
            .no_brotli()
            .no_zstd()
            .no_deflate()
            .connect_timeout(CONNECT.min(access.timeouts.idle))
            .user_agent(concat!("capmaas/", env!("CARGO_PKG_VERSION")));
        if let Some(pem) = &access.ca_pem {
            let certificates = reqwest::Certificate::from_pem_bundle(pem)
                .ok()
                .filter(|found| !found.is_empty())
                .ok_or_else(|| {
                    Error::new(Category::Tls, "the CA bundle holds no PEM certificate")
                })?;
            builder = builder.tls_certs_merge(certificates);
        }
        let http = builder.build().map_err(|error| {
            Error::new(Category::Tls, format!("no client can be set up: {}", root(&error)))
        })?;
        Ok(Self { http, plain_http: access.plain_http, idle: access.timeouts.idle })
    }

    /// Asks, and goes where it is sent as far as it may. The credentials are shown to the host of the first address alone,
    /// and to that not any more once the way has led elsewhere.
    pub(super) async fn exchange(&self, ask: &Ask, shown: Option<&HeaderValue>) -> Result<Answer> {
        let mut url = ask.url.clone();
        let mut home = true;
        for _ in 0..=MOST_REDIRECTS {
            let response = self.once(ask, &url, shown.filter(|_| home)).await?;
            if !is_redirect(response.status()) {
                return Ok(Answer { response, home });
            }
            let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            url = self.redirected(&url, to, ask.follow)?;
            home &= same_origin(&url, &ask.url);
        }
        Err(unreachable(format!("{} redirects more than {MOST_REDIRECTS} times", host(&url))))
    }

    async fn once(&self, ask: &Ask, url: &Url, shown: Option<&HeaderValue>) -> Result<Response> {
        let mut request = self
            .http
            .request(ask.method.clone(), url.clone())
            .header(ACCEPT, ask.accept)
            .header(ACCEPT_ENCODING, "identity");
        if let Some(shown) = shown {
            request = request.header(AUTHORIZATION, shown);
        }
        let sent = match &ask.body {
            // How long this takes is a matter of its size: the time for all of it bounds this, too.
            Some((kind, body)) => {
                request.header(CONTENT_TYPE, *kind).body(body.clone()).send().await
            }
            None => tokio::time::timeout(self.idle, request.send()).await.map_err(|_| idle(url))?,
        };
        let response = sent.map_err(|error| failed(&error, url))?;
        match response.headers().get(CONTENT_ENCODING).map(HeaderValue::as_bytes) {
            None | Some(b"identity" | b"") => Ok(response),
            Some(_) => {
                let why = format!("{} answers with a compressed body, unasked", host(url));
                Err(Error::new(Category::BadArtifact, why))
            }
        }
    }

    fn redirected(&self, from: &Url, to: Option<&str>, follow: Follow) -> Result<Url> {
        let to = to.and_then(|to| from.join(to).ok());
        let mut to = to.ok_or_else(|| unreachable(format!("{} redirects nowhere", host(from))))?;
        // A name and password in there would be shown as ours.
        let _ = to.set_username("").and_then(|()| to.set_password(None));
        self.check_scheme(&to)?;
        match follow {
            Follow::Away => Ok(to),
            Follow::Home if same_origin(from, &to) => Ok(to),
            _ => Err(unreachable(format!(
                "{} redirects to {}, where only the content of a policy may come from",
                host(from),
                host(&to)
            ))),
        }
    }

    /// Credentials and policies go over TLS unless plain HTTP was said.
    pub(super) fn check_scheme(&self, url: &Url) -> Result<()> {
        match url.scheme() {
            "https" => Ok(()),
            "http" if self.plain_http => Ok(()),
            "http" => {
                let why =
                    format!("it leads to {} without TLS, and plain HTTP was not said", host(url));
                Err(Error::new(Category::Tls, why))
            }
            _ => Err(unreachable("it leads to what is no web address")),
        }
    }

    /// Reads a body of at most so many bytes.
    pub(super) async fn body(&self, mut response: Response, largest: usize) -> Result<Vec<u8>> {
        let url = response.url().clone();
        let too_large = || {
            let why =
                format!("{} sends more than the {largest} bytes that are accepted", host(&url));
            Error::new(Category::TooLarge, why)
        };
        if response.content_length().is_some_and(|length| length > largest as u64) {
            return Err(too_large());
        }
        let mut body = Vec::new();
        loop {
            let chunk = tokio::time::timeout(self.idle, response.chunk()).await;
            match chunk.map_err(|_| idle(&url))?.map_err(|error| failed(&error, &url))? {
                Some(chunk) if body.len() + chunk.len() > largest => return Err(too_large()),
                Some(chunk) => body.extend_from_slice(&chunk),
                None => return Ok(body),
            }
        }
    }
}

/// Host and port: what may be shown of an address, whose path and query may hold secrets.
pub(super) fn host(url: &Url) -> String {
    let name = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"))
}

pub(super) fn unreachable(why: impl AsRef<str>) -> Error {
    Error::new(Category::Unreachable, why)
}

fn idle(url: &Url) -> Error {
    Error::new(Category::Timeout, format!("{} said nothing for too long", host(url)))
}

fn same_origin(a: &Url, b: &Url) -> bool {
    a.scheme() == b.scheme()
        && a.host() == b.host()
        && a.port_or_known_default() == b.port_or_known_default()
}

fn is_redirect(status: StatusCode) -> bool {
    [301, 302, 303, 307, 308].contains(&status.as_u16())
}

fn failed(error: &reqwest::Error, url: &Url) -> Error {
    let (host, why) = (host(url), root(error));
    if error.is_timeout() {
        return Error::new(Category::Timeout, format!("{host} does not answer"));
    }
    let Some(fault) = tls_fault(error) else {
        return unreachable(format!("{host} cannot be reached: {why}"));
    };
    let remedy = match fault {
        rustls::Error::InvalidMessage(_) => {
            "it does not speak TLS; if that is what it should do, plain HTTP has to be said"
        }
        _ => {
            "if an authority of its own vouches for it, that one's certificate belongs into the CA bundle"
        }
    };
    Error::new(Category::Tls, format!("{host}: {fault}; {remedy}"))
}

/// The innermost cause. The outer ones name the address.
fn root(error: &reqwest::Error) -> String {
    let root = anyhow::Chain::new(error).skip(1).last();
    root.map_or_else(|| "the connection broke".to_owned(), ToString::to_string)
}

/// rustls's errors come wrapped into those of I/O, often twice, and these do not name what they wrap as their cause.
fn tls_fault(error: &reqwest::Error) -> Option<&rustls::Error> {
    anyhow::Chain::new(error).find_map(|mut cause| {
        while let Some(inner) = cause.downcast_ref::<std::io::Error>()?.get_ref() {
            if let Some(fault) = inner.downcast_ref() {
                return Some(fault);
            }
            cause = inner;
        }
        None
    })
}
