//! A test guest: refuses to name an endpoint, so none may be made.

wit_bindgen::generate!({ path: "../../../wit", world: "dns-naming-policy" });

use capmaas::policy::types::Refusal;
use exports::capmaas::policy::dns_naming::{Guest as DnsNaming, Name, Request};
use exports::capmaas::policy::metadata::{Description, Guest as Metadata, Issue};

struct Policy;

impl Metadata for Policy {
    fn describe() -> Description {
        Description {
            name: "refuse-dns-naming".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "refuses to answer".into(),
            config_schema: "{}".into(),
        }
    }

    fn check_config(_config: String) -> Result<(), Vec<Issue>> {
        Ok(())
    }
}

impl DnsNaming for Policy {
    fn propose(_request: Request) -> Result<Option<Name>, Refusal> {
        Err(Refusal::Failed("no name is given on my watch".into()))
    }
}

export!(Policy);
