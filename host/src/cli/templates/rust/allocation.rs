//! Which machine to take: the one with the most memory.

wit_bindgen::generate!({
    path: "wit",
    world: "allocation-policy",
    additional_type_attributes: {
        "capmaas:policy/allocation@0.1.0/constraints": [#[derive(Default)]],
    },
});

use std::cmp::Reverse;

use capmaas::policy::types::Refusal;
use exports::capmaas::policy::allocation::{
    Candidate, Constraints, Guest as Allocation, Ranking, Request, Shortlisting,
};
use exports::capmaas::policy::metadata::{Description, Guest as Metadata, Issue};

struct Policy;

impl Metadata for Policy {
    fn describe() -> Description {
        Description {
            name: "@NAME@".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "the machine with the most memory".into(),
            // JSON Schema of the settings, which the host checks before check_config is asked.
            config_schema: r#"{"type": "object", "additionalProperties": false}"#.into(),
        }
    }

    fn check_config(_config: String) -> Result<(), Vec<Issue>> {
        Ok(())
    }
}

impl Allocation for Policy {
    fn shortlist(_request: Request) -> Result<Shortlisting, Refusal> {
        // Inspect: the host lists the machines that fit, and calls rank. Narrow would leave the choice to MAAS.
        Ok(Shortlisting::Inspect(Constraints::default()))
    }

    fn rank(_request: Request, candidates: Vec<Candidate>) -> Result<Ranking, Refusal> {
        // Indices into the candidates, best first.
        let mut order: Vec<u32> = (0..candidates.len() as u32).collect();
        order.sort_by_key(|i| Reverse(candidates[*i as usize].memory_mib));
        Ok(Ranking { order, rejected: vec![] })
    }
}

export!(Policy);
