use std::time::Duration;

use crate::record::{Call, Side};

/// What happens to a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// It is forwarded after this time.
    Delay(Duration),
    /// It is forwarded at once, and its reply comes after this time.
    DelayReply(Duration),
    /// It is not forwarded; this is the reply.
    Answer {
        /// HTTP status.
        status: u16,
        /// Header fields.
        headers: Vec<(&'static str, String)>,
        /// Body.
        body: String,
    },
    /// It is not forwarded, and the connection closes.
    CloseBefore,
    /// It is forwarded, and the connection closes when its reply has come.
    DropReply,
    /// Its reply ends after so many bytes of the body.
    Truncate(usize),
    /// Its reply begins as usual; nothing of the body ever comes, and the connection stays open.
    Silence,
    /// It is never forwarded nor answered, and the connection stays open.
    Hold,
    /// The controller is killed before it is forwarded.
    KillBefore,
    /// It is forwarded; when its reply has come, the controller is killed instead of getting it.
    KillAfter,
}

impl Act {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Delay(_) => "delay",
            Self::DelayReply(_) => "delay-reply",
            Self::Answer { .. } => "answer",
            Self::CloseBefore => "close-before",
            Self::DropReply => "drop-reply",
            Self::Truncate(_) => "truncate",
            Self::Silence => "silence",
            Self::Hold => "hold",
            Self::KillBefore => "kill-before",
            Self::KillAfter => "kill-after",
        }
    }
}

type Condition = Box<dyn FnMut(&Call) -> bool + Send>;

/// Which calls something happens to.
pub struct Rule {
    side: Side,
    condition: Condition,
    act: Act,
    skip: usize,
    count: Option<usize>,
    seen: usize,
}

impl Rule {
    /// Every call of this method whose target has this part; `*` in it stands for anything. An empty method means any.
    pub fn on(side: Side, method: &str, part: &str, act: Act) -> Self {
        let (method, part) = (method.to_owned(), part.to_owned());
        let condition =
            move |c: &Call| (method.is_empty() || c.method == method) && has(&c.target, &part);
        Self::when(side, condition, act)
    }

    /// Every call for which this holds. It is asked once a call, in the order of arrival.
    pub fn when(
        side: Side,
        condition: impl FnMut(&Call) -> bool + Send + 'static,
        act: Act,
    ) -> Self {
        Self { side, condition: Box::new(condition), act, skip: 0, count: None, seen: 0 }
    }

    /// Only from the next but so many on.
    #[must_use]
    pub fn after(mut self, calls: usize) -> Self {
        self.skip = calls;
        self
    }

    /// Only so many of them.
    #[must_use]
    pub fn times(mut self, calls: usize) -> Self {
        self.count = Some(calls);
        self
    }

    /// What it does to this call, if anything; counts.
    pub(crate) fn strikes(&mut self, call: &Call) -> Option<Act> {
        if call.side != self.side || !(self.condition)(call) {
            return None;
        }
        self.seen += 1;
        let hit =
            self.seen > self.skip && self.count.is_none_or(|count| self.seen <= self.skip + count);
        hit.then(|| self.act.clone())
    }
}

/// Whether the parts between the stars occur in this order.
fn has(text: &str, pattern: &str) -> bool {
    let mut rest = text;
    pattern.split('*').all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::has;

    #[test]
    fn parts_occur_in_order() {
        assert!(has("/MAAS/api/2.0/machines/abc/?op=deploy", "machines/*op=deploy"));
        assert!(has("/anything", ""));
        assert!(!has("/a/b", "b*a"));
    }
}
