//! A sample: a host that fails is kept out of use for a while, and one that people have marked before, for good.
//!
//! The host says which tags the failed machine has in MAAS. With one of the configured tags it is marked broken there, for
//! its operators to look at; without, it is released and not taken again until it has cooled down.

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
    tags: Vec<String>,
    tagged: Tagged,
    cool_down_seconds: u32,
    stages: Vec<String>,
}

/// What happens to a failed host with one of the tags.
#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum Tagged {
    MarkBroken,
    Release,
    GiveUp,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            tags: vec!["quarantine".into()],
            tagged: Tagged::MarkBroken,
            cool_down_seconds: 6 * 3600,
            stages: vec!["deploy".into()],
        }
    }
}

const SCHEMA: &str = r#"{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "tags": {
      "description": "Tags in MAAS of machines whose next failure is one too many.",
      "type": "array",
      "minItems": 1,
      "items": {"type": "string", "minLength": 1},
      "default": ["quarantine"]
    },
    "tagged": {
      "description": "Whether a failed machine with such a tag is marked broken, released and not taken again for a day, or stays held.",
      "enum": ["mark-broken", "release", "give-up"],
      "default": "mark-broken"
    },
    "coolDownSeconds": {
      "description": "How long a failed machine without such a tag is not taken again.",
      "type": "integer",
      "minimum": 0,
      "maximum": 86400,
      "default": 21600
    },
    "stages": {
      "description": "Where a failure costs the machine its place. Elsewhere the host's default applies.",
      "type": "array",
      "minItems": 1,
      "items": {"enum": ["prepare", "deploy", "power"]},
      "default": ["deploy"]
    }
  }
}"#;

/// The host avoids no machine for longer.
const A_DAY: u32 = 86_400;

settings::metadata!({
    summary: "failed hosts cool down, those with a tag are marked broken",
    schema: SCHEMA,
    beyond: |_: &Config| vec![],
});

impl FailureHandling for Policy {
    fn handle(failure: Failure) -> Result<Action, Refusal> {
        let config: Config = settings::read(&failure.context.config).map_err(Refusal::BadConfig)?;
        // What MAAS refused, or never heard, is not the machine's fault.
        let its_fault = matches!(failure.category.as_str(), "machine-failed" | "timeout");
        if !its_fault || !config.stages.contains(&failure.stage) {
            return Ok(Action::UseDefault);
        }
        let Some(tag) = tag_of(&failure, &config.tags) else {
            let seconds = config.cool_down_seconds;
            let reason = format!("the failed host cools down for {seconds} s");
            return Ok(Action::ReleaseAndReplace(replacement(reason, Some(seconds))));
        };
        let reason = format!("the failed host has tag {tag:?}");
        Ok(match config.tagged {
            Tagged::MarkBroken => Action::MarkBrokenAndReplace(replacement(reason, Some(A_DAY))),
            Tagged::Release => Action::ReleaseAndReplace(replacement(reason, Some(A_DAY))),
            Tagged::GiveUp => Action::GiveUp(format!("{reason}: {}", failure.message)),
        })
    }
}

/// The first configured tag that the machine has. Its own are separated by spaces.
fn tag_of<'a>(failure: &Failure, tags: &'a [String]) -> Option<&'a String> {
    let (_, own) = failure.attributes.iter().find(|(key, _)| key == "tags")?;
    tags.iter().find(|tag| own.split_whitespace().any(|one| one == *tag))
}

fn replacement(reason: String, avoid_seconds: Option<u32>) -> Replacement {
    Replacement { delay: Delay { seconds: 0, reason }, avoid_seconds }
}

export!(Policy);
