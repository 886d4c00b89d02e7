//! The rule of `allocation-zone-spread`, without a sandbox, and a question for it.

use capmaas_core::policy::{AllocationRequest, Candidate, Constraints, Context, Peer, Ranking};

/// The same rule as the component's.
pub(crate) fn rank(request: &AllocationRequest, candidates: &[Candidate]) -> Ranking {
    let in_zone = |zone: &str| {
        request.peers.iter().filter(|p| p.role == request.role && p.zone == zone).count()
    };
    let cost = |c: &Candidate| u64::from(c.cpu_cores) + u64::from(c.memory_mib) / 1024;
    let mut order: Vec<u32> = (0u32..).take(candidates.len()).collect();
    order.sort_by_cached_key(|i| {
        let candidate = &candidates[*i as usize];
        (in_zone(&candidate.zone), cost(candidate), candidate.system_id.as_str())
    });
    Ranking { order, rejected: vec![] }
}

/// So many machines in three zones, and two peers.
pub(crate) fn question(candidates: u32) -> (AllocationRequest, Vec<Candidate>) {
    let peer = |i: u32| Peer {
        machine: format!("blue-{i}"),
        role: "control-plane".into(),
        system_id: format!("peer{i:02}"),
        zone: format!("az{}", i % 3 + 1),
        pool: "default".into(),
        vm_host: None,
    };
    let request = AllocationRequest {
        context: Context {
            decision_id: "uid/allocation".into(),
            now: 1_900_000_000,
            namespace: "default".into(),
            cluster: "blue".into(),
            attributes: vec![],
        },
        machine: "blue-9".into(),
        role: "control-plane".into(),
        attempt: 0,
        wanted: Constraints { min_cpu_cores: 4, min_memory_mib: 8192, ..Constraints::default() },
        peers: (0..2).map(peer).collect(),
        avoid: vec![],
    };
    // Neither sorted nor random, so that every run sorts the same.
    let candidate = |i: u32| Candidate {
        system_id: format!("m{:05}", i.wrapping_mul(7919) % 100_003),
        hostname: format!("rack-{}-host-{i}", i % 40),
        zone: format!("az{}", i % 3 + 1),
        pool: "default".into(),
        architecture: "amd64/generic".into(),
        cpu_cores: 4 << (i % 4),
        memory_mib: 8192 << (i % 5),
        storage_mib: 480_000,
        vm_host: None,
        tags: vec!["nvme".into(), "10g".into()],
        attributes: vec![],
    };
    (request, (0..candidates).map(candidate).collect())
}
