//! Faults of single calls, scripted by tests.

use crate::request::Request;
use serde::{Deserialize, Serialize};

/// Which calls go wrong, and how. Everything that is not set matches anything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallFault {
    /// `GET`, `POST`…
    #[serde(default)]
    pub method: Option<String>,
    /// Part of the path below `/MAAS/api/2.0`, query included; `*` stands for anything, `^` and `$` tie it to the ends.
    #[serde(default)]
    pub path: Option<String>,
    /// The operation.
    #[serde(default)]
    pub op: Option<String>,
    /// So many matching calls pass unharmed first.
    #[serde(default)]
    pub skip: u32,
    /// So many calls are hit after that; without it all of them.
    #[serde(default)]
    pub count: Option<u32>,
    /// What happens.
    pub action: FaultAction,
}

impl CallFault {
    /// A fault of every call with this operation.
    pub fn on_op(op: &str, action: FaultAction) -> Self {
        Self { method: None, path: None, op: Some(op.into()), skip: 0, count: None, action }
    }

    /// A fault of every call of this method whose path matches.
    pub fn on(method: &str, path: &str, action: FaultAction) -> Self {
        let (method, path) = (Some(method.into()), Some(path.into()));
        Self { method, path, op: None, skip: 0, count: None, action }
    }

    /// Only the next so many matching calls.
    pub fn times(mut self, count: u32) -> Self {
        self.count = Some(count);
        self
    }

    /// After so many matching calls.
    pub fn after(mut self, skip: u32) -> Self {
        self.skip = skip;
        self
    }
}

/// What happens to a call. Times are real milliseconds, whatever the clock: client time-outs are real.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultAction {
    /// Wait before doing the work; other faults may still apply.
    Delay {
        /// Milliseconds.
        ms: u64,
    },
    /// Do the work, then wait before answering.
    DelayReply {
        /// Milliseconds.
        ms: u64,
    },
    /// Do nothing and answer this.
    Answer {
        /// HTTP status.
        status: u16,
        /// `Content-Type`.
        content_type: String,
        /// Body.
        body: String,
        /// `Retry-After`, in seconds.
        #[serde(default)]
        retry_after: Option<u32>,
    },
    /// Do the work, but answer this.
    WorkThenAnswer {
        /// HTTP status.
        status: u16,
        /// `Content-Type`.
        content_type: String,
        /// Body.
        body: String,
    },
    /// Close the connection without doing anything.
    CloseBefore,
    /// Do the work and close the connection without a reply.
    DropReply,
    /// Do the work and send the body in pieces over this time.
    SlowBody {
        /// Milliseconds from the first byte to the last.
        ms: u64,
    },
    /// Do the work, announce the whole body and close after so many bytes of it.
    Truncate {
        /// Bytes that are sent.
        bytes: usize,
    },
}

#[derive(Debug, Default)]
pub(crate) struct FaultBook {
    faults: Vec<(CallFault, u32)>,
}

impl FaultBook {
    pub(crate) fn add(&mut self, fault: CallFault) {
        self.faults.push((fault, 0));
    }

    pub(crate) fn clear(&mut self) {
        self.faults.clear();
    }

    /// The faults with how many calls each has matched so far.
    pub(crate) fn all(&self) -> &[(CallFault, u32)] {
        &self.faults
    }

    /// What happens to this call: delays, then the first other fault that applies.
    pub(crate) fn strike(&mut self, request: &Request) -> Vec<FaultAction> {
        let mut actions = vec![];
        for (fault, seen) in &mut self.faults {
            if !matches(fault, request) {
                continue;
            }
            *seen += 1;
            let hit =
                *seen > fault.skip && fault.count.is_none_or(|count| *seen <= fault.skip + count);
            let delay =
                matches!(fault.action, FaultAction::Delay { .. } | FaultAction::DelayReply { .. });
            let taken = actions
                .iter()
                .any(|a| !matches!(a, FaultAction::Delay { .. } | FaultAction::DelayReply { .. }));
            if hit && (delay || !taken) {
                actions.push(fault.action.clone());
            }
        }
        actions
    }
}

fn matches(fault: &CallFault, request: &Request) -> bool {
    fault.method.as_ref().is_none_or(|m| m.eq_ignore_ascii_case(&request.method))
        && fault.op.as_ref().is_none_or(|op| request.op.as_ref() == Some(op))
        && fault.path.as_ref().is_none_or(|pattern| path_matches(pattern, &request.shown))
}

fn path_matches(pattern: &str, path: &str) -> bool {
    let (start, pattern) = pattern.strip_prefix('^').map_or((false, pattern), |p| (true, p));
    let (end, pattern) = pattern.strip_suffix('$').map_or((false, pattern), |p| (true, p));
    let parts: Vec<&str> = pattern.split('*').collect();
    let mut rest = path;
    for (i, part) in parts.iter().enumerate() {
        if i == 0 && start {
            match rest.strip_prefix(part) {
                Some(left) => rest = left,
                None => return false,
            }
        } else if i + 1 == parts.len() && end {
            return rest.ends_with(part);
        } else {
            match rest.find(part) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
    }
    !end || rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::path_matches;

    #[test]
    fn a_pattern_is_a_part_unless_tied() {
        assert!(path_matches("/machines/", "/machines/?op=allocate"));
        assert!(path_matches("^/machines/*/$", "/machines/abc123/"));
        assert!(!path_matches("^/machines/*/$", "/machines/abc123/?op=deploy"));
        assert!(path_matches("abc*deploy", "/machines/abc123/?op=deploy"));
        assert!(!path_matches("^machines", "/machines/"));
        assert!(path_matches("^/version/$", "/version/"));
    }
}
