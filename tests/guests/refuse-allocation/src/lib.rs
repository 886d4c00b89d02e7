//! A test guest: refuses to say which machine to take, so none may be taken.

wit_bindgen::generate!({ path: "../../../wit", world: "allocation-policy" });

use capmaas::policy::types::Refusal;
use exports::capmaas::policy::allocation::{
    Candidate, Guest as Allocation, Ranking, Request, Shortlisting,
};
use exports::capmaas::policy::metadata::{Description, Guest as Metadata, Issue};

struct Policy;

impl Metadata for Policy {
    fn describe() -> Description {
        Description {
            name: "refuse-allocation".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "refuses to answer".into(),
            config_schema: "{}".into(),
        }
    }

    fn check_config(_config: String) -> Result<(), Vec<Issue>> {
        Ok(())
    }
}

impl Allocation for Policy {
    fn shortlist(_request: Request) -> Result<Shortlisting, Refusal> {
        Err(Refusal::Failed("no machine is taken on my watch".into()))
    }

    fn rank(_request: Request, _candidates: Vec<Candidate>) -> Result<Ranking, Refusal> {
        Err(Refusal::Failed("no machine is ranked on my watch".into()))
    }
}

export!(Policy);
