//! A controller as a process of its own, and what the kernel says of it.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

/// A running controller; it dies with us.
pub(crate) struct Process(Child);

/// What a process has used.
pub(crate) struct Usage {
    /// Seconds of CPU, user and system, children that have ended included.
    pub(crate) cpu_s: f64,
    /// The most memory that was resident at once, MiB.
    pub(crate) peak_mib: f64,
    /// Memory resident now, MiB.
    pub(crate) rss_mib: f64,
    /// Open file descriptors.
    pub(crate) fds: usize,
}

impl Process {
    pub(crate) fn start(command: &str, environment: &[(&str, &str)], log: &Path) -> Result<Self> {
        let log = File::create(log).with_context(|| format!("write {}", log.display()))?;
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "sh", "-c", &format!("exec {command}")])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("the controller cannot be started")?;
        Ok(Self(child))
    }

    /// # Errors
    /// When it has ended.
    pub(crate) fn check(&mut self) -> Result<()> {
        match self.0.try_wait()? {
            Some(status) => bail!("the controller has ended: {status}"),
            None => Ok(()),
        }
    }

    pub(crate) fn usage(&self) -> Result<Usage> {
        let dir = Path::new("/proc").join(self.0.id().to_string());
        let stat = std::fs::read_to_string(dir.join("stat"))?;
        // Fields 14 to 17 (proc_pid_stat(5)); the name in field 2 may hold blanks.
        let fields: Vec<&str> =
            stat.rsplit_once(')').context("an odd stat")?.1.split_whitespace().collect();
        let ticks: f64 = fields[11..15].iter().filter_map(|f| f.parse::<f64>().ok()).sum();
        let status = std::fs::read_to_string(dir.join("status"))?;
        let mib = |key: &str| -> f64 {
            let line = status.lines().find(|l| l.starts_with(key)).unwrap_or_default();
            let kib = line.split_whitespace().nth(1).and_then(|v| v.parse::<f64>().ok());
            kib.unwrap_or_default() / 1024.0
        };
        Ok(Usage {
            // USER_HZ is 100 on every Linux that Rust knows.
            cpu_s: ticks / 100.0,
            peak_mib: mib("VmHWM:"),
            rss_mib: mib("VmRSS:"),
            fds: std::fs::read_dir(dir.join("fd"))?.count(),
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
