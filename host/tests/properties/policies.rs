//! What is said of a policy before it is run: its component's outside, and the object that names it.

use std::sync::LazyLock;
use std::time::Duration;

use capmaas::policy::{Limits, imports_and_exports};
use capmaas_api::{MaasPolicy, PolicyLimits};
use regex::Regex;

/// What the CustomResourceDefinition lets through.
static TIMEOUT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\A[1-9][0-9]*(ms|s)\z").unwrap());
static MEMORY: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\A[1-9][0-9]*Mi\z").unwrap());

/// A component's names are bounded, and only our own interfaces may be imported; or it is none.
pub(crate) fn component(wasm: &[u8]) {
    let (imports, exports) = match imports_and_exports(wasm) {
        Ok(names) => names,
        Err(error) => {
            assert!(format!("{error:#}").chars().count() <= 500, "{error:#}");
            return;
        }
    };
    assert!(wasm.starts_with(b"\0asm\x0d\0\x01\0"), "only a component is one");
    assert!(imports.len() <= 1000 && exports.len() <= 1000);
    for name in imports.iter().map(|import| &import.name).chain(&exports) {
        assert!(name.chars().count() <= 200, "{name}");
        assert!(!name.chars().any(char::is_control), "{name:?}");
    }
    for import in imports {
        let ours = ["capmaas:policy/host@0.1.0", "capmaas:policy/types@0.1.0"];
        match import.refused {
            None => assert!(ours.contains(&import.name.as_str()), "{}", import.name),
            Some(why) => assert!(!why.is_empty() && why.chars().count() <= 2000, "{why}"),
        }
    }
}

/// These are what a component with these names shows, in their order.
pub(crate) fn shows(wasm: &[u8], imports: &[String], exports: &[String]) {
    let (shown, exported) = imports_and_exports(wasm).unwrap();
    let bounded = |name: &String| name.chars().take(200).collect::<String>();
    let shown: Vec<String> = shown.into_iter().map(|import| import.name).collect();
    assert_eq!(shown, imports.iter().map(bounded).collect::<Vec<_>>());
    assert_eq!(exported, exports.iter().map(bounded).collect::<Vec<_>>());
}

/// An object is read as it is, and its limits are within their bounds; or it says which field is not.
pub(crate) fn object(text: &str) {
    let Ok(object) = serde_json::from_str::<MaasPolicy>(text) else { return };
    let shown = serde_json::to_value(&object).unwrap();
    assert_eq!(serde_json::from_value::<MaasPolicy>(shown).unwrap(), object);
    limits(object.spec.limits.as_ref());
}

/// Limits are what was asked for, within their bounds, or refused by their names.
pub(crate) fn limits(wanted: Option<&PolicyLimits>) {
    let asked = wanted.cloned().unwrap_or_default();
    let timeout = asked.timeout.as_deref().map(milliseconds);
    let memory = asked.memory.as_deref().map(mebibytes);
    match Limits::of(wanted) {
        Ok(Limits { timeout: time, memory: bytes, .. }) => {
            let expected = timeout.unwrap_or(Some(250)).map(Duration::from_millis);
            assert_eq!(Some(time), expected, "{asked:?}");
            assert_eq!(Some(bytes as u64 >> 20), memory.unwrap_or(Some(64)), "{asked:?}");
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.chars().count() < 600, "{text}");
            // The first one that is wrong.
            let field = if timeout == Some(None) { "timeout" } else { "memory" };
            assert!(text.contains(&format!("spec.limits.{field}")), "{text}");
            assert!(timeout == Some(None) || memory == Some(None), "{asked:?}: {text}");
        }
    }
}

/// Between 10ms and 10s, or nothing.
fn milliseconds(text: &str) -> Option<u64> {
    let text = TIMEOUT.is_match(text).then_some(text)?;
    let (digits, factor) = match text.strip_suffix("ms") {
        Some(digits) => (digits, 1),
        None => (text.strip_suffix('s')?, 1000),
    };
    let number: u64 = digits.parse().ok()?;
    number.checked_mul(factor).filter(|millis| (10..=10_000).contains(millis))
}

/// Between 1Mi and 256Mi, or nothing.
fn mebibytes(text: &str) -> Option<u64> {
    let text = MEMORY.is_match(text).then_some(text)?;
    text.strip_suffix("Mi")?.parse().ok().filter(|mebibytes| (1..=256).contains(mebibytes))
}
