//! Replies in the shapes MAAS uses. What `raised` by an exception lacks piston's headers; what piston itself sends has them.

use serde::Serialize;
use serde_json::{Value, json};

#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) body: Vec<u8>,
    pub(crate) headers: Vec<(&'static str, String)>,
    /// Whether the reply passed piston: then it has `X-MAAS-API-Hash`, and the transaction (the nonce) was kept.
    pub(crate) piston: bool,
}

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json; charset=utf-8";

impl Reply {
    fn new(status: u16, content_type: &str, body: impl Into<Vec<u8>>, piston: bool) -> Self {
        Self {
            status,
            content_type: content_type.into(),
            body: body.into(),
            headers: vec![],
            piston,
        }
    }

    /// 200 with JSON, indented by four like MAAS's.
    pub(crate) fn json(value: &Value) -> Self {
        Self::new(200, JSON, pretty(value), true)
    }

    /// 200 with JSON that a handler rendered itself; MAAS leaves the charset out there.
    pub(crate) fn bare_json(value: &Value) -> Self {
        Self::new(200, "application/json", serde_json::to_vec(value).unwrap_or_default(), true)
    }

    /// 204, or what MAAS's `rc.DELETED` is.
    pub(crate) fn deleted() -> Self {
        Self::new(204, "text/plain", "", true)
    }

    /// An exception with a sentence, or with an empty body.
    pub(crate) fn text(status: u16, text: &str) -> Self {
        Self::new(status, TEXT, text, false)
    }

    /// A sentence sent by piston itself, without a charset.
    pub(crate) fn plain(status: u16, text: &str) -> Self {
        Self::new(status, "text/plain", text, true)
    }

    /// 404 of an object.
    pub(crate) fn not_found(model: &str) -> Self {
        Self::plain(404, &format!("No {model} matches the given query."))
    }

    /// 403 without a word.
    pub(crate) fn forbidden() -> Self {
        Self::text(403, "")
    }

    /// 403 of methods that only administrators may call.
    pub(crate) fn admins_only() -> Self {
        Self::text(403, "This method is reserved for admin users.")
    }

    pub(crate) fn unrecognised(method: &str, op: Option<&str>) -> Self {
        Self::text(
            400,
            &format!("Unrecognised signature: method={method} op={}", op.unwrap_or("None")),
        )
    }

    /// 400 with one faulty form field.
    pub(crate) fn form(field: &str, message: &str) -> Self {
        Self::forms(&[(field.to_owned(), vec![message.to_owned()])])
    }

    /// 400 with several faulty form fields.
    pub(crate) fn forms(fields: &[(String, Vec<String>)]) -> Self {
        let map: serde_json::Map<String, Value> =
            fields.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
        Self::new(400, JSON, Value::Object(map).to_string(), false)
    }

    /// 400 from a model's own check; without a charset.
    pub(crate) fn model_error(field: &str, message: &str) -> Self {
        Self::new(400, "application/json", json!({ field: [message] }).to_string(), false)
    }

    /// 401 of the OAuth layer, labelled as HTML although it is text.
    pub(crate) fn unauthorized(text: &str) -> Self {
        let mut reply = Self::new(
            401,
            "text/html; charset=utf-8",
            format!("Authorization Error: {text}"),
            false,
        );
        reply.headers.push(("WWW-Authenticate", "OAuth realm=\"OAuth\"".into()));
        reply
    }

    pub(crate) fn method_not_allowed(allowed: &str) -> Self {
        let mut reply = Self::new(405, "text/html; charset=utf-8", "", true);
        reply.headers.push(("Allow", allowed.into()));
        reply
    }

    /// A page of the nginx in front of the region.
    pub(crate) fn nginx(status: u16, reason: &str) -> Self {
        let title = format!("{status} {reason}");
        let body = format!(
            "<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{title}</h1></center>\r\n\
             <hr><center>nginx/1.22.1</center>\r\n</body>\r\n</html>\r\n"
        );
        Self::new(status, "text/html", body, false)
    }

    /// 409 of a database conflict that MAAS gave up on; the one 409 that is worth repeating.
    pub(crate) fn conflict_page() -> Self {
        let body = "<html><head><title>Error: Conflict Error</title></head><body><h1>Conflict error. Try your request \
                    again, as it will most likely succeed.</h1></body></html>";
        let mut reply = Self::new(409, "text/html; charset=utf-8", body, false);
        reply.headers.push(("Retry-After", "5".into()));
        reply
    }

    pub(crate) fn custom(status: u16, content_type: &str, body: &str) -> Self {
        Self::new(status, content_type, body, false)
    }

    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

fn pretty(value: &Value) -> Vec<u8> {
    let mut out = vec![];
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, formatter);
    // A Value always serialises: its keys are strings.
    let _ = value.serialize(&mut serializer);
    out
}
