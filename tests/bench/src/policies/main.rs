//! What a question to a policy costs, against the same rule without a sandbox, over JSON, and over a webhook.

mod bytes;
mod cost;
mod json;
mod languages;
mod rule;
mod webhook;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use capmaas::policy::{Choice, Choices, Compiler, Engine, Policies};
use capmaas_core::Reply;
use capmaas_core::policy::{Answer, Context, NameRequest, Question, Ranking};
use clap::Parser;
use cost::median;
use serde::Serialize;

/// Measures questions to policies.
#[derive(Parser)]
struct Flags {
    /// The controller, which compiles policies in a process of its own.
    #[arg(long)]
    controller: PathBuf,
    /// The folder with the built components.
    #[arg(long)]
    components: PathBuf,
    /// How many machines are ranked.
    #[arg(long, default_value_t = 1000)]
    candidates: u32,
    /// How often each is measured; medians are told.
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// How often a policy is reloaded.
    #[arg(long, default_value_t = 1000)]
    reloads: u32,
    /// A file for the figures (JSON).
    #[arg(long)]
    summary: Option<PathBuf>,
}

#[derive(Serialize)]
struct Figures {
    /// CPU for a fresh sandbox and a trivial decision, microseconds.
    sandbox_us: f64,
    /// The same with the way to the policies' threads and back.
    asked_us: f64,
    /// CPU for ranking in the sandbox, microseconds.
    rank_us: f64,
    native_us: f64,
    json_us: f64,
    webhook_us: f64,
    rank_vs_native: f64,
    rank_vs_json: f64,
    rank_vs_webhook: f64,
    /// What a ranking copies into the sandbox and out of it, bytes.
    rank_bytes: usize,
    /// The bodies of the webhook's question and answer, bytes.
    webhook_bytes: usize,
    /// How long after its deadline a loop is stopped, p95, milliseconds.
    deadline_late_ms: f64,
    /// Size of the controller, MiB.
    binary_mib: f64,
    languages: Vec<languages::Language>,
    reloads: languages::Reloads,
}

#[tokio::main]
async fn main() -> ExitCode {
    match measure(Flags::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-policies: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(flags: Flags) -> Result<()> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let compiler = || Compiler::Child(flags.controller.clone());
    let component = |name: &str| -> Result<Vec<u8>> {
        let path = flags.components.join(format!("{name}.wasm"));
        std::fs::read(&path).with_context(|| format!("read {}", path.display()))
    };
    let chosen = |name: &str, config: Option<&str>| -> Result<Choice> {
        let component = Some((format!("{name}.wasm"), component(name)?));
        Ok(Choice { component, config: config.map(str::to_owned) })
    };
    let choices =
        Choices { allocation: chosen("allocation-zone-spread", None)?, ..Choices::default() };
    let policies = Policies::load(Engine::new()?, choices, compiler()).await?;
    let looping =
        Choices { dns_naming: chosen("hostile", Some(r#""spin blue""#))?, ..Choices::default() };
    let looping = Policies::load(Engine::new()?, looping, compiler()).await;

    let asked_us = asked(&policies, flags.rounds).await?;
    let sandbox_us = sandbox(&policies, flags.rounds)?;
    let (request, candidates) = rule::question(flags.candidates);
    let ranking = rule::rank(&request, &candidates);
    let json = json::Guest::load(&component("rank-json")?)?;
    let webhook = webhook::Webhook::start().await?;
    let mut rounds = [vec![], vec![], vec![], vec![]];
    // In turn, so that what else the machine does falls on all of them.
    for _ in 0..flags.rounds {
        rounds[0].push(sandboxed(&policies, &request, &candidates, &ranking)?);
        // Many of them: the books of the scheduler are only as fine as its ticks.
        rounds[1].push(cost::of(1000, || {
            // Or one ranking would do for all of them.
            let (request, candidates) = std::hint::black_box((&request, &candidates));
            std::hint::black_box(rule::rank(request, candidates));
            Ok(())
        })?);
        rounds[2].push(cost::of(10, || same(&json.rank(&request, &candidates)?, &ranking))?);
        rounds[3].push(hooked(&webhook, &request, &candidates, &ranking).await?);
    }
    let [rank_us, native_us, json_us, webhook_us] = rounds.map(median);
    let languages = languages::measure(&flags.controller).await?;
    let reloads = languages::reload(&flags.controller, &flags.components, flags.reloads).await?;
    let figures = Figures {
        sandbox_us,
        asked_us,
        rank_us,
        native_us,
        json_us,
        webhook_us,
        rank_vs_native: rank_us / native_us,
        rank_vs_json: rank_us / json_us,
        rank_vs_webhook: rank_us / webhook_us,
        rank_bytes: bytes::copied(&candidates, &ranking),
        webhook_bytes: bytes::sent(&request, &candidates, &ranking)?,
        deadline_late_ms: late(&looping?).await?,
        binary_mib: std::fs::metadata(&flags.controller)?.len() as f64 / f64::from(1 << 20),
        languages,
        reloads,
    };
    println!("{}", serde_json::to_string_pretty(&figures)?);
    if let Some(path) = &flags.summary {
        std::fs::write(path, serde_json::to_string_pretty(&figures)?)
            .with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// Calls in a round of the trivial decision.
const CALLS: u32 = 1000;

fn sandbox(policies: &Policies, rounds: usize) -> Result<f64> {
    let question = name();
    let round = |_| {
        cost::of(CALLS, || {
            ensure!(matches!(policies.ask_here(&question), Reply::Answered(_)), "no name");
            Ok(())
        })
    };
    Ok(median((0..rounds).map(round).collect::<Result<_>>()?))
}

async fn asked(policies: &Policies, rounds: usize) -> Result<f64> {
    let mut all = vec![];
    for _ in 0..rounds {
        let meter = cost::Meter::start()?;
        for _ in 0..CALLS {
            ensure!(matches!(policies.ask(name()).await, Reply::Answered(_)), "no name");
        }
        all.push(meter.micros()? / f64::from(CALLS));
    }
    Ok(median(all))
}

fn sandboxed(
    policies: &Policies,
    request: &capmaas_core::policy::AllocationRequest,
    candidates: &[capmaas_core::policy::Candidate],
    expected: &Ranking,
) -> Result<f64> {
    // The question is made once a decision anyway.
    let question = Question::Rank { request: request.clone(), candidates: candidates.to_vec() };
    cost::of(10, || match policies.ask_here(&question) {
        Reply::Answered(answered) => match answered.answer {
            Answer::Ranked(ranking) => same(&ranking.order, expected),
            other => bail!("no ranking, but {other:?}"),
        },
        other => bail!("no answer, but {other:?}"),
    })
}

async fn hooked(
    webhook: &webhook::Webhook,
    request: &capmaas_core::policy::AllocationRequest,
    candidates: &[capmaas_core::policy::Candidate],
    expected: &Ranking,
) -> Result<f64> {
    const CALLS: u32 = 10;
    let meter = cost::Meter::start()?;
    for _ in 0..CALLS {
        same(&webhook.ask(request, candidates).await?, expected)?;
    }
    Ok(meter.micros()? / f64::from(CALLS))
}

/// All of them decide alike, or they are not compared.
fn same(order: &[u32], expected: &Ranking) -> Result<()> {
    ensure!(order == expected.order, "it ranks otherwise");
    Ok(())
}

fn name() -> Question {
    Question::Name(NameRequest {
        context: Context {
            decision_id: "decision-1".into(),
            now: 1_900_000_000,
            namespace: "default".into(),
            cluster: "blue".into(),
            attributes: vec![],
        },
        suffix: "a1b2c3".into(),
        default_domain: "maas".into(),
        allowed_domains: vec!["maas".into()],
        taken: vec![],
        attempt: 1,
    })
}

/// How long after its deadline a loop ends: 95 of 100 are faster.
async fn late(looping: &Policies) -> Result<f64> {
    const LOOPS: usize = 40;
    let deadline = capmaas::policy::Limits::default().timeout;
    let mut all = vec![];
    for _ in 0..LOOPS {
        let begun = Instant::now();
        let reply = looping.ask(name()).await;
        let taken = begun.elapsed();
        ensure!(matches!(&reply, Reply::Refused(r) if r.category == "timeout"), "{reply:?}");
        let late = taken.saturating_sub(deadline).max(Duration::ZERO);
        all.push(late.as_secs_f64() * 1000.0);
    }
    all.sort_by(f64::total_cmp);
    Ok(all[LOOPS * 95 / 100])
}
