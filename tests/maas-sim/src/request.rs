//! A request as MAAS's API layer (piston) sees it.

use serde_json::Value;

/// Key-value pairs in the order in which they came; keys may repeat.
pub(crate) type Pairs = Vec<(String, String)>;

/// What became of the body.
#[derive(Debug, Clone)]
pub(crate) enum Data {
    /// A form (urlencoded, multipart or nothing at all).
    Form(Pairs),
    /// JSON, which MAAS only half supports.
    Json(Value),
    /// JSON that cannot be read.
    BadJson,
    /// Any other content type; piston's `request.data` is None.
    Other,
}

#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Decoded, repeated slashes collapsed: `/MAAS/api/2.0/machines/`.
    pub(crate) path: String,
    /// The decoded segments below `/MAAS/api/2.0/`, without a trailing empty one.
    pub(crate) segments: Vec<String>,
    pub(crate) trailing_slash: bool,
    /// Path and query as they came, below `/MAAS/api/2.0`.
    pub(crate) shown: String,
    pub(crate) query: Pairs,
    pub(crate) authorization: Option<String>,
    pub(crate) host: String,
    pub(crate) urlencoded: bool,
    pub(crate) data: Data,
    /// The operation, from the query, the form or the path.
    pub(crate) op: Option<String>,
}

const ROOT: &str = "/MAAS/api/2.0";

impl Request {
    pub(crate) fn new(parts: &hyper::http::request::Parts, body: &[u8]) -> Self {
        let raw = collapse(parts.uri.path());
        let decoded = decode(&raw);
        let below = raw.strip_prefix(ROOT).unwrap_or("");
        let mut segments: Vec<String> = below.split('/').skip(1).map(decode).collect();
        let trailing_slash = segments.last().is_some_and(String::is_empty);
        if trailing_slash {
            segments.pop();
        }
        let raw_query = parts.uri.query().unwrap_or("");
        let query: Pairs = form_urlencoded::parse(raw_query.as_bytes()).into_owned().collect();
        let header =
            |name: &str| parts.headers.get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
        let content_type = header("content-type").unwrap_or_default();
        let data = read_body(&content_type, body);
        let mut shown = raw.strip_prefix(ROOT).unwrap_or(&raw).to_owned();
        if !raw_query.is_empty() {
            shown.push('?');
            shown.push_str(raw_query);
        }
        let mut request = Self {
            method: parts.method.to_string(),
            path: decoded,
            segments,
            trailing_slash,
            shown,
            query,
            authorization: header("authorization"),
            host: header("host").unwrap_or_default(),
            urlencoded: content_type.starts_with("application/x-www-form-urlencoded"),
            data,
            op: None,
        };
        request.op = request.find_op();
        request
    }

    pub(crate) fn in_api(&self) -> bool {
        self.path == ROOT || self.path.starts_with("/MAAS/api/2.0/")
    }

    /// Query first, then the form of a POST, then a path suffix `/op-NAME`.
    fn find_op(&mut self) -> Option<String> {
        // An empty op in the query counts as absent.
        if let Some((_, op)) = self.query.iter().find(|(k, v)| k == "op" && !v.is_empty()) {
            return Some(op.clone());
        }
        if self.method == "POST"
            && let Data::Form(form) = &self.data
            && let Some((_, op)) = form.iter().rfind(|(k, _)| k == "op")
        {
            return Some(op.clone());
        }
        if !self.trailing_slash
            && let Some(op) =
                self.segments.last().and_then(|s| s.strip_prefix("op-")).map(str::to_owned)
        {
            self.segments.pop();
            self.trailing_slash = true;
            return Some(op);
        }
        None
    }

    /// `request.POST`: the form fields; JSON and other bodies leave it empty.
    pub(crate) fn post(&self) -> &Pairs {
        static NOTHING: Pairs = Vec::new();
        match &self.data {
            Data::Form(form) => form,
            _ => &NOTHING,
        }
    }

    /// `request.data` as a flat dictionary, for the handlers that take JSON too. A list counts as a repeated key.
    pub(crate) fn fields(&self) -> Pairs {
        match &self.data {
            Data::Form(form) => form.iter().filter(|(k, _)| k != "op").cloned().collect(),
            Data::Json(Value::Object(map)) => map.iter().flat_map(|(k, v)| flatten(k, v)).collect(),
            _ => vec![],
        }
    }

    /// The body as the record of calls shows it: user data only by its length.
    pub(crate) fn recorded(&self) -> Pairs {
        let hide = |(k, v): (String, String)| match k.as_str() {
            "user_data" => (k, format!("<{} bytes>", v.len())),
            _ => (k, v),
        };
        match &self.data {
            Data::Form(form) => form.iter().cloned().map(hide).collect(),
            _ => self.fields().into_iter().map(hide).collect(),
        }
    }
}

fn flatten(key: &str, value: &Value) -> Pairs {
    match value {
        Value::Array(list) => list.iter().flat_map(|v| flatten(key, v)).collect(),
        Value::String(text) => vec![(key.into(), text.clone())],
        Value::Null => vec![(key.into(), String::new())],
        other => vec![(key.into(), other.to_string())],
    }
}

fn collapse(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for c in path.chars() {
        if c != '/' || !out.ends_with('/') {
            out.push(c);
        }
    }
    out
}

fn decode(text: &str) -> String {
    // `+` is a plus in a path, unlike in a query.
    let pair = form_urlencoded::parse(
        text.replace('+', "%2B").replace('&', "%26").replace('=', "%3D").as_bytes(),
    )
    .next()
    .map(|(k, _)| k.into_owned());
    pair.unwrap_or_default()
}

fn read_body(content_type: &str, body: &[u8]) -> Data {
    let kind = content_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    match kind.as_str() {
        "" => Data::Form(vec![]),
        "application/x-www-form-urlencoded" => {
            Data::Form(form_urlencoded::parse(body).into_owned().collect())
        }
        "multipart/form-data" => Data::Form(multipart(content_type, body)),
        _ if body.is_empty() => Data::Form(vec![]),
        "application/json" => serde_json::from_slice(body).map_or(Data::BadJson, Data::Json),
        _ => Data::Other,
    }
}

fn multipart(content_type: &str, body: &[u8]) -> Pairs {
    let boundary =
        content_type.split("boundary=").nth(1).unwrap_or("").split(';').next().unwrap_or("");
    let delimiter = format!("--{}", boundary.trim().trim_matches('"'));
    let text = String::from_utf8_lossy(body);
    let mut pairs = vec![];
    for part in text.split(&delimiter).skip(1) {
        let Some((head, value)) = part.split_once("\r\n\r\n") else {
            continue;
        };
        let Some(name) = head.split("name=\"").nth(1).and_then(|rest| rest.split('"').next())
        else {
            continue;
        };
        pairs.push((name.to_owned(), value.strip_suffix("\r\n").unwrap_or(value).to_owned()));
    }
    pairs
}
