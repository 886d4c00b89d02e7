use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Result;
use capmaas_core::{CallError, Category, Effect, Read, Reply};

use super::gathering::Gathering;
use super::wire::{Options, Wire};
use super::{effects, reads};

/// How long an answer that changes rarely (who we are, version, images) is kept: long enough for a
/// cluster's machines to share it, short enough that nobody waits for a correction to be seen.
const KEPT: Duration = Duration::from_secs(20);

/// A client of one MAAS.
pub struct Client {
    wire: Arc<Wire>,
    gathering: Gathering,
    kept: Mutex<HashMap<String, (Instant, Reply)>>,
}

impl Client {
    /// A client that has not called anything yet.
    ///
    /// # Errors
    /// When the CA file cannot be read or holds no certificate.
    pub fn new(options: Options) -> Result<Self> {
        let wire = Arc::new(Wire::new(options)?);
        Ok(Self { gathering: Gathering::new(wire.clone()), wire, kept: Mutex::default() })
    }

    /// Carries out a read. An answer that changes rarely may be some seconds old, and machines that
    /// are asked for at the same time are asked for together.
    pub async fn read(&self, read: &Read) -> Reply {
        let outcome = match read {
            Read::Machine(id) => self.gathering.machine(id).await,
            Read::WhoAmI | Read::Version | Read::Images => self.rarely_changing(read).await,
            _ => reads::read(&self.wire, read).await,
        };
        self.replied(outcome)
    }

    /// Carries out one effect. `user_data` is the bootstrap data that a deploy or a power-on sends.
    pub async fn perform(&self, effect: &Effect, user_data: Option<&str>) -> Reply {
        self.replied(effects::perform(&self.wire, effect, user_data).await)
    }

    /// Whoever is refused may be somebody else by now: what was kept is forgotten.
    fn replied(&self, outcome: Result<Reply, CallError>) -> Reply {
        if outcome.as_ref().is_err_and(|e| e.category == Category::Unauthorized) {
            self.kept.lock().unwrap_or_else(|e| e.into_inner()).clear();
        }
        outcome.unwrap_or_else(Reply::Failed)
    }

    async fn rarely_changing(&self, read: &Read) -> Result<Reply, CallError> {
        let name = format!("{read:?}");
        if let Some(reply) = self.recent(&name) {
            return Ok(reply);
        }
        let outcome = reads::read(&self.wire, read).await;
        if let Ok(reply) = &outcome {
            let mut kept = self.kept.lock().unwrap_or_else(|e| e.into_inner());
            kept.insert(name, (Instant::now(), reply.clone()));
        }
        outcome
    }

    fn recent(&self, name: &str) -> Option<Reply> {
        let kept = self.kept.lock().unwrap_or_else(|e| e.into_inner());
        let (at, reply) = kept.get(name)?;
        (at.elapsed() < KEPT).then(|| reply.clone())
    }
}
