//! An answer of MAAS as it came over the wire, and what a refusal means.

use std::time::SystemTime;

use capmaas_core::{CallError, Category};
use reqwest::{StatusCode, header};
use serde_json::Value;
use serde_json::value::RawValue;

use super::ApiKey;

/// An answer of MAAS, or of whatever stands in front of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// It is a page for people: MAAS's own texts and JSON never are.
    pub html: bool,
    /// Seconds it asks to wait.
    pub retry_after: Option<u64>,
    /// Seconds by which its clock is ahead of ours.
    pub ahead: Option<i64>,
    /// What it says.
    pub body: Vec<u8>,
}

impl Answer {
    /// Status and headers; the body is still to come.
    pub(super) fn of(response: &reqwest::Response) -> Self {
        let text = |name| response.headers().get(name).and_then(|v| v.to_str().ok());
        Self {
            status: response.status().as_u16(),
            html: text(header::CONTENT_TYPE).is_some_and(|t| t.starts_with("text/html")),
            retry_after: text(header::RETRY_AFTER).and_then(|t| t.trim().parse().ok()),
            ahead: text(header::DATE).and_then(|t| httpdate::parse_http_date(t).ok()).map(ahead),
            body: Vec::new(),
        }
    }

    /// Its JSON, `null` when it says nothing. `reading`: nothing was to be changed by the call.
    ///
    /// # Errors
    /// A refusal, in MAAS's own words unless they may hold a secret; they never hold `key`.
    pub fn json(&self, reading: bool, key: &ApiKey) -> Result<Box<RawValue>, CallError> {
        if !StatusCode::from_u16(self.status).is_ok_and(|s| s.is_success()) {
            return Err(self.refusal(key));
        }
        if self.body.iter().all(u8::is_ascii_whitespace) {
            return Ok(RawValue::NULL.to_owned());
        }
        serde_json::from_slice(&self.body).map_err(|_| {
            let category = if reading { Category::Malformed } else { Category::Unknown };
            CallError::new(category, "the answer is not JSON: is MAAS_ENDPOINT a MAAS?")
        })
    }

    /// Texts are MAAS's own (3.5 – 3.7).
    fn refusal(&self, key: &ApiKey) -> CallError {
        let body = String::from_utf8_lossy(&self.body);
        // Anonymous callers of /machines/ have a handler of their own, which knows no such operation.
        let anonymous = self.status == 400 && body.starts_with("Unrecognised signature");
        let category = match self.status {
            401 => Category::Unauthorized,
            400 if anonymous => Category::Unauthorized,
            403 => Category::Forbidden,
            404 => Category::NotFound,
            409 if self.html => Category::Conflict,
            409 => Category::State,
            502..=504 if self.html => Category::Unavailable,
            300..=399 => Category::Malformed,
            500..=599 => Category::Server,
            _ => Category::BadRequest,
        };
        let words = self.words(&body, key);
        let retry_after = self.retry_after;
        CallError { status: Some(self.status), retry_after, ..CallError::new(category, words) }
    }

    fn words(&self, body: &str, key: &ApiKey) -> String {
        let code = self.status;
        let silent = || match code {
            403 => "not allowed, or the machine is locked".into(),
            _ => format!("HTTP {code} without a text"),
        };
        match code {
            // The body of a 401 may hold the very signature that would have been right.
            401 => self.unauthorized(body.contains("Expired timestamp")),
            300..=399 => {
                "MAAS redirects: is MAAS_ENDPOINT right, and http or https as MAAS wants?".into()
            }
            _ if self.html => format!("HTTP {code}"),
            // Something in between may show the request it did not like, with all its headers.
            _ => {
                let said = key.hidden_in(&flatten(body));
                Some(said).filter(|t| !t.is_empty()).unwrap_or_else(silent)
            }
        }
    }

    /// Whatever MAAS says: with clocks this far apart it takes no signature.
    fn unauthorized(&self, expired: bool) -> String {
        // In minutes, so that the same trouble is told in the same words.
        let apart = self.ahead.map(|s| (s as f64 / 60.0).round() as i64).unwrap_or_default();
        let told = match apart {
            1.. => format!(": the clock of MAAS is {apart} min ahead of ours"),
            ..=-1 => format!(": the clock of MAAS is {} min behind ours", -apart),
            0 => String::new(),
        };
        match expired || self.ahead.is_some_and(|s| s.abs() > TOLERATED) {
            true => format!("expired timestamp{told}"),
            false => "the API key is not accepted".into(),
        }
    }
}

/// Seconds by which the clocks of MAAS and its clients may differ (MAAS 3.5 – 3.7).
const TOLERATED: i64 = 300;

fn ahead(theirs: SystemTime) -> i64 {
    let signed = |d: std::time::Duration| i64::try_from(d.as_secs()).unwrap_or(i64::MAX);
    match theirs.duration_since(SystemTime::now()) {
        Ok(ahead) => signed(ahead),
        Err(behind) => -signed(behind.duration()),
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
        _ => body.to_owned(),
    };
    let printable: String = text.chars().filter(|c| c.is_whitespace() || !c.is_control()).collect();
    printable.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, html: bool, body: &str) -> CallError {
        let key = ApiKey::parse("consumer:token:s3cret").unwrap();
        let answer = Answer { status, html, body: body.into(), ..Answer::default() };
        answer.json(true, &key).unwrap_err()
    }

    #[test]
    fn a_conflict_is_told_from_a_state_by_its_content_type() {
        assert_eq!(refused(409, false, "No machine available.").category, Category::State);
        assert_eq!(refused(409, true, "<html>").category, Category::Conflict);
    }

    #[test]
    fn an_anonymous_refusal_is_a_matter_of_the_key() {
        let body = "Unrecognised signature: method=GET op=None";
        assert_eq!(refused(400, false, body).category, Category::Unauthorized);
        assert_eq!(refused(400, false, "Invalid limit").category, Category::BadRequest);
    }

    #[test]
    fn the_secret_in_a_401_is_never_repeated() {
        let body =
            "Authorization Error: 'Invalid signature. Expected signature base string: &0ther'";
        let error = refused(401, true, body);
        assert!(!error.message.contains("0ther"), "{}", error.message);
    }

    #[test]
    fn our_own_secret_is_never_repeated() {
        let bodies = ["Bad header: oauth_signature=%26s3cret", r#"{"x": ["\u0073\u0033cret"]}"#];
        for body in bodies {
            for status in [400, 403, 409, 500, 502] {
                let error = refused(status, false, body);
                assert!(!error.message.contains("s3cret"), "{status}: {}", error.message);
            }
        }
    }

    #[test]
    fn a_form_error_names_its_fields() {
        let body = r#"{"tags": ["No such tag(s): 'x'."], "zone": ["No such zone(s): y."]}"#;
        let said = "tags: No such tag(s): 'x'.; zone: No such zone(s): y.";
        assert_eq!(refused(400, false, body).message, said);
    }

    #[test]
    fn a_refusal_that_says_nothing_is_told_by_its_status() {
        for body in ["", " \n", "{}", "\u{1}"] {
            assert_eq!(refused(400, false, body).message, "HTTP 400 without a text", "{body:?}");
        }
    }
}
