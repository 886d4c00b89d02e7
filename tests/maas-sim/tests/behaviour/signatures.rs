//! HMAC-SHA1, the signature method of some clients, is checked like the other one.

use crate::common::{Answer, nonce, now, send};
use crate::{Caller, region};
use base64::Engine;
use hmac::{Hmac, Mac};
use sha1::Sha1;

fn escape(text: &str) -> String {
    let keep = |b: &u8| b.is_ascii_alphanumeric() || b"-._~".contains(b);
    text.bytes()
        .map(|b| if keep(&b) { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect()
}

async fn signed(caller: &Caller, secret: &str, form: &[(&str, &str)]) -> Answer {
    let parts: Vec<&str> = caller.key.split(':').collect();
    let (stamp, nonce) = (now().to_string(), nonce());
    let oauth = [
        ("oauth_consumer_key", parts[0]),
        ("oauth_nonce", &nonce),
        ("oauth_signature_method", "HMAC-SHA1"),
        ("oauth_timestamp", &stamp),
        ("oauth_token", parts[1]),
        ("oauth_version", "1.0"),
    ];
    let mut all: Vec<String> = oauth
        .iter()
        .chain(form)
        .chain(&[("op", "allocate")])
        .map(|(k, v)| format!("{}={}", escape(k), escape(v)))
        .collect();
    all.sort();
    let url = format!("{}/api/2.0/machines/", caller.url);
    let base = format!("POST&{}&{}", escape(&url), escape(&all.join("&")));
    let mut mac = Hmac::<Sha1>::new_from_slice(format!("&{secret}").as_bytes()).expect("a key");
    mac.update(base.as_bytes());
    let signature = base64::engine::general_purpose::STANDARD.encode(mac.finalize().into_bytes());
    let mut header: Vec<String> =
        oauth.iter().map(|(k, v)| format!("{k}=\"{}\"", escape(v))).collect();
    header.push(format!("oauth_signature=\"{}\"", escape(&signature)));
    let request = caller.client.post(format!("{url}?op=allocate"));
    send(request.header("Authorization", format!("OAuth {}", header.join(", "))).form(form))
        .await
        .expect("a reply")
}

#[tokio::test]
async fn hmac_signatures_are_checked() {
    let (_maas, admin) = region().await;
    let secret = admin.key.split(':').nth(2).expect("a secret").to_owned();
    let form = [("agent_name", "a mark & more"), ("dry_run", "true")];
    let right = signed(&admin, &secret, &form).await;
    assert_eq!(right.status, 200, "{}", right.text);
    let wrong = signed(&admin, "not the secret", &form).await;
    assert_eq!(wrong.status, 401);
    assert!(
        !wrong.text.contains(&secret),
        "unlike PLAINTEXT's, this reply does not tell the secret"
    );
}
