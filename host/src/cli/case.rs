//! Golden cases: what a policy answers to what, one story a file.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use capmaas_core::policy::{Answer, Question, Refused};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::policy::{Description, Issue};

/// One case, as it is written down. What a question or an answer leaves out is empty, 0 or none.
#[derive(Serialize, Deserialize, Debug)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Case {
    /// What it tells, in a sentence.
    #[serde(default)]
    pub(super) description: String,
    /// The policy's settings; `{}` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) config: Option<Box<RawValue>>,
    /// What is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) question: Option<Box<RawValue>>,
    /// What it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) answer: Option<Value>,
    /// That it gives no answer, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refused: Option<Refusal>,
    /// What it has against the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) config_issues: Option<Vec<Issue>>,
    /// What it says of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) describe: Option<Description>,
}

/// Why there is no answer.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(super) struct Refusal {
    pub(super) category: String,
    pub(super) message: String,
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        Self { category: refused.category, message: refused.message }
    }
}

/// What a case is about.
pub(super) enum Subject {
    /// A question, and what is expected.
    Question(Box<Question>, Option<Result<Answer, Refusal>>),
    /// The settings.
    Config,
    /// The policy itself.
    Description,
}

impl Case {
    /// Reads a case.
    pub(super) fn read(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read case {}", file.display()))?;
        serde_json::from_str(&text).with_context(|| format!("case {}", file.display()))
    }

    /// Writes the case down anew.
    pub(super) fn write(&self, file: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
    }

    pub(super) fn config(&self) -> &str {
        self.config.as_ref().map_or("{}", |config| config.get())
    }

    pub(super) fn subject(&self) -> Result<Subject> {
        if self.describe.is_some() {
            return Ok(Subject::Description);
        }
        if self.config_issues.is_some() {
            return Ok(Subject::Config);
        }
        let Some(question) = &self.question else {
            bail!("it has neither question nor configIssues nor describe");
        };
        let question = strictly::<Question>(question.get(), "question")?;
        let answer = self.answer.as_ref().map(|a| strictly::<Answer>(&a.to_string(), "answer"));
        let expected = match (answer.transpose()?, &self.refused) {
            (Some(answer), None) => Some(Ok(answer)),
            (None, Some(refused)) => Some(Err(refused.clone())),
            (None, None) => None,
            (Some(_), Some(_)) => bail!("it has both answer and refused: which of them is right?"),
        };
        Ok(Subject::Question(Box::new(question), expected))
    }
}

/// Reads what may leave out fields, but not misspell them: what a type does not know is lost on the way there and back.
fn strictly<T: Serialize + for<'de> Deserialize<'de>>(text: &str, what: &str) -> Result<T> {
    let read: T = serde_json::from_str(text).with_context(|| what.to_owned())?;
    let given: Value = serde_json::from_str(text)?;
    if let Some(path) = lost(&given, &serde_json::to_value(&read)?) {
        bail!(
            "{what}{path} is unknown: is it misspelt? (see wit/policy.wit; names are in camelCase)"
        );
    }
    Ok(read)
}

/// The first thing that is there and not there any more.
fn lost(given: &Value, kept: &Value) -> Option<String> {
    match (given, kept) {
        (Value::Object(given), Value::Object(kept)) => given.iter().find_map(|(key, value)| {
            match kept.get(key) {
                Some(kept) => lost(value, kept).map(|path| format!("/{key}{path}")),
                // What is neutral may be left out again.
                None if value.is_null() => None,
                None => Some(format!("/{key}")),
            }
        }),
        (Value::Array(given), Value::Array(kept)) => {
            let mut pairs = given.iter().zip(kept).enumerate();
            pairs.find_map(|(n, (given, kept))| Some(format!("/{n}{}", lost(given, kept)?)))
        }
        _ => None,
    }
}

/// The case files of these files and folders, in order.
pub(super) fn files(given: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in given {
        if path.is_dir() {
            let mut inside = Vec::new();
            for entry in std::fs::read_dir(path)? {
                let file = entry?.path();
                if file.extension().is_some_and(|e| e == "json") {
                    inside.push(file);
                }
            }
            if inside.is_empty() {
                bail!("folder {} holds no case (*.json)", path.display());
            }
            inside.sort();
            files.append(&mut inside);
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(text: &str) -> Result<Subject> {
        serde_json::from_str::<Case>(text).unwrap().subject()
    }

    #[test]
    fn a_case_may_leave_out_fields_and_not_misspell_them() {
        let brief =
            r#"{"question": {"name": {"suffix": "a1b2c3"}}, "answer": {"named": {"label": "x"}}}"#;
        assert!(matches!(subject(brief), Ok(Subject::Question(_, Some(Ok(_))))));
        let misspelt = r#"{"question": {"name": {"context": {"namespaces": "x"}}}}"#;
        let error = format!("{:#}", subject(misspelt).err().unwrap());
        assert!(error.contains("question/name/context/namespaces is unknown"), "{error}");
        let both = r#"{"question": {"name": {}}, "answer": {"named": null},
            "refused": {"category": "failed", "message": "m"}}"#;
        assert!(format!("{:#}", subject(both).err().unwrap()).contains("both answer and refused"));
        let other = serde_json::from_str::<Case>(r#"{"questoin": {}}"#);
        assert!(other.unwrap_err().to_string().contains("questoin"));
    }
}
