//! What policies in shadow would have had in place of what was chosen.

use super::{MachineFlow, Run};
use crate::policy::{
    AllocateConstraints, AllocationRequest, Answer, Answered, Candidate, Panel, Proposal, Question,
    Seat, Shortlisting, choose, narrowed,
};
use crate::step::{Read, Reply};

impl Run<'_> {
    /// Whoever gives no answer has no proposal.
    pub(super) fn proposals(
        &mut self,
        request: &AllocationRequest,
        wanted: &AllocateConstraints,
    ) -> MachineFlow<Vec<(Seat, Proposal)>> {
        let mut proposals = Vec::new();
        for seat in Panel::shadows(&self.seen.policies.allocation) {
            if let Some(proposal) = self.proposal(&seat, request, wanted)? {
                proposals.push((seat, proposal));
            }
        }
        Ok(proposals)
    }

    fn proposal(
        &mut self,
        seat: &Seat,
        request: &AllocationRequest,
        wanted: &AllocateConstraints,
    ) -> MachineFlow<Option<Proposal>> {
        let question = Question::Shortlist(request.clone());
        let Ok(Answered { answer: Answer::Shortlisted(shortlisting), .. }) =
            self.transcript.ask(seat, question)?
        else {
            return Ok(None);
        };
        let (narrower, inspects) = match shortlisting {
            Shortlisting::Narrow(c) => (c, false),
            Shortlisting::Inspect(c) => (c, true),
            Shortlisting::Defer(delay) => return Ok(Some(Proposal::None(delay.reason))),
            Shortlisting::Reject(why) => return Ok(Some(Proposal::None(why))),
        };
        let constraints = match narrowed(&wanted.constraints, &narrower) {
            Ok(constraints) => constraints,
            Err(empty) => return Ok(Some(Proposal::None(empty))),
        };
        let within = AllocateConstraints { constraints, ..wanted.clone() };
        if !inspects {
            return Ok(Some(Proposal::Within(within)));
        }
        let Ok(Reply::Machines(machines)) = self.read(Read::Candidates(Box::new(within)))? else {
            return Ok(None);
        };
        let (offered, _) = self.on_offer(&machines, request);
        let question = Question::Rank { request: request.clone(), candidates: offered.clone() };
        let Ok(Answered { answer: Answer::Ranked(ranking), .. }) =
            self.transcript.ask(seat, question)?
        else {
            return Ok(None);
        };
        // A ranking that cannot be used is no answer.
        let Ok(order) = choose(&ranking, &offered) else { return Ok(None) };
        Ok(Some(match order.first() {
            Some(Candidate { system_id, hostname, .. }) => {
                Proposal::Best { system_id: system_id.clone(), hostname: hostname.clone() }
            }
            None => Proposal::None("it wants none of those that fit".into()),
        }))
    }
}
