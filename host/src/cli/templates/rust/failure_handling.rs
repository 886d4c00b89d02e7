//! What to do when something fails: after two failed hosts people have to look.

wit_bindgen::generate!({ path: "wit", world: "failure-handling-policy" });

use capmaas::policy::types::Refusal;
use exports::capmaas::policy::failure_handling::{Action, Failure, Guest as FailureHandling};
use exports::capmaas::policy::metadata::{Description, Guest as Metadata, Issue};

struct Policy;

impl Metadata for Policy {
    fn describe() -> Description {
        Description {
            name: "@NAME@".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "after two failed hosts people have to look".into(),
            // JSON Schema of the settings, which the host checks before check_config is asked.
            config_schema: r#"{"type": "object", "additionalProperties": false}"#.into(),
        }
    }

    fn check_config(_config: String) -> Result<(), Vec<Issue>> {
        Ok(())
    }
}

impl FailureHandling for Policy {
    fn handle(failure: Failure) -> Result<Action, Refusal> {
        // A release cannot be given up: the machine would stay taken for ever.
        if failure.replacements >= 2 && failure.stage != "release" {
            let why = format!("{} hosts have failed: {}", failure.replacements, failure.message);
            return Ok(Action::GiveUp(why));
        }
        Ok(Action::UseDefault)
    }
}

export!(Policy);
