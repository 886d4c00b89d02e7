//! Running `go`.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail};

use super::cache::Entry;
use super::modules::{Module, Program};
use super::progress::Progress;
use super::{modules, source};

const REMEDY: &str = "Install Go 1.26 or newer (https://go.dev/dl) and put it on PATH; only its module proxy is needed \
                      then. Or copy a filled cache folder from another machine and point CAPMAAS_CACHE at it.";

/// The version of Go that builds our modules, like `go1.26.8`.
pub(super) fn version() -> Result<String> {
    // asked inside a module, because its go.mod may make `go` fetch and use a newer version of itself
    let folder = source(modules::cluster_api());
    let output = go(&folder, &["env", "GOVERSION"])?;
    if !output.status.success() {
        bail!("`go env GOVERSION` failed: {}\n{REMEDY}", text(&output.stderr));
    }
    let version = text(&output.stdout);
    let wanted = wanted(&folder)?;
    if numbers(version.trim_start_matches("go")) < numbers(&wanted) {
        bail!("the control plane needs Go {wanted}, this is {version}.\n{REMEDY}");
    }
    Ok(version)
}

/// Builds one program into a temporary file and renames it, so that a broken build leaves nothing behind.
pub(super) fn build(
    module: &Module,
    program: &Program,
    entry: &Entry,
    progress: &Progress,
) -> Result<()> {
    let hint = format!("about {} when nothing is warm", program.usually);
    let step = progress.step(&format!("building {}", program.name), &hint);
    let temporary = tempfile::Builder::new().prefix(".building-").tempdir_in(entry.folder())?;
    let binary = temporary.path().join(program.name);
    let out = binary.display().to_string();
    let output = go(
        &source(module),
        &[
            "build",
            "-mod=readonly",
            "-trimpath",
            "-ldflags",
            module.ldflags,
            "-o",
            &out,
            program.package,
        ],
    )?;
    if !output.status.success() {
        bail!(
            "`go build {}` in {} failed:\n{}\nIf a download failed: the Go module proxy must be reachable (GOPROXY).",
            program.package,
            source(module).display(),
            text(&output.stderr)
        );
    }
    std::fs::rename(&binary, entry.path(program.name))?;
    step.done();
    Ok(())
}

/// The folder of a dependency in Go's module cache, downloaded if it is not there.
pub(super) fn module_folder(module: &Module, path: &str) -> Result<PathBuf> {
    let folder = source(module);
    let download = go(&folder, &["mod", "download", path])?;
    if !download.status.success() {
        bail!("`go mod download {path}` failed: {}", text(&download.stderr));
    }
    let output = go(&folder, &["list", "-m", "-f", "{{.Dir}}", path])?;
    let found = text(&output.stdout);
    if !output.status.success() || found.is_empty() {
        bail!("`go list -m {path}` failed: {}", text(&output.stderr));
    }
    Ok(PathBuf::from(found))
}

fn go(folder: &Path, arguments: &[&str]) -> Result<Output> {
    let result = Command::new("go")
        .args(arguments)
        .current_dir(folder)
        // the user's own settings for their own work are none of our business
        .env("GOFLAGS", "")
        .env("GOWORK", "off")
        .output();
    match result {
        Ok(output) => Ok(output),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("`go` is not on PATH, and the control plane has to be built.\n{REMEDY}")
        }
        Err(error) => Err(error).context("run `go`"),
    }
}

/// The version in the `go` line of a go.mod.
fn wanted(folder: &Path) -> Result<String> {
    let text = std::fs::read_to_string(folder.join("go.mod"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("go "));
    Ok(line.unwrap_or("1.26").trim().to_owned())
}

fn numbers(version: &str) -> Vec<u32> {
    version.split(|c: char| !c.is_ascii_digit()).map_while(|part| part.parse().ok()).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn versions_compare_as_numbers() {
        assert!(numbers("1.9.1") < numbers("1.26"));
        assert!(numbers("1.26.8") >= numbers("1.26.0"));
        assert!(numbers("1.27rc1") >= numbers("1.26.0"));
    }
}
