//! Child processes that cannot outlive us.
//!
//! Every process is spawned through `setpriv --pdeathsig KILL`, so the kernel kills it when its parent dies, even by
//! SIGKILL. The kernel's notion of a parent is the *thread* that forked: hence one thread, which lives as long as its
//! [`Nursery`], spawns them all.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow, bail};

/// What to run.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// Name in messages.
    pub(crate) name: String,
    /// The executable.
    pub(crate) executable: PathBuf,
    /// Its arguments.
    pub(crate) arguments: Vec<String>,
    /// Added to the environment.
    pub(crate) environment: Vec<(String, String)>,
    /// Where output and errors go.
    pub(crate) log: PathBuf,
}

enum Order {
    Spawn(Box<Program>, Sender<Result<(u64, u32)>>),
    Status(u64, Sender<Option<ExitStatus>>),
    Kill(u64, Sender<()>),
    KillAll(Sender<()>),
}

/// Spawns processes from one long-lived thread and kills them all when dropped.
pub(crate) struct Nursery {
    orders: Sender<Order>,
    thread: Option<JoinHandle<()>>,
}

impl Nursery {
    /// Starts the thread.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let (orders, received) = channel();
        let thread = std::thread::Builder::new()
            .name("nursery".to_owned())
            .spawn(move || nurse(&received))?;
        Ok(Arc::new(Self { orders, thread: Some(thread) }))
    }

    /// Starts a process.
    ///
    /// # Errors
    /// When its log cannot be created or it cannot be executed.
    pub(crate) fn spawn(self: &Arc<Self>, program: Program) -> Result<Running> {
        let (reply, answer) = channel();
        let name = program.name.clone();
        let log = program.log.clone();
        self.order(Order::Spawn(Box::new(program), reply))?;
        let (id, pid) = answer.recv().context("the nursery is closed")??;
        Ok(Running { nursery: Arc::clone(self), id, pid, name, log })
    }

    /// Kills every process, and returns when they are gone.
    pub(crate) fn kill_all(&self) {
        let (reply, answer) = channel();
        if self.order(Order::KillAll(reply)).is_ok() {
            let _ = answer.recv();
        }
    }

    fn order(&self, order: Order) -> Result<()> {
        self.orders.send(order).map_err(|_| anyhow!("the nursery is closed"))
    }
}

impl Drop for Nursery {
    fn drop(&mut self) {
        self.kill_all();
        // the thread ends when its last sender is gone, which is this one
        let (orphan, _) = channel();
        self.orders = orphan;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A process of a [`Nursery`]; killed when dropped.
pub(crate) struct Running {
    nursery: Arc<Nursery>,
    id: u64,
    pid: u32,
    name: String,
    log: PathBuf,
}

impl Running {
    /// Its name in messages.
    #[must_use]
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// How it ended, if it did.
    #[must_use]
    pub(crate) fn exited(&self) -> Option<ExitStatus> {
        let (reply, answer) = channel();
        self.nursery.order(Order::Status(self.id, reply)).ok()?;
        answer.recv().ok().flatten()
    }

    /// Fails with the end of the log if the process has ended.
    ///
    /// # Errors
    /// When the process has ended.
    pub(crate) fn check(&self) -> Result<()> {
        match self.exited() {
            Some(status) => bail!("{} ended ({status}).\n{}", self.name, self.log_tail()),
            None => Ok(()),
        }
    }

    /// The last lines of its log, with its path.
    #[must_use]
    pub(crate) fn log_tail(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines[lines.len().saturating_sub(15)..].join("\n  ");
        format!("{}, last lines:\n  {tail}", self.log.display())
    }

    /// Resident memory in MiB, from `/proc`.
    #[must_use]
    pub(crate) fn memory_mib(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
        let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
        Some(kib / 1024)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let (reply, answer) = channel();
        if self.nursery.order(Order::Kill(self.id, reply)).is_ok() {
            let _ = answer.recv();
        }
    }
}

fn nurse(orders: &Receiver<Order>) {
    let next = AtomicU64::new(1);
    let mut children: HashMap<u64, Child> = HashMap::new();
    while let Ok(order) = orders.recv() {
        match order {
            Order::Spawn(program, reply) => {
                let born = launch(&program).map(|child| {
                    let id = next.fetch_add(1, Ordering::Relaxed);
                    let pid = child.id();
                    children.insert(id, child);
                    (id, pid)
                });
                let _ = reply.send(born);
            }
            Order::Status(id, reply) => {
                let status = children.get_mut(&id).and_then(|c| c.try_wait().ok().flatten());
                let _ = reply.send(status);
            }
            Order::Kill(id, reply) => {
                if let Some(mut child) = children.remove(&id) {
                    kill(&mut child);
                }
                let _ = reply.send(());
            }
            Order::KillAll(reply) => {
                children.drain().for_each(|(_, mut child)| kill(&mut child));
                let _ = reply.send(());
            }
        }
    }
    children.drain().for_each(|(_, mut child)| kill(&mut child));
}

fn kill(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn launch(program: &Program) -> Result<Child> {
    let log = File::create(&program.log)
        .with_context(|| format!("create the log {}", program.log.display()))?;
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "--"])
        .arg(&program.executable)
        .args(&program.arguments)
        .envs(program.environment.iter().cloned())
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        // an interrupt from the keyboard is for the test run, which then takes them along
        .process_group(0);
    command.spawn().with_context(|| {
        format!(
            "start {} ({}) through `setpriv`, which util-linux brings",
            program.name,
            program.executable.display()
        )
    })
}

/// Removes a folder once this process is gone, however it went.
///
/// A tiny shell holds the read end of a pipe whose write end only this process has: end of file means that it has died.
pub(crate) struct Janitor {
    shell: Child,
}

impl Janitor {
    /// Watches over a folder.
    ///
    /// # Errors
    /// When no shell can be started.
    pub(crate) fn watch(folder: &Path) -> Result<Self> {
        // The processes killed at the same moment may still write: hence several tries.
        const SCRIPT: &str = r#"trap '' INT TERM HUP; read -r order; [ "$order" = keep ] && exit 0
            for try in 1 2 3 4 5 6 7 8; do sleep 0.3; rm -rf -- "$1" 2>/dev/null && [ ! -e "$1" ] && exit 0; done"#;
        let shell = Command::new("sh")
            .args(["-c", SCRIPT, "janitor"])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("start the shell that tidies up")?;
        Ok(Self { shell })
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        if let Some(mut pipe) = self.shell.stdin.take() {
            let _ = pipe.write_all(b"keep\n");
        }
        let _ = self.shell.wait();
    }
}
