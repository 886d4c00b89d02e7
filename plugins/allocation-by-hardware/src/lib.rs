//! A sample: machines are chosen by what MAAS knows of their hardware.
//!
//! A machine that does not meet every required rule is rejected, with the rule it fails. Among the others the first
//! preferred rule decides, then the second, and so on; then the smallest machine comes first, as MAAS itself would choose.

wit_bindgen::generate!({
    path: "../../wit",
    world: "allocation-policy",
    additional_type_attributes: {
        "capmaas:policy/allocation@0.1.0/constraints": [#[derive(Default)]],
    },
});

mod rules;

use arena as _;
use capmaas::policy::host::{Level, log};
use capmaas::policy::types::Refusal;
use exports::capmaas::policy::allocation::{
    Candidate, Constraints, Guest as Allocation, Ranking, Rejection, Request, Shortlisting,
};
use exports::capmaas::policy::metadata::{Description, Guest as Metadata, Issue};
use rules::Config;

struct Policy;

settings::metadata!({
    summary: "machines are chosen by processor, vendor, product, NUMA nodes and power type",
    schema: rules::SCHEMA,
    beyond: Config::issues,
});

impl Allocation for Policy {
    fn shortlist(_request: Request) -> Result<Shortlisting, Refusal> {
        Ok(Shortlisting::Inspect(Constraints::default()))
    }

    fn rank(request: Request, candidates: Vec<Candidate>) -> Result<Ranking, Refusal> {
        let config: Config = settings::read(&request.context.config).map_err(Refusal::BadConfig)?;
        let mut ranking = Ranking { order: vec![], rejected: vec![] };
        for (index, candidate) in (0..).zip(&candidates) {
            match config.required.iter().find_map(|rule| rule.unmet(&candidate.attributes)) {
                None => ranking.order.push(index),
                Some(reason) => ranking.rejected.push(Rejection { index, reason }),
            }
        }
        ranking.order.sort_by_cached_key(|index| {
            let candidate = &candidates[*index as usize];
            // `false` comes first, so what is asked is what a machine lacks.
            let lacks: Vec<bool> = config
                .preferred
                .iter()
                .map(|rule| rule.unmet(&candidate.attributes).is_some())
                .collect();
            (lacks, candidate.cpu_cores, candidate.memory_mib, candidate.system_id.as_str())
        });
        if ranking.order.is_empty() && !candidates.is_empty() {
            let offered = candidates.len();
            log(Level::Warn, &format!("none of {offered} machines meets every required rule"));
        }
        Ok(ranking)
    }
}

export!(Policy);
