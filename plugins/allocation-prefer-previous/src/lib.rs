//! A sample: a cluster gets back the machines that it had before, the newest first.
//!
//! The host says of each candidate when the cluster last held it. Where it never did, or too long ago, the smallest
//! machine comes first, as MAAS itself would choose.

wit_bindgen::generate!({
    path: "../../wit",
    world: "allocation-policy",
    additional_type_attributes: {
        "capmaas:policy/allocation@0.1.0/constraints": [#[derive(Default)]],
    },
});

use std::cmp::Reverse;

use arena as _;
use capmaas::policy::host::{Level, log};
use capmaas::policy::types::Refusal;
use exports::capmaas::policy::allocation::{
    Candidate, Constraints, Guest as Allocation, Ranking, Request, Shortlisting,
};
use exports::capmaas::policy::metadata::{Description, Guest as Metadata, Issue};
use serde::Deserialize;

/// Unix seconds, when this cluster last held the machine; absent when it never did.
const HELD_BEFORE: &str = "held-before";

struct Policy;

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Config {
    max_age_seconds: Option<u64>,
}

const SCHEMA: &str = r#"{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "maxAgeSeconds": {
      "description": "A machine that was held longer ago counts as any other. Without it, every one counts.",
      "type": "integer",
      "minimum": 1
    }
  }
}"#;

settings::metadata!({
    summary: "a cluster gets back the machines that it had before",
    schema: SCHEMA,
    beyond: |_: &Config| vec![],
});

impl Allocation for Policy {
    fn shortlist(_request: Request) -> Result<Shortlisting, Refusal> {
        Ok(Shortlisting::Inspect(Constraints::default()))
    }

    fn rank(request: Request, candidates: Vec<Candidate>) -> Result<Ranking, Refusal> {
        let config: Config = settings::read(&request.context.config).map_err(Refusal::BadConfig)?;
        let oldest = match config.max_age_seconds {
            Some(age) => request.context.now.saturating_sub(age),
            None => 0,
        };
        let held = |c: &Candidate| held_before(c).filter(|at| *at >= oldest);
        let mut order: Vec<u32> = (0..candidates.len() as u32).collect();
        order.sort_by_cached_key(|index| {
            let candidate = &candidates[*index as usize];
            // `None` is less than any time: never held comes last.
            let newest_first = Reverse(held(candidate));
            (newest_first, candidate.cpu_cores, candidate.memory_mib, candidate.system_id.as_str())
        });
        if let Some(first) = order.first().map(|index| &candidates[*index as usize])
            && let Some(at) = held(first)
        {
            let ago = request.context.now.saturating_sub(at);
            log(Level::Info, &format!("{} was held {ago} s ago", first.hostname));
        }
        Ok(Ranking { order, rejected: vec![] })
    }
}

/// When the cluster last held the machine. What is no time is as good as never.
fn held_before(candidate: &Candidate) -> Option<u64> {
    let (_, time) = candidate.attributes.iter().find(|(key, _)| key == HELD_BEFORE)?;
    time.parse().ok()
}

export!(Policy);
