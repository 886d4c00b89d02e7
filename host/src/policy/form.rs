//! What can be seen of a component without compiling it: that it is one, what it imports, what it
//! exports. Compiling takes seconds and memory, and is for what may be loaded at all.

use anyhow::{Result, bail};
use wasmparser::{Encoding, Parser, Payload};

use super::bounded;
use super::load::Kind;

/// Largest component, bytes. A Python one is about 18 MiB.
const LARGEST: usize = 32 << 20;
/// How many names are looked at. A policy has three or four; in 32 MiB there is room for eight million.
const MOST_NAMES: usize = 1_000;
/// How deep components may be nested; each level that is open takes memory.
const DEEPEST: usize = 50;
/// The interface this host speaks.
pub(super) const INTERFACE: &str = "0.1.0";

/// Refuses what is no component.
pub(super) fn check_form(wasm: &[u8]) -> Result<()> {
    if wasm.len() > LARGEST {
        bail!("it is larger than {} MiB", LARGEST >> 20);
    }
    match wasm.get(..8) {
        Some(b"\0asm\x0d\0\x01\0") => {}
        Some([0, b'a', b's', b'm', ..]) => bail!(
            "it is a core WebAssembly module, not a component: build it with the wasm-component-ld \
             linker, or wrap it with `wasm-tools component new`"
        ),
        _ => bail!("it is not WebAssembly"),
    }
    Ok(())
}

/// Refuses what imports or exports something else than a policy of this kind.
pub(super) fn check_surface(wasm: &[u8], kind: Kind) -> Result<()> {
    let surface = Surface::of(wasm)
        .map_err(|e| anyhow::anyhow!("it does not compile: {}", bounded(&e.to_string(), 400)))?;
    surface.imports.iter().try_for_each(|name| check_import(name))?;
    for interface in ["metadata", kind.word()] {
        let wanted = format!("capmaas:policy/{interface}@{INTERFACE}");
        if !surface.exports.contains(&wanted.as_str()) {
            bail!(
                "it does not export what a policy of kind {kind} exports (no {wanted}); \
                 see wit/policy.wit"
            );
        }
    }
    Ok(())
}

/// What a component decides, by what it exports.
pub(super) fn kind_of(wasm: &[u8]) -> Result<Kind> {
    let surface = Surface::of(wasm)
        .map_err(|e| anyhow::anyhow!("it does not compile: {}", bounded(&e.to_string(), 400)))?;
    // The imports first: a component of another version exports nothing of ours either.
    surface.imports.iter().try_for_each(|name| check_import(name))?;
    let exports = |kind: &Kind| {
        surface.exports.contains(&format!("capmaas:policy/{}@{INTERFACE}", kind.word()).as_str())
    };
    let kinds = [Kind::Allocation, Kind::DnsNaming, Kind::FailureHandling];
    match kinds.into_iter().filter(exports).collect::<Vec<_>>()[..] {
        // One that exports several is taken for the first; `--kind` and `spec.kind` say otherwise.
        [kind, ..] => Ok(kind),
        [] => bail!(
            "it exports none of capmaas:policy/allocation, dns-naming and failure-handling in version \
             {INTERFACE}; see wit/policy.wit"
        ),
    }
}

/// One thing that a component imports.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Import {
    /// Its name.
    pub name: String,
    /// Why it may not be imported, if so.
    pub refused: Option<String>,
}

/// What a component's outermost level imports, and the names of what it exports.
///
/// # Errors
/// When it is no component.
pub fn imports_and_exports(wasm: &[u8]) -> Result<(Vec<Import>, Vec<String>)> {
    check_form(wasm)?;
    let surface = Surface::of(wasm)?;
    let judged = |name: &&str| {
        let refused = check_import(name).err().map(|e| e.to_string());
        Import { name: bounded(name, 200), refused }
    };
    let imports = surface.imports.iter().map(judged).collect();
    Ok((imports, surface.exports.iter().map(|name| bounded(name, 200)).collect()))
}

/// Names at the outermost level of a component.
#[derive(Default)]
pub(super) struct Surface<'a> {
    pub(super) imports: Vec<&'a str>,
    pub(super) exports: Vec<&'a str>,
}

impl<'a> Surface<'a> {
    /// Reads the names; nothing is compiled.
    ///
    /// # Errors
    /// When it cannot be read, has too many names, or is nested too deeply.
    pub(super) fn of(wasm: &'a [u8]) -> Result<Self> {
        let mut surface = Self::default();
        // What is nested has a version and an end of its own.
        let mut depth = 0_usize;
        for payload in Parser::new(0).parse_all(wasm) {
            match payload? {
                Payload::Version { encoding: Encoding::Component | Encoding::Module, .. } => {
                    depth += 1;
                    if depth > DEEPEST {
                        bail!("it is nested more than {DEEPEST} levels deep");
                    }
                }
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::ComponentImportSection(section) if depth == 1 => {
                    for import in section {
                        add(&mut surface.imports, import?.name.name)?;
                    }
                }
                Payload::ComponentExportSection(section) if depth == 1 => {
                    for export in section {
                        add(&mut surface.exports, export?.name.name)?;
                    }
                }
                _ => {}
            }
        }
        Ok(surface)
    }
}

fn add<'a>(names: &mut Vec<&'a str>, name: &'a str) -> Result<()> {
    if names.len() == MOST_NAMES {
        bail!("it has more than {MOST_NAMES} imports or exports");
    }
    names.push(name);
    Ok(())
}

/// Only our own package may be imported, and only in the version we speak.
fn check_import(name: &str) -> Result<()> {
    let shown = bounded(name, 100);
    if let Some(rest) = name.strip_prefix("capmaas:policy/") {
        let (interface, version) = rest.split_once('@').unwrap_or((rest, ""));
        if version != INTERFACE {
            let version = bounded(version, 40);
            bail!("it speaks interface {version:?}, and this host speaks {INTERFACE}");
        }
        if !["host", "types"].contains(&interface) {
            bail!("it imports {shown:?}; a policy may import capmaas:policy/host alone");
        }
        Ok(())
    } else if name.starts_with("wasi:") {
        bail!(
            "it imports {shown:?}, and policies get no WASI: build Rust for \
             wasm32-unknown-unknown, Python with componentize-py's --stub-wasi, JavaScript with \
             componentize-js's disableFeatures"
        )
    } else {
        bail!("it imports {shown:?}; a policy may import capmaas:policy/host alone")
    }
}

#[cfg(test)]
mod tests {
    use super::{DEEPEST, MOST_NAMES, imports_and_exports};

    fn imports(number: usize) -> Vec<u8> {
        let one = |n| format!("(import \"i{n}\" (func))");
        let all: String = (0..number).map(one).collect();
        wat::parse_str(format!("(component {all})")).unwrap()
    }

    fn nested(levels: usize) -> Vec<u8> {
        wat::parse_str("(component ".repeat(levels) + &")".repeat(levels)).unwrap()
    }

    #[test]
    fn a_component_with_more_names_than_any_policy_has_is_refused() {
        let (names, _) = imports_and_exports(&imports(MOST_NAMES)).unwrap();
        assert_eq!(names.len(), MOST_NAMES);
        let error = imports_and_exports(&imports(MOST_NAMES + 1)).unwrap_err();
        assert!(error.to_string().contains("more than 1000 imports"), "{error}");
    }

    #[test]
    fn a_component_that_is_nested_without_end_is_refused() {
        assert!(imports_and_exports(&nested(DEEPEST)).is_ok());
        let error = imports_and_exports(&nested(DEEPEST + 1)).unwrap_err();
        assert!(error.to_string().contains("50 levels"), "{error}");
    }
}
