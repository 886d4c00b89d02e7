use crate::call_error::{CallError, Category};
use crate::policy::{Answered, Ask, Question, Refused, Seat};
use crate::step::{Effect, Read, Reply, Step};

/// The replies of a reconcile so far, handed out in order.
///
/// Deciding code is written straight on and run from its start for every step: each call takes the
/// next reply, and the first one without a reply ends the run with the step that will bring it. So
/// the code reads like the story it tells, and is a function of the transcript alone.
#[derive(Debug)]
pub struct Transcript<'a> {
    replies: &'a [Reply],
    taken: usize,
}

/// Either a value, or the step that has to come first.
pub(crate) type Flow<T, S> = Result<T, Box<Step<S>>>;

/// The outcome of a call, once it has come.
pub(crate) type Outcome = Result<Reply, CallError>;

/// A reply that does not answer the call is an error like any other.
pub(crate) fn unexpected(outcome: Outcome) -> CallError {
    outcome.map_or_else(
        |error| error,
        |reply| {
            let text = format!("unexpected reply {reply:?}");
            CallError::new(Category::Malformed, text.chars().take(200).collect::<String>())
        },
    )
}

impl<'a> Transcript<'a> {
    /// A transcript with the replies that have come so far.
    pub fn new(replies: &'a [Reply]) -> Self {
        Self { replies, taken: 0 }
    }

    fn next(&mut self) -> Option<Outcome> {
        let reply = self.replies.get(self.taken)?;
        self.taken += 1;
        Some(match reply {
            Reply::Failed(error) => Err(error.clone()),
            other => Ok(other.clone()),
        })
    }

    /// Looks at something.
    pub(crate) fn read<S>(&mut self, read: Read) -> Flow<Outcome, S> {
        self.next().ok_or_else(|| Box::new(Step::Read(read)))
    }

    /// Changes something.
    pub(crate) fn perform<S>(&mut self, effect: Effect) -> Flow<Outcome, S> {
        self.next().ok_or_else(|| Box::new(Step::Do(effect)))
    }

    /// Asks a policy. One that cannot be asked gives no answer, and no step.
    pub(crate) fn ask<S>(
        &mut self,
        seat: &Seat,
        question: Question,
    ) -> Flow<Result<Answered, Refused>, S> {
        if let Some(why) = &seat.unavailable {
            let refused = Refused {
                policy: None,
                category: "unavailable".into(),
                message: format!("{}: {why}", seat.called()),
            };
            return Ok(Err(refused));
        }
        match self.next() {
            None => {
                let policy = seat.policy.clone();
                Err(Box::new(Step::Ask(Box::new(Ask { policy, question }))))
            }
            Some(Ok(Reply::Answered(answered))) => Ok(Ok(*answered)),
            Some(Ok(Reply::Refused(refused))) => Ok(Err(refused)),
            Some(other) => Ok(Err(Refused::unusable(&format!("unexpected reply {other:?}")))),
        }
    }
}
