//! A sample: control planes land in different zones.
//!
//! Asks to see the machines that fit, and ranks first those in the zone that holds the fewest
//! control planes of the cluster; within a zone the smallest machine comes first, as MAAS itself
//! would choose. Workers are left to MAAS unless `"workers": true`.

wit_bindgen::generate!({
    path: "../../wit",
    world: "allocation-policy",
    additional_type_attributes: {
        "capmaas:policy/allocation@0.1.0/constraints": [#[derive(Default)]],
    },
});

use arena as _;
use capmaas::policy::host::{Level, log};
use capmaas::policy::types::Refusal;
use exports::capmaas::policy::allocation::{
    Candidate, Constraints, Guest as Allocation, Ranking, Request, Shortlisting,
};
use exports::capmaas::policy::metadata::{Description, Guest as Metadata, Issue};
use serde::Deserialize;

struct Policy;

#[derive(Deserialize, Default)]
#[serde(default)]
struct Config {
    workers: bool,
}

const SCHEMA: &str = r#"{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "workers": {
      "description": "Spread workers as well, among themselves.",
      "type": "boolean",
      "default": false
    }
  }
}"#;

settings::metadata!({
    summary: "control planes land in different zones",
    schema: SCHEMA,
    beyond: |_: &Config| vec![],
});

impl Allocation for Policy {
    fn shortlist(request: Request) -> Result<Shortlisting, Refusal> {
        let config: Config = settings::read(&request.context.config).map_err(Refusal::BadConfig)?;
        let spread = request.role == "control-plane" || config.workers;
        Ok(if spread {
            Shortlisting::Inspect(Constraints::default())
        } else {
            Shortlisting::Narrow(Constraints::default())
        })
    }

    fn rank(request: Request, candidates: Vec<Candidate>) -> Result<Ranking, Refusal> {
        let in_zone = |zone: &str| {
            request.peers.iter().filter(|p| p.role == request.role && p.zone == zone).count()
        };
        let cost = |c: &Candidate| u64::from(c.cpu_cores) + u64::from(c.memory_mib) / 1024;
        let mut order: Vec<u32> = (0..candidates.len() as u32).collect();
        order.sort_by_cached_key(|i| {
            let candidate = &candidates[*i as usize];
            (in_zone(&candidate.zone), cost(candidate), candidate.system_id.as_str())
        });
        if let Some(first) = order.first() {
            let zone = &candidates[*first as usize].zone;
            log(Level::Info, &format!("zone {zone} holds {} already", in_zone(zone)));
        }
        Ok(Ranking { order, rejected: vec![] })
    }
}

export!(Policy);
