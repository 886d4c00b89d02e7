//! The rule of `allocation-zone-spread`, over JSON text.

wit_bindgen::generate!({ path: "wit", world: "rank-json" });

use arena as _;
use serde::Deserialize;

#[derive(Deserialize)]
struct Question {
    request: Request,
    candidates: Vec<Candidate>,
}

#[derive(Deserialize)]
struct Request {
    role: String,
    peers: Vec<Peer>,
}

#[derive(Deserialize)]
struct Peer {
    role: String,
    zone: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    system_id: String,
    zone: String,
    cpu_cores: u32,
    memory_mib: u32,
}

struct Ranks;

impl Guest for Ranks {
    fn rank(question: String) -> String {
        let Ok(Question { request, candidates }) = serde_json::from_str(&question) else {
            return String::new();
        };
        let in_zone = |zone: &str| {
            request.peers.iter().filter(|p| p.role == request.role && p.zone == zone).count()
        };
        let cost = |c: &Candidate| u64::from(c.cpu_cores) + u64::from(c.memory_mib) / 1024;
        let mut order: Vec<u32> = (0..candidates.len() as u32).collect();
        order.sort_by_cached_key(|i| {
            let candidate = &candidates[*i as usize];
            (in_zone(&candidate.zone), cost(candidate), candidate.system_id.as_str())
        });
        serde_json::to_string(&order).unwrap_or_default()
    }
}

export!(Ranks);
