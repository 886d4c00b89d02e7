//! A configuration against the policy's own JSON Schema.
//!
//! A schema is somebody's program too: it may refer to itself for ever, or hold a pattern that takes an hour. It is evaluated in
//! a child process under resource limits, like compiling. The definition of JSON Schema itself, of eight megabytes, stays out
//! of the controller that way, too.

use std::io::{Read, Write};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::compile::{Compiler, confine};
use super::loaded::{ISSUES, Issue};

/// Longest schema that is taken, bytes.
const LONGEST: usize = 64 << 10;

#[derive(Serialize, Deserialize)]
struct Task {
    schema: Value,
    config: Value,
}

#[derive(Serialize, Deserialize)]
enum Verdict {
    Issues(Vec<Issue>),
    BadSchema(String),
}

/// What the schema has against the configuration.
pub(super) async fn check(compiler: &Compiler, schema: &str, config: &Value) -> Result<Vec<Issue>> {
    if schema.trim().is_empty() {
        return Ok(vec![]);
    }
    if schema.len() > LONGEST {
        bail!("its config-schema is larger than {} KiB", LONGEST >> 10);
    }
    let schema = serde_json::from_str(schema).context("its config-schema is not JSON")?;
    let task = Task { schema, config: config.clone() };
    let answer = compiler.check_schema(&serde_json::to_vec(&task)?).await?;
    match serde_json::from_slice(&answer).context("the schema checker cannot be understood")? {
        Verdict::Issues(issues) => Ok(issues),
        Verdict::BadSchema(why) => bail!("its config-schema is no JSON Schema: {why}"),
    }
}

/// The child's side: a task on standard input, the verdict on standard output.
///
/// # Errors
/// When the task cannot be read.
pub fn check_schema_stdin() -> Result<()> {
    confine(5)?;
    let mut task = Vec::new();
    std::io::stdin().lock().read_to_end(&mut task)?;
    let verdict = judge(&serde_json::from_slice(&task)?);
    std::io::stdout().lock().write_all(&serde_json::to_vec(&verdict)?)?;
    Ok(())
}

fn judge(task: &Task) -> Verdict {
    match jsonschema::validator_for(&task.schema) {
        Err(error) => Verdict::BadSchema(error.to_string()),
        Ok(validator) => {
            let issue = |error: jsonschema::ValidationError<'_>| Issue {
                pointer: error.instance_path().to_string(),
                problem: error.to_string(),
            };
            Verdict::Issues(validator.iter_errors(&task.config).take(ISSUES).map(issue).collect())
        }
    }
}
