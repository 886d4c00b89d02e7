//! Gives every answer that interface 0.1.0 has to an allocation, and repeats what it was told.
//!
//! The machine's name says which answer, as in `defer` or `reject-peers`: the word behind the hyphen is the part of the
//! request that the reason repeats.

wit_bindgen::generate!({ path: "../policy.wit", world: "allocation-policy" });

use capmaas::policy::host::{Level, log};
use capmaas::policy::types::{Delay, Refusal};
use exports::capmaas::policy::allocation::{
    Candidate, Constraints, Guest as Allocation, Ranking, Rejection, Request, Shortlisting,
};
use exports::capmaas::policy::metadata::{Description, Guest as Metadata, Issue};

struct Policy;

impl Metadata for Policy {
    fn describe() -> Description {
        Description {
            name: "interface-allocation".into(),
            version: "0.1.0".into(),
            summary: "every answer of interface 0.1.0 to an allocation".into(),
            config_schema: r#"{"type": "object"}"#.into(),
        }
    }

    fn check_config(config: String) -> Result<(), Vec<Issue>> {
        if !config.contains("wrong") {
            return Ok(());
        }
        let issue = |pointer: &str, problem: &str| Issue {
            pointer: pointer.into(),
            problem: problem.into(),
        };
        Err(vec![issue("/wrong", "this is wrong"), issue("", "and so is all of it")])
    }
}

impl Allocation for Policy {
    fn shortlist(request: Request) -> Result<Shortlisting, Refusal> {
        for level in [Level::Debug, Level::Info, Level::Warn, Level::Error] {
            log(level, &request.machine);
        }
        let (answer, part) = request.machine.split_once('-').unwrap_or((&request.machine, ""));
        let reason = repeated(&request, part);
        match answer {
            "narrow" => Ok(Shortlisting::Narrow(turned(&request.wanted))),
            "inspect" => Ok(Shortlisting::Inspect(turned(&request.wanted))),
            "defer" => Ok(Shortlisting::Defer(Delay { seconds: 10 * request.attempt, reason })),
            "reject" => Ok(Shortlisting::Reject(reason)),
            "badconfig" => Err(Refusal::BadConfig(reason)),
            _ => Err(Refusal::Failed(reason)),
        }
    }

    fn rank(request: Request, candidates: Vec<Candidate>) -> Result<Ranking, Refusal> {
        let (answer, part) = request.machine.split_once('-').unwrap_or((&request.machine, ""));
        match answer {
            "rank" => {}
            "badconfig" => return Err(Refusal::BadConfig(repeated(&request, part))),
            _ => return Err(Refusal::Failed(repeated(&request, part))),
        }
        let mut ranking = Ranking { order: vec![], rejected: vec![] };
        for (index, candidate) in (0..).zip(&candidates) {
            match candidate.hostname.as_str() {
                "liked" => ranking.order.insert(0, index),
                "forgotten" => {}
                _ => ranking.rejected.push(Rejection { index, reason: told(candidate) }),
            }
        }
        Ok(ranking)
    }
}

fn repeated(request: &Request, part: &str) -> String {
    match part {
        "context" => {
            let c = &request.context;
            let config: String = c.config.split_whitespace().collect();
            format!(
                "{} {} {} {} {config} {}",
                c.decision_id,
                c.now,
                c.namespace,
                c.cluster,
                pairs(&c.attributes)
            )
        }
        "wanted" => {
            let c = &request.wanted;
            let lists = [&c.zones, &c.pools, &c.tags, &c.not_zones, &c.not_pools, &c.not_tags];
            format!(
                "{} {} {}",
                c.min_cpu_cores,
                c.min_memory_mib,
                lists.map(|l| l.join("+")).join(" ")
            )
        }
        "peers" => {
            let peers = request.peers.iter().map(|p| {
                let vm_host = p.vm_host.as_deref().unwrap_or("none");
                [&p.machine, &p.role, &p.system_id, &p.zone, &p.pool, vm_host].join(" ")
            });
            peers.collect::<Vec<_>>().join(", ")
        }
        "avoid" => {
            let avoid =
                request.avoid.iter().map(|a| format!("{} {} {}", a.system_id, a.reason, a.until));
            avoid.collect::<Vec<_>>().join(", ")
        }
        _ => format!("{} {} {}", request.machine, request.role, request.attempt),
    }
}

/// The constraints with every field in another one's place, so that none goes missing unseen.
fn turned(c: &Constraints) -> Constraints {
    Constraints {
        min_cpu_cores: c.min_memory_mib,
        min_memory_mib: c.min_cpu_cores,
        zones: c.pools.clone(),
        pools: c.tags.clone(),
        tags: c.not_zones.clone(),
        not_zones: c.not_pools.clone(),
        not_pools: c.not_tags.clone(),
        not_tags: c.zones.clone(),
    }
}

fn told(c: &Candidate) -> String {
    format!(
        "{} {} {} {} {} {} {} {} {} {} {}",
        c.system_id,
        c.hostname,
        c.zone,
        c.pool,
        c.architecture,
        c.cpu_cores,
        c.memory_mib,
        c.storage_mib,
        c.vm_host.as_deref().unwrap_or("none"),
        c.tags.join("+"),
        pairs(&c.attributes)
    )
}

fn pairs(attributes: &[(String, String)]) -> String {
    let pairs: Vec<String> =
        attributes.iter().map(|(key, value)| format!("{key}={value}")).collect();
    pairs.join("+")
}

export!(Policy);
