use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use capmaas_core::policy::Gate;
use clap::Args;
use serde_json::{Value, json};

use super::workbench::{Workbench, component};
use super::{Output, Printing, configuration, passed, print_json};
use crate::policy::{Loaded, digest, imports_and_exports};

/// A component to be shown.
#[derive(Args, Debug)]
pub struct InspectArgs {
    /// The component.
    pub component: PathBuf,
    /// What to print, and how.
    #[command(flatten)]
    pub printing: Printing,
}

/// A component to be taken through the gates.
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// The component.
    pub component: PathBuf,
    /// File with settings, JSON or YAML.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// What to print, and how.
    #[command(flatten)]
    pub printing: Printing,
}

pub(super) async fn inspect(args: &InspectArgs) -> Result<ExitCode> {
    let wasm = component(&args.component)?;
    let (imports, exports) = imports_and_exports(&wasm)?;
    let opened = Workbench::new()?.open(&args.component).await;
    let described = opened.as_ref().ok().map(described);
    let refused = opened.as_ref().err().map(|e| format!("{e:#}"));
    let shown = json!({
        "file": args.component,
        "bytes": wasm.len(),
        "digest": digest(&wasm),
        "imports": imports,
        "exports": exports,
        "policy": described,
        "refused": refused,
    });
    match args.printing.output {
        Output::Json => print_json(&shown)?,
        Output::Text => tell(&shown),
    }
    Ok(passed(refused.is_none()))
}

fn described(loaded: &Loaded) -> Value {
    let description = loaded.description();
    let schema: Value = serde_json::from_str(&description.config_schema).unwrap_or(Value::Null);
    json!({
        "kind": loaded.kind().word(),
        "name": description.name,
        "version": description.version,
        "summary": description.summary,
        "interface": format!("capmaas:policy@{}", loaded.interface()),
        "configSchema": schema,
        "loadMillis": loaded.load_millis(),
    })
}

fn tell(shown: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    println!("file       {} ({} bytes)", text(&shown["file"]), shown["bytes"]);
    println!("digest     {}", text(&shown["digest"]));
    for import in shown["imports"].as_array().into_iter().flatten() {
        let verdict = match import["refused"].as_str() {
            None => "allowed".to_owned(),
            Some(why) => format!("REFUSED: {why}"),
        };
        println!("imports    {}: {verdict}", text(&import["name"]));
    }
    for export in shown["exports"].as_array().into_iter().flatten() {
        println!("exports    {}", text(export));
    }
    let policy = &shown["policy"];
    if policy.is_object() {
        println!("policy     {} {}", text(&policy["name"]), text(&policy["version"]));
        println!("kind       {}", text(&policy["kind"]));
        println!("interface  {}", text(&policy["interface"]));
        println!("does       {}", text(&policy["summary"]));
        settings(&policy["configSchema"]);
    }
    if let Some(why) = shown["refused"].as_str() {
        println!("refused    {why}");
    }
}

fn settings(schema: &Value) {
    let Some(properties) = schema["properties"].as_object().filter(|p| !p.is_empty()) else {
        println!("settings   none");
        return;
    };
    for (name, one) in properties {
        let description = one["description"].as_str().unwrap_or_default();
        let default = match &one["default"] {
            Value::Null => String::new(),
            default => format!(" (without it: {default})"),
        };
        println!("setting    {name}: {description}{default}");
    }
}

pub(super) async fn check(args: &CheckArgs) -> Result<ExitCode> {
    let config = configuration(args.config.as_ref())?;
    let bench = Workbench::new()?;
    let checked = match bench.open(&args.component).await {
        Ok(opened) => bench.configure(&opened, &config).await.map_err(anyhow::Error::from),
        Err(refused) => Err(refused),
    };
    let rejected = checked.as_ref().err();
    let gate =
        rejected.and_then(|e| e.chain().find_map(|c| c.downcast_ref::<crate::policy::Rejected>()));
    let gate = gate.map(|rejected| rejected.gate);
    match args.printing.output {
        Output::Json => print_json(&json!({
            "passed": rejected.is_none(),
            "gate": gate.map(Gate::condition),
            "problem": rejected.map(|e| format!("{e:#}")),
            "policy": checked.as_ref().ok().map(described),
        }))?,
        Output::Text => match &checked {
            Ok(loaded) => {
                println!("{} passes every gate as a policy of kind {}", loaded.id(), loaded.kind());
                println!(
                    "next: its golden cases, capmaas policy run {} --case cases",
                    args.component.display()
                );
            }
            Err(error) => {
                let at = gate.map_or("", Gate::condition);
                println!("refused at gate {at}: {error:#}");
            }
        },
    }
    Ok(passed(rejected.is_none()))
}
