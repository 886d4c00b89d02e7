//! Between the types of `core` and the generated ones.

use bumpalo::Bump;
use capmaas_core::policy as core;

use super::bindings::allocation::capmaas::policy::types::{Context, Delay, Refusal};
use super::bindings::allocation::exports::capmaas::policy::allocation as wit;
use super::bindings::dns_naming::exports::capmaas::policy::dns_naming as naming;
use super::bindings::failure_handling::exports::capmaas::policy::failure_handling as failing;
use super::{bounded, refused};

/// Characters of a reason that a policy gives.
const REASON: usize = 400;

/// Where the lists of one question live while it is put: everything in them is borrowed from the question itself, for
/// 1,000 machines are ten thousand texts.
pub(super) struct Lists(Bump);

impl Lists {
    pub(super) fn new() -> Self {
        Self(Bump::new())
    }

    fn of<'a, T, U>(&'a self, list: &'a [T], each: impl FnMut(&'a T) -> U) -> &'a [U] {
        self.0.alloc_slice_fill_iter(list.iter().map(each))
    }

    fn texts<'a>(&'a self, list: &'a [String]) -> &'a [&'a str] {
        self.of(list, String::as_str)
    }

    fn pairs<'a>(&'a self, list: &'a [(String, String)]) -> &'a [(&'a str, &'a str)] {
        self.of(list, |(key, value)| (key.as_str(), value.as_str()))
    }

    fn context<'a>(&'a self, context: &'a core::Context, config: &'a str) -> Context<'a> {
        Context {
            decision_id: &context.decision_id,
            now: context.now,
            namespace: &context.namespace,
            cluster: &context.cluster,
            config,
            attributes: self.pairs(&context.attributes),
        }
    }

    fn constraints<'a>(&'a self, c: &'a core::Constraints) -> wit::ConstraintsParam<'a> {
        wit::ConstraintsParam {
            min_cpu_cores: c.min_cpu_cores,
            min_memory_mib: c.min_memory_mib,
            zones: self.texts(&c.zones),
            pools: self.texts(&c.pools),
            tags: self.texts(&c.tags),
            not_zones: self.texts(&c.not_zones),
            not_pools: self.texts(&c.not_pools),
            not_tags: self.texts(&c.not_tags),
        }
    }

    pub(super) fn allocation_request<'a>(
        &'a self,
        r: &'a core::AllocationRequest,
        config: &'a str,
    ) -> wit::Request<'a> {
        wit::Request {
            context: self.context(&r.context, config),
            machine: &r.machine,
            role: &r.role,
            attempt: r.attempt,
            wanted: self.constraints(&r.wanted),
            peers: self.of(&r.peers, |p| wit::Peer {
                machine: &p.machine,
                role: &p.role,
                system_id: &p.system_id,
                zone: &p.zone,
                pool: &p.pool,
                vm_host: p.vm_host.as_deref(),
            }),
            avoid: self.of(&r.avoid, |a| wit::Avoided {
                system_id: &a.system_id,
                reason: &a.reason,
                until: a.until,
            }),
        }
    }

    pub(super) fn candidates<'a>(
        &'a self,
        list: &'a [core::Candidate],
    ) -> &'a [wit::Candidate<'a>] {
        self.of(list, |c| wit::Candidate {
            system_id: &c.system_id,
            hostname: &c.hostname,
            zone: &c.zone,
            pool: &c.pool,
            architecture: &c.architecture,
            cpu_cores: c.cpu_cores,
            memory_mib: c.memory_mib,
            storage_mib: c.storage_mib,
            vm_host: c.vm_host.as_deref(),
            tags: self.texts(&c.tags),
            attributes: self.pairs(&c.attributes),
        })
    }

    pub(super) fn name_request<'a>(
        &'a self,
        r: &'a core::NameRequest,
        config: &'a str,
    ) -> naming::Request<'a> {
        naming::Request {
            context: self.context(&r.context, config),
            suffix: &r.suffix,
            default_domain: &r.default_domain,
            allowed_domains: self.texts(&r.allowed_domains),
            taken: self.texts(&r.taken),
            attempt: r.attempt,
        }
    }

    pub(super) fn failure<'a>(
        &'a self,
        f: &'a core::Failure,
        config: &'a str,
    ) -> failing::Failure<'a> {
        failing::Failure {
            context: self.context(&f.context, config),
            machine: &f.machine,
            role: &f.role,
            stage: f.stage.word(),
            category: &f.category,
            message: &f.message,
            maas_events: self.texts(&f.maas_events),
            system_id: f.system_id.as_deref(),
            zone: f.zone.as_deref(),
            first_seen: f.first_seen,
            occurrences: f.occurrences,
            replacements: f.replacements,
            attributes: self.pairs(&f.attributes),
        }
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

fn from_constraints(c: wit::ConstraintsResult) -> core::Constraints {
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

pub(super) fn name(answer: Option<naming::Name>) -> core::Answer {
    core::Answer::Named(answer.map(|n| core::Name {
        label: n.label,
        domain: n.domain,
        ttl_seconds: n.ttl_seconds,
    }))
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
