use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use capmaas_core::{Event, EventKind};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event as KubeEvent;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::{PostParams, Request};
use kube::{Client, Resource};
use serde::de::IgnoredAny;

/// The same words about the same object are not repeated within this time.
const QUIET: Duration = Duration::from_secs(600);
/// How many different words with one reason are remembered: several policies in shadow may disagree in turn.
const REMEMBERED: usize = 8;

/// Kubernetes refuses a longer note, bytes.
const LONGEST_NOTE: usize = 1000;
/// Room for the time behind it in a name of 253 characters.
const LONGEST_NAME: usize = 220;

/// The uid of an object, and a reason.
type Subject = (String, String);

/// What was said of a subject, and when.
type Notes = Vec<(String, Instant)>;

/// Publishes events of type `events.k8s.io/v1`, each with its own words.
///
/// `kube`'s recorder counts an event as a repetition whenever reason and action are the same, and
/// drops the words of all but the first; here "took node-7" must not swallow "took node-9".
#[derive(Clone)]
pub struct Events {
    client: Client,
    instance: String,
    said: Arc<Mutex<HashMap<Subject, Notes>>>,
}

impl Events {
    /// A publisher that reports as `capmaas`.
    pub fn new(client: Client) -> Self {
        let instance = std::env::var("POD_NAME").unwrap_or_else(|_| "capmaas".into());
        Self { client, instance, said: Arc::default() }
    }

    /// Publishes; an event that cannot be published is logged and forgotten.
    pub async fn publish<K: Resource<DynamicType = ()>>(&self, object: &K, events: &[Event]) {
        let reference = object.object_ref(&());
        for event in events {
            let uid = reference.uid.clone().unwrap_or_default();
            let subject = (uid, event.reason.clone());
            if self.just_said(&subject, &event.note) {
                continue;
            }
            let namespace = reference.namespace.as_deref().unwrap_or("default");
            match self.create(namespace, &self.event(&reference, event)).await {
                Ok(()) => self.remember(subject, event.note.clone()),
                Err(error) => {
                    tracing::warn!(%error, reason = event.reason, "cannot publish an event");
                }
            }
        }
    }

    async fn create(&self, namespace: &str, event: &KubeEvent) -> Result<(), kube::Error> {
        let body = serde_json::to_vec(event).map_err(kube::Error::SerdeError)?;
        let at = Request::new(KubeEvent::url_path(&(), Some(namespace)));
        let request = at.create(&PostParams::default(), body).map_err(kube::Error::BuildRequest)?;
        let IgnoredAny = self.client.request(request).await?;
        Ok(())
    }

    fn just_said(&self, subject: &Subject, note: &str) -> bool {
        let mut said = self.said.lock().unwrap_or_else(|e| e.into_inner());
        said.retain(|_, notes| {
            notes.retain(|(_, at)| at.elapsed() < QUIET);
            !notes.is_empty()
        });
        said.get(subject).is_some_and(|notes| notes.iter().any(|(last, _)| last == note))
    }

    fn remember(&self, subject: Subject, note: String) {
        let mut said = self.said.lock().unwrap_or_else(|e| e.into_inner());
        let notes = said.entry(subject).or_default();
        notes.push((note, Instant::now()));
        let surplus = notes.len().saturating_sub(REMEMBERED);
        notes.drain(..surplus);
    }

    fn event(&self, reference: &ObjectReference, event: &Event) -> KubeEvent {
        let name = cut(reference.name.as_deref().unwrap_or("object"), LONGEST_NAME);
        let now = Timestamp::now();
        KubeEvent {
            metadata: ObjectMeta {
                // As client-go names them; the server's own generator refuses a dot at the end.
                name: Some(format!("{name}.{:x}", now.as_nanosecond())),
                namespace: reference.namespace.clone(),
                ..ObjectMeta::default()
            },
            type_: Some(
                match event.kind {
                    EventKind::Normal => "Normal",
                    EventKind::Warning => "Warning",
                }
                .into(),
            ),
            reason: Some(event.reason.clone()),
            note: Some(cut(&event.note, LONGEST_NOTE).to_owned()),
            action: Some(event.action.clone()),
            regarding: Some(reference.clone()),
            event_time: Some(MicroTime(now)),
            reporting_controller: Some("capmaas".into()),
            reporting_instance: Some(self.instance.clone()),
            ..KubeEvent::default()
        }
    }
}

/// The longest beginning of `text` of at most so many bytes.
fn cut(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
