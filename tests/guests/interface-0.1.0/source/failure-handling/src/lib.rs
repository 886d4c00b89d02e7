//! Gives every answer that interface 0.1.0 has to a failure, and repeats what it was told.
//!
//! The machine's name says which answer.

wit_bindgen::generate!({ path: "../policy.wit", world: "failure-handling-policy" });

use capmaas::policy::host::{Level, log};
use capmaas::policy::types::{Delay, Refusal};
use exports::capmaas::policy::failure_handling::{
    Action, Failure, Guest as FailureHandling, Replacement,
};
use exports::capmaas::policy::metadata::{Description, Guest as Metadata, Issue};

struct Policy;

impl Metadata for Policy {
    fn describe() -> Description {
        Description {
            name: "interface-failure-handling".into(),
            version: "0.1.0".into(),
            summary: "every answer of interface 0.1.0 to a failure".into(),
            config_schema: r#"{"type": "object"}"#.into(),
        }
    }

    fn check_config(config: String) -> Result<(), Vec<Issue>> {
        if !config.contains("wrong") {
            return Ok(());
        }
        let issue = |pointer: &str, problem: &str| Issue {
            pointer: pointer.into(),
            problem: problem.into(),
        };
        Err(vec![issue("/wrong", "this is wrong"), issue("", "and so is all of it")])
    }
}

impl FailureHandling for Policy {
    fn handle(failure: Failure) -> Result<Action, Refusal> {
        for level in [Level::Debug, Level::Info, Level::Warn, Level::Error] {
            log(level, &failure.machine);
        }
        let reason = repeated(&failure);
        let delay = Delay { seconds: 10 * failure.occurrences, reason: reason.clone() };
        let avoid_seconds = match failure.replacements {
            0 => None,
            hosts => Some(100 * hosts),
        };
        match failure.machine.as_str() {
            "use-default" => Ok(Action::UseDefault),
            "retry" => Ok(Action::Retry(delay)),
            "release-and-replace" => {
                Ok(Action::ReleaseAndReplace(Replacement { delay, avoid_seconds }))
            }
            "mark-broken-and-replace" => {
                Ok(Action::MarkBrokenAndReplace(Replacement { delay, avoid_seconds }))
            }
            "power-cycle" => Ok(Action::PowerCycle(delay)),
            "give-up" => Ok(Action::GiveUp(reason)),
            "badconfig" => Err(Refusal::BadConfig(reason)),
            _ => Err(Refusal::Failed(reason)),
        }
    }
}

fn repeated(f: &Failure) -> String {
    let c = &f.context;
    let config: String = c.config.split_whitespace().collect();
    format!(
        "{} {} {} {} {config} {}, {} {} {} {} {} {} {} {} {} {} {}",
        c.decision_id,
        c.now,
        c.namespace,
        c.cluster,
        pairs(&c.attributes),
        f.role,
        f.stage,
        f.category,
        f.message,
        f.maas_events.join("+"),
        f.system_id.as_deref().unwrap_or("none"),
        f.zone.as_deref().unwrap_or("none"),
        f.first_seen,
        f.occurrences,
        f.replacements,
        pairs(&f.attributes)
    )
}

fn pairs(attributes: &[(String, String)]) -> String {
    let pairs: Vec<String> =
        attributes.iter().map(|(key, value)| format!("{key}={value}")).collect();
    pairs.join("+")
}

export!(Policy);
