use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use capmaas_core::Reply;
use capmaas_core::policy::{Answer, Ask, Question, Refused};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::words::{told, word};
use super::workbench::Workbench;
use super::{Output, Printing, configuration, print_json, table};
use crate::policy::{Kind, Loaded};

/// Decisions to be asked again.
#[derive(Args, Debug)]
pub struct ReplayArgs {
    /// A file of the controller's --decision-log.
    pub log: PathBuf,
    /// The component that is asked instead.
    pub component: PathBuf,
    /// File with its settings, JSON or YAML.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Only what this MaasPolicy (NAMESPACE/NAME) was asked; `built-in` for the built-in policies.
    #[arg(long, value_name = "POLICY")]
    pub policy: Option<String>,
    /// Show also what would have been the same.
    #[arg(long)]
    pub all: bool,
    /// What to print, and how.
    #[command(flatten)]
    pub printing: Printing,
}

/// A line of the decision log, as far as it is needed here.
#[derive(Deserialize)]
pub(super) struct Line {
    pub(super) at: u64,
    pub(super) snapshot: Value,
    pub(super) replies: Vec<Reply>,
    pub(super) steps: Vec<Value>,
}

impl Line {
    /// Kind, namespace and name of the object.
    pub(super) fn object(&self) -> (&str, &str, &str) {
        let object = &self.snapshot["object"];
        let meta = &object["metadata"];
        let [kind, namespace, name] = [&object["kind"], &meta["namespace"], &meta["name"]]
            .map(|text| text.as_str().unwrap_or_default());
        (kind, namespace, name)
    }

    /// What was asked, and what was given.
    pub(super) fn asked(&self) -> impl Iterator<Item = (Ask, Result<Answer, Refused>)> + '_ {
        self.steps.iter().zip(&self.replies).filter_map(|(step, reply)| {
            let ask: Ask = serde_json::from_value(step.get("ask")?.clone()).ok()?;
            let given = match reply {
                Reply::Answered(answered) => Ok(answered.answer.clone()),
                Reply::Refused(refused) => Err(refused.clone()),
                _ => return None,
            };
            Some((ask, given))
        })
    }
}

/// Every line of a log.
pub(super) fn lines(path: &PathBuf) -> Result<impl Iterator<Item = Result<Line>>> {
    let shown = path.display().to_string();
    let file = File::open(path).with_context(|| format!("cannot read decision log {shown}"))?;
    Ok(BufReader::new(file).lines().enumerate().map(move |(n, line)| {
        let at = || format!("{shown}, line {}", n + 1);
        serde_json::from_str(&line.with_context(at)?).with_context(at)
    }))
}

/// One question, asked again. `before` and `after` are answers, or `{"refused": …}`.
#[derive(Serialize)]
struct Again {
    at: u64,
    object: String,
    policy: String,
    question: &'static str,
    same: bool,
    before: Value,
    after: Value,
    #[serde(skip)]
    in_words: (String, String),
}

pub(super) async fn replay(args: &ReplayArgs) -> Result<ExitCode> {
    let config = configuration(args.config.as_ref())?;
    let bench = Workbench::new()?;
    let opened = bench.open(&args.component).await?;
    let loaded = bench.configure(&opened, &config).await?;
    let mut again = Vec::new();
    for line in lines(&args.log)? {
        let line = line?;
        let (kind, namespace, name) = line.object();
        let object = format!("{kind} {namespace}/{name}");
        for (ask, before) in line.asked() {
            let policy = if ask.policy.is_empty() { "built-in" } else { &ask.policy };
            if kind_of(&ask.question) != loaded.kind()
                || args.policy.as_ref().is_some_and(|wanted| wanted != policy)
            {
                continue;
            }
            let policy = policy.to_owned();
            again.push(asked_again(
                &loaded,
                &ask.question,
                &before,
                (line.at, object.clone(), policy),
            ));
        }
    }
    let different = again.iter().filter(|a| !a.same).count();
    let total = again.len();
    if !args.all {
        again.retain(|a| !a.same);
    }
    match args.printing.output {
        Output::Json => print_json(&serde_json::json!({
            "component": loaded.id().digest,
            "asked": total,
            "different": different,
            "decisions": again,
        }))?,
        Output::Text => tell(&loaded, &again, total, different),
    }
    Ok(ExitCode::SUCCESS)
}

fn asked_again(
    loaded: &Loaded,
    question: &Question,
    before: &Result<Answer, Refused>,
    (at, object, policy): (u64, String, String),
) -> Again {
    let after = loaded.ask_here(question);
    // Who refused, and in which words, is not the decision.
    let same = match (before, &after) {
        (Ok(before), Ok(after)) => before == after,
        (Err(before), Err(after)) => before.category == after.category,
        _ => false,
    };
    let in_words = (brief(question, before), brief(question, &after));
    let (before, after) = (shown(before), shown(&after));
    Again { at, object, policy, question: word(question), same, before, after, in_words }
}

fn tell(loaded: &Loaded, again: &[Again], total: usize, different: usize) {
    if !again.is_empty() {
        let mut table = table(&["WHEN", "OBJECT", "POLICY", "QUESTION", "BEFORE", "NOW"]);
        for a in again {
            let when = k8s_openapi::jiff::Timestamp::from_second(i64::try_from(a.at).unwrap_or(0));
            let when = when.map_or_else(|_| a.at.to_string(), |t| t.to_string());
            let row =
                [&when, &a.object, &a.policy, &a.question.to_owned(), &a.in_words.0, &a.in_words.1];
            table.add_row(row.map(String::as_str));
        }
        println!("{table}");
    }
    println!("{}: {different} of {total} answers would have been different", loaded.id());
    if again.iter().any(|a| !a.same && a.question == "shortlist") {
        println!(
            "A policy that wants to see the machines answers otherwise than one that leaves the choice to MAAS, \
             though both may come to the same machine: try it in shadow, where that is compared."
        );
    }
}

/// An answer in a few words.
fn brief(question: &Question, given: &Result<Answer, Refused>) -> String {
    let words = match given {
        Ok(answer) => told(question, answer).join("; "),
        Err(refused) => format!("no answer ({}): {}", refused.category, refused.message),
    };
    capmaas_core::bounded(&words, 160)
}

fn shown(given: &Result<Answer, Refused>) -> Value {
    match given {
        Ok(answer) => serde_json::json!(answer),
        Err(refused) => serde_json::json!({
            "refused": { "category": refused.category, "message": refused.message }
        }),
    }
}

fn kind_of(question: &Question) -> Kind {
    match question {
        Question::Shortlist(_) | Question::Rank { .. } => Kind::Allocation,
        Question::Name(_) => Kind::DnsNaming,
        Question::Handle(_) => Kind::FailureHandling,
    }
}
