//! Runs a group of pairs, in order, against a simulator of its own.

use crate::common::{Answer, nonce, now, plaintext, send};
use crate::compare;
use maas_sim::{Inventory, OperatorAct, Options, Simulator};
use reqwest::{Client, Method, RequestBuilder};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) type Shapes = BTreeMap<String, Value>;

#[derive(Deserialize)]
pub(crate) struct Fixtures {
    pub(crate) shapes: Shapes,
    pub(crate) groups: Vec<Vec<Step>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Step {
    Act { act: (String, OperatorAct) },
    Clock { advance: u64 },
    Setup { setup: Setup },
    Pair(Box<Pair>),
}

/// A request that only prepares the state and must succeed.
#[derive(Deserialize)]
pub(crate) struct Setup {
    #[serde(rename = "as")]
    user: String,
    method: String,
    url: String,
    form: Vec<(String, String)>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Text {
    Plain(String),
    Long { repeat: String, times: usize },
}

impl Text {
    fn text(&self) -> String {
        match self {
            Text::Plain(text) => text.clone(),
            Text::Long { repeat, times } => repeat.repeat(*times),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pair {
    pub(crate) id: String,
    pub(crate) name: String,
    #[serde(rename = "as")]
    user: Option<String>,
    /// An Authorization header with `{nonce}`, `{now}`, `{now-600}` and captured values.
    auth: Option<String>,
    method: String,
    url: String,
    form: Option<Vec<(String, Text)>>,
    #[serde(rename = "type")]
    content_type: Option<String>,
    body: Option<String>,
    accept: Option<String>,
    /// Name to keep, and the field of the reply to keep under it.
    #[serde(default)]
    capture: BTreeMap<String, String>,
    pub(crate) status: u16,
    pub(crate) ctype: String,
    pub(crate) text: Option<String>,
    pub(crate) json: Option<Value>,
    pub(crate) shape: Option<Value>,
    pub(crate) values: Option<Value>,
    pub(crate) hostnames: Option<Vec<String>>,
    pub(crate) exact: Option<Value>,
}

struct Replay {
    maas: Simulator,
    client: Client,
    root: String,
    captured: BTreeMap<String, String>,
}

/// The pairs of the group with what differs.
pub(crate) async fn run<'a>(
    client: &Client,
    group: &'a [Step],
    shapes: &Shapes,
) -> Vec<(&'a Pair, Vec<String>)> {
    let inventory =
        Inventory::from_yaml(include_str!("../fixtures/inventory.yaml")).expect("the inventory");
    let maas = Simulator::start(inventory, Options::default()).await.expect("a simulator");
    let root = maas.url().trim_end_matches("/MAAS").to_owned();
    let mut replay = Replay { maas, client: client.clone(), root, captured: BTreeMap::new() };
    let mut out = vec![];
    for step in group {
        match step {
            Step::Act { act: (hostname, act) } => {
                let id = replay
                    .maas
                    .machine_named(hostname)
                    .expect("a machine of the inventory")
                    .system_id;
                replay.maas.operator(&id, act.clone()).expect("an act");
            }
            Step::Clock { advance } => replay.maas.advance(Duration::from_secs(*advance)),
            Step::Setup { setup } => {
                let answer = send(replay.setup(setup)).await.expect("a reply");
                assert_eq!(answer.status, 200, "preparing {}: {}", setup.url, answer.text);
            }
            Step::Pair(pair) => {
                let differences = match send(replay.request(pair)).await {
                    Ok(answer) => {
                        replay.keep(pair, &answer);
                        compare::differences(pair, &answer, shapes)
                    }
                    Err(error) => vec![format!("no reply: {error:?}")],
                };
                out.push((pair.as_ref(), differences));
            }
        }
    }
    out
}

impl Replay {
    fn fill(&self, text: &str) -> String {
        let mut out = text.to_owned();
        for (name, value) in &self.captured {
            out = out.replace(&format!("{{{name}}}"), value);
        }
        out = out.replace("{nonce}", &nonce());
        while let Some((before, rest)) = out.clone().split_once("{now") {
            let (offset, after) = rest.split_once('}').expect("a closed place-holder");
            let offset: i64 =
                if offset.is_empty() { 0 } else { offset.parse().expect("an offset") };
            let stamp = i64::try_from(now()).expect("a date") + offset;
            out = format!("{before}{stamp}{after}");
        }
        out
    }

    fn setup(&self, setup: &Setup) -> RequestBuilder {
        let key = self.maas.api_key_of(&setup.user).expect("a user of the inventory");
        let method = Method::from_bytes(setup.method.as_bytes()).expect("a method");
        let request = self.client.request(method, format!("{}{}", self.root, setup.url));
        request.header("Authorization", plaintext(&key)).form(&setup.form)
    }

    fn request(&self, pair: &Pair) -> RequestBuilder {
        let method = Method::from_bytes(pair.method.as_bytes()).expect("a method");
        let mut request =
            self.client.request(method, format!("{}{}", self.root, self.fill(&pair.url)));
        if let Some(user) = &pair.user {
            let key = self.maas.api_key_of(user).expect("a user of the inventory");
            request = request.header("Authorization", plaintext(&key));
        }
        if let Some(auth) = &pair.auth {
            request = request.header("Authorization", self.fill(auth));
        }
        if let Some(accept) = &pair.accept {
            request = request.header("Accept", accept);
        }
        if let Some(body) = &pair.body {
            request = request.body(body.clone());
            return match pair.content_type.as_deref() {
                None | Some("") => request,
                Some(kind) => request.header("Content-Type", kind),
            };
        }
        let Some(form) = &pair.form else {
            return request;
        };
        let form: Vec<(String, String)> =
            form.iter().map(|(k, v)| (k.clone(), self.fill_form(v))).collect();
        if pair.content_type.as_deref() != Some("multipart") {
            return request.form(&form);
        }
        let mut body = String::new();
        for (name, value) in form {
            body += &format!(
                "--BOUNDARY\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
            );
        }
        body += "--BOUNDARY--\r\n";
        request.header("Content-Type", "multipart/form-data; boundary=BOUNDARY").body(body)
    }

    fn fill_form(&self, value: &Text) -> String {
        match value {
            Text::Plain(text) => self.fill(text),
            long => long.text(),
        }
    }

    fn keep(&mut self, pair: &Pair, answer: &Answer) {
        for (name, field) in &pair.capture {
            let value = answer.str(field);
            self.captured.insert(name.clone(), value);
        }
    }
}
