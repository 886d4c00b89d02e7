use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;

use super::case::{Case, Subject, files};
use super::workbench::Workbench;
use super::{Output, Printing, passed, print_json, table};

/// Golden cases to be measured.
#[derive(Args, Debug)]
pub struct BenchArgs {
    /// The component.
    pub component: PathBuf,
    /// A case, or a folder of cases. May be given several times.
    #[arg(long = "case", value_name = "FILE_OR_FOLDER", required = true)]
    pub cases: Vec<PathBuf>,
    /// Fail when a call takes longer than this in one of a hundred, milliseconds.
    #[arg(long, value_name = "MILLISECONDS")]
    pub budget: Option<f64>,
    /// How long each case is measured, seconds.
    #[arg(long, default_value_t = 1.0)]
    pub seconds: f64,
    /// What to print, and how.
    #[command(flatten)]
    pub printing: Printing,
}

/// What a case took. Times in microseconds.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Measured {
    case: String,
    calls: usize,
    p50_micros: f64,
    p99_micros: f64,
    memory_bytes: usize,
}

/// Calls before anything is measured.
const WARM: usize = 5;

pub(super) async fn bench(args: &BenchArgs) -> Result<ExitCode> {
    let files = files(&args.cases)?;
    let bench = Workbench::new()?;
    let begun = Instant::now();
    let opened = bench.open(&args.component).await?;
    let load = begun.elapsed();
    let mut all = Vec::new();
    for file in files {
        let case = Case::read(&file)?;
        let Subject::Question(question, _) = case.subject()? else { continue };
        let loaded = bench.configure(&opened, case.config()).await?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if let Err(refused) = loaded.ask_here(&question)
            && !["bad-config", "failed"].contains(&refused.category.as_str())
        {
            bail!("case {name}: {refused}");
        }
        (0..WARM).for_each(|_| drop(loaded.ask_here(&question)));
        let (end, mut times) = (Instant::now() + Duration::from_secs_f64(args.seconds), vec![]);
        while times.is_empty() || Instant::now() < end {
            let begun = Instant::now();
            let _ = loaded.ask_here(&question);
            times.push(begun.elapsed());
        }
        times.sort_unstable();
        all.push(Measured {
            case: name,
            calls: times.len(),
            p50_micros: at(&times, 0.5),
            p99_micros: at(&times, 0.99),
            memory_bytes: loaded.memory_peak(),
        });
    }
    let over = |m: &Measured| args.budget.is_some_and(|budget| m.p99_micros > budget * 1000.0);
    match args.printing.output {
        Output::Json => print_json(&serde_json::json!({
            "loadMillis": u64::try_from(load.as_millis()).unwrap_or(u64::MAX),
            "cases": all,
        }))?,
        Output::Text => {
            println!("loaded in {} ms (compiled before, if this is quick)", load.as_millis());
            let mut table = table(&["CASE", "CALLS", "P50", "P99", "MEMORY", ""]);
            for m in &all {
                let note = if over(m) { "over the budget" } else { "" };
                table.add_row([
                    m.case.clone(),
                    m.calls.to_string(),
                    format!("{:.0} µs", m.p50_micros),
                    format!("{:.0} µs", m.p99_micros),
                    format!("{} KiB", m.memory_bytes >> 10),
                    note.to_owned(),
                ]);
            }
            println!("{table}");
            println!(
                "next: capmaas policy replay DECISION_LOG {} (what it would have decided otherwise)",
                args.component.display()
            );
        }
    }
    Ok(passed(!all.iter().any(over)))
}

/// The value below which this part of the sorted times lies, microseconds.
fn at(times: &[Duration], part: f64) -> f64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    let index = ((times.len() - 1) as f64 * part).round() as usize;
    times[index].as_secs_f64() * 1e6
}
