//! Machines that are asked for at about the same time are asked for in one call.
//!
//! MAAS answers `GET /machines/?id=a&id=b` nearly as fast as for one, and shows the same of each (seen with MAAS
//! 3.7). A reading is never older than the call that asked for it: a call in flight is not joined.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use capmaas_core::{CallError, Category, Read, Reply};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::reads;
use super::wire::Wire;

/// The least time from one call to the next. The first after a pause goes at once.
const PACE: Duration = Duration::from_millis(250);
/// Most machines in one call: a machine is about 20 KB and costs the region some milliseconds.
const MOST: usize = 25;

type Asker = oneshot::Sender<Result<Reply, CallError>>;

/// Those who wait for a machine.
pub(super) struct Gathering(Arc<Inner>);

struct Inner {
    wire: Arc<Wire>,
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    asked: BTreeMap<String, Vec<Asker>>,
    /// A task calls MAAS for them.
    served: bool,
    last: Option<Instant>,
}

impl Gathering {
    pub(super) fn new(wire: Arc<Wire>) -> Self {
        Self(Arc::new(Inner { wire, book: Mutex::default() }))
    }

    /// One machine, as a call from now on shows it.
    pub(super) async fn machine(&self, id: &str) -> Result<Reply, CallError> {
        reads::machine_path(id)?;
        let (asker, answer) = oneshot::channel();
        let serve = {
            let mut book = self.0.book();
            book.asked.entry(id.to_owned()).or_default().push(asker);
            !std::mem::replace(&mut book.served, true)
        };
        if serve {
            tokio::spawn(self.0.clone().serve());
        }
        answer.await.unwrap_or_else(|_| {
            Err(CallError::new(Category::Unreachable, "the controller is shutting down"))
        })
    }
}

impl Inner {
    fn book(&self) -> std::sync::MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Calls until nobody waits.
    async fn serve(self: Arc<Self>) {
        loop {
            let last = self.book().last;
            if let Some(last) = last {
                tokio::time::sleep_until(last + PACE).await;
            }
            let batch = {
                let mut book = self.book();
                if book.asked.is_empty() {
                    book.served = false;
                    return;
                }
                book.last = Some(Instant::now());
                let rest = book.asked.keys().nth(MOST).cloned();
                let rest = rest.map(|id| book.asked.split_off(&id)).unwrap_or_default();
                std::mem::replace(&mut book.asked, rest)
            };
            self.answer(batch).await;
        }
    }

    async fn answer(&self, batch: BTreeMap<String, Vec<Asker>>) {
        let ids: Vec<String> = batch.keys().cloned().collect();
        let mut seen = match ids.len() {
            1 => BTreeMap::new(),
            _ => match reads::machines_by_id(&self.wire, &ids).await {
                Ok(seen) => seen,
                Err(error) => {
                    for asker in batch.into_values().flatten() {
                        let _ = asker.send(Err(error.clone()));
                    }
                    return;
                }
            },
        };
        for (id, askers) in batch {
            let outcome = match seen.remove(&id) {
                Some(outcome) => outcome,
                // Only the machine's own address says for certain that there is none.
                None => reads::read(&self.wire, &Read::Machine(id)).await,
            };
            for asker in askers {
                let _ = asker.send(outcome.clone());
            }
        }
    }
}
