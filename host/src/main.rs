//! The capmaas program: the controller, and the commands around it.

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use capmaas::config::{Cli, Command, RunFlags};
use capmaas::kube::{Clients, ClusterApi, Events, Loader, Mirror, Workloads, Writers, connect};
use capmaas::policy::{
    Book, Compiler, Engine, Fetcher, Loader as PolicyLoader, Metrics, Policies, check_schema_stdin,
    compile_stdin,
};
use capmaas::reconcile::World;
use capmaas::{cli, maas, serve, watch};
use clap::{CommandFactory, Parser};
use tokio::sync::watch as signal;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.command {
        None => run(cli.run),
        Some(Command::Policy(command)) => return exit(tool(cli::policy(command))),
        Some(Command::Explain(args)) => return exit(tool(cli::explain(&args))),
        Some(Command::Completions { shell }) => {
            clap_complete::generate(shell, &mut Cli::command(), "capmaas", &mut std::io::stdout());
            Ok(())
        }
        Some(Command::Crds { folder }) => write_crds(&folder),
        Some(Command::CompilePolicy) => compile_stdin(),
        Some(Command::CheckConfigSchema) => check_schema_stdin(),
    };
    exit(outcome.map(|()| ExitCode::SUCCESS))
}

fn exit(outcome: Result<ExitCode>) -> ExitCode {
    outcome.unwrap_or_else(|error| {
        eprintln!("capmaas: {error:#}");
        ExitCode::FAILURE
    })
}

/// Runs a command that is not the controller. What policies log is shown to who asks for it: `CAPMAAS_LOG=info`.
#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn tool(command: impl Future<Output = Result<ExitCode>>) -> Result<ExitCode> {
    let filter = EnvFilter::try_from_env("CAPMAAS_LOG").unwrap_or_else(|_| EnvFilter::new("off"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .without_time()
        .with_target(false)
        .init();
    install_tls()?;
    command.await
}

fn install_tls() -> Result<()> {
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_| anyhow::anyhow!("cannot set up TLS"))
}

// One thread does all that a controller does but for the policies; more of them only hand it to one another.
#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn run(flags: RunFlags) -> Result<()> {
    start_logging(&flags)?;
    install_tls()?;
    let (stop, mut stopped) = signal::channel(false);
    tokio::spawn(async move {
        interrupted().await;
        tracing::info!("stopping");
        let _ = stop.send(true);
    });
    let (waits, readiness) = signal::channel("starting".to_owned());
    let metrics = Metrics::default();
    serve::health(flags.health_address()?, readiness, &metrics).await?;
    let (shared, writers) = tokio::select! {
        prepared = prepare(&flags, &waits, metrics) => prepared?,
        _ = stopped.wait_for(|stop| *stop) => return Ok(()),
    };
    waits.send_replace(String::new());
    tracing::info!("capmaas is watching");
    watch::run(shared, writers, stopped).await
}

/// Policies loaded, clients set up, Cluster API found. `waits` says what for, meanwhile.
async fn prepare(
    flags: &RunFlags,
    waits: &signal::Sender<String>,
    metrics: Metrics,
) -> Result<(watch::Shared, Writers)> {
    let settings = flags.settings()?;
    let maas = Arc::new(maas::Client::new(flags.maas()?)?);
    let decisions = flags.policies.decisions()?;
    let folder = flags.policies.folder()?.map(Arc::new);
    let policy_loader =
        PolicyLoader::new(Engine::new()?, Compiler::this_program()?, metrics.clone())
            .keeping(flags.policies.compiled()?)
            .within(flags.policies.code_limit());
    let policies = Policies::with(&policy_loader, flags.policies.choices()?).await?;
    for loaded in policies.loaded() {
        tracing::info!(policy = %loaded.id(), "policy loaded");
    }
    let Clients { calls, watches } = connect().await?;
    let defaults = flags.policies.defaults(&flags.namespace, calls.default_namespace());
    let policies = Arc::new(Book::new(policies, defaults, metrics.clone()));
    let fetched = flags.policies.fetched()?;
    let last_good = flags.policies.last_good(fetched.as_ref())?;
    let fetcher = Fetcher::new(calls.clone(), folder, fetched);
    let keeper = watch::Keeper::new(policies.clone(), policy_loader, fetcher).knowing(last_good);
    let cluster_api = wait_for_definitions(&calls, waits).await;
    let (mirror, writers) = Mirror::new(flags.watch_filter().is_some());
    let shared = watch::Shared {
        world: Arc::new(World {
            maas,
            kube: calls.clone(),
            mirror: mirror.clone(),
            workloads: Arc::new(Workloads::new(calls.clone())),
            metrics,
            decisions,
        }),
        policies: Arc::new(keeper),
        loader: Loader { client: calls.clone(), cluster_api, settings, mirror, policies },
        events: Events::new(calls),
        watches,
        namespace: flags.watched_namespace(),
        watch_filter: flags.watch_filter(),
        machine_concurrency: flags.machine_concurrency,
    };
    Ok((shared, writers))
}

/// Cluster API, and even our own definitions, may be installed after us. Watches that were opened before would find them
/// as well, but until then nobody would be told what is missing.
async fn wait_for_definitions(client: &kube::Client, waits: &signal::Sender<String>) -> ClusterApi {
    loop {
        match ClusterApi::discover(client).await {
            Ok(found) => return found,
            Err(error) => {
                let error = format!("{error:#}");
                tracing::warn!(error, "waiting for the definitions");
                waits.send_replace(error);
            }
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
}

async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).ok();
    let terminated = async {
        match &mut terminate {
            Some(terminate) => terminate.recv().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated => {}
    }
}

fn start_logging(flags: &RunFlags) -> Result<()> {
    let filter = EnvFilter::try_new(&flags.log)
        .with_context(|| format!("--log {:?} is no log filter", flags.log))?;
    let logging = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if flags.log_json {
        logging.json().flatten_event(true).init();
    } else {
        logging.init();
    }
    Ok(())
}

fn write_crds(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make folder {}", folder.display()))?;
    for (name, text) in capmaas_api::custom_resource_definitions_yaml() {
        let file = folder.join(name);
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        println!("{}", file.display());
    }
    Ok(())
}
