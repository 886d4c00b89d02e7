//! A sample: control planes land in different zones.
//!
//! Asks to see the machines that fit, and ranks first those in the zone that holds the fewest
//! control planes of the cluster; within a zone the smallest machine comes first, as MAAS itself
//! would choose. Workers are left to MAAS unless `"workers": true`.

wit_bindgen::generate!({ path: "../../wit", world: "allocation-policy" });

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
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Config {
    /// Spread workers as well.
    workers: bool,
}

const SCHEMA: &str = r#"{
  "type": "object",
  "additionalProperties": false,
  "properties": {"workers": {"type": "boolean", "default": false}}
}"#;

fn parse(config: &str) -> Result<Config, String> {
    serde_json::from_str(if config.is_empty() { "{}" } else { config }).map_err(|e| e.to_string())
}

impl Metadata for Policy {
    fn describe() -> Description {
        Description {
            name: "allocation-zone-spread".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "control planes land in different zones".into(),
            config_schema: SCHEMA.into(),
        }
    }

    fn check_config(config: String) -> Result<(), Vec<Issue>> {
        parse(&config).map(|_| ()).map_err(|problem| vec![Issue { pointer: "".into(), problem }])
    }
}

impl Allocation for Policy {
    fn shortlist(request: Request) -> Result<Shortlisting, Refusal> {
        let config = parse(&request.context.config).map_err(Refusal::BadConfig)?;
        let spread = request.role == "control-plane" || config.workers;
        Ok(if spread {
            Shortlisting::Inspect(anything())
        } else {
            Shortlisting::Narrow(anything())
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

fn anything() -> Constraints {
    Constraints {
        min_cpu_cores: 0,
        min_memory_mib: 0,
        zones: vec![],
        pools: vec![],
        tags: vec![],
        not_zones: vec![],
        not_pools: vec![],
        not_tags: vec![],
    }
}

export!(Policy);
