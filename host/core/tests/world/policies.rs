use std::collections::BTreeMap;

use capmaas_core::Reply;
use capmaas_core::policy::{
    Action, Answer, Answered, Ask, Candidate, Constraints, Delay, Name, PolicyId, Question,
    Ranking, Refused, Replacement, Shortlisting, Stage,
};

/// What the policies answer; by default what the components that capmaas brings along answer.
#[derive(Clone)]
pub(crate) struct Policies {
    pub(crate) shortlisting: Shortlisting,
    pub(crate) ranking: Ranking,
    /// What the cluster held before comes first, in place of the ranking.
    pub(crate) previous_first: bool,
    pub(crate) name: Option<Name>,
    /// To every failure; `None` decides by stage.
    pub(crate) action: Option<Action>,
    /// Given instead of any answer.
    pub(crate) refusal: Option<Refused>,
    /// What those with an object answer, by namespace and name.
    pub(crate) named: BTreeMap<String, Policies>,
}

impl Default for Policies {
    fn default() -> Self {
        Self {
            shortlisting: Shortlisting::Narrow(Constraints::default()),
            ranking: Ranking::default(),
            previous_first: false,
            name: None,
            action: None,
            refusal: None,
            named: BTreeMap::new(),
        }
    }
}

impl Policies {
    pub(super) fn answer(&self, ask: &Ask) -> Reply {
        match self.named.get(&ask.policy) {
            Some(policies) => policies.answered(&ask.policy, &ask.question),
            None => self.answered("built-in", &ask.question),
        }
    }

    fn answered(&self, by: &str, question: &Question) -> Reply {
        if let Some(refusal) = &self.refusal {
            return Reply::Refused(refusal.clone());
        }
        let answer = match question {
            Question::Shortlist(_) => Answer::Shortlisted(self.shortlisting.clone()),
            Question::Rank { candidates, .. } if self.previous_first => {
                Answer::Ranked(previous_first(candidates))
            }
            Question::Rank { .. } => Answer::Ranked(self.ranking.clone()),
            Question::Name(_) => Answer::Named(self.name.clone()),
            Question::Handle(failure) => {
                Answer::Action(self.action.clone().unwrap_or_else(|| usual(failure.stage)))
            }
        };
        let policy =
            PolicyId { name: format!("{by} 0.1.0"), digest: "sha256:0123456789abcdef".into() };
        Reply::Answered(Box::new(Answered { policy, answer }))
    }
}

fn previous_first(candidates: &[Candidate]) -> Ranking {
    let never = |c: &Candidate| !c.attributes.iter().any(|(key, _)| key == "held-before");
    let mut order: Vec<u32> = (0..).take(candidates.len()).collect();
    order.sort_by_key(|index| never(&candidates[*index as usize]));
    Ranking { order, rejected: vec![] }
}

fn usual(stage: Stage) -> Action {
    let delay = |seconds| Delay { seconds, reason: "usual".into() };
    match stage {
        Stage::Deploy => {
            Action::ReleaseAndReplace(Replacement { delay: delay(0), avoid_seconds: Some(3600) })
        }
        Stage::Power => Action::Retry(delay(60)),
        Stage::Allocate | Stage::Prepare | Stage::Release => Action::Retry(delay(30)),
    }
}
