use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A condition as `metav1.Condition`, read leniently.
///
/// Objects of the Go provider up to v0.8 hold conditions of the older shape (`severity`, no
/// `reason`); they must stay readable and writable, so only `type` and `status` are required.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// PascalCase name of the condition.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// PascalCase reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A sentence for a person: what is waited for, what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// RFC 3339, whole seconds; changes only with `status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    /// The `metadata.generation` this condition speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Only in objects of the Go provider up to v0.8; never written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<String>,
}
