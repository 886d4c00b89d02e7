use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use capmaas_core::policy::Answer;
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use super::case::{Case, Refusal, Subject, files};
use super::workbench::Workbench;
use super::{Output, Printing, passed, print_json};
use crate::policy::{Description, Loaded};

/// Golden cases to be asked.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// The component.
    pub component: PathBuf,
    /// A case, or a folder of cases. May be given several times.
    #[arg(long = "case", value_name = "FILE_OR_FOLDER", required = true)]
    pub cases: Vec<PathBuf>,
    /// Write down what the component answers as what is right from now on.
    #[arg(long)]
    pub update: bool,
    /// What to print, and how.
    #[command(flatten)]
    pub printing: Printing,
}

/// How one case went.
#[derive(Serialize)]
struct Outcome {
    case: String,
    description: String,
    passed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    given: Option<Value>,
}

pub(super) async fn run(args: &RunArgs) -> Result<ExitCode> {
    let files = files(&args.cases)?;
    let bench = Workbench::new()?;
    let opened = bench.open(&args.component).await?;
    let mut outcomes = Vec::new();
    for file in files {
        let mut case = Case::read(&file)?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut outcome = judge(&bench, &opened, &mut case, name).await;
        if args.update && !outcome.passed && outcome.problem.is_none() {
            case.write(&file)?;
            (outcome.passed, outcome.updated) = (true, Some(true));
        }
        outcomes.push(outcome);
    }
    let all = outcomes.iter().all(|o| o.passed);
    match args.printing.output {
        Output::Json => print_json(&outcomes)?,
        Output::Text => tell(args, &outcomes),
    }
    Ok(passed(all))
}

fn tell(args: &RunArgs, outcomes: &[Outcome]) {
    for outcome in outcomes {
        let Outcome { case, description, passed, updated, problem, expected, given } = outcome;
        let word = match (passed, updated) {
            (true, Some(true)) => "updated",
            (true, _) => "ok",
            (false, _) => "FAILED",
        };
        println!("{word:7} {case}: {description}");
        if let Some(problem) = problem {
            println!("        {problem}");
        }
        if let (false, Some(expected), Some(given)) = (passed, expected, given) {
            println!("        expected {expected}");
            println!("        given    {given}");
        }
    }
    let failed = outcomes.iter().filter(|o| !o.passed).count();
    let component = args.component.display();
    if failed == 0 {
        println!(
            "{} cases passed; next: capmaas policy bench {component} --case …",
            outcomes.len()
        );
    } else {
        println!(
            "{failed} of {} cases failed; if the new answers are right: capmaas policy run {component} \
             --case … --update",
            outcomes.len()
        );
    }
}

/// Asks a case, and puts into it what is given.
async fn judge(bench: &Workbench, opened: &Loaded, case: &mut Case, name: String) -> Outcome {
    let description = case.description.clone();
    let mut outcome = Outcome {
        case: name,
        description,
        passed: false,
        updated: None,
        problem: None,
        expected: None,
        given: None,
    };
    let seen = match case.subject() {
        Err(problem) => Err(problem),
        Ok(Subject::Description) => Ok(describe(opened, case)),
        Ok(Subject::Config) => issues(opened, case),
        Ok(Subject::Question(question, expected)) => {
            let asked = ask(bench, opened, case.config(), &question).await;
            asked.map(|given| {
                let pair = (expected.map(|e| value(&e)), value(&given));
                match given {
                    Ok(answer) => {
                        (case.answer, case.refused) = (serde_json::to_value(answer).ok(), None);
                    }
                    Err(refusal) => (case.answer, case.refused) = (None, Some(refusal)),
                }
                pair
            })
        }
    };
    match seen {
        Err(problem) => outcome.problem = Some(format!("{problem:#}")),
        Ok((expected, given)) => {
            outcome.passed = expected.as_ref() == Some(&given);
            outcome.expected = Some(expected.unwrap_or(Value::Null));
            outcome.given = Some(given);
        }
    }
    outcome
}

fn value(given: &Result<Answer, Refusal>) -> Value {
    match given {
        Ok(answer) => json!(answer),
        Err(refusal) => json!({ "refused": refusal }),
    }
}

fn describe(opened: &Loaded, case: &mut Case) -> (Option<Value>, Value) {
    let given: Description = opened.description().clone();
    let pair = (case.describe.as_ref().map(|d| json!(d)), json!(given));
    case.describe = Some(given);
    pair
}

fn issues(opened: &Loaded, case: &mut Case) -> Result<(Option<Value>, Value)> {
    let given = opened.issues_with(case.config());
    let given = given.map_err(|refused| anyhow::anyhow!("check-config: {refused}"))?;
    let pair = (case.config_issues.as_ref().map(|i| json!(i)), json!(given));
    case.config_issues = Some(given);
    Ok(pair)
}

/// Asks twice: the same question has to have the same answer.
async fn ask(
    bench: &Workbench,
    opened: &Loaded,
    config: &str,
    question: &capmaas_core::policy::Question,
) -> Result<Result<Answer, Refusal>> {
    let loaded = bench.configure(opened, config).await?;
    let once = loaded.ask_here(question).map_err(Refusal::from);
    let twice = loaded.ask_here(question).map_err(Refusal::from);
    if once != twice {
        anyhow::bail!(
            "it answers the same question differently: first {}, then {}. Iterating over a hash map, or \
             adding up floating-point numbers in another order, can be a reason",
            value(&once),
            value(&twice)
        );
    }
    Ok(once)
}
