//! A policy's settings, held against its own JSON Schema: what is wrong is said with the place and the remedy.
//!
//! Only the keywords that the samples use are understood, and [`check`] complains of any other one, so that a schema never
//! promises what nobody looks at. `title`, `description`, `default` and `examples` are for people and editors.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A JSON pointer, and what is wrong there.
pub type Issue = (String, String);

/// The settings, which have passed [`check`] before; the text is for `bad-config`.
pub fn read<T: DeserializeOwned>(config: &str) -> Result<T, String> {
    serde_json::from_str(or_none(config)).map_err(|e| e.to_string())
}

/// Holds the configuration against the schema, and then against what no schema can say.
pub fn check<T: DeserializeOwned>(
    schema: &str,
    config: &str,
    more: impl FnOnce(&T) -> Vec<Issue>,
) -> Result<(), Vec<Issue>> {
    let whole = |problem: String| vec![(String::new(), problem)];
    let value: Value = serde_json::from_str(or_none(config))
        .map_err(|e| whole(format!("this is not JSON: {e}")))?;
    let schema: Value =
        serde_json::from_str(schema).map_err(|e| whole(format!("the policy's own schema: {e}")))?;
    let mut issues = vec![];
    compare(&schema, &schema, &value, "", &mut issues);
    if issues.is_empty() {
        issues = more(&serde_json::from_value(value).map_err(|e| whole(e.to_string()))?);
    }
    if issues.is_empty() { Ok(()) } else { Err(issues) }
}

/// What a policy says of itself and of its settings, as its `metadata` interface. The generated `Metadata`, `Description` and
/// `Issue`, which are types of each policy's own, and its `Policy` have to be in scope. `beyond` finds what no schema can say.
#[macro_export]
macro_rules! metadata {
    ({ summary: $summary:expr, schema: $schema:expr, beyond: $beyond:expr $(,)? }) => {
        impl Metadata for Policy {
            fn describe() -> Description {
                Description {
                    name: env!("CARGO_PKG_NAME").into(),
                    version: env!("CARGO_PKG_VERSION").into(),
                    summary: $summary.into(),
                    config_schema: $schema.into(),
                }
            }

            fn check_config(config: String) -> Result<(), Vec<Issue>> {
                let issue = |(pointer, problem)| Issue { pointer, problem };
                $crate::check($schema, &config, $beyond)
                    .map_err(|list| list.into_iter().map(issue).collect())
            }
        }
    };
}

/// The pointer to a member.
fn below(at: &str, key: &str) -> String {
    format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"))
}

fn or_none(config: &str) -> &str {
    if config.trim().is_empty() { "{}" } else { config }
}

fn compare(root: &Value, schema: &Value, value: &Value, at: &str, issues: &mut Vec<Issue>) {
    let empty = Map::new();
    let referred = schema.get("$ref").and_then(Value::as_str).map(|to| to.trim_start_matches('#'));
    let schema = referred.map_or(Some(schema), |to| root.pointer(to)).unwrap_or(&Value::Null);
    let schema = schema.as_object().unwrap_or(&empty);
    let mut wrong = |problem: String| issues.push((at.to_owned(), problem));
    if let Some(wanted) = schema.get("type").and_then(Value::as_str)
        && !is(value, wanted)
    {
        return wrong(format!("this is {}; give {}", kind(value), called(wanted)));
    }
    let limit = |keyword: &str| schema.get(keyword).and_then(Value::as_u64);
    let number = value.as_f64();
    for keyword in schema.keys() {
        match keyword.as_str() {
            "minimum" => {
                if number.is_some_and(|n| schema[keyword].as_f64().is_some_and(|least| n < least)) {
                    wrong(format!("{value} is too small; give {} or more", schema[keyword]));
                }
            }
            "maximum" => {
                if number.is_some_and(|n| schema[keyword].as_f64().is_some_and(|most| n > most)) {
                    wrong(format!("{value} is too large; give {} or less", schema[keyword]));
                }
            }
            "minLength" => {
                let length = value.as_str().map(|t| t.chars().count() as u64);
                if length.is_some() && length < limit(keyword) {
                    wrong(match limit(keyword) {
                        Some(1) => "this is empty; give a text, or leave the setting out".into(),
                        least => {
                            format!("this is too short; give {} characters", least.unwrap_or(0))
                        }
                    });
                }
            }
            "minItems" => {
                let length = value.as_array().map(|list| list.len() as u64);
                if length.is_some() && length < limit(keyword) {
                    wrong("this list is empty; name at least one, or leave the setting out".into());
                }
            }
            "enum" => {
                let words = schema[keyword].as_array().map(Vec::as_slice).unwrap_or_default();
                if !words.contains(value) {
                    let words: Vec<String> = words.iter().map(Value::to_string).collect();
                    wrong(format!("{value} is unknown; give {}", words.join(" or ")));
                }
            }
            "required" => {
                let names = schema[keyword].as_array().map(Vec::as_slice).unwrap_or_default();
                for name in names.iter().filter_map(Value::as_str) {
                    if value.get(name).is_none() {
                        wrong(format!("{name:?} is missing; it has no default"));
                    }
                }
            }
            "oneOf" => {
                let ways = one_of(&schema[keyword]);
                if ways.iter().filter(|way| value.get(way).is_some()).count() != 1 {
                    wrong(format!("give exactly one of {}", ways.join(", ")));
                }
            }
            // Below, or no constraints.
            "properties" | "additionalProperties" | "items" | "type" => {}
            "$schema" | "$defs" | "title" | "description" | "default" | "examples" => {}
            other => wrong(format!("the policy's own schema has an unknown keyword {other:?}")),
        }
    }
    if let (Some(items), Some(list)) = (schema.get("items"), value.as_array()) {
        for (index, item) in list.iter().enumerate() {
            compare(root, items, item, &format!("{at}/{index}"), issues);
        }
    }
    let Some(members) = value.as_object() else { return };
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    for (key, member) in members {
        let place = below(at, key);
        match (properties.get(key), schema.get("additionalProperties")) {
            (Some(inner), _) => compare(root, inner, member, &place, issues),
            (None, Some(Value::Bool(false))) => {
                let known: Vec<&str> = properties.keys().map(String::as_str).collect();
                issues.push((
                    place,
                    format!("there is no such setting; there are {}", known.join(", ")),
                ));
            }
            (None, Some(inner)) => compare(root, inner, member, &place, issues),
            (None, None) => {}
        }
    }
}

/// The names in a list of `{"required": [name]}`, the one form of `oneOf` that is understood.
fn one_of(ways: &Value) -> Vec<&str> {
    let ways = ways.as_array().map(Vec::as_slice).unwrap_or_default();
    ways.iter().filter_map(|way| way.pointer("/required/0")?.as_str()).collect()
}

fn is(value: &Value, wanted: &str) -> bool {
    match wanted {
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        _ => called(wanted) == kind(value),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn called(wanted: &str) -> &'static str {
    match wanted {
        "boolean" => "true or false",
        "integer" => "a whole number",
        "number" => "a number",
        "string" => "a text",
        "array" => "a list",
        _ => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r##"{
      "type": "object", "additionalProperties": false, "required": ["name"],
      "properties": {
        "name": {"type": "string", "minLength": 1},
        "mode": {"enum": ["fast", "slow"]},
        "count": {"type": "integer", "minimum": 1, "maximum": 9},
        "list": {"type": "array", "minItems": 1, "items": {"type": "boolean"}},
        "map": {"type": "object", "additionalProperties": {"$ref": "#/$defs/size"}},
        "way": {"type": "object", "oneOf": [{"required": ["up"]}, {"required": ["down"]}]}
      },
      "$defs": {"size": {"type": "number"}}
    }"##;

    fn issues(config: &str) -> Vec<Issue> {
        check::<Value>(SCHEMA, config, |_| vec![]).err().unwrap_or_default()
    }

    fn issue(config: &str) -> (String, String) {
        let list = issues(config);
        assert_eq!(list.len(), 1, "{list:?}");
        list[0].clone()
    }

    #[test]
    fn what_fits_has_no_issues() {
        let all = r#"{"name": "a", "mode": "slow", "count": 9, "list": [true], "map": {"x": 0.5}}"#;
        assert_eq!(issues(all), []);
    }

    #[test]
    fn every_issue_has_its_place() {
        for (config, place, word) in [
            ("", "", "missing"),
            ("[]", "", "give an object"),
            ("{", "", "not JSON"),
            (r#"{"name": ""}"#, "/name", "empty"),
            (r#"{"name": 3}"#, "/name", "this is a number; give a text"),
            (r#"{"name": "a", "mode": "warp"}"#, "/mode", "\"fast\" or \"slow\""),
            (r#"{"name": "a", "count": 0}"#, "/count", "1 or more"),
            (r#"{"name": "a", "count": 10}"#, "/count", "9 or less"),
            (r#"{"name": "a", "count": 1.5}"#, "/count", "whole number"),
            (r#"{"name": "a", "list": []}"#, "/list", "at least one"),
            (r#"{"name": "a", "list": [true, "x"]}"#, "/list/1", "true or false"),
            (r#"{"name": "a", "map": {"a/b~": "x"}}"#, "/map/a~1b~0", "a number"),
            (r#"{"name": "a", "nome": 1}"#, "/nome", "there are count, list, map, mode, name, way"),
            (r#"{"name": "a", "way": {}}"#, "/way", "exactly one of up, down"),
            (r#"{"name": "a", "way": {"up": 1, "down": 1}}"#, "/way", "exactly one of up, down"),
        ] {
            let (at, problem) = issue(config);
            assert_eq!(at, place, "{config}");
            assert!(problem.contains(word), "{config}: {problem}");
        }
    }

    #[test]
    fn what_no_schema_can_say_comes_after_it() {
        let more = |_: &Value| vec![("/name".to_owned(), "taken".to_owned())];
        assert_eq!(check(SCHEMA, r#"{"name": "a"}"#, more).unwrap_err()[0].1, "taken");
        assert!(check(SCHEMA, "{}", more).unwrap_err()[0].1.contains("missing"));
    }

    #[test]
    fn a_schema_promises_nothing_that_is_not_looked_at() {
        let schema = r#"{"pattern": "a+"}"#;
        let unlooked = check::<Value>(schema, "{}", |_| vec![]).unwrap_err();
        assert!(unlooked[0].1.contains("pattern"), "{unlooked:?}");
    }
}
