use capmaas_core::{Event, EventKind};
use kube::runtime::events::{Event as KubeEvent, EventType, Recorder, Reporter};
use kube::{Client, Resource};

/// Publishes events of type `events.k8s.io/v1`; repeats are counted, not repeated.
#[derive(Clone)]
pub struct Events {
    recorder: Recorder,
}

impl Events {
    /// A publisher that reports as `capmaas`.
    pub fn new(client: Client) -> Self {
        let instance = std::env::var("POD_NAME").ok();
        Self { recorder: Recorder::new(client, Reporter { controller: "capmaas".into(), instance }) }
    }

    /// Publishes; an event that cannot be published is logged and forgotten.
    pub async fn publish<K: Resource<DynamicType = ()>>(&self, object: &K, events: &[Event]) {
        let reference = object.object_ref(&());
        for event in events {
            let event = KubeEvent {
                type_: match event.kind {
                    EventKind::Normal => EventType::Normal,
                    EventKind::Warning => EventType::Warning,
                },
                reason: event.reason.clone(),
                note: Some(event.note.clone()),
                action: event.action.clone(),
                secondary: None,
            };
            if let Err(error) = self.recorder.publish(&event, &reference).await {
                tracing::warn!(%error, reason = event.reason, "cannot publish an event");
            }
        }
    }
}
