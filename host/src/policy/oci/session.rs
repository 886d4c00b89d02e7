//! One conversation with a registry about one repository, with whatever credentials it accepts.

use std::collections::VecDeque;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use form_urlencoded::Serializer;
use reqwest::header::HeaderValue;
use reqwest::{Method, StatusCode, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use super::Access;
use super::challenge::Challenge;
use super::error::{Category, Error, Result};
use super::keychain::Credential;
use super::reference::Reference;
use super::transport::{Answer, Ask, Follow, Transport, host, unreachable};

/// Largest answer of a token service, bytes.
const LARGEST_TOKEN: usize = 64 << 10;

/// What is to be done with the repository, as token services call it.
#[derive(Clone, Copy)]
pub(super) enum Action {
    Pull,
    Push,
}

pub(super) struct Session<'a> {
    transport: Transport,
    reference: &'a Reference,
    base: Url,
    action: Action,
    /// Those not shown yet; nothing stands for a token that anybody gets.
    untried: VecDeque<Option<Credential>>,
    /// Whether there were any.
    anonymous: bool,
    helpers: bool,
    authorization: Option<HeaderValue>,
}

impl<'a> Session<'a> {
    pub(super) fn new(reference: &'a Reference, access: &Access, action: Action) -> Result<Self> {
        let scheme = if access.plain_http { "http" } else { "https" };
        let base = format!("{scheme}://{}/v2/{}/", reference.server(), reference.repository());
        let base = Url::parse(&base)
            .map_err(|_| Error::new(Category::BadReference, "the registry's host is none"))?;
        let found = access.keychain.lookup(reference)?;
        let anonymous = found.is_empty();
        let mut untried: VecDeque<_> = found.into_iter().map(Some).collect();
        if anonymous {
            untried.push_back(None);
        }
        Ok(Self {
            transport: Transport::new(access)?,
            reference,
            base,
            action,
            untried,
            anonymous,
            helpers: access.keychain.names_helpers(),
            authorization: None,
        })
    }

    /// An address below the repository's.
    pub(super) fn url(&self, path: &str) -> Result<Url> {
        self.base.join(path).map_err(|_| Error::new(Category::BadReference, "no address"))
    }

    pub(super) async fn get(
        &mut self,
        path: &str,
        accept: &'static str,
        follow: Follow,
    ) -> Result<Answer> {
        self.ask(&Ask::get(self.url(path)?, accept, follow)).await
    }

    /// Reads the body of an answer.
    pub(super) async fn body(&self, answer: Answer, largest: usize) -> Result<Vec<u8>> {
        self.transport.body(answer.response, largest).await
    }

    /// Asks, and shows one credential after the other while the registry wants to see some.
    pub(super) async fn ask(&mut self, ask: &Ask) -> Result<Answer> {
        loop {
            let answer = self.transport.exchange(ask, self.authorization.as_ref()).await?;
            if !answer.home || answer.response.status() != StatusCode::UNAUTHORIZED {
                return Ok(answer);
            }
            let challenge = Challenge::of(answer.response.headers());
            self.authorization = Some(self.next(challenge.as_ref()).await?);
        }
    }

    /// What a status says that is not the wanted one.
    pub(super) fn refusal(&self, answer: &Answer, what: &str) -> Error {
        let status = answer.response.status().as_u16();
        let host = host(answer.response.url());
        if !answer.home {
            return unreachable(format!(
                "{host}, to which the registry redirects, answers {status}"
            ));
        }
        match status {
            403 => self.refused(),
            404 => Error::new(Category::NotFound, format!("{host} has no {what}")),
            413 => Error::new(Category::TooLarge, format!("{host} takes no {what} of this size")),
            429 => unreachable(format!(
                "{host} has had too many requests: try again later, or with credentials"
            )),
            _ => unreachable(format!("{host} answers {status} when asked for the {what}")),
        }
    }

    /// The next credential, as the registry wants to see it.
    async fn next(&mut self, challenge: Option<&Challenge>) -> Result<HeaderValue> {
        while let Some(credential) = self.untried.pop_front() {
            match self.shown(challenge, credential).await {
                Err(error)
                    if error.category() == Category::Unauthorized && !self.untried.is_empty() => {}
                shown => return shown,
            }
        }
        Err(self.refused())
    }

    async fn shown(
        &self,
        challenge: Option<&Challenge>,
        credential: Option<Credential>,
    ) -> Result<HeaderValue> {
        match (challenge, credential) {
            (_, Some(Credential::Registry(token))) => bearer(&token),
            (Some(Challenge::Bearer { realm, service }), credential) => {
                self.token(realm, service.as_deref(), credential).await
            }
            (Some(Challenge::Basic), Some(Credential::Basic { username, password })) => {
                basic(&username, &password)
            }
            (Some(Challenge::Basic), Some(Credential::Identity(_))) => Err(Error::new(
                Category::Unauthorized,
                "the registry wants a name and a password, and the credentials are an identity token",
            )),
            (Some(Challenge::Basic) | None, _) => Err(self.refused()),
        }
    }

    /// Fetches a token, as described in
    /// <https://distribution.github.io/distribution/spec/auth/token/> and `…/oauth/`.
    ///
    /// Its service is mostly another host, whose address only the registry knows. It is shown what the registry itself could
    /// have asked to see; TLS keeps it from everybody else.
    async fn token(
        &self,
        realm: &str,
        service: Option<&str>,
        credential: Option<Credential>,
    ) -> Result<HeaderValue> {
        let mut url = token_service(&self.transport, realm)?;
        let actions = match self.action {
            Action::Pull => "pull",
            Action::Push => "pull,push",
        };
        let scope = format!("repository:{}:{actions}", self.reference.repository());
        let (ask, shown) = if let Some(Credential::Identity(token)) = &credential {
            (refresh(url, service, &scope, token), None)
        } else {
            let mut query = url.query_pairs_mut();
            service.map(|service| query.append_pair("service", service));
            query.append_pair("scope", &scope);
            drop(query);
            let shown = match &credential {
                Some(Credential::Basic { username, password }) => Some(basic(username, password)?),
                _ => None,
            };
            (Ask::get(url, "application/json", Follow::Home), shown)
        };
        let answer = self.transport.exchange(&ask, shown.as_ref()).await?;
        match answer.response.status().as_u16() {
            200 => self
                .transport
                .body(answer.response, LARGEST_TOKEN)
                .await
                .and_then(|body| granted(&body)),
            400 | 401 | 403 => Err(self.refused()),
            status => {
                let host = host(answer.response.url());
                Err(unreachable(format!("the token service {host} answers {status}")))
            }
        }
    }

    fn refused(&self) -> Error {
        let registry = self.reference.registry();
        let why = if self.anonymous && self.helpers {
            format!(
                "{registry} wants credentials; the configuration leaves them to a credential helper, and helpers are not \
                 run: write name and password into it (`docker login` without a helper)"
            )
        } else if self.anonymous {
            format!(
                "{registry} wants credentials, and there are none for it: name a Secret that `kubectl create secret \
                 docker-registry` made (or there is no such repository)"
            )
        } else {
            format!(
                "{registry} does not accept the credentials for {}: they are wrong, or may not do this there",
                self.reference.repository()
            )
        };
        Error::new(Category::Unauthorized, why)
    }
}

/// The address of a token service that may be asked.
fn token_service(transport: &Transport, realm: &str) -> Result<Url> {
    let url = Url::parse(realm)
        .ok()
        .filter(|url| url.has_host() && url.username().is_empty() && url.password().is_none())
        .ok_or_else(|| unreachable("the registry names a token service that is no web address"))?;
    transport.check_scheme(&url).map_err(|error| error.about("the token service"))?;
    Ok(url)
}

fn refresh(url: Url, service: Option<&str>, scope: &str, token: &SecretString) -> Ask {
    let mut form = Serializer::new(String::new());
    form.append_pair("grant_type", "refresh_token")
        .append_pair("client_id", "capmaas")
        .append_pair("service", service.unwrap_or_default())
        .append_pair("scope", scope)
        .append_pair("refresh_token", token.expose_secret());
    let body = Bytes::from(form.finish());
    Ask {
        method: Method::POST,
        url,
        accept: "application/json",
        body: Some(("application/x-www-form-urlencoded", body)),
        // The token is in the body.
        follow: Follow::Nowhere,
    }
}

/// The token in a token service's answer; which of the two names it has differs.
fn granted(body: &[u8]) -> Result<HeaderValue> {
    #[derive(Deserialize)]
    struct Granted {
        token: Option<String>,
        access_token: Option<String>,
    }
    let token = serde_json::from_slice(body).ok().and_then(|granted: Granted| {
        granted.token.or(granted.access_token).filter(|token| !token.is_empty())
    });
    match token {
        Some(token) => bearer(&token.into()),
        None => Err(unreachable("the token service answers without a token")),
    }
}

fn bearer(token: &SecretString) -> Result<HeaderValue> {
    secret(&format!("Bearer {}", token.expose_secret()))
}

fn basic(username: &str, password: &SecretString) -> Result<HeaderValue> {
    let pair = format!("{username}:{}", password.expose_secret());
    secret(&format!("Basic {}", BASE64_STANDARD.encode(pair)))
}

fn secret(text: &str) -> Result<HeaderValue> {
    let mut value = HeaderValue::from_str(text)
        .map_err(|_| Error::new(Category::Unauthorized, "the token cannot be sent in a header"))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Access, Transport, granted, token_service};

    const SECRET: &str = "7kQv2XwZb9TnR4sLd8HmYc3PfGj6AeUx";

    fn transport(plain_http: bool) -> Transport {
        let _ = rustls::crypto::ring::default_provider().install_default();
        Transport::new(&Access { plain_http, ..Access::default() }).unwrap()
    }

    #[test]
    fn a_token_service_is_asked_over_tls_unless_plain_http_was_said() {
        let (tls, plain) = (transport(false), transport(true));
        for (realm, over_tls, over_http) in [
            ("https://auth.example.com/token", true, true),
            ("http://auth.example.com/token", false, true),
            ("HTTP://auth.example.com/token", false, true),
            ("ht\ttp:\\\\auth.example.com", false, true),
            ("file://auth.example.com/token", false, false),
            ("data:https://auth.example.com", false, false),
            ("//auth.example.com/token", false, false),
            ("https://user@auth.example.com/token", false, false),
            ("https://:word@auth.example.com/token", false, false),
        ] {
            assert_eq!(token_service(&tls, realm).is_ok(), over_tls, "{realm}");
            assert_eq!(token_service(&plain, realm).is_ok(), over_http, "{realm}");
        }
    }

    #[test]
    fn no_realm_leads_where_it_may_not() {
        let (tls, plain) = (transport(false), transport(true));
        let realm = prop_oneof![
            "[hH][tT][tT][pP][sS]?:[/\\\\]{0,3}[a-z@:.%0-9\t]{0,20}[/?#]?[ -~]{0,20}",
            "[a-z+]{1,6}://[ -~]{0,20}",
            "(?s).{0,40}",
        ];
        proptest!(|(realm in realm, path in "[ -~]{0,20}")| {
            for (transport, schemes) in [(&tls, &["https"][..]), (&plain, &["https", "http"])] {
                if let Ok(url) = token_service(transport, &realm) {
                    prop_assert!(schemes.contains(&url.scheme()), "{}", url);
                    prop_assert!(url.has_host() && url.username().is_empty() && url.password().is_none());
                }
            }
            // What stands in an address may be a secret of the registry's.
            for realm in [
                format!("http://auth.example.com/{SECRET}{path}"),
                format!("https://user:{SECRET}@auth.example.com/{path}"),
                format!("{SECRET}:{path}"),
            ] {
                let error = token_service(&tls, &realm).unwrap_err();
                prop_assert!(!format!("{error} {error:?}").contains(SECRET), "{}", error);
            }
        });
    }

    proptest! {
        #[test]
        fn a_token_that_was_granted_is_shown_nowhere(token in "(?s).{0,20}", body in "(?s).{0,40}") {
            let token = format!("{SECRET}{token}");
            for body in [
                serde_json::json!({ "token": token }).to_string(),
                serde_json::json!({ "access_token": token, "token": null }).to_string(),
                serde_json::json!({ "token": [token] }).to_string(),
                format!("{SECRET}{body}"),
            ] {
                let granted = granted(body.as_bytes());
                prop_assert!(!format!("{granted:?}").contains(SECRET), "{:?}", granted);
            }
        }
    }
}
