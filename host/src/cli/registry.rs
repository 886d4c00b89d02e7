use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;

use super::workbench::{Workbench, component};
use super::{Output, Printing, passed, print_json};
use crate::policy::{digest, oci};

/// How a registry is reached. Credentials are those of docker: $DOCKER_CONFIG, $REGISTRY_AUTH_FILE, ~/.docker/config.json.
#[derive(Args, Debug)]
pub struct AccessArgs {
    /// Speak plain HTTP: everybody on the way sees the credentials.
    #[arg(long)]
    pub plain_http: bool,
    /// PEM file with certificate authorities to trust beside the system's.
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
}

/// A component to be pushed.
#[derive(Args, Debug)]
pub struct PushArgs {
    /// The component.
    pub component: PathBuf,
    /// Where to, for example registry.example.com/team/policy:1.2.
    pub reference: String,
    /// How the registry is reached.
    #[command(flatten)]
    pub access: AccessArgs,
    /// What to print, and how.
    #[command(flatten)]
    pub printing: Printing,
}

/// A component to be pulled.
#[derive(Args, Debug)]
pub struct PullArgs {
    /// What, for example registry.example.com/team/policy:1.2 or …@sha256:….
    pub reference: String,
    /// The file it is written to.
    #[arg(long, short = 'f', value_name = "FILE")]
    pub to: PathBuf,
    /// How the registry is reached.
    #[command(flatten)]
    pub access: AccessArgs,
    /// What to print, and how.
    #[command(flatten)]
    pub printing: Printing,
}

fn access(args: &AccessArgs) -> Result<oci::Access> {
    let read = |file: &PathBuf| {
        std::fs::read(file).with_context(|| format!("cannot read --ca-file {}", file.display()))
    };
    let ca_pem = args.ca_file.as_ref().map(read).transpose()?;
    let (keychain, plain_http) = (oci::Keychain::of_user()?, args.plain_http);
    Ok(oci::Access { keychain, ca_pem, plain_http, ..oci::Access::default() })
}

pub(super) async fn push(args: &PushArgs) -> Result<ExitCode> {
    let reference: oci::Reference = args.reference.parse()?;
    let wasm = component(&args.component)?;
    // What no controller would load is not worth pushing.
    let opened = Workbench::new()?.open(&args.component).await?;
    let description = opened.description();
    let annotations = BTreeMap::from([
        ("org.opencontainers.image.title".to_owned(), description.name.clone()),
        ("org.opencontainers.image.version".to_owned(), description.version.clone()),
        ("org.opencontainers.image.description".to_owned(), description.summary.clone()),
    ]);
    let component_digest = digest(&wasm);
    let pushed = oci::push(&reference, &access(&args.access)?, wasm, &annotations).await?;
    match args.printing.output {
        Output::Json => print_json(&json!({
            "reference": reference.to_string(),
            "digest": pushed.to_string(),
            "component": component_digest,
        }))?,
        Output::Text => {
            println!("pushed {reference}");
            println!("digest {pushed} (of the manifest: this is what a MaasPolicy pins)");
            println!("holds  {component_digest} (the component)");
            let image = format!("{}/{}", reference.registry(), reference.repository());
            println!(
                "next: in the MaasPolicy, source: {{oci: {{image: {image}, digest: \"{pushed}\"}}}}"
            );
        }
    }
    Ok(passed(true))
}

pub(super) async fn pull(args: &PullArgs) -> Result<ExitCode> {
    let reference: oci::Reference = args.reference.parse()?;
    let pulled = oci::pull(&reference, &access(&args.access)?, None).await?;
    let shown = args.to.display();
    std::fs::write(&args.to, &pulled.wasm).with_context(|| format!("cannot write {shown}"))?;
    match args.printing.output {
        Output::Json => print_json(&json!({
            "reference": reference.to_string(),
            "digest": pulled.manifest_digest.to_string(),
            "component": digest(&pulled.wasm),
            "file": args.to,
        }))?,
        Output::Text => {
            println!("pulled {reference} to {shown} ({} bytes)", pulled.wasm.len());
            println!("digest {} (of the manifest)", pulled.manifest_digest);
            println!("next: capmaas policy inspect {shown}");
        }
    }
    Ok(passed(true))
}
