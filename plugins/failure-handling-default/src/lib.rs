//! The built-in answers to failures.
//!
//! A host whose deployment fails is released and replaced, a few times, with growing pauses; a host
//! that cannot be prepared gets a few more tries first; everything else is tried again.

wit_bindgen::generate!({ path: "../../wit", world: "failure-handling-policy" });

use arena as _;
use capmaas::policy::types::{Delay, Refusal};
use exports::capmaas::policy::failure_handling::{
    Action, Failure, Guest as FailureHandling, Replacement,
};
use exports::capmaas::policy::metadata::{Description, Guest as Metadata, Issue};
use serde::Deserialize;

struct Policy;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Config {
    max_replacements: u32,
    avoid_seconds: u32,
    prepare_tries: u32,
    first_delay_seconds: u32,
    longest_delay_seconds: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_replacements: 3,
            avoid_seconds: 3600,
            prepare_tries: 4,
            first_delay_seconds: 15,
            longest_delay_seconds: 300,
        }
    }
}

const SCHEMA: &str = r#"{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "maxReplacements": {
      "description": "Hosts that are tried in place of a failed one before giving up.",
      "type": "integer",
      "minimum": 0,
      "default": 3
    },
    "avoidSeconds": {
      "description": "How long a failed host is not taken again.",
      "type": "integer",
      "minimum": 0,
      "default": 3600
    },
    "prepareTries": {
      "description": "Tries on the same host before it is replaced, when it cannot be prepared.",
      "type": "integer",
      "minimum": 1,
      "default": 4
    },
    "firstDelaySeconds": {
      "description": "Pause before the first repetition; doubled each time.",
      "type": "integer",
      "minimum": 1,
      "default": 15
    },
    "longestDelaySeconds": {
      "description": "Longest pause.",
      "type": "integer",
      "minimum": 1,
      "default": 300
    }
  }
}"#;

settings::metadata!({
    summary: "release and replace failed hosts, repeat the rest with growing pauses",
    schema: SCHEMA,
    beyond: |_: &Config| vec![],
});

impl FailureHandling for Policy {
    fn handle(failure: Failure) -> Result<Action, Refusal> {
        let config: Config = settings::read(&failure.context.config).map_err(Refusal::BadConfig)?;
        Ok(decide(&failure, &config))
    }
}

fn decide(failure: &Failure, config: &Config) -> Action {
    let again = || Action::Retry(pause(failure.occurrences, config));
    match failure.stage.as_str() {
        "deploy" => replace(failure, config),
        "prepare" if failure.occurrences >= config.prepare_tries => replace(failure, config),
        // "allocate", "power", "release", and whatever a later interface adds.
        _ => again(),
    }
}

fn replace(failure: &Failure, config: &Config) -> Action {
    if failure.replacements >= config.max_replacements {
        return Action::GiveUp(match failure.replacements {
            0 => format!("no host is replaced: {}", failure.message),
            n => format!(
                "{} hosts failed one after another, the last one so: {}",
                n + 1,
                failure.message
            ),
        });
    }
    let delay = Delay {
        // The first replacement is taken at once: one bad host is no pattern.
        seconds: match failure.replacements {
            0 => 0,
            n => pause(n, config).seconds,
        },
        reason: format!("replacement {}", failure.replacements + 1),
    };
    Action::ReleaseAndReplace(Replacement { delay, avoid_seconds: Some(config.avoid_seconds) })
}

fn pause(times: u32, config: &Config) -> Delay {
    let doublings = times.saturating_sub(1).min(16);
    let seconds = config
        .first_delay_seconds
        .saturating_mul(1 << doublings)
        .min(config.longest_delay_seconds.max(config.first_delay_seconds));
    Delay { seconds, reason: format!("attempt {}", times + 1) }
}

export!(Policy);
