//! Between the types of `core` and the generated ones.

use capmaas_core::policy as core;

use super::bindings::allocation::capmaas::policy::types::{Context, Delay, Refusal};
use super::bindings::allocation::exports::capmaas::policy::allocation as wit;
use super::bindings::dns_naming::exports::capmaas::policy::dns_naming as naming;
use super::bindings::failure_handling::exports::capmaas::policy::failure_handling as failing;
use super::{bounded, refused};

/// Characters of a reason that a policy gives.
const REASON: usize = 400;

fn context(context: &core::Context, config: &str) -> Context {
    Context {
        decision_id: context.decision_id.clone(),
        now: context.now,
        namespace: context.namespace.clone(),
        cluster: context.cluster.clone(),
        config: config.to_owned(),
        attributes: context.attributes.clone(),
    }
}

fn reason(text: &str) -> String {
    bounded(text, REASON)
}

fn delay(delay: Delay) -> core::Delay {
    core::Delay { seconds: delay.seconds, reason: reason(&delay.reason) }
}

pub(super) fn refusal(refusal: Refusal) -> core::Refused {
    match refusal {
        Refusal::BadConfig(text) => refused("bad-config", &text),
        Refusal::Failed(text) => refused("failed", &text),
    }
}

fn to_constraints(c: &core::Constraints) -> wit::Constraints {
    wit::Constraints {
        min_cpu_cores: c.min_cpu_cores,
        min_memory_mib: c.min_memory_mib,
        zones: c.zones.clone(),
        pools: c.pools.clone(),
        tags: c.tags.clone(),
        not_zones: c.not_zones.clone(),
        not_pools: c.not_pools.clone(),
        not_tags: c.not_tags.clone(),
    }
}

fn from_constraints(c: wit::Constraints) -> core::Constraints {
    core::Constraints {
        min_cpu_cores: c.min_cpu_cores,
        min_memory_mib: c.min_memory_mib,
        zones: c.zones,
        pools: c.pools,
        tags: c.tags,
        not_zones: c.not_zones,
        not_pools: c.not_pools,
        not_tags: c.not_tags,
    }
}

pub(super) fn allocation_request(r: &core::AllocationRequest, config: &str) -> wit::Request {
    let peer = |p: &core::Peer| wit::Peer {
        machine: p.machine.clone(),
        role: p.role.clone(),
        system_id: p.system_id.clone(),
        zone: p.zone.clone(),
        pool: p.pool.clone(),
        vm_host: p.vm_host.clone(),
    };
    let avoided = |a: &core::Avoided| wit::Avoided {
        system_id: a.system_id.clone(),
        reason: a.reason.clone(),
        until: a.until,
    };
    wit::Request {
        context: context(&r.context, config),
        machine: r.machine.clone(),
        role: r.role.clone(),
        attempt: r.attempt,
        wanted: to_constraints(&r.wanted),
        peers: r.peers.iter().map(peer).collect(),
        avoid: r.avoid.iter().map(avoided).collect(),
    }
}

pub(super) fn candidate(c: &core::Candidate) -> wit::Candidate {
    wit::Candidate {
        system_id: c.system_id.clone(),
        hostname: c.hostname.clone(),
        zone: c.zone.clone(),
        pool: c.pool.clone(),
        architecture: c.architecture.clone(),
        cpu_cores: c.cpu_cores,
        memory_mib: c.memory_mib,
        storage_mib: c.storage_mib,
        vm_host: c.vm_host.clone(),
        tags: c.tags.clone(),
        attributes: c.attributes.clone(),
    }
}

pub(super) fn shortlisting(answer: wit::Shortlisting) -> core::Answer {
    core::Answer::Shortlisted(match answer {
        wit::Shortlisting::Narrow(c) => core::Shortlisting::Narrow(from_constraints(c)),
        wit::Shortlisting::Inspect(c) => core::Shortlisting::Inspect(from_constraints(c)),
        wit::Shortlisting::Defer(d) => core::Shortlisting::Defer(delay(d)),
        wit::Shortlisting::Reject(why) => core::Shortlisting::Reject(reason(&why)),
    })
}

pub(super) fn ranking(answer: wit::Ranking) -> core::Answer {
    let rejection =
        |r: wit::Rejection| core::Rejection { index: r.index, reason: reason(&r.reason) };
    core::Answer::Ranked(core::Ranking {
        order: answer.order,
        rejected: answer.rejected.into_iter().map(rejection).collect(),
    })
}

pub(super) fn name_request(r: &core::NameRequest, config: &str) -> naming::Request {
    naming::Request {
        context: context(&r.context, config),
        suffix: r.suffix.clone(),
        default_domain: r.default_domain.clone(),
        allowed_domains: r.allowed_domains.clone(),
        taken: r.taken.clone(),
        attempt: r.attempt,
    }
}

pub(super) fn name(answer: Option<naming::Name>) -> core::Answer {
    core::Answer::Named(answer.map(|n| core::Name {
        label: n.label,
        domain: n.domain,
        ttl_seconds: n.ttl_seconds,
    }))
}

pub(super) fn failure(f: &core::Failure, config: &str) -> failing::Failure {
    failing::Failure {
        context: context(&f.context, config),
        machine: f.machine.clone(),
        role: f.role.clone(),
        stage: f.stage.word().to_owned(),
        category: f.category.clone(),
        message: f.message.clone(),
        maas_events: f.maas_events.clone(),
        system_id: f.system_id.clone(),
        zone: f.zone.clone(),
        first_seen: f.first_seen,
        occurrences: f.occurrences,
        replacements: f.replacements,
        attributes: f.attributes.clone(),
    }
}

pub(super) fn action(answer: failing::Action) -> core::Answer {
    let replacement = |r: failing::Replacement| core::Replacement {
        delay: delay(r.delay),
        avoid_seconds: r.avoid_seconds,
    };
    core::Answer::Action(match answer {
        failing::Action::UseDefault => core::Action::UseDefault,
        failing::Action::Retry(d) => core::Action::Retry(delay(d)),
        failing::Action::ReleaseAndReplace(r) => core::Action::ReleaseAndReplace(replacement(r)),
        failing::Action::MarkBrokenAndReplace(r) => {
            core::Action::MarkBrokenAndReplace(replacement(r))
        }
        failing::Action::PowerCycle(d) => core::Action::PowerCycle(delay(d)),
        failing::Action::GiveUp(why) => core::Action::GiveUp(reason(&why)),
    })
}
