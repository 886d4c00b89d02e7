//! How many bytes a ranking moves: into the guest's memory and back, or over the wire of a webhook.

use anyhow::Result;
use capmaas_core::policy::{AllocationRequest, Candidate, Ranking};
use wasmtime::component::ComponentType;

use crate::webhook::Asked;

mod bindings {
    wasmtime::component::bindgen!({ path: "../../wit", world: "allocation-policy" });
    pub(super) use exports::capmaas::policy::allocation::{Candidate, Ranking};
}

/// Address and length of a text or a list.
const POINTER: usize = 8;

/// What the canonical ABI copies for the machines and for their order. The request itself, some hundred bytes, is left out
/// on both ways.
pub(crate) fn copied(candidates: &[Candidate], ranking: &Ranking) -> usize {
    let records = candidates.len() * bindings::Candidate::SIZE32;
    let texts: usize = candidates.iter().map(texts).sum();
    let answer = bindings::Ranking::SIZE32 + ranking.order.len() * size_of::<u32>();
    records + texts + answer
}

/// What a record points to.
fn texts(candidate: &Candidate) -> usize {
    let Candidate {
        system_id,
        hostname,
        zone,
        pool,
        architecture,
        cpu_cores: _,
        memory_mib: _,
        storage_mib: _,
        vm_host,
        tags,
        attributes,
    } = candidate;
    let plain = [system_id, hostname, zone, pool, architecture];
    let plain: usize = plain.into_iter().chain(vm_host).map(String::len).sum();
    let tags: usize = tags.iter().map(|tag| POINTER + tag.len()).sum();
    let pairs = attributes.iter();
    plain + tags + pairs.map(|(key, value)| 2 * POINTER + key.len() + value.len()).sum::<usize>()
}

/// The bodies of the webhook's question and answer; without headers.
pub(crate) fn sent(
    request: &AllocationRequest,
    candidates: &[Candidate],
    ranking: &Ranking,
) -> Result<usize> {
    let question = |candidates| serde_json::to_vec(&Asked { request, candidates });
    let machines = question(candidates)?.len() - question(&[])?.len();
    Ok(machines + serde_json::to_vec(ranking)?.len())
}
