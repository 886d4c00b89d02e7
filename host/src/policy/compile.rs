//! Compiling, which wasmtime does not bound: half a megabyte can take 20 seconds and a gigabyte.
//! Components that are not ours are compiled in a child process under resource limits.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use wasmtime::component::Component;

use super::bounded;
use super::cache::CompiledCache;
use super::engine::Engine;

const CPU_SECONDS: u64 = 60;
/// Address space. The child shares a container's memory with the controller: one that takes all of
/// it would end both.
const ADDRESS_SPACE: u64 = 768 << 20;
const WALL: Duration = Duration::from_secs(120);
/// Largest compiled form that is taken, bytes: four times what Python makes.
pub(super) const LARGEST: u64 = 128 << 20;
/// Bytes of a complaint that are read.
const COMPLAINT: u64 = 4 << 10;

/// Who compiles foreign components.
#[derive(Clone, Debug)]
pub enum Compiler {
    /// This program, started again with the hidden command `compile-policy`.
    Child(PathBuf),
}

/// What this program made of a component: a child of ours a moment ago, or one of its earlier runs.
pub(super) struct Compiled(Vec<u8>);

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
    pub(super) async fn compile(&self, wasm: &[u8]) -> Result<Compiled> {
        let outcome = tokio::time::timeout(WALL, self.child("compile-policy", wasm)).await;
        let ended =
            outcome.context("compiling went over its limits (two minutes of wall clock)")?;
        match ended? {
            Ended::Well(compiled) => Ok(Compiled(compiled)),
            // Out of memory it aborts, out of time it is killed.
            Ended::Killed(signal) => bail!(
                "compiling went over its limits ({CPU_SECONDS} s of CPU, {} MiB of memory): signal \
                 {signal}",
                ADDRESS_SPACE >> 20
            ),
            Ended::Complaining(text) => bail!("it does not compile: {text}"),
        }
    }

    /// Checks a configuration against a schema that is not ours: see `schema`.
    ///
    /// # Errors
    /// When that does not come to an end within the limits.
    pub(super) async fn check_schema(&self, task: &[u8]) -> Result<Vec<u8>> {
        let outcome = tokio::time::timeout(WALL, self.child("check-config-schema", task)).await;
        match outcome.context("checking its config-schema took too long")?? {
            Ended::Well(verdict) => Ok(verdict),
            Ended::Killed(signal) => bail!(
                "checking its configuration against its config-schema went over its limits \
                 (signal {signal}): does the schema refer to itself?"
            ),
            Ended::Complaining(text) => bail!("its config-schema cannot be used: {text}"),
        }
    }

    async fn child(&self, word: &str, input: &[u8]) -> Result<Ended> {
        let Self::Child(program) = self;
        let mut command = Command::new(program);
        command.arg(word).env_clear().kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        converse(command, input).await
    }
}

/// How a child has ended.
enum Ended {
    Well(Vec<u8>),
    Killed(i32),
    Complaining(String),
}

/// Feeds a compiler, and takes from it no more than may be.
async fn converse(mut command: Command, wasm: &[u8]) -> Result<Ended> {
    let mut child = command.spawn().context("cannot start the compiler")?;
    let mut stdin = child.stdin.take().context("the compiler has no input")?;
    let stdout = child.stdout.take().context("the compiler has no output")?;
    let stderr = child.stderr.take().context("the compiler has no voice")?;
    let (mut compiled, mut complaint) = (Vec::new(), Vec::new());
    let feed = async move {
        // A compiler that ends early says why on its own.
        let _ = stdin.write_all(wasm).await;
    };
    let listen = async {
        let mut stdout = stdout.take(LARGEST + 1);
        stdout.read_to_end(&mut compiled).await
    };
    let heed = async {
        let mut stderr = stderr.take(COMPLAINT);
        stderr.read_to_end(&mut complaint).await
    };
    let ((), listened, heeded) = tokio::join!(feed, listen, heed);
    listened.and(heeded).context("cannot read from the compiler")?;
    if compiled.len() as u64 > LARGEST {
        bail!("its compiled form is larger than {} MiB", LARGEST >> 20);
    }
    let status = child.wait().await?;
    if let Some(signal) = status.signal() {
        return Ok(Ended::Killed(signal));
    }
    if !status.success() {
        let text = String::from_utf8_lossy(&complaint);
        return Ok(Ended::Complaining(bounded(text.trim(), 400)));
    }
    Ok(Ended::Well(compiled))
}

impl Compiled {
    /// What the cache has kept.
    pub(super) fn from_cache(cache: &CompiledCache, digest: &str, engine: &Engine) -> Option<Self> {
        cache.get(digest, engine).map(Self)
    }

    /// Machine code.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The component, ready for this engine.
    ///
    /// # Errors
    /// When it was compiled for another.
    pub(super) fn component(&self, engine: &Engine) -> Result<Component> {
        deserialize(engine, &self.0)
    }
}

/// wasmtime demands `unsafe` here, because compiled code is trusted as it is. This is the one
/// place: the bytes come from our own program, over a pipe of our own or from a folder of our own.
#[allow(unsafe_code)]
fn deserialize(engine: &Engine, compiled: &[u8]) -> Result<Component> {
    // SAFETY: `compiled` is the output of `compile_stdin` in a child process that we started from
    // our own executable, or was put into a folder by us into which nobody else may write (`cache`
    // checks that, and the entry's hash); nobody else can have written it.
    let component = unsafe { Component::deserialize(&engine.wasm, compiled) };
    component.map_err(anyhow::Error::from).context("its compiled form does not fit this engine")
}

/// The child's side: a component on standard input, its compiled form on standard output.
///
/// # Errors
/// When the component does not compile.
pub fn compile_stdin() -> Result<()> {
    confine(CPU_SECONDS)?;
    let mut wasm = Vec::new();
    std::io::stdin().lock().read_to_end(&mut wasm)?;
    let engine = Engine::for_compiling()?;
    let compiled = engine.precompile_component(&wasm).map_err(anyhow::Error::from)?;
    std::io::stdout().lock().write_all(&compiled)?;
    Ok(())
}

/// Limits what this process may use from now on, for work that is done in somebody's interest.
pub(super) fn confine(cpu_seconds: u64) -> Result<()> {
    // Where memory is short, this process is to be ended, and not the controller. Without it, nothing is lost but that.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    at_most(rlimit::Resource::CPU, cpu_seconds)?;
    at_most(rlimit::Resource::AS, ADDRESS_SPACE)
}

/// Lowers a limit of this process. One that is lower already stays: it cannot be raised, and need not.
fn at_most(resource: rlimit::Resource, most: u64) -> Result<()> {
    let (_, hard) = rlimit::getrlimit(resource)?;
    let limit = hard.min(most);
    rlimit::setrlimit(resource, limit, limit).context("cannot limit the compiler")
}
