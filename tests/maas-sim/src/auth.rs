//! OAuth 1.0a as MAAS's piston does it: PLAINTEXT and HMAC-SHA1, in the Authorization header.

use crate::reply::Reply;
use crate::request::{Data, Pairs, Request};
use crate::users::{Token, User};
use crate::world::World;
use base64::Engine;
use hmac::{Hmac, Mac};
use sha1::Sha1;
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds after which a timestamp is too old; one in the future always passes.
const THRESHOLD: i64 = 300;

pub(crate) type NonceKey = (String, String, String);

/// Who calls, and the nonce to keep when the call succeeds (MAAS writes it in the request's transaction).
pub(crate) enum Caller {
    Anonymous,
    User(User, NonceKey),
}

const NEEDED: [&str; 6] = [
    "oauth_consumer_key",
    "oauth_token",
    "oauth_signature",
    "oauth_signature_method",
    "oauth_timestamp",
    "oauth_nonce",
];

pub(crate) fn identify(world: &World, request: &Request) -> Result<Caller, Reply> {
    let header = request.authorization.as_deref().unwrap_or("");
    // Like piston, only look whether the words occur somewhere; `oauth_signature` is part of `oauth_signature_method`.
    if !NEEDED.iter().all(|name| header.contains(name)) {
        let elsewhere = |pairs: &Pairs| NEEDED.iter().all(|n| pairs.iter().any(|(k, _)| k == n));
        let form = matches!(&request.data, Data::Form(form) if elsewhere(form));
        if elsewhere(&request.query) || form {
            return Err(Reply::text(500, "dictionary changed size during iteration"));
        }
        return Ok(Caller::Anonymous);
    }
    let Some(rest) = header.strip_prefix("OAuth ") else {
        return Err(Reply::text(400, "'Bad Request: Parameter not found: oauth_consumer_key'"));
    };
    verify(world, request, &parse(rest))
}

fn parse(header: &str) -> Pairs {
    let pair = |part: &str| {
        let (key, value) = part.trim().split_once('=')?;
        Some((key.to_owned(), percent_decode(value.trim_matches('"'))))
    };
    header.split(',').filter_map(pair).collect()
}

fn percent_decode(text: &str) -> String {
    let plain = text.replace('+', "%2B").replace('&', "%26").replace('=', "%3D");
    form_urlencoded::parse(plain.as_bytes()).next().map(|(k, _)| k.into_owned()).unwrap_or_default()
}

fn verify(world: &World, request: &Request, oauth: &Pairs) -> Result<Caller, Reply> {
    let get = |key: &str| oauth.iter().find(|(k, _)| k == key).map(|(_, v)| v.clone());
    let version = get("oauth_version").unwrap_or_else(|| "1.0".into());
    if version != "1.0" {
        return Err(Reply::unauthorized(&format!("'OAuth version {version} not supported.'")));
    }
    let consumer = get("oauth_consumer_key").unwrap_or_default();
    let key = get("oauth_token").unwrap_or_default();
    let tokens = || world.users.iter().flat_map(|u| u.tokens.iter().map(move |t| (u, t)));
    // The consumer only has to exist; whose call it is, the token alone says.
    if !tokens().any(|(_, t)| t.consumer == consumer) {
        return Err(Reply::unauthorized("Invalid API key."));
    }
    let Some((user, token)) = tokens().find(|(_, t)| t.key == key) else {
        return Err(Reply::unauthorized(&format!("'Invalid access token: {key}'")));
    };
    let stamp = get("oauth_timestamp").unwrap_or_default();
    let Ok(given) = stamp.trim().parse::<i64>() else {
        return Err(Reply::text(
            500,
            &format!("invalid literal for int() with base 10: '{stamp}'"),
        ));
    };
    let now = unix_now();
    if now - given > THRESHOLD {
        return Err(Reply::unauthorized(&format!(
            "'Expired timestamp: given {given} and now {now} has a greater difference than threshold {THRESHOLD}'"
        )));
    }
    let nonce = (consumer, key, get("oauth_nonce").unwrap_or_default());
    if world.nonces.contains(&nonce) {
        return Err(Reply::unauthorized(&format!("'Nonce already used: {}'", nonce.2)));
    }
    check_signature(request, oauth, token)?;
    Ok(Caller::User(user.clone(), nonce))
}

fn check_signature(request: &Request, oauth: &Pairs, token: &Token) -> Result<(), Reply> {
    let get = |key: &str| oauth.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
    let method = get("oauth_signature_method").unwrap_or("");
    // The consumer's secret is always empty in MAAS.
    let secret = format!("&{}", token.secret);
    let (base, right) = match method {
        "PLAINTEXT" => (secret.clone(), secret),
        "HMAC-SHA1" => {
            let base = base_string(request, oauth);
            let right = hmac_sha1(&secret, &base);
            (base, right)
        }
        other => {
            return Err(Reply::unauthorized(&format!(
                "'Signature method {other} not supported try one of the following: PLAINTEXT, HMAC-SHA1'"
            )));
        }
    };
    match get("oauth_signature") {
        None => Err(Reply::unauthorized("'Missing signature.'")),
        Some(given) if given == right => Ok(()),
        // With PLAINTEXT the reply tells the secret, as MAAS's does.
        Some(_) => Err(Reply::unauthorized(&format!(
            "'Invalid signature. Expected signature base string: {base}'"
        ))),
    }
}

fn hmac_sha1(key: &str, text: &str) -> String {
    // HMAC takes keys of any length.
    let Ok(mut mac) = Hmac::<Sha1>::new_from_slice(key.as_bytes()) else {
        return String::new();
    };
    mac.update(text.as_bytes());
    base64::engine::general_purpose::STANDARD.encode(mac.finalize().into_bytes())
}

/// RFC 5849 §3.4.1: method, address and the sorted parameters of header, query and (POST only) form.
fn base_string(request: &Request, oauth: &Pairs) -> String {
    let mut all: Pairs =
        oauth.iter().filter(|(k, _)| k != "oauth_signature" && k != "realm").cloned().collect();
    all.extend(request.query.iter().cloned());
    if request.method == "POST" && request.urlencoded {
        all.extend(request.post().iter().cloned());
    }
    let mut encoded: Vec<(String, String)> =
        all.iter().map(|(k, v)| (escape(k), escape(v))).collect();
    encoded.sort();
    let joined: Vec<String> = encoded.into_iter().map(|(k, v)| format!("{k}={v}")).collect();
    let url = format!("http://{}{}", request.host.to_ascii_lowercase(), request.path);
    format!("{}&{}&{}", request.method, escape(&url), escape(&joined.join("&")))
}

fn escape(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte))
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

fn unix_now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
