//! Which host: what the user wants, what the cluster has, what the policy answers.

use super::acquire::bounded;
use super::report::End;
use super::{MachineFlow, Run, failed_hosts, unexpected};
use crate::policy::{
    AllocateConstraints, AllocationRequest, Answer, Answered, Avoided, Candidate, Constraints,
    Delay, Peer, PolicyId, Question, Shortlisting, candidates, choose, narrowed,
};
use crate::step::{EventKind, Read, Reply};

/// Least memory for a machine that runs from memory, MiB (from the MAAS provider's README: the
/// image is unpacked into RAM).
const IN_MEMORY_MIB: u32 = 16 * 1024;

/// What is to be allocated, in order, and the story of how it was chosen.
pub(super) struct Choice {
    pub(super) attempts: Vec<AllocateConstraints>,
    pub(super) story: String,
    pub(super) policy: PolicyId,
}

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

    /// Asks the allocation policy, and turns its answer into calls.
    pub(super) fn choose_host(&mut self) -> MachineFlow<Choice> {
        let wanted = self.wanted();
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
        let (policy, answer) = self.answer(Question::Shortlist(request.clone()))?;
        let Answer::Shortlisted(shortlisting) = answer else {
            return Err(self.bad_answer(&policy, "it did not answer the question"));
        };
        match shortlisting {
            Shortlisting::Narrow(c) => {
                let within = self.within(&policy, &wanted, &c)?;
                let cheapest = "MAAS takes the smallest machine that fits";
                if request.avoid.is_empty() {
                    let story = format!("policy {policy} left the choice to MAAS: {cheapest}");
                    return Ok(Choice { attempts: vec![within], story, policy });
                }
                // Allocate cannot exclude a machine, so the host lists and chooses as MAAS would.
                let mut offered = self.offered(&within, &request)?;
                offered.sort_by_key(|c| (size(c), c.system_id.clone()));
                let shunned = request.avoid.len();
                let story =
                    format!("policy {policy}; {cheapest}, {shunned} failed host(s) avoided");
                Ok(Choice { attempts: by_id(&within, offered.iter()), story, policy })
            }
            Shortlisting::Inspect(c) => {
                let within = self.within(&policy, &wanted, &c)?;
                let offered = self.offered(&within, &request)?;
                self.rank(request, offered, &within)
            }
            Shortlisting::Defer(delay) => Err(self.deferred(&policy, &delay)),
            Shortlisting::Reject(why) => {
                let message = format!("policy {policy} rejects this machine: {}", bounded(&why));
                Err(self.unable("AllocationRejected", &message))
            }
        }
    }

    fn answer(&mut self, question: Question) -> MachineFlow<(PolicyId, Answer)> {
        match self.transcript.ask(question)? {
            Ok(Answered { policy, answer }) => Ok((policy, answer)),
            Err(refused) => {
                Err(self.unable("AllocationPolicyFailed", &bounded(&refused.to_string())))
            }
        }
    }

    fn bad_answer(&mut self, policy: &PolicyId, problem: &str) -> End {
        let message = format!("policy {policy} gave an answer that cannot be used: {problem}");
        self.unable("AllocationPolicyFailed", &message)
    }

    fn deferred(&mut self, policy: &PolicyId, delay: &Delay) -> End {
        let why = bounded(&delay.reason);
        let message = format!("policy {policy} wants to be asked again later: {why}");
        let again = self.clamp(delay).max(1);
        self.waiting("AllocationDeferred", &message, Some(again))
    }

    fn within(
        &mut self,
        policy: &PolicyId,
        wanted: &AllocateConstraints,
        narrower: &Constraints,
    ) -> MachineFlow<AllocateConstraints> {
        match narrowed(&wanted.constraints, narrower) {
            Ok(constraints) => Ok(AllocateConstraints { constraints, ..wanted.clone() }),
            Err(empty) => {
                let message = format!("policy {policy} leaves no machine to take: {empty}");
                Err(self.unable("NoMachineFits", &message))
            }
        }
    }

    fn offered(
        &mut self,
        within: &AllocateConstraints,
        request: &AllocationRequest,
    ) -> MachineFlow<Vec<Candidate>> {
        match self.read(Read::Candidates(Box::new(within.clone())))? {
            Ok(Reply::Machines(machines)) => {
                let (offered, cut) = candidates(&machines, &request.avoid, self.seen.now);
                if cut > 0 {
                    let note = format!("{cut} more machines fit than a policy is shown");
                    self.event(EventKind::Warning, "CandidatesCut", "Allocate", note);
                }
                Ok(offered)
            }
            other => Err(self.allocation_refused(&unexpected(other))),
        }
    }

    fn rank(
        &mut self,
        request: AllocationRequest,
        offered: Vec<Candidate>,
        within: &AllocateConstraints,
    ) -> MachineFlow<Choice> {
        let question = Question::Rank { request, candidates: offered.clone() };
        let (policy, answer) = self.answer(question)?;
        let Answer::Ranked(ranking) = answer else {
            return Err(self.bad_answer(&policy, "it did not rank"));
        };
        let chosen = match choose(&ranking, &offered) {
            Ok(chosen) => chosen,
            Err(problem) => return Err(self.bad_answer(&policy, &problem)),
        };
        if chosen.is_empty() {
            let why = ranking.rejected.first().map(|r| bounded(&r.reason)).unwrap_or_default();
            let message = format!(
                "policy {policy} wants none of the {} machines that fit{}{why}",
                offered.len(),
                if why.is_empty() { "" } else { ", for example: " }
            );
            return Err(self.unable("NoMachineFits", &message));
        }
        let story = format!("policy {policy} ranked {} of {}", chosen.len(), offered.len());
        Ok(Choice { attempts: by_id(within, chosen.into_iter()), story, policy })
    }
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
