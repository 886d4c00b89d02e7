//! Which host: what the user wants, what the cluster has, what the policy answers.

use super::acquire::bounded;
use super::report::End;
use super::{ALLOCATION, MachineFlow, Run, failed_hosts, no_answer, unexpected};
use crate::cluster::former_hosts;
use crate::maas::Machine;
use crate::policy::{
    AllocateConstraints, AllocationRequest, Answer, Answered, Avoided, Candidate, Constraints,
    Delay, Panel, Peer, PolicyId, Proposal, Question, Refused, Rejection, Seat, Shortlisting,
    candidates, choose, narrowed,
};
use crate::step::{EventKind, Read, Reply};
use crate::text;

/// Least memory for a machine that runs from memory, MiB (from the MAAS provider's README: the
/// image is unpacked into RAM).
const IN_MEMORY_MIB: u32 = 16 * 1024;

/// What is to be allocated, in order, and the story of how it was chosen.
pub(super) struct Choice {
    pub(super) attempts: Vec<AllocateConstraints>,
    pub(super) story: String,
    pub(super) said: Vec<Said>,
    /// What policies in shadow would have had.
    pub(super) proposals: Vec<(Seat, Proposal)>,
}

/// What one policy contributed to a choice.
pub(super) struct Said {
    pub(super) seat: Seat,
    pub(super) policy: PolicyId,
    pub(super) what: String,
}

/// No machine is taken now.
enum Halt {
    /// A policy wants to be asked again.
    Deferred(PolicyId, Delay),
    /// Until something changes; reason and sentence.
    Unable(&'static str, String),
}

/// What the shortlists have left.
struct Shortlisted {
    within: AllocateConstraints,
    said: Vec<Said>,
    /// Places in `said` of those who want to see the machines.
    inspectors: Vec<usize>,
}

type Verdict<T> = MachineFlow<Result<T, Halt>>;

impl Run<'_> {
    /// What the user asks for. Blank and null mean "no constraint".
    fn wanted(&self) -> AllocateConstraints {
        let spec = &self.seen.object.spec;
        let text = |s: &Option<String>| s.as_deref().map(str::trim).unwrap_or("").to_owned();
        let from_machine = self.seen.machine.as_ref().map(|m| &m.spec.failure_domain);
        let zone = Some(text(&spec.failure_domain))
            .filter(|z| !z.is_empty())
            .or_else(|| from_machine.map(text));
        let list = |value: String| Some(value).filter(|v| !v.is_empty()).into_iter().collect();
        let tags = spec.tags.iter().flatten().map(|t| t.trim().to_owned());
        let floor = if spec.deploy_in_memory == Some(true) { IN_MEMORY_MIB } else { 0 };
        AllocateConstraints {
            system_id: None,
            constraints: Constraints {
                min_cpu_cores: spec.min_cpu,
                min_memory_mib: spec.min_memory.max(floor),
                zones: list(zone.unwrap_or_default()),
                pools: list(text(&spec.resource_pool)),
                tags: tags.filter(|t| !t.is_empty()).collect(),
                ..Constraints::default()
            },
            min_disk_gb: spec.min_disk_size.filter(|gb| *gb > 0),
        }
    }

    /// The other machines of the cluster, and the hosts that failed for any of them.
    fn siblings(&mut self) -> MachineFlow<(Vec<Peer>, Vec<Avoided>)> {
        let namespace = self.namespace().to_owned();
        let cluster = self.cluster_name().to_owned();
        let all = match self.read(Read::Siblings { namespace, cluster })? {
            Ok(Reply::Siblings(all)) => all,
            other => {
                let error = unexpected(other);
                return Err(self.patch_failed(&error));
            }
        };
        let others = || all.iter().filter(|s| s.name != self.name());
        let mut peers: Vec<Peer> = others().filter_map(|s| s.peer.clone()).collect();
        peers.sort_by(|a, b| a.machine.cmp(&b.machine));
        let mut failed = self.failed_hosts();
        failed.extend(others().flat_map(|s| s.failed.iter().cloned()));
        Ok((peers, failed_hosts::avoided(failed, self.seen.now)))
    }

    /// Asks the allocation policies, and turns their answers into calls.
    pub(super) fn choose_host(&mut self) -> MachineFlow<Choice> {
        let wanted = self.wanted();
        let seats = Panel::obeyed(&self.seen.policies.allocation);
        if let Some(seat) = seats.iter().find(|s| s.loading) {
            let message = format!("policy {} is being loaded", seat.called());
            return Err(self.waiting("PolicyLoading", &message, Some(1)));
        }
        let (peers, avoid) = self.siblings()?;
        let attempt = self.status.failure.as_ref().map_or(0, |f| f.occurrences);
        let request = AllocationRequest {
            context: self.context("allocation"),
            machine: self.name().to_owned(),
            role: self.role().to_owned(),
            attempt,
            wanted: wanted.constraints.clone(),
            peers,
            avoid,
        };
        let verdict = self.deliberate(&seats, &request, &wanted)?;
        let proposals = self.proposals(&request, &wanted)?;
        match verdict {
            Ok(choice) => Ok(Choice { proposals, ..choice }),
            Err(halt) => Err(self.halted(&halt, &proposals)),
        }
    }

    /// All shortlists, one listing, then those who want to see it rank in turn on what the ones before have left.
    fn deliberate(
        &mut self,
        seats: &[Seat],
        request: &AllocationRequest,
        wanted: &AllocateConstraints,
    ) -> Verdict<Choice> {
        let shortlisted = match self.shortlists(seats, request, wanted)? {
            Ok(shortlisted) => shortlisted,
            Err(halt) => return Ok(Err(halt)),
        };
        if shortlisted.said.is_empty() {
            // Every one of them was excused: the built-in policy is what remains, and is never excused.
            return self.deliberate(&[Seat::default()], request, wanted);
        }
        if shortlisted.inspectors.is_empty() {
            return Ok(Ok(self.as_maas_would(shortlisted, request)?));
        }
        self.ranked(shortlisted, request)
    }

    fn shortlists(
        &mut self,
        seats: &[Seat],
        request: &AllocationRequest,
        wanted: &AllocateConstraints,
    ) -> Verdict<Shortlisted> {
        let mut within = wanted.clone();
        let (mut said, mut inspectors) = (Vec::new(), Vec::new());
        for seat in seats {
            let question = Question::Shortlist(request.clone());
            let (policy, shortlisting) = match self.transcript.ask(seat, question)? {
                Ok(Answered { policy, answer: Answer::Shortlisted(s) }) => (policy, s),
                other => match self.excused(seat, other) {
                    Some(halt) => return Ok(Err(halt)),
                    None => continue,
                },
            };
            let narrower = match shortlisting {
                Shortlisting::Narrow(c) => c,
                Shortlisting::Inspect(c) => {
                    inspectors.push(said.len());
                    c
                }
                Shortlisting::Defer(delay) => return Ok(Err(Halt::Deferred(policy, delay))),
                Shortlisting::Reject(why) => {
                    let why = bounded(&why);
                    let message = format!("policy {policy} rejects this machine: {why}");
                    return Ok(Err(Halt::Unable("AllocationRejected", message)));
                }
            };
            match narrowed(&within.constraints, &narrower) {
                Ok(constraints) => within.constraints = constraints,
                Err(empty) => {
                    let message = format!("policy {policy} leaves no machine to take: {empty}");
                    return Ok(Err(Halt::Unable("NoMachineFits", message)));
                }
            }
            said.push(Said { seat: seat.clone(), policy, what: narrower.describe() });
        }
        Ok(Ok(Shortlisted { within, said, inspectors }))
    }

    /// A policy gave no answer that can be used: `None` if the choice goes on without it.
    fn excused(&mut self, seat: &Seat, given: Result<Answered, Refused>) -> Option<Halt> {
        let why = no_answer(given);
        if seat.use_default {
            self.default_used(seat, &why);
            return None;
        }
        Some(Halt::Unable("AllocationPolicyFailed", bounded(&why)))
    }

    /// Nobody wants to see the machines: MAAS chooses.
    fn as_maas_would(
        &mut self,
        shortlisted: Shortlisted,
        request: &AllocationRequest,
    ) -> MachineFlow<Choice> {
        let Shortlisted { within, said, .. } = shortlisted;
        let policy = names(&said);
        let cheapest = "MAAS takes the smallest machine that fits";
        let (attempts, story) = if request.avoid.is_empty() {
            (vec![within], format!("policy {policy} left the choice to MAAS: {cheapest}"))
        } else {
            // Allocate cannot exclude a machine, so the host lists and chooses as MAAS would.
            let mut offered = self.offered(&within, request)?;
            offered.sort_by_key(|c| (size(c), c.system_id.clone()));
            let shunned = request.avoid.len();
            let story = format!("policy {policy}; {cheapest}, {shunned} failed host(s) avoided");
            (by_id(&within, offered.iter()), story)
        };
        Ok(Choice { attempts, story, said, proposals: vec![] })
    }

    fn ranked(&mut self, shortlisted: Shortlisted, request: &AllocationRequest) -> Verdict<Choice> {
        let Shortlisted { within, mut said, inspectors } = shortlisted;
        let offered = self.offered(&within, request)?;
        let mut order = offered.clone();
        order.sort_by_key(|c| (size(c), c.system_id.clone()));
        let mut last = None;
        for place in inspectors {
            // Sorted by system id, whatever the one before preferred.
            let survivors: Vec<Candidate> =
                offered.iter().filter(|c| order.contains(c)).cloned().collect();
            let seat = said[place].seat.clone();
            let ranking = match self.rank(&seat, request, &survivors)? {
                Ok(ranking) => ranking,
                Err(Some(halt)) => return Ok(Err(halt)),
                Err(None) => continue,
            };
            let policy = &said[place].policy;
            if ranking.0.is_empty() {
                let message = wants_none(policy, survivors.len(), &ranking.1);
                return Ok(Err(Halt::Unable("NoMachineFits", message)));
            }
            last =
                Some(format!("policy {policy} ranked {} of {}", ranking.0.len(), survivors.len()));
            said[place].what = told(ranking.0.len(), &survivors, &ranking.1);
            order = ranking.0;
        }
        let names = names(&said);
        let story = last.unwrap_or_else(|| format!("policy {names} left the choice to the host"));
        Ok(Ok(Choice { attempts: by_id(&within, order.iter()), story, said, proposals: vec![] }))
    }

    /// One policy's order of these machines, and whom it rejects; `Err(None)` if the choice goes on without it.
    #[allow(clippy::type_complexity)]
    fn rank(
        &mut self,
        seat: &Seat,
        request: &AllocationRequest,
        survivors: &[Candidate],
    ) -> MachineFlow<Result<(Vec<Candidate>, Vec<Rejection>), Option<Halt>>> {
        let question = Question::Rank { request: request.clone(), candidates: survivors.to_vec() };
        let given = match self.transcript.ask(seat, question)? {
            Ok(Answered { policy, answer: Answer::Ranked(ranking) }) => {
                match choose(&ranking, survivors) {
                    Ok(chosen) => {
                        let chosen = chosen.into_iter().cloned().collect();
                        return Ok(Ok((chosen, ranking.rejected)));
                    }
                    Err(problem) => {
                        let refused = Refused::unusable(&problem);
                        Err(Refused { policy: Some(policy), ..refused })
                    }
                }
            }
            other => other,
        };
        Ok(Err(self.excused(seat, given)))
    }

    fn halted(&mut self, halt: &Halt, proposals: &[(Seat, Proposal)]) -> End {
        let why = match halt {
            Halt::Deferred(policy, delay) => {
                let why = bounded(&delay.reason);
                format!("policy {policy} wants to be asked again later: {why}")
            }
            Halt::Unable(_, message) => message.clone(),
        };
        for (seat, proposal) in proposals {
            self.compared(seat, ALLOCATION, proposal.beside_none(&why));
        }
        match halt {
            Halt::Deferred(_, delay) => {
                let again = self.clamp(delay).max(1);
                self.waiting("AllocationDeferred", &why, Some(again))
            }
            Halt::Unable(reason, _) => self.unable(reason, &why),
        }
    }

    /// The candidates among these machines, and how many more there are.
    pub(super) fn on_offer(
        &self,
        machines: &[Machine],
        request: &AllocationRequest,
    ) -> (Vec<Candidate>, usize) {
        let held_before = former_hosts(self.seen.maas_cluster.as_ref());
        candidates(machines, &request.avoid, &held_before, self.seen.now)
    }

    fn offered(
        &mut self,
        within: &AllocateConstraints,
        request: &AllocationRequest,
    ) -> MachineFlow<Vec<Candidate>> {
        match self.read(Read::Candidates(Box::new(within.clone())))? {
            Ok(Reply::Machines(machines)) => {
                let (offered, cut) = self.on_offer(&machines, request);
                if cut > 0 {
                    let note = format!("{cut} more machines fit than a policy is shown");
                    self.event(EventKind::Warning, "CandidatesCut", "Allocate", note);
                }
                Ok(offered)
            }
            other => Err(self.allocation_refused(&unexpected(other))),
        }
    }
}

/// The policies that were heard, for a sentence.
fn names(said: &[Said]) -> String {
    let names: Vec<String> = said.iter().map(|s| s.policy.to_string()).collect();
    names.join(", then ")
}

fn wants_none(policy: &PolicyId, offered: usize, rejected: &[Rejection]) -> String {
    let why = rejected.first().map(|r| bounded(&r.reason)).unwrap_or_default();
    let example = if why.is_empty() { "" } else { ", for example: " };
    format!("policy {policy} wants none of the {offered} machines that fit{example}{why}")
}

/// What a ranking said, with a few of its reasons.
fn told(chosen: usize, offered: &[Candidate], rejected: &[Rejection]) -> String {
    let reason = |r: &Rejection| {
        let machine = offered.get(r.index as usize)?;
        Some(format!("{}: {}", machine.hostname, text::bounded(&r.reason, 60)))
    };
    let reasons: Vec<String> = rejected.iter().take(3).filter_map(reason).collect();
    let rejecting = if reasons.is_empty() { "" } else { "; rejected " };
    format!("ranked {chosen} of {}{rejecting}{}", offered.len(), reasons.join(", "))
}

/// MAAS's own measure of the smallest machine.
fn size(candidate: &Candidate) -> u64 {
    u64::from(candidate.cpu_cores) + u64::from(candidate.memory_mib / 1024)
}

fn by_id<'a>(
    within: &AllocateConstraints,
    order: impl Iterator<Item = &'a Candidate>,
) -> Vec<AllocateConstraints> {
    /// Each lost race costs a call; after so many the next reconcile lists anew.
    const TRIES: usize = 10;
    order
        .take(TRIES)
        .map(|c| AllocateConstraints { system_id: Some(c.system_id.clone()), ..within.clone() })
        .collect()
}
