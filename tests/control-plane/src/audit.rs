//! What ServiceAccounts asked of the API server, from its audit log.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

/// Only ServiceAccounts, only what and how it ended: no bodies, so nothing secret is in the log.
const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- {level: Metadata, userGroups: ['system:serviceaccounts']}
- {level: None}
";

/// One call of a ServiceAccount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditedCall {
    /// `system:serviceaccount:<namespace>:<name>`.
    pub user: String,
    /// `get`, `list`, `watch`, `create`, `patch`…
    pub verb: String,
    /// Plural, with the subresource behind a slash; the path for calls that concern no resource.
    pub resource: String,
    /// Namespace of the object; empty for none.
    pub namespace: String,
    /// HTTP status.
    pub status: u16,
}

pub(crate) fn log(dir: &Path) -> PathBuf {
    dir.join("audit.log")
}

/// Writes the policy and returns the API server's flags.
pub(crate) fn flags(dir: &Path) -> Result<Vec<String>> {
    let policy = dir.join("audit-policy.yaml");
    std::fs::write(&policy, POLICY).with_context(|| format!("write {}", policy.display()))?;
    Ok(vec![
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", log(dir).display()),
    ])
}

/// All calls so far. Watches appear when they end.
pub(crate) fn read(dir: &Path) -> Result<Vec<AuditedCall>> {
    let file = log(dir);
    let text =
        std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
    // the last line may be half written
    Ok(text.lines().filter_map(|line| parse(line).ok()).collect())
}

/// The calls on objects of one namespace that were refused for lack of rights.
pub(crate) fn refused(dir: &Path, namespace: &str) -> Result<Vec<AuditedCall>> {
    let file = log(dir);
    let text =
        std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
    // a long log, of which nearly nothing is refused
    let refused = text.lines().filter(|line| line.contains("\"code\":403"));
    let calls = refused.filter_map(|line| parse(line).ok());
    Ok(calls.filter(|c| c.status == 403 && c.namespace == namespace).collect())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    verb: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    user: User,
    #[serde(default)]
    object_ref: Option<ObjectRef>,
    #[serde(default)]
    response_status: Status,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ObjectRef {
    resource: String,
    subresource: String,
    namespace: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status {
    code: u16,
}

fn parse(line: &str) -> serde_json::Result<AuditedCall> {
    let entry: Entry = serde_json::from_str(line)?;
    let path = entry.request_uri.split('?').next().unwrap_or_default();
    let (resource, namespace) = match entry.object_ref {
        Some(object) if object.subresource.is_empty() => (object.resource, object.namespace),
        Some(object) => (format!("{}/{}", object.resource, object.subresource), object.namespace),
        None => (path.to_owned(), String::new()),
    };
    Ok(AuditedCall {
        user: entry.user.username,
        verb: entry.verb,
        resource,
        namespace,
        status: entry.response_status.code,
    })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_line_tells_who_did_what_to_what() {
        let line = r#"{"kind":"Event","stage":"ResponseComplete","requestURI":"/apis/x/v1/namespaces/n/maasmachines/a/status?fieldManager=c","verb":"patch","user":{"username":"system:serviceaccount:s:m"},"objectRef":{"resource":"maasmachines","namespace":"n","name":"a","subresource":"status"},"responseStatus":{"code":403}}"#;
        let call = parse(line).unwrap();
        assert_eq!(call.resource, "maasmachines/status");
        assert_eq!((call.verb.as_str(), call.status), ("patch", 403));
        assert_eq!(call.namespace, "n");
    }
}
