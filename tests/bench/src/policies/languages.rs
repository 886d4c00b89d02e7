//! The same policy in three languages, as `capmaas policy new` makes it: what loading it and asking it cost.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use capmaas::policy::{
    CompiledCache, Compiler, Engine, Health, Kind, Loaded, Loader, Metrics, Order, digest,
};
use capmaas_core::policy::{Answer, Question};
use serde::Serialize;

use super::rule;

/// One language. Times in milliseconds.
#[derive(Serialize)]
pub(crate) struct Language {
    lang: &'static str,
    bytes: usize,
    /// From the bytes to the first question, compiled in a child.
    load_ms: u64,
    /// The same when it was compiled before.
    load_cached_ms: u64,
    rank_100_p50_ms: f64,
    rank_100_p99_ms: f64,
    rank_1000_p50_ms: f64,
    rank_1000_p99_ms: f64,
    /// What the process holds more when it is loaded, MiB.
    rss_mib: f64,
    /// The most memory of a call, MiB.
    memory_mib: f64,
}

/// Resident memory over many reloads, MiB.
#[derive(Serialize)]
pub(crate) struct Reloads {
    reloads: u32,
    rss_first_mib: f64,
    rss_after_a_tenth_mib: f64,
    rss_last_mib: f64,
}

pub(crate) async fn measure(controller: &Path) -> Result<Vec<Language>> {
    let mut all = Vec::new();
    for (lang, word) in [("Rust", "rust"), ("JavaScript", "js"), ("Python", "python")] {
        let folder = tempfile::tempdir()?;
        let wasm = std::fs::read(build(controller, folder.path(), word)?)?;
        all.push(one(controller, lang, wasm, &folder.path().join("cache")).await?);
    }
    Ok(all)
}

fn build(controller: &Path, folder: &Path, lang: &str) -> Result<PathBuf> {
    let new = Command::new(std::path::absolute(controller)?)
        .args(["policy", "new", "most-memory", "--kind", "allocation", "--lang", lang])
        .current_dir(folder)
        .output()?;
    ensure!(new.status.success(), "{}", String::from_utf8_lossy(&new.stderr));
    let folder = folder.join("most-memory");
    let built = Command::new("./build.sh").current_dir(&folder).output()?;
    ensure!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Ok(folder.join("most-memory.wasm"))
}

fn loader(controller: &Path, cache: &Path) -> Result<Loader> {
    let compiler = Compiler::Child(controller.to_owned());
    let loader = Loader::new(Engine::new()?, compiler, Metrics::default());
    Ok(loader.keeping(Some(CompiledCache::open(cache)?)))
}

fn order() -> Order {
    Order::of(Kind::Allocation)
}

async fn one(
    controller: &Path,
    lang: &'static str,
    wasm: Vec<u8>,
    cache: &Path,
) -> Result<Language> {
    let bytes = wasm.len();
    let load_ms = {
        let loaded =
            loader(controller, cache)?.load(order(), wasm.clone(), Health::default()).await?;
        loaded.load_millis()
    };
    let loader = loader(controller, cache)?;
    let before = resident_mib()?;
    let loaded = loader.load(order(), wasm, Health::default()).await?;
    let rss_mib = resident_mib()? - before;
    let (rank_100_p50_ms, rank_100_p99_ms) = ranked(&loaded, 100)?;
    let (rank_1000_p50_ms, rank_1000_p99_ms) = ranked(&loaded, 1000)?;
    Ok(Language {
        lang,
        bytes,
        load_ms,
        load_cached_ms: loaded.load_millis(),
        rank_100_p50_ms,
        rank_100_p99_ms,
        rank_1000_p50_ms,
        rank_1000_p99_ms,
        rss_mib,
        memory_mib: loaded.memory_peak() as f64 / f64::from(1 << 20),
    })
}

fn ranked(loaded: &Arc<Loaded>, machines: u32) -> Result<(f64, f64)> {
    let (request, candidates) = rule::question(machines);
    let question = Question::Rank { request, candidates };
    let mut times = Vec::new();
    let end = Instant::now() + Duration::from_secs(3);
    while times.len() < 100 || Instant::now() < end {
        let begun = Instant::now();
        let answer = loaded.ask_here(&question).map_err(|refused| anyhow::anyhow!("{refused}"))?;
        times.push(begun.elapsed().as_secs_f64() * 1000.0);
        let Answer::Ranked(ranking) = answer else { anyhow::bail!("no ranking") };
        ensure!(ranking.order.len() == machines as usize, "some are missing");
    }
    times.sort_by(f64::total_cmp);
    Ok((times[times.len() / 2], times[times.len() * 99 / 100]))
}

/// Two components take turns in one place, compiled anew each time, and each is asked once.
pub(crate) async fn reload(controller: &Path, components: &Path, reloads: u32) -> Result<Reloads> {
    let compiler = Compiler::Child(controller.to_owned());
    let loader = Loader::new(Engine::new()?, compiler, Metrics::default());
    let read = |name: &str| std::fs::read(components.join(name)).context("a component");
    let two = [read("allocation-default.wasm")?, read("allocation-zone-spread.wasm")?];
    let (request, _) = rule::question(1);
    let question = Question::Shortlist(request);
    let (mut first, mut tenth) = (0.0, 0.0);
    // The one in use is dropped only when the next has taken its place.
    let mut current: Option<Arc<Loaded>> = None;
    for n in 0..reloads {
        let wasm = two[n as usize % 2].clone();
        let expected = digest(&wasm);
        let loaded = loader.load(order(), wasm, Health::default()).await?;
        ensure!(loaded.id().digest == expected, "another component");
        loaded.ask(question.clone()).await.map_err(|refused| anyhow::anyhow!("{refused}"))?;
        current = Some(loaded);
        match n {
            10 => first = resident_mib()?,
            n if n == reloads / 10 => tenth = resident_mib()?,
            _ => {}
        }
    }
    drop(current);
    let (rss_first_mib, rss_after_a_tenth_mib, rss_last_mib) = (first, tenth, resident_mib()?);
    Ok(Reloads { reloads, rss_first_mib, rss_after_a_tenth_mib, rss_last_mib })
}

fn resident_mib() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).context("Linux tells it")?;
    let kib: f64 = line.split_whitespace().nth(1).context("a number")?.parse()?;
    Ok(kib / 1024.0)
}
