//! What a machine's hardware shall be.

use serde::Deserialize;

pub const SCHEMA: &str = r##"{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "required": {
      "description": "A machine that does not meet all of these is not taken.",
      "type": "array",
      "items": {"$ref": "#/$defs/rule"}
    },
    "preferred": {
      "description": "A machine that meets the first one comes first; then the second one decides, and so on.",
      "type": "array",
      "items": {"$ref": "#/$defs/rule"}
    }
  },
  "$defs": {
    "rule": {
      "type": "object",
      "additionalProperties": false,
      "required": ["attribute"],
      "oneOf": [{"required": ["equals"]}, {"required": ["contains"]}, {"required": ["atLeast"]}],
      "properties": {
        "attribute": {"enum": ["cpu-model", "system-vendor", "system-product", "numa-nodes", "power-type"]},
        "equals": {"description": "The whole text, upper or lower case.", "type": "string", "minLength": 1},
        "contains": {"description": "A part of the text, upper or lower case.", "type": "string", "minLength": 1},
        "atLeast": {"description": "Only for numa-nodes.", "type": "integer", "minimum": 1}
      }
    }
  }
}"##;

/// The one attribute that is a number.
const NUMA_NODES: &str = "numa-nodes";

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Config {
    pub required: Vec<Rule>,
    pub preferred: Vec<Rule>,
}

#[derive(Deserialize)]
pub struct Rule {
    attribute: String,
    #[serde(flatten)]
    test: Test,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Test {
    Equals(String),
    Contains(String),
    AtLeast(u64),
}

impl Config {
    /// What the schema cannot say.
    pub fn issues(&self) -> Vec<settings::Issue> {
        if self.required.is_empty() && self.preferred.is_empty() {
            let problem = "there are no rules; give at least one in required or preferred";
            return vec![(String::new(), problem.into())];
        }
        let numbered = |list: &'static str, rules: &[Rule]| {
            let wrong = rules.iter().enumerate().filter(|(_, rule)| {
                matches!(rule.test, Test::AtLeast(_)) && rule.attribute != NUMA_NODES
            });
            let issue = |(index, rule): (usize, &Rule)| {
                let problem = format!("{} is no number; give equals or contains", rule.attribute);
                (format!("/{list}/{index}/atLeast"), problem)
            };
            wrong.map(issue).collect::<Vec<_>>()
        };
        [numbered("required", &self.required), numbered("preferred", &self.preferred)].concat()
    }
}

impl Rule {
    /// Why a machine with these attributes does not meet the rule; `None` when it does.
    pub fn unmet(&self, attributes: &[(String, String)]) -> Option<String> {
        let name = self.attribute.as_str();
        let Some((_, value)) = attributes.iter().find(|(key, _)| key == name) else {
            return Some(format!("MAAS does not know its {name}"));
        };
        let met = match &self.test {
            Test::Equals(wanted) => value.to_lowercase() == wanted.to_lowercase(),
            Test::Contains(wanted) => value.to_lowercase().contains(&wanted.to_lowercase()),
            Test::AtLeast(least) => value.parse().is_ok_and(|number: u64| number >= *least),
        };
        let wanted = match &self.test {
            Test::Equals(text) => format!("not {text:?}"),
            Test::Contains(text) => format!("without {text:?} in it"),
            Test::AtLeast(least) => format!("not {least} or more"),
        };
        (!met).then(|| format!("its {name} is {value:?}, {wanted}"))
    }
}
