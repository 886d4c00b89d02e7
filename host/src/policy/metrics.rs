//! What is counted of policies. Labels are bounded: a policy is one object, outcomes and results are words of ours.

use std::sync::Arc;
use std::time::Duration;

use capmaas_core::policy::{Comparison, Gate, Refused};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::loaded::Loaded;

/// Outcomes of a call: an answer, or why there is none.
const OUTCOMES: [&str; 9] =
    ["ok", "bad-config", "failed", "timeout", "memory", "log", "trap", "bad-answer", "unavailable"];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfPolicy {
    policy: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfCall {
    policy: String,
    kind: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfLoad {
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfComparison {
    policy: String,
    agreed: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Info {
    policy: String,
    kind: &'static str,
    digest: String,
    version: String,
}

/// The counters; all clones count together.
#[derive(Clone)]
pub struct Metrics(Arc<Counters>);

struct Counters {
    calls: Family<OfCall, Counter>,
    seconds: Family<OfPolicy, Histogram>,
    memory: Family<OfPolicy, Gauge>,
    loads: Family<OfLoad, Counter>,
    compile: Histogram,
    compared: Family<OfComparison, Counter>,
    info: Family<Info, Gauge>,
    degraded: Family<OfPolicy, Gauge>,
}

impl Default for Metrics {
    fn default() -> Self {
        let call_seconds = || {
            Histogram::new([0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 10.0])
        };
        Self(Arc::new(Counters {
            calls: Family::default(),
            seconds: Family::new_with_constructor(call_seconds),
            memory: Family::default(),
            loads: Family::default(),
            compile: Histogram::new([0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0]),
            compared: Family::default(),
            info: Family::default(),
            degraded: Family::default(),
        }))
    }
}

impl Metrics {
    /// Names and descriptions, for whoever serves them.
    pub fn register(&self, registry: &mut Registry) {
        let Counters { calls, seconds, memory, loads, compile, compared, info, degraded } =
            &*self.0;
        let of_policies = registry.sub_registry_with_prefix("capmaas_policy");
        of_policies.register("calls", "Calls, by policy, kind and outcome", calls.clone());
        of_policies.register("call_seconds", "How long calls took", seconds.clone());
        of_policies.register(
            "memory_peak_bytes",
            "The most memory that a call of the current revision has used",
            memory.clone(),
        );
        of_policies.register("loads", "Components loaded, by result", loads.clone());
        of_policies.register("compile_seconds", "How long compiling took", compile.clone());
        of_policies.register(
            "comparisons",
            "Decisions that a policy in shadow was asked about too, and whether it agreed",
            compared.clone(),
        );
        of_policies.register("info", "The revision that is asked", info.clone());
        of_policies.register("degraded", "1 after five failures in a row", degraded.clone());
    }

    pub(super) fn called(
        &self,
        policy: &str,
        loaded: &Loaded,
        took: Duration,
        refused: Option<&Refused>,
    ) {
        let category = refused.map_or("ok", |refused| refused.category.as_str());
        let outcome = OUTCOMES.into_iter().find(|o| *o == category).unwrap_or("failed");
        let (kind, of) = (loaded.kind().word(), OfPolicy { policy: policy.to_owned() });
        let policy = policy.to_owned();
        self.0.calls.get_or_create(&OfCall { policy, kind, outcome }).inc();
        self.0.seconds.get_or_create(&of).observe(took.as_secs_f64());
        let peak = i64::try_from(loaded.memory_peak()).unwrap_or(i64::MAX);
        self.0.memory.get_or_create(&of).set(peak);
        self.0.degraded.get_or_create(&of).set(i64::from(loaded.health.degraded().is_some()));
    }

    pub(super) fn loaded(&self, outcome: Result<(), Gate>) {
        let result = match outcome {
            Ok(()) => "ok",
            Err(gate) => gate.word(),
        };
        self.0.loads.get_or_create(&OfLoad { result }).inc();
    }

    pub(super) fn compiled(&self, took: Duration) {
        self.0.compile.observe(took.as_secs_f64());
    }

    /// How policies in shadow compared.
    pub fn compared(&self, comparisons: &[Comparison]) {
        for Comparison { policy, difference, .. } in comparisons {
            let agreed = if difference.is_some() { "no" } else { "yes" };
            let policy = policy.clone();
            self.0.compared.get_or_create(&OfComparison { policy, agreed }).inc();
        }
    }

    /// Another revision is asked now; `None`: the policy has gone.
    pub(super) fn revision(&self, policy: &str, before: Option<&Loaded>, now: Option<&Loaded>) {
        let info = |loaded: &Loaded| Info {
            policy: policy.to_owned(),
            kind: loaded.kind().word(),
            digest: loaded.id().digest.clone(),
            version: loaded.description().version.clone(),
        };
        if let Some(before) = before {
            self.0.info.remove(&info(before));
        }
        match now {
            Some(now) => {
                self.0.info.get_or_create(&info(now)).set(1);
            }
            None => self.forget(policy),
        }
    }

    fn forget(&self, policy: &str) {
        let of = OfPolicy { policy: policy.to_owned() };
        self.0.seconds.remove(&of);
        self.0.memory.remove(&of);
        self.0.degraded.remove(&of);
        for agreed in ["yes", "no"] {
            self.0.compared.remove(&OfComparison { policy: policy.to_owned(), agreed });
        }
        for kind in ["allocation", "dns-naming", "failure-handling"] {
            for outcome in OUTCOMES {
                self.0.calls.remove(&OfCall { policy: policy.to_owned(), kind, outcome });
            }
        }
    }
}
