//! What a call that MAAS did not carry out means.

use capmaas_core::{CallError, Category};
use reqwest::StatusCode;
use serde_json::Value;

/// What a request that got no answer means for an effect.
pub(super) fn transport(error: &reqwest::Error) -> CallError {
    use std::error::Error;
    let mut text = String::new();
    let mut cause: Option<&dyn Error> = error.source();
    while let Some(inner) = cause {
        text = inner.to_string();
        cause = inner.source();
    }
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

/// What MAAS's refusal means. Texts are MAAS's own (3.5 – 3.7).
pub(super) fn refusal(
    status: StatusCode,
    html: bool,
    retry_after: Option<u64>,
    body: &str,
) -> CallError {
    let code = status.as_u16();
    // Anonymous callers of /machines/ have a handler of their own, which knows no such operation.
    let anonymous = code == 400 && body.starts_with("Unrecognised signature");
    let category = match code {
        401 => Category::Unauthorized,
        400 if anonymous => Category::Unauthorized,
        403 => Category::Forbidden,
        404 => Category::NotFound,
        409 if html => Category::Conflict,
        409 => Category::State,
        502..=504 if html => Category::Unavailable,
        300..=399 => Category::Malformed,
        500..=599 => Category::Server,
        _ => Category::BadRequest,
    };
    CallError { category, status: Some(code), message: words(code, html, body), retry_after }
}

fn words(code: u16, html: bool, body: &str) -> String {
    match code {
        // The body of a 401 may hold the very signature that would have been right.
        401 if body.contains("Expired timestamp") => "expired timestamp".into(),
        401 => "the API key is not accepted".into(),
        300..=399 => {
            "MAAS redirects: is MAAS_ENDPOINT right, and http or https as MAAS wants?".into()
        }
        _ if html => format!("HTTP {code}"),
        _ if body.trim().is_empty() => match code {
            403 => "not allowed, or the machine is locked".into(),
            _ => format!("HTTP {code} without a text"),
        },
        _ => flatten(body),
    }
}

/// `{"tags": ["No such tag(s): 'x'."]}` becomes `tags: No such tag(s): 'x'.`
fn flatten(body: &str) -> String {
    let text = match serde_json::from_str::<Value>(body) {
        Ok(Value::Object(fields)) => fields
            .iter()
            .map(|(field, problems)| match problems {
                Value::Array(list) => {
                    let all: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
                    format!("{field}: {}", all.join(" "))
                }
                other => format!("{field}: {other}"),
            })
            .collect::<Vec<_>>()
            .join("; "),
        _ => body.split_whitespace().collect::<Vec<_>>().join(" "),
    };
    text.chars().filter(|c| !c.is_control()).take(500).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn category(code: u16, html: bool, body: &str) -> Category {
        refusal(StatusCode::from_u16(code).unwrap(), html, None, body).category
    }

    #[test]
    fn a_conflict_is_told_from_a_state_by_its_content_type() {
        assert_eq!(category(409, false, "No machine available."), Category::State);
        assert_eq!(category(409, true, "<html>"), Category::Conflict);
    }

    #[test]
    fn an_anonymous_refusal_is_a_matter_of_the_key() {
        let body = "Unrecognised signature: method=GET op=None";
        assert_eq!(category(400, false, body), Category::Unauthorized);
        assert_eq!(category(400, false, "Invalid limit"), Category::BadRequest);
    }

    #[test]
    fn the_secret_in_a_401_is_never_repeated() {
        let body =
            "Authorization Error: 'Invalid signature. Expected signature base string: &s3cret'";
        let error = refusal(StatusCode::UNAUTHORIZED, true, None, body);
        assert!(!error.message.contains("s3cret"), "{}", error.message);
    }

    #[test]
    fn a_form_error_names_its_fields() {
        let body = r#"{"tags": ["No such tag(s): 'x'."], "zone": ["No such zone(s): y."]}"#;
        assert_eq!(flatten(body), "tags: No such tag(s): 'x'.; zone: No such zone(s): y.");
    }
}
