//! Whether an answer fits its question. One that does not is no answer: it is told with the policy
//! that gave it and the category `bad-answer`, like one that could not even be read.

use capmaas_core::policy::{Answer, Constraints, Question, Shortlisting, choose, fqdn};

/// Names in the constraints of an answer, all lists together. They become one request to MAAS.
const MOST_NAMES: usize = 1_000;
/// Bytes of one of these names. MAAS allows 256.
const LONGEST_NAME: usize = 256;

pub(super) fn check(question: &Question, answer: &Answer) -> Result<(), String> {
    match (question, answer) {
        (Question::Shortlist(_), Answer::Shortlisted(shortlisting)) => match shortlisting {
            Shortlisting::Narrow(c) | Shortlisting::Inspect(c) => constraints(c),
            Shortlisting::Defer(_) | Shortlisting::Reject(_) => Ok(()),
        },
        (Question::Rank { candidates, .. }, Answer::Ranked(ranking)) => {
            choose(ranking, candidates).map(drop)
        }
        (Question::Name(request), Answer::Named(name)) => fqdn(name.as_ref(), request).map(drop),
        // What a stage does not allow becomes the default, and delays are cut.
        (Question::Handle(_), Answer::Action(_)) => Ok(()),
        _ => Err("it answered another question".into()),
    }
}

fn constraints(c: &Constraints) -> Result<(), String> {
    let lists = [&c.zones, &c.pools, &c.tags, &c.not_zones, &c.not_pools, &c.not_tags];
    let count: usize = lists.iter().map(|list| list.len()).sum();
    if count > MOST_NAMES {
        return Err(format!("its constraints have {count} names, more than {MOST_NAMES}"));
    }
    match lists.into_iter().flatten().map(String::len).find(|length| *length > LONGEST_NAME) {
        Some(length) => {
            Err(format!("a name in its constraints has {length} bytes, more than {LONGEST_NAME}"))
        }
        None => Ok(()),
    }
}
