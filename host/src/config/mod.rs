//! What the operator says: flags, environment, and what they mean.

mod policies;

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use capmaas_core::Settings;
use clap::{ArgAction, Args, Parser, Subcommand};
pub use policies::PolicyFlags;
use secrecy::{ExposeSecret, SecretString};

use crate::cli::{ExplainArgs, PolicyCommand};
use crate::maas::{self, ApiKey, Endpoint};

/// A Cluster API infrastructure provider for Canonical MAAS.
#[derive(Parser, Debug)]
#[command(version, about, max_term_width = 100)]
pub struct Cli {
    /// What to run; without a command, the controller.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The controller's flags.
    #[command(flatten)]
    pub run: RunFlags,
}

/// Commands beside the controller.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Write the CustomResourceDefinitions as YAML files into a folder.
    Crds {
        /// The folder.
        folder: PathBuf,
    },
    /// Write, check and try policies.
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Tell the story of one object: which policy decided what, and why.
    Explain(ExplainArgs),
    /// Print completions for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Compile a policy from standard input to standard output (used by the controller itself).
    #[command(hide = true)]
    CompilePolicy,
    /// Check a configuration against a schema (used by the controller itself).
    #[command(hide = true)]
    CheckConfigSchema,
}

/// Flags of the controller.
#[derive(Args, Debug, Clone)]
pub struct RunFlags {
    /// URL of MAAS, for example http://maas.example.com:5240/MAAS.
    #[arg(long, env = "MAAS_ENDPOINT")]
    pub maas_endpoint: Option<String>,
    /// API key of a MAAS administrator, consumer:token:secret.
    #[arg(long, env = "MAAS_API_KEY", hide_env_values = true)]
    pub maas_api_key: Option<SecretString>,
    /// File that holds the API key; it is read again when MAAS no longer accepts the key. May be given several times: the
    /// first that is there counts, and before --maas-api-key.
    #[arg(long, env = "MAAS_API_KEY_FILE")]
    pub maas_api_key_file: Vec<PathBuf>,
    /// PEM file with certificate authorities to trust for MAAS. It is read again when it changes.
    #[arg(long, env = "MAAS_CA_FILE")]
    pub maas_ca_file: Option<PathBuf>,
    /// Trust any certificate of MAAS.
    #[arg(long, env = "MAAS_INSECURE_TLS", num_args = 0..=1, default_missing_value = "true", default_value = "false", action = ArgAction::Set)]
    pub maas_insecure_tls: bool,

    /// A MAAS DNS domain that naming policies may use besides each cluster's own.
    #[arg(long, env = "MAAS_DNS_DOMAIN")]
    pub maas_dns_domain: Option<String>,

    /// Watch this namespace only.
    #[arg(long, default_value = "")]
    pub namespace: String,
    /// Reconcile only objects whose label cluster.x-k8s.io/watch-filter has this value.
    #[arg(long, default_value = "")]
    pub watch_filter: String,
    /// How many machines are reconciled at once.
    #[arg(long, default_value_t = 64)]
    pub machine_concurrency: u16,
    /// Where /healthz and /readyz are served.
    #[arg(long, default_value = "0.0.0.0:9440")]
    pub health_addr: String,

    /// Where policies come from.
    #[command(flatten)]
    pub policies: PolicyFlags,

    /// How long a deployment may take, counted from the deploy call, seconds. MAAS itself gives up
    /// after 60 minutes.
    #[arg(long, default_value_t = Settings::default().deploy_timeout)]
    pub deploy_timeout: u64,
    /// How many hosts may be tried in place of failed ones, whatever the policy says.
    #[arg(long, default_value_t = Settings::default().max_replacements)]
    pub max_replacements: u32,
    /// How often a host is looked at while MAAS works on it, seconds.
    #[arg(long, default_value_t = Settings::default().poll)]
    pub poll_interval: u64,
    /// How often settled hosts and DNS records are looked at, seconds.
    #[arg(long, default_value_t = Settings::default().drift)]
    pub drift_interval: u64,
    /// When a host that was powered on is looked at again, seconds.
    #[arg(long, default_value_t = Settings::default().power_recheck)]
    pub power_recheck: u64,
    /// How far apart two readings of "off" are that take an address out of DNS, seconds.
    #[arg(long, default_value_t = Settings::default().power_confirm)]
    pub power_confirm: u64,
    /// How long an allocate without an answer may still be carried out by MAAS, seconds.
    #[arg(long, default_value_t = Settings::default().in_flight)]
    pub in_flight: u64,

    /// Log filter, for example info or capmaas=debug.
    #[arg(long, env = "CAPMAAS_LOG", default_value = "info")]
    pub log: String,
    /// Log as JSON lines.
    #[arg(long, num_args = 0..=1, default_missing_value = "true", default_value = "true", action = ArgAction::Set)]
    pub log_json: bool,
}

impl RunFlags {
    /// How MAAS is reached.
    ///
    /// # Errors
    /// When endpoint or key are missing or malformed, or the key's file cannot be read; the text names flag and variable.
    pub fn maas(&self) -> Result<maas::Options> {
        let endpoint = first(&self.maas_endpoint, "MAAS_API_URL")
            .ok_or_else(|| missing("MAAS endpoint", "MAAS_ENDPOINT or --maas-endpoint"))?;
        Ok(maas::Options {
            endpoint: Endpoint::parse(&endpoint)?,
            key: self.maas_key()?,
            key_files: self.key_files(),
            ca_file: self.maas_ca_file.clone(),
            insecure: self.maas_insecure_tls,
        })
    }

    /// The key of a file, else of flag or environment.
    fn maas_key(&self) -> Result<ApiKey> {
        let files = self.key_files();
        if let Some(key) = ApiKey::find(&files)? {
            return Ok(key);
        }
        let key = self.maas_api_key.as_ref().map(|key| key.expose_secret().to_owned());
        let Some(key) = first(&key, "MAAS_API_TOKEN") else {
            let flags = "MAAS_API_KEY_FILE, MAAS_API_KEY or --maas-api-key";
            let error = missing("MAAS API key", flags);
            let names: Vec<String> = files.iter().map(|f| f.display().to_string()).collect();
            return Err(match names.is_empty() {
                true => error,
                false => error.context(format!("there is no file {}", names.join(" or "))),
            });
        };
        ApiKey::parse(&key)
    }

    fn key_files(&self) -> Vec<PathBuf> {
        let named = |path: &&PathBuf| !path.as_os_str().is_empty();
        self.maas_api_key_file.iter().filter(named).cloned().collect()
    }

    /// What decisions depend on.
    ///
    /// # Errors
    /// When an interval is zero.
    pub fn settings(&self) -> Result<Settings> {
        let intervals = [
            ("--poll-interval", self.poll_interval),
            ("--drift-interval", self.drift_interval),
            ("--power-recheck", self.power_recheck),
            ("--deploy-timeout", self.deploy_timeout),
            ("--in-flight", self.in_flight),
            ("--power-confirm", self.power_confirm),
        ];
        for (flag, value) in intervals {
            if value == 0 {
                bail!("{flag} must be at least 1 second");
            }
        }
        Ok(Settings {
            deploy_timeout: self.deploy_timeout,
            max_replacements: self.max_replacements,
            poll: self.poll_interval,
            drift: self.drift_interval,
            power_recheck: self.power_recheck,
            in_flight: self.in_flight,
            power_confirm: self.power_confirm,
            dns_domain: self.dns_domain(),
            ..Settings::default()
        })
    }

    /// The domain as names end in it, without blanks and the dot at the end.
    fn dns_domain(&self) -> Option<String> {
        let domain = self.maas_dns_domain.as_deref()?.trim().trim_end_matches('.');
        Some(domain.to_owned()).filter(|d| !d.is_empty())
    }

    /// The address of the health server: Go's `:9440` means all addresses.
    ///
    /// # Errors
    /// When it is no address.
    pub fn health_address(&self) -> Result<SocketAddr> {
        let text = match self.health_addr.strip_prefix(':') {
            Some(port) => format!("0.0.0.0:{port}"),
            None => self.health_addr.clone(),
        };
        text.parse().with_context(|| format!("--health-addr {:?} is no address", self.health_addr))
    }

    /// The namespace to watch.
    pub fn watched_namespace(&self) -> Option<String> {
        Some(self.namespace.clone()).filter(|n| !n.is_empty())
    }

    /// The watch filter.
    pub fn watch_filter(&self) -> Option<String> {
        Some(self.watch_filter.clone()).filter(|f| !f.is_empty())
    }
}

fn missing(what: &str, flag: &str) -> anyhow::Error {
    anyhow!("no {what}: set {flag} (in the cluster, the Secret with the MAAS credentials)")
}

/// The flag or its variable, else the Go client's older variable.
fn first(flag: &Option<String>, older: &str) -> Option<String> {
    let set = |s: &String| !s.trim().is_empty();
    flag.clone().filter(set).or_else(|| std::env::var(older).ok().filter(set))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{Cli, RunFlags};
    use crate::maas::ApiKey;

    const ENDPOINT: &str = "--maas-endpoint=http://maas.example.com:5240/MAAS";

    fn flags(more: &[String]) -> RunFlags {
        let given = ["capmaas", ENDPOINT].map(str::to_owned);
        Cli::try_parse_from(given.iter().chain(more)).unwrap().run
    }

    #[test]
    fn the_key_of_a_file_counts_before_that_of_the_flag_and_absent_files_leave_it_to_the_flag() {
        let folder = tempfile::tempdir().unwrap();
        let files = ["MAAS_API_KEY", "MAAS_API_TOKEN"].map(|name| folder.path().join(name));
        let by_file = files.each_ref().map(|f| format!("--maas-api-key-file={}", f.display()));
        let by_flag = ["--maas-api-key=a:b:flag".to_owned()];
        let given = flags(&[&by_file[..], &by_flag].concat());
        let key = |text: &str| ApiKey::parse(text).unwrap();
        let found = given.maas().unwrap();
        // A file that comes later is found when MAAS refuses this key.
        assert_eq!((found.key, found.key_files), (key("a:b:flag"), files.to_vec()));
        std::fs::write(&files[1], "a:b:older").unwrap();
        assert_eq!(given.maas().unwrap().key, key("a:b:older"));
        std::fs::write(&files[0], "a:b:newer").unwrap();
        assert_eq!(given.maas().unwrap().key, key("a:b:newer"));
    }

    #[test]
    fn without_any_key_files_and_variables_are_named() {
        let absent = ["--maas-api-key-file=/absent/MAAS_API_KEY".to_owned()];
        let error = format!("{:#}", flags(&absent).maas().unwrap_err());
        for named in ["/absent/MAAS_API_KEY", "MAAS_API_KEY_FILE", "--maas-api-key"] {
            assert!(error.contains(named), "{error}");
        }
    }
}
