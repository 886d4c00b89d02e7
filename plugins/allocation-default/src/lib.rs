//! The built-in allocation: whatever fits, MAAS takes the smallest.
//!
//! The user's own constraints (cores, memory, zone, pool, tags) always apply; this policy adds none
//! and leaves the choice to MAAS, whose allocate is atomic.

wit_bindgen::generate!({ path: "../../wit", world: "allocation-policy" });

use arena as _;
use capmaas::policy::types::Refusal;
use exports::capmaas::policy::allocation::{
    Candidate, Constraints, Guest as Allocation, Ranking, Request, Shortlisting,
};
use exports::capmaas::policy::metadata::{Description, Guest as Metadata, Issue};

struct Policy;

impl Metadata for Policy {
    fn describe() -> Description {
        Description {
            name: "allocation-default".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "whatever fits; MAAS takes the smallest".into(),
            config_schema: r#"{"type":"object","additionalProperties":false}"#.into(),
        }
    }

    fn check_config(config: String) -> Result<(), Vec<Issue>> {
        let empty: String = config.chars().filter(|c| !c.is_whitespace()).collect();
        if matches!(empty.as_str(), "" | "{}") {
            return Ok(());
        }
        Err(vec![Issue { pointer: "".into(), problem: "this policy has no settings".into() }])
    }
}

impl Allocation for Policy {
    fn shortlist(_request: Request) -> Result<Shortlisting, Refusal> {
        Ok(Shortlisting::Narrow(Constraints {
            min_cpu_cores: 0,
            min_memory_mib: 0,
            zones: vec![],
            pools: vec![],
            tags: vec![],
            not_zones: vec![],
            not_pools: vec![],
            not_tags: vec![],
        }))
    }

    fn rank(_request: Request, candidates: Vec<Candidate>) -> Result<Ranking, Refusal> {
        // Only asked after `inspect`, which this policy never answers; any order will do.
        Ok(Ranking { order: (0..candidates.len() as u32).collect(), rejected: vec![] })
    }
}

export!(Policy);
