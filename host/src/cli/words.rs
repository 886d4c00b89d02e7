//! Questions and answers in words.

use capmaas_core::policy::{Answer, Question};

/// An answer in words, with the names of those it speaks of.
pub(super) fn told(question: &Question, answer: &Answer) -> Vec<String> {
    use capmaas_core::policy::Shortlisting::{Defer, Inspect, Narrow, Reject};
    match (question, answer) {
        (_, Answer::Shortlisted(Narrow(c))) => vec![format!("MAAS may choose: {}", c.describe())],
        (_, Answer::Shortlisted(Inspect(c))) => {
            vec![format!("wants to see the machines: {}", c.describe())]
        }
        (_, Answer::Shortlisted(Defer(d))) => {
            vec![format!("asks again in {} s: {}", d.seconds, d.reason)]
        }
        (_, Answer::Shortlisted(Reject(why))) => vec![format!("rejects: {why}")],
        (Question::Rank { candidates, .. }, Answer::Ranked(ranking)) => {
            let host = |i: &u32| {
                let candidate = candidates.get(*i as usize);
                candidate.map_or("?".into(), |c| format!("{} ({})", c.hostname, c.system_id))
            };
            let order: Vec<String> = ranking.order.iter().take(5).map(host).collect();
            let more = ranking.order.len().saturating_sub(order.len());
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let mut lines =
                vec![format!("of {} machines: {}{more}", candidates.len(), order.join(", "))];
            let rejected = ranking.rejected.iter().take(20);
            lines.extend(rejected.map(|r| format!("not {}: {}", host(&r.index), r.reason)));
            lines
        }
        (_, Answer::Named(Some(name))) => vec![format!("names it {}", name.label)],
        (_, Answer::Named(None)) => vec!["leaves the name to the host".into()],
        (Question::Handle(f), Answer::Action(action)) => {
            vec![format!("{} failed ({}): {}", f.stage.word(), f.message, action.describe())]
        }
        _ => vec!["an answer to another question".into()],
    }
}

pub(super) fn word(question: &Question) -> &'static str {
    match question {
        Question::Shortlist(_) => "shortlist",
        Question::Rank { .. } => "rank",
        Question::Name(_) => "name",
        Question::Handle(_) => "handle",
    }
}
