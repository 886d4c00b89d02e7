//! Names and ids: provider ids, images, versions, and the host of a cluster's endpoint.
#![no_main]

#[allow(dead_code)]
#[path = "../../host/core/tests/properties/judgement.rs"]
mod judgement;
#[allow(dead_code)]
#[path = "../../host/core/tests/properties/names.rs"]
mod names;
#[path = "../../host/core/tests/world/mod.rs"]
mod world;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let first = lines.first().map(String::as_str).unwrap_or_default();
    names::provider_id_of_others(text);
    let id: String = text.chars().filter(char::is_ascii_alphanumeric).take(12).collect();
    if !id.is_empty() {
        names::provider_id(text, &id);
    }
    names::version_text(text);
    names::image(first, lines.get(1..).unwrap_or_default());
    // A whole reconcile takes a hundred times as long as all the rest.
    if lines.len() <= 1 {
        names::endpoint(text);
    }
    judgement::names_validly(None, first, lines.get(1).map_or("maas", String::as_str));
});
