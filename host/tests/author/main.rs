//! The tools for those who write policies, as they are typed.

mod golden;
mod scaffold;
mod tools;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The root of the project.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("host/ lies in the root").to_owned()
}

/// A built component.
fn built(name: &str) -> PathBuf {
    root().join(format!("plugins/dist/{name}.wasm"))
}

/// Runs the program.
fn capmaas(args: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_capmaas");
    Command::new(program).args(args).output().expect("the program starts")
}

/// What it prints when all is well.
fn says(args: &[&str]) -> String {
    let output = capmaas(args);
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{args:?}: {out}{err}");
    out
}

/// What it prints when something is wrong.
fn complains(args: &[&str]) -> String {
    let output = capmaas(args);
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {out}{err}");
    assert!(!err.contains("panicked"), "{err}");
    out + &err
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("paths here are UTF-8")
}
