use kube::api::{Patch, Request};
use kube::{Client, Resource};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::writes::{Written, params};

/// Writes a status if it differs from what the object has, under the version it was computed for. Returns the new version
/// of the object, if it was written.
///
/// # Errors
/// A conflict when the object has changed since; whatever the API server answers otherwise.
pub async fn write_status<K, S>(
    client: &Client,
    namespace: &str,
    name: &str,
    resource_version: &str,
    before: Option<&S>,
    after: &S,
) -> Result<Option<String>, kube::Error>
where
    K: Resource<DynamicType = ()>,
    S: Serialize,
{
    let as_value = |s: &S| serde_json::to_value(s).map_err(kube::Error::SerdeError);
    let old = before.map(as_value).transpose()?.unwrap_or_else(|| json!({}));
    let new = as_value(after)?;
    let Some(difference) = merge_difference(&old, &new) else { return Ok(None) };
    let body = json!({
        "metadata": { "resourceVersion": resource_version },
        "status": difference,
    });
    let at = Request::new(K::url_path(&(), Some(namespace)));
    let request = at.patch_subresource("status", name, &params(), &Patch::Merge(&body));
    let written: Written = client.request(request.map_err(kube::Error::BuildRequest)?).await?;
    Ok(written.metadata.resource_version)
}

/// The JSON merge patch (RFC 7386) from `old` to `new`; `None` when they are the same.
fn merge_difference(old: &Value, new: &Value) -> Option<Value> {
    if old == new {
        return None;
    }
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        return Some(new.clone());
    };
    let mut patch = Map::new();
    for key in before.keys().filter(|k| !after.contains_key(*k)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in after {
        match before.get(key) {
            Some(known) => {
                if let Some(difference) = merge_difference(known, value) {
                    patch.insert(key.clone(), difference);
                }
            }
            None => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_removes_changes_and_adds() {
        let old = json!({ "a": 1, "b": { "c": 2, "d": [1] }, "e": true });
        let new = json!({ "a": 1, "b": { "c": 3, "d": [1] }, "f": "x" });
        let patch = json!({ "b": { "c": 3 }, "e": null, "f": "x" });
        assert_eq!(merge_difference(&old, &new), Some(patch));
        assert_eq!(merge_difference(&old, &old), None);
    }
}
