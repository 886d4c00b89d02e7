//! The policies: components in a sandbox, asked one question at a time.
//!
//! [`Policies::ask`] is the only way to a component's answer. A revision is loaded through every
//! gate of `load` before it is asked anything; each question gets a store of its own, made by the
//! one constructor in `sandbox` that sets every limit.

mod answer;
mod bindings;
mod book;
mod cache;
mod compile;
mod components;
mod convert;
mod engine;
mod fetch;
mod form;
mod health;
mod last_good;
mod load;
mod loaded;
mod metrics;
pub mod oci;
mod sandbox;
mod schema;
mod shares;
mod source;

use std::sync::Arc;

use anyhow::{Context, Result};
use capmaas_core::policy::{Answer, Answered, PolicyId, Question, Refused};
use capmaas_core::{Reply, bounded};

pub use book::{Book, Hand, key};
pub use cache::CompiledCache;
pub use compile::{Compiler, compile_stdin};
pub use components::MOST_CODE_MIB;
pub use engine::Engine;
pub use fetch::{Fetched, Fetcher};
pub use form::{Import, imports_and_exports};
pub use health::{Health, Key};
pub use last_good::LastGood;
pub use load::{Kind, Loader, Order, Rejected, digest};
pub use loaded::{Description, Issue, Loaded};
pub use metrics::Metrics;
pub use sandbox::Limits;
pub use schema::check_schema_stdin;
pub use shares::{Place, Shares};
pub use source::{Fingerprint, PolicyDir};

/// The three built-in components, as `plugins/build.sh` made them.
pub mod embedded {
    /// Which machine to take.
    pub const ALLOCATION: &[u8] =
        include_bytes!(concat!(env!("CAPMAAS_POLICIES"), "/allocation-default.wasm"));
    /// How to name a cluster's endpoint.
    pub const DNS_NAMING: &[u8] =
        include_bytes!(concat!(env!("CAPMAAS_POLICIES"), "/dns-naming-default.wasm"));
    /// What to do when something fails.
    pub const FAILURE_HANDLING: &[u8] =
        include_bytes!(concat!(env!("CAPMAAS_POLICIES"), "/failure-handling-default.wasm"));
}

/// One policy of each kind.
pub struct Policies {
    allocation: Arc<Loaded>,
    dns_naming: Arc<Loaded>,
    failure_handling: Arc<Loaded>,
}

/// Where a policy comes from instead of the built-in one.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// The component's bytes, and the name of the file they came from.
    pub component: Option<(String, Vec<u8>)>,
    /// Configuration as JSON text; `{}` when absent.
    pub config: Option<String>,
}

/// What the operator chose for each kind.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// Which machine to take.
    pub allocation: Choice,
    /// How to name a cluster's endpoint.
    pub dns_naming: Choice,
    /// What to do when something fails.
    pub failure_handling: Choice,
}

impl Policies {
    /// Loads one policy of each kind.
    ///
    /// # Errors
    /// When a component does not pass a gate; the text names the gate and the remedy.
    pub async fn load(engine: Engine, choices: Choices, compiler: Compiler) -> Result<Self> {
        Self::with(&Loader::new(engine, compiler, Metrics::default()), choices).await
    }

    /// The same, by this loader.
    ///
    /// # Errors
    /// When a component does not pass a gate; the text names the gate and the remedy.
    pub async fn with(loader: &Loader, choices: Choices) -> Result<Self> {
        let Choices { allocation, dns_naming, failure_handling } = choices;
        let load = |kind, choice, built_in| loader.load_choice(kind, choice, built_in);
        Ok(Self {
            allocation: load(Kind::Allocation, allocation, embedded::ALLOCATION).await?,
            dns_naming: load(Kind::DnsNaming, dns_naming, embedded::DNS_NAMING).await?,
            failure_handling: load(
                Kind::FailureHandling,
                failure_handling,
                embedded::FAILURE_HANDLING,
            )
            .await?,
        })
    }

    /// The loaded policies, for the log.
    pub fn loaded(&self) -> [&Loaded; 3] {
        [&self.allocation, &self.dns_naming, &self.failure_handling]
    }

    /// Asks the policy of the question's kind, on a thread where it holds up nobody.
    pub async fn ask(&self, question: Question) -> Reply {
        let policy = self.of(&question);
        reply(policy.id().clone(), policy.ask(question).await)
    }

    /// The same on this very thread: see [`Loaded::ask_here`].
    pub fn ask_here(&self, question: &Question) -> Reply {
        let policy = self.of(question);
        reply(policy.id().clone(), policy.ask_here(question))
    }

    fn of(&self, question: &Question) -> &Arc<Loaded> {
        match question {
            Question::Shortlist(_) | Question::Rank { .. } => &self.allocation,
            Question::Name(_) => &self.dns_naming,
            Question::Handle(_) => &self.failure_handling,
        }
    }
}

fn reply(id: PolicyId, answer: std::result::Result<Answer, Refused>) -> Reply {
    match answer {
        Ok(answer) => Reply::Answered(Box::new(Answered { policy: id, answer })),
        Err(refused) => {
            let Refused { category, message, .. } = &refused;
            tracing::warn!(policy = %id, category, message, "no answer from a policy");
            Reply::Refused(Refused { policy: Some(id), ..refused })
        }
    }
}

fn refused(category: &str, message: &str) -> Refused {
    Refused { policy: None, category: category.to_owned(), message: bounded(message, 300) }
}

impl Choice {
    /// A component from the policy folder.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn from_file(dir: &PolicyDir, name: &str) -> Result<Self> {
        let bytes = dir.read(name).with_context(|| format!("policy file {name:?}"))?;
        Ok(Self { component: Some((name.to_owned(), bytes)), config: None })
    }
}
