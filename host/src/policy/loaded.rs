//! A policy that passed every gate, and the calls into it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use capmaas_core::bounded;
use capmaas_core::policy::{Answer, PolicyId, Question, Refused};
use wasmtime::Store;

use super::bindings::allocation::AllocationPolicyPre;
use super::bindings::dns_naming::DnsNamingPolicyPre;
use super::bindings::failure_handling::FailureHandlingPolicyPre;
use super::engine::{Engine, Share};
use super::health::Health;
use super::load::Kind;
use super::sandbox::{CallState, Limits, broken, store};
use super::{answer, convert, form, refused};

/// A component whose exports fit its kind.
#[derive(Clone)]
pub(super) enum Policy {
    /// Which machine to take.
    Allocation(AllocationPolicyPre<CallState>),
    /// How to name a cluster's endpoint.
    DnsNaming(DnsNamingPolicyPre<CallState>),
    /// What to do when something fails.
    FailureHandling(FailureHandlingPolicyPre<CallState>),
}

/// A policy that passed every gate.
pub struct Loaded {
    pub(super) engine: Engine,
    pub(super) share: Share,
    pub(super) policy: Policy,
    pub(super) id: PolicyId,
    pub(super) description: Description,
    pub(super) config: String,
    pub(super) limits: Limits,
    /// The most memory that a call has used, bytes.
    pub(super) peak: AtomicUsize,
    pub(super) health: Health,
    /// From its bytes to here, milliseconds.
    pub(super) load_millis: u64,
    /// Unix seconds.
    pub(super) loaded_at: u64,
    /// Held so that whoever loads the same component meanwhile need not compile it again.
    pub(super) component: Arc<wasmtime::component::Component>,
}

/// What a component says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Description {
    /// Short and lower-case.
    pub name: String,
    /// The policy's own version.
    pub version: String,
    /// One sentence.
    pub summary: String,
    /// JSON Schema of the configuration; empty says nothing of it.
    pub config_schema: String,
}

/// Something wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Issue {
    /// JSON pointer (RFC 6901) into the configuration; empty for the whole of it.
    pub pointer: String,
    /// What is wrong, and what would be right.
    pub problem: String,
}

impl std::fmt::Display for Issue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = if self.pointer.is_empty() { "/" } else { &self.pointer };
        write!(f, "{}: {}", bounded(at, 100), bounded(&self.problem, 300))
    }
}

/// Instantiates a world in a fresh store and calls it.
macro_rules! call {
    ($loaded:expr, $pre:expr, |$instance:ident, $store:ident| $call:expr) => {{
        let mut $store = store(&$loaded.engine, &$loaded.limits, &$loaded.id.name);
        match $pre.instantiate(&mut $store) {
            Ok($instance) => {
                let given = $call.map_err(|e| broken(&$store, &e));
                $loaded.used(&$store);
                given
            }
            Err(error) => Err(broken(&$store, &error)),
        }
    }};
}

impl Loaded {
    /// Name, version and digest.
    pub fn id(&self) -> &PolicyId {
        &self.id
    }

    /// The same component, configured otherwise; whether it accepts that is not known yet.
    pub(super) fn again(&self, config: String, limits: Limits) -> Self {
        Self {
            engine: self.engine.clone(),
            share: Share::default(),
            policy: self.policy.clone(),
            id: self.id.clone(),
            description: self.description.clone(),
            config,
            limits,
            peak: AtomicUsize::new(0),
            health: Health::default(),
            load_millis: self.load_millis,
            loaded_at: self.loaded_at,
            component: self.component.clone(),
        }
    }

    /// What it has against a configuration, by its own word alone. Blocks.
    ///
    /// # Errors
    /// When it gives no answer.
    pub fn issues_with(&self, config: &str) -> Result<Vec<Issue>, Refused> {
        let other = self.again(config.to_owned(), self.limits.clone());
        self.engine.enter_here(|| other.check_config())
    }

    /// What its compiled code takes, bytes; shared by all policies of one component.
    pub fn code_size(&self) -> usize {
        super::components::size(&self.component)
    }

    /// What the component says of itself.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// What it decides.
    pub fn kind(&self) -> Kind {
        match self.policy {
            Policy::Allocation(_) => Kind::Allocation,
            Policy::DnsNaming(_) => Kind::DnsNaming,
            Policy::FailureHandling(_) => Kind::FailureHandling,
        }
    }

    /// Its configuration, as JSON text.
    pub fn config(&self) -> &str {
        &self.config
    }

    /// What a call may use.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The most memory that a call has used so far, bytes.
    pub fn memory_peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }

    /// From its bytes to the first question, milliseconds.
    pub fn load_millis(&self) -> u64 {
        self.load_millis
    }

    /// When it was loaded, Unix seconds.
    pub fn loaded_at(&self) -> u64 {
        self.loaded_at
    }

    /// The version of the interface it speaks.
    pub fn interface(&self) -> &'static str {
        form::INTERFACE
    }

    /// How it fares.
    pub fn health(&self) -> &Health {
        &self.health
    }

    fn used(&self, store: &Store<CallState>) {
        self.peak.fetch_max(store.data().memory_used(), Ordering::Relaxed);
    }

    /// Asks one question, on a thread where it holds up nobody.
    pub async fn ask(self: &Arc<Self>, question: Question) -> Result<Answer, Refused> {
        let policy = self.clone();
        let memory = self.limits.memory;
        let entered =
            self.engine.enter(&self.share, memory, move || policy.answer(&question)).await;
        entered.and_then(|answer| answer)
    }

    /// The same on this very thread, for as long as the policy's time limit: what the sandbox costs without the way to
    /// another thread and back. For benchmarks and programs without a runtime.
    ///
    /// # Errors
    /// When there is no answer that fits the question.
    pub fn ask_here(&self, question: &Question) -> Result<Answer, Refused> {
        self.engine.enter_here(|| self.answer(question))
    }

    fn answer(&self, question: &Question) -> Result<Answer, Refused> {
        let given = self.put(question)?;
        answer::check(question, &given).map_err(|problem| refused("bad-answer", &problem))?;
        Ok(given)
    }

    pub(super) fn describe(&self) -> Result<Description, Refused> {
        match &self.policy {
            Policy::Allocation(pre) => {
                let d = call!(self, pre, |i, s| i.capmaas_policy_metadata().call_describe(&mut s))?;
                described(d.name, d.version, d.summary, d.config_schema)
            }
            Policy::DnsNaming(pre) => {
                let d = call!(self, pre, |i, s| i.capmaas_policy_metadata().call_describe(&mut s))?;
                described(d.name, d.version, d.summary, d.config_schema)
            }
            Policy::FailureHandling(pre) => {
                let d = call!(self, pre, |i, s| i.capmaas_policy_metadata().call_describe(&mut s))?;
                described(d.name, d.version, d.summary, d.config_schema)
            }
        }
    }

    /// What the component has against its configuration. Blocks.
    pub(super) fn check_config(&self) -> Result<Vec<Issue>, Refused> {
        let config = self.config.as_str();
        macro_rules! check {
            ($pre:expr) => {
                call!(self, $pre, |i, s| i
                    .capmaas_policy_metadata()
                    .call_check_config(&mut s, config))
                .map(|given| match given {
                    Ok(()) => vec![],
                    Err(list) => list
                        .into_iter()
                        .take(ISSUES)
                        .map(|i| Issue { pointer: i.pointer, problem: i.problem })
                        .collect(),
                })
            };
        }
        match &self.policy {
            Policy::Allocation(pre) => check!(pre),
            Policy::DnsNaming(pre) => check!(pre),
            Policy::FailureHandling(pre) => check!(pre),
        }
    }

    /// Puts one question, in a store of its own. Blocks.
    fn put(&self, question: &Question) -> Result<Answer, Refused> {
        let lists = convert::Lists::new();
        match (&self.policy, question) {
            (Policy::Allocation(pre), Question::Shortlist(request)) => {
                let request = lists.allocation_request(request, &self.config);
                let answer = call!(self, pre, |i, s| i
                    .capmaas_policy_allocation()
                    .call_shortlist(&mut s, request))?;
                answer.map(convert::shortlisting).map_err(convert::refusal)
            }
            (Policy::Allocation(pre), Question::Rank { request, candidates }) => {
                let request = lists.allocation_request(request, &self.config);
                let candidates = lists.candidates(candidates);
                let answer = call!(self, pre, |i, s| i
                    .capmaas_policy_allocation()
                    .call_rank(&mut s, request, candidates))?;
                answer.map(convert::ranking).map_err(convert::refusal)
            }
            (Policy::DnsNaming(pre), Question::Name(request)) => {
                let request = lists.name_request(request, &self.config);
                let answer = call!(self, pre, |i, s| i
                    .capmaas_policy_dns_naming()
                    .call_propose(&mut s, request))?;
                answer.map(convert::name).map_err(convert::refusal)
            }
            (Policy::FailureHandling(pre), Question::Handle(failure)) => {
                let failure = lists.failure(failure, &self.config);
                let answer = call!(self, pre, |i, s| i
                    .capmaas_policy_failure_handling()
                    .call_handle(&mut s, failure))?;
                answer.map(convert::action).map_err(convert::refusal)
            }
            _ => Err(refused("unavailable", "the question is of another kind")),
        }
    }
}

/// How many faults of a configuration are told.
pub(super) const ISSUES: usize = 5;

fn described(
    name: String,
    version: String,
    summary: String,
    config_schema: String,
) -> Result<Description, Refused> {
    let sound = |s: &str, longest: usize| {
        (1..=longest).contains(&s.len()) && s.chars().all(|c| c.is_ascii_graphic())
    };
    if !sound(&name, 63) || !sound(&version, 40) {
        let message =
            "describe() must give a name of 1-63 and a version of 1-40 printable characters";
        return Err(refused("bad-answer", message));
    }
    Ok(Description { name, version, summary: bounded(&summary, 300), config_schema })
}
