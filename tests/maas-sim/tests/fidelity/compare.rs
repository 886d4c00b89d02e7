//! What differs between a recorded and a given answer.

use crate::common::Answer;
use crate::replay::{Pair, Shapes};
use serde_json::Value;

pub(crate) fn differences(pair: &Pair, answer: &Answer, shapes: &Shapes) -> Vec<String> {
    let mut out = vec![];
    if answer.status != pair.status {
        let start: String = answer.text.chars().take(200).collect();
        return vec![format!("status {} instead of {}: {start}", answer.status, pair.status)];
    }
    if answer.content_type != pair.ctype {
        out.push(format!("content type `{}` instead of `{}`", answer.content_type, pair.ctype));
    }
    if let Some(text) = &pair.text
        && !text_matches(text, &answer.text)
    {
        out.push(format!("text `{}` instead of `{text}`", answer.text));
    }
    let expects_json = pair.json.is_some() || pair.shape.is_some();
    let body: Value = match serde_json::from_str(&answer.text) {
        Ok(body) => body,
        Err(_) if expects_json => {
            out.push(format!("not JSON: {}", answer.text));
            return out;
        }
        Err(_) => return out,
    };
    if let Some(json) = pair.json.as_ref().or(pair.exact.as_ref())
        && *json != body
    {
        out.push(format!("JSON {body} instead of {json}"));
    }
    if let Some(shape) = &pair.shape {
        compare_shape("", shape, &body, shapes, &mut out);
    }
    if let Some(values) = &pair.values {
        compare_values(values, &body, &mut out);
    }
    if let Some(hostnames) = &pair.hostnames {
        let given: Vec<&str> =
            body.as_array().into_iter().flatten().filter_map(|m| m["hostname"].as_str()).collect();
        if *hostnames != given {
            out.push(format!("machines {given:?} instead of {hostnames:?}"));
        }
    }
    out
}

/// `{*}` stands for what depends on the day, such as a timestamp.
fn text_matches(wanted: &str, given: &str) -> bool {
    let parts: Vec<&str> = wanted.split("{*}").collect();
    let Some(mut rest) = given.strip_prefix(parts[0]) else {
        return false;
    };
    for part in &parts[1..] {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.is_empty() || parts.last() == Some(&"")
}

/// A shape is a type name, `[length, shape of each known element…]`, `{key: shape}`, or `@name` of a shared one. Keys must be
/// the same on both sides; only where the recording was cut (`...`) there may be more.
fn compare_shape(at: &str, shape: &Value, given: &Value, shapes: &Shapes, out: &mut Vec<String>) {
    match shape {
        Value::String(name) if name.starts_with('@') => {
            compare_shape(at, &shapes[&name[1..]], given, shapes, out)
        }
        Value::String(kind) => {
            if kind != type_of(given) {
                out.push(format!("{at} is {} instead of {kind}", type_of(given)));
            }
        }
        Value::Array(wanted) => {
            let Some(list) = given.as_array() else {
                out.push(format!("{at} is {} instead of a list", type_of(given)));
                return;
            };
            if wanted[0].as_u64() != u64::try_from(list.len()).ok() {
                out.push(format!("{at} has {} elements instead of {}", list.len(), wanted[0]));
            }
            for (i, (element, given)) in wanted[1..].iter().zip(list).enumerate() {
                compare_shape(&format!("{at}[{i}]"), element, given, shapes, out);
            }
        }
        Value::Object(wanted) => {
            let Some(map) = given.as_object() else {
                out.push(format!("{at} is {} instead of an object", type_of(given)));
                return;
            };
            for (key, shape) in wanted.iter().filter(|(k, _)| *k != "...") {
                match map.get(key) {
                    Some(value) => compare_shape(&format!("{at}.{key}"), shape, value, shapes, out),
                    None => out.push(format!("{at}.{key} is missing")),
                }
            }
            if !wanted.contains_key("...") {
                out.extend(
                    map.keys()
                        .filter(|k| !wanted.contains_key(*k))
                        .map(|k| format!("{at}.{k} is too much")),
                );
            }
        }
        _ => out.push(format!("{at}: no shape")),
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    }
}

fn compare_values(values: &Value, given: &Value, out: &mut Vec<String>) {
    for (key, wanted) in values.as_object().into_iter().flatten() {
        let mut found = given[key].clone();
        if key == "constraints_by_type" {
            // Ids of disks and cards are the laboratory's; the labels are what is asked for.
            let labels = |kind: &Value| {
                Value::from(kind.as_object().map(|m| m.keys().cloned().collect::<Vec<_>>()))
            };
            found = found
                .as_object()
                .into_iter()
                .flatten()
                .map(|(k, v)| (k.clone(), labels(v)))
                .collect();
        }
        if *wanted != found {
            out.push(format!(".{key} is {found} instead of {wanted}"));
        }
    }
}
