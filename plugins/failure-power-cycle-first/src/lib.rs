//! A sample: a machine that does not come on is power-cycled a few times before anything else happens to it.
//!
//! Only the power stage allows it; at every other stage the host's default applies.

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
    power_cycles: u32,
    wait_seconds: u32,
    afterwards: Afterwards,
}

/// What happens when power-cycling has not helped.
#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum Afterwards {
    ReleaseAndReplace,
    UseDefault,
}

impl Default for Config {
    fn default() -> Self {
        Self { power_cycles: 2, wait_seconds: 60, afterwards: Afterwards::ReleaseAndReplace }
    }
}

const SCHEMA: &str = r#"{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "powerCycles": {
      "description": "How often in a row the machine is switched off and on again.",
      "type": "integer",
      "minimum": 1,
      "maximum": 10,
      "default": 2
    },
    "waitSeconds": {
      "description": "Pause before every power cycle but the first.",
      "type": "integer",
      "minimum": 0,
      "maximum": 3600,
      "default": 60
    },
    "afterwards": {
      "description": "What comes then. A machine that was once provisioned is never replaced: the host's default applies to it either way.",
      "enum": ["release-and-replace", "use-default"],
      "default": "release-and-replace"
    }
  }
}"#;

settings::metadata!({
    summary: "a machine that does not come on is power-cycled before it is replaced",
    schema: SCHEMA,
    beyond: |_: &Config| vec![],
});

impl FailureHandling for Policy {
    fn handle(failure: Failure) -> Result<Action, Refusal> {
        let config: Config = settings::read(&failure.context.config).map_err(Refusal::BadConfig)?;
        if failure.stage != "power" {
            return Ok(Action::UseDefault);
        }
        let (times, most) = (failure.occurrences, config.power_cycles);
        if times <= most {
            let seconds = if times <= 1 { 0 } else { config.wait_seconds };
            let reason = format!("power cycle {times} of {most}");
            return Ok(Action::PowerCycle(Delay { seconds, reason }));
        }
        Ok(match config.afterwards {
            Afterwards::UseDefault => Action::UseDefault,
            Afterwards::ReleaseAndReplace => {
                let reason = format!("not on after power cycle {most} of {most}");
                let delay = Delay { seconds: 0, reason };
                Action::ReleaseAndReplace(Replacement { delay, avoid_seconds: None })
            }
        })
    }
}

export!(Policy);
