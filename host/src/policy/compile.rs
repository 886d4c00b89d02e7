//! Compiling, which wasmtime does not bound: half a megabyte can take 20 seconds and a gigabyte.
//! Components that are not ours are compiled in a child process under resource limits.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::AsyncWriteExt;
use wasmtime::component::Component;

use super::engine::Engine;

const CPU_SECONDS: u64 = 60;
const ADDRESS_SPACE: u64 = 3 << 30;
const WALL: Duration = Duration::from_secs(120);

/// Who compiles foreign components.
#[derive(Clone, Debug)]
pub enum Compiler {
    /// This program, started again with the hidden command `compile-policy`.
    Child(PathBuf),
}

impl Compiler {
    /// This very program.
    ///
    /// # Errors
    /// When its own path cannot be found.
    pub fn this_program() -> Result<Self> {
        Ok(Self::Child(std::env::current_exe().context("cannot find this program's own path")?))
    }

    /// Compiles a component that is not ours.
    ///
    /// # Errors
    /// When it does not compile, or not within the limits.
    pub(super) async fn compile(&self, engine: &Engine, wasm: &[u8]) -> Result<Component> {
        let Self::Child(program) = self;
        let mut child = tokio::process::Command::new(program)
            .arg("compile-policy")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .env_clear()
            .kill_on_drop(true)
            .spawn()
            .context("cannot start the compiler")?;
        let mut stdin = child.stdin.take().context("the compiler has no input")?;
        let bytes = wasm.to_vec();
        let feed = tokio::spawn(async move {
            // A compiler that ends early says why on its own.
            let _ = stdin.write_all(&bytes).await;
        });
        let output = tokio::time::timeout(WALL, child.wait_with_output());
        let output = output.await.context("compiling took more than two minutes")??;
        feed.abort();
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            let text = text.trim();
            if text.is_empty() {
                bail!(
                    "compiling went over its limits ({CPU_SECONDS} s of CPU, {} GiB): {}",
                    ADDRESS_SPACE >> 30,
                    output.status
                );
            }
            bail!("it does not compile: {}", text.chars().take(400).collect::<String>());
        }
        deserialize(engine, &output.stdout)
    }
}

/// wasmtime demands `unsafe` here, because compiled code is trusted as it is. This is the one
/// place: the bytes come from our own program, over a pipe of our own, a moment ago.
#[allow(unsafe_code)]
fn deserialize(engine: &Engine, compiled: &[u8]) -> Result<Component> {
    // SAFETY: `compiled` is the output of `compile_stdin` in a child process that we started from
    // our own executable; nobody else can have written it.
    let component = unsafe { Component::deserialize(&engine.wasm, compiled) };
    component.map_err(anyhow::Error::from).context("its compiled form does not fit this engine")
}

/// The child's side: a component on standard input, its compiled form on standard output.
///
/// # Errors
/// When the component does not compile.
pub fn compile_stdin() -> Result<()> {
    rlimit::setrlimit(rlimit::Resource::CPU, CPU_SECONDS, CPU_SECONDS)?;
    rlimit::setrlimit(rlimit::Resource::AS, ADDRESS_SPACE, ADDRESS_SPACE)?;
    let mut wasm = Vec::new();
    std::io::stdin().lock().read_to_end(&mut wasm)?;
    let engine = Engine::for_compiling()?;
    let compiled = engine.precompile_component(&wasm).map_err(anyhow::Error::from)?;
    std::io::stdout().lock().write_all(&compiled)?;
    Ok(())
}
