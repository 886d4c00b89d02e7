//! A sample: machines that carry one of these tags are not taken, so that people can keep machines back in MAAS.
//!
//! MAAS leaves them out by itself, in the same atomic call that takes a machine. It accepts the names of tags that do not
//! exist yet, so the tags need not be there before they are used.

wit_bindgen::generate!({
    path: "../../wit",
    world: "allocation-policy",
    additional_type_attributes: {
        "capmaas:policy/allocation@0.1.0/constraints": [#[derive(Default)]],
    },
});

use arena as _;
use capmaas::policy::types::Refusal;
use exports::capmaas::policy::allocation::{
    Candidate, Constraints, Guest as Allocation, Ranking, Request, Shortlisting,
};
use exports::capmaas::policy::metadata::{Description, Guest as Metadata, Issue};
use serde::Deserialize;

struct Policy;

#[derive(Deserialize)]
#[serde(default)]
struct Config {
    tags: Vec<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self { tags: vec!["maintenance".into(), "quarantine".into()] }
    }
}

const SCHEMA: &str = r#"{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "tags": {
      "description": "A machine with any of these tags is not taken.",
      "type": "array",
      "minItems": 1,
      "items": {"type": "string", "minLength": 1},
      "default": ["maintenance", "quarantine"]
    }
  }
}"#;

settings::metadata!({
    summary: "machines with a maintenance or quarantine tag are not taken",
    schema: SCHEMA,
    beyond: impossible_tags,
});

/// MAAS would take such a name without a word, and exclude nothing.
fn impossible_tags(config: &Config) -> Vec<settings::Issue> {
    let possible =
        |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    let impossible = config.tags.iter().enumerate().filter(|(_, tag)| !possible(tag));
    impossible
        .map(|(index, tag)| {
            let remedy = "give one name an entry, of letters, digits, - and _";
            (format!("/tags/{index}"), format!("{tag:?} cannot be a tag in MAAS; {remedy}"))
        })
        .collect()
}

impl Allocation for Policy {
    fn shortlist(request: Request) -> Result<Shortlisting, Refusal> {
        let config: Config = settings::read(&request.context.config).map_err(Refusal::BadConfig)?;
        if let Some(tag) = config.tags.iter().find(|tag| request.wanted.tags.contains(tag)) {
            return Ok(Shortlisting::Reject(format!(
                "{} asks for tag {tag:?}, and machines with it are not taken: \
                 take it from its tags, or from the settings of this policy",
                request.machine
            )));
        }
        Ok(Shortlisting::Narrow(Constraints { not_tags: config.tags, ..Default::default() }))
    }

    fn rank(_request: Request, candidates: Vec<Candidate>) -> Result<Ranking, Refusal> {
        // Only asked after `inspect`, which this policy never answers; any order will do.
        Ok(Ranking { order: (0..candidates.len() as u32).collect(), rejected: vec![] })
    }
}

export!(Policy);
