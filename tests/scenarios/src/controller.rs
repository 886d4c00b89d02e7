use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// The real controller, as a process of its own.
pub struct Controller {
    binary: PathBuf,
    kubeconfig: PathBuf,
    log: PathBuf,
    args: Mutex<Vec<String>>,
    environment: Mutex<Vec<(String, String)>>,
    /// Where in the log the present process begins.
    begins: Mutex<usize>,
    child: Mutex<Option<Child>>,
}

/// The controller's executable: `CAPMAAS_BIN`, else beside the folder of the running test.
///
/// # Errors
/// When there is none; the text says how to build it.
pub fn controller_binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("CAPMAAS_BIN") {
        return Ok(PathBuf::from(path));
    }
    let this = std::env::current_exe()?;
    let found = this.ancestors().skip(1).take(3).map(|d| d.join("capmaas")).find(|p| p.is_file());
    found.context("no capmaas executable: run `make build`, or set CAPMAAS_BIN")
}

impl Controller {
    /// A controller that has not been started.
    pub fn new(
        binary: PathBuf,
        kubeconfig: &Path,
        log: &Path,
        maas: (String, String),
        args: Vec<String>,
    ) -> Self {
        Self {
            binary,
            kubeconfig: kubeconfig.to_owned(),
            log: log.to_owned(),
            args: Mutex::new(args),
            environment: Mutex::new(credentials(&maas.0, &maas.1)),
            begins: Mutex::new(0),
            child: Mutex::new(None),
        }
    }

    /// Starts it, if need be anew. Its log goes on where it was.
    ///
    /// # Errors
    /// When the process cannot be started.
    pub fn start(&self) -> Result<()> {
        self.kill();
        *self.begins.lock().expect("no panic") = self.log().len();
        let log = File::options().create(true).append(true).open(&self.log)?;
        let args = self.args.lock().expect("no panic").clone();
        let environment = self.environment.lock().expect("no panic").clone();
        // It must not outlive us, however we end.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(&self.binary)
            .args(&args)
            .env_clear()
            .env("KUBECONFIG", &self.kubeconfig)
            .envs(environment)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {}", self.binary.display()))?;
        *self.child.lock().expect("no panic") = Some(child);
        Ok(())
    }

    /// Uses another MAAS or key from the next start on.
    pub fn use_maas(&self, endpoint: &str, key: &str) {
        self.use_environment(credentials(endpoint, key));
    }

    /// Has this environment, and nothing else of MAAS, from the next start on.
    pub fn use_environment(&self, environment: Vec<(String, String)>) {
        *self.environment.lock().expect("no panic") = environment;
    }

    /// Adds a flag from the next start on.
    pub fn use_flag(&self, flag: &str) {
        self.args.lock().expect("no panic").push(flag.to_owned());
    }

    /// Has other flags in the place of some from the next start on.
    pub fn replace_flags(&self, before: &[String], after: &[String]) {
        let mut args = self.args.lock().expect("no panic");
        args.retain(|flag| !before.contains(flag));
        args.extend_from_slice(after);
    }

    /// Replaces a flag from the next start on.
    pub fn replace_flag(&self, before: &str, after: &str) {
        for flag in self.args.lock().expect("no panic").iter_mut().filter(|f| *f == before) {
            after.clone_into(flag);
        }
    }

    /// Kills it as a crash would.
    pub fn kill(&self) {
        if let Some(mut child) = self.child.lock().expect("no panic").take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Whether the process runs; an error quotes the end of its log.
    ///
    /// # Errors
    /// When it has ended.
    pub fn check(&self) -> Result<()> {
        let mut child = self.child.lock().expect("no panic");
        let Some(child) = child.as_mut() else {
            return Ok(());
        };
        if let Some(status) = child.try_wait()? {
            bail!("the controller has ended ({status}):\n{}", self.log_tail(15));
        }
        Ok(())
    }

    /// Its resident memory now, and the most that it ever was, MiB.
    ///
    /// # Errors
    /// When it does not run.
    pub fn resident_mib(&self) -> Result<(u64, u64)> {
        let id = self.child.lock().expect("no panic").as_ref().map(Child::id);
        let id = id.context("the controller does not run")?;
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        let of = |key: &str| -> Result<u64> {
            let line = status.lines().find(|l| l.starts_with(key)).context("Linux tells it")?;
            let kib: u64 = line.split_whitespace().nth(1).context("a number")?.parse()?;
            Ok(kib >> 10)
        };
        Ok((of("VmRSS:")?, of("VmHWM:")?))
    }

    /// Its process id and how many descriptors it has open.
    ///
    /// # Errors
    /// When it does not run.
    pub fn descriptors(&self) -> Result<(u32, usize)> {
        let id = self.child.lock().expect("no panic").as_ref().map(Child::id);
        let id = id.context("the controller does not run")?;
        Ok((id, std::fs::read_dir(format!("/proc/{id}/fd"))?.count()))
    }

    /// Everything it has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Where it logs.
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    fn log_tail(&self, lines: usize) -> String {
        let log = self.log();
        let all: Vec<&str> = log.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    /// Lines that tell of a right the controller lacks.
    pub fn forbidden(&self) -> Vec<String> {
        let of_kubernetes = |l: &&str| {
            l.contains("is forbidden:") || l.contains("\"code\":403") || l.contains("code: 403")
        };
        self.log().lines().filter(of_kubernetes).map(str::to_owned).collect()
    }

    /// Lines that tell of a fault of its own: a panic, an event that the API server does not take.
    pub fn faults(&self) -> Vec<String> {
        // An event that is lost on its way, or that a disturbed API server does not take, is not its fault.
        let refused =
            |l: &str| ["is invalid", "is forbidden", "BadRequest"].iter().any(|w| l.contains(w));
        let fault = |l: &&str| {
            l.contains("panicked at") || (l.contains("cannot publish an event") && refused(l))
        };
        self.log().lines().filter(fault).map(str::to_owned).collect()
    }

    /// Waits until it watches.
    ///
    /// # Errors
    /// When it ends, or does not get there within a minute.
    pub async fn watching(&self) -> Result<()> {
        for _ in 0..600 {
            self.check()?;
            let begins = *self.begins.lock().expect("no panic");
            let log = self.log();
            if log.get(begins..).is_some_and(|new| new.contains("capmaas is watching")) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bail!("the controller does not watch after a minute:\n{}", self.log_tail(15))
    }
}

fn credentials(endpoint: &str, key: &str) -> Vec<(String, String)> {
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    vec![variable("MAAS_ENDPOINT", endpoint), variable("MAAS_API_KEY", key)]
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.kill();
    }
}
