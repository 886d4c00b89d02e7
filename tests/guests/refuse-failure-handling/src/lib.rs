//! A test guest: refuses to say what to do about a failure, so nothing may be done.

wit_bindgen::generate!({ path: "../../../wit", world: "failure-handling-policy" });

use capmaas::policy::types::Refusal;
use exports::capmaas::policy::failure_handling::{Action, Failure, Guest as FailureHandling};
use exports::capmaas::policy::metadata::{Description, Guest as Metadata, Issue};

struct Policy;

impl Metadata for Policy {
    fn describe() -> Description {
        Description {
            name: "refuse-failure-handling".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "refuses to answer".into(),
            config_schema: "{}".into(),
        }
    }

    fn check_config(_config: String) -> Result<(), Vec<Issue>> {
        Ok(())
    }
}

impl FailureHandling for Policy {
    fn handle(_failure: Failure) -> Result<Action, Refusal> {
        Err(Refusal::Failed("no failure is handled on my watch".into()))
    }
}

export!(Policy);
