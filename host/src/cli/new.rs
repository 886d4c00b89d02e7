use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use super::passed;

/// A policy to be begun.
#[derive(Args, Debug)]
pub struct NewArgs {
    /// Its name: 1-63 of a-z, 0-9 and -. A folder by this name is made.
    pub name: String,
    /// What it decides.
    #[arg(long, value_enum)]
    pub kind: PolicyKind,
    /// What it is written in.
    #[arg(long, value_enum, default_value_t)]
    pub lang: Language,
    /// Folder in which the folder is made.
    #[arg(long, default_value = ".")]
    pub dir: PathBuf,
}

/// What a policy decides.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyKind {
    /// Which machine to take.
    Allocation,
    /// How to name a cluster's endpoint.
    DnsNaming,
    /// What to do when something fails.
    FailureHandling,
}

/// What a policy is written in.
#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Language {
    /// Small and quick.
    #[default]
    Rust,
    /// With componentize-py.
    Python,
    /// With componentize-qjs.
    Js,
}

const WIT: &str = include_str!("../../../wit/policy.wit");
const REQUIREMENTS: &str = include_str!("../../../plugins/python/requirements.txt");
const PACKAGE: &str = include_str!("../../../plugins/javascript/package.json");
const PACKAGE_LOCK: &str = include_str!("../../../plugins/javascript/package-lock.json");

/// Path below the folder, content, and whether it is run.
type Content = (&'static str, &'static str, bool);

macro_rules! template {
    ($name:literal) => {
        include_str!(concat!("templates/", $name))
    };
}

pub(super) fn new(args: &NewArgs) -> Result<ExitCode> {
    check_name(&args.name)?;
    let folder = args.dir.join(&args.name);
    if folder.exists() {
        bail!("{} is there already: give another name, or remove it", folder.display());
    }
    for (path, content, run) in contents(args.kind, args.lang) {
        write(&folder.join(path), &filled(content, args), run)?;
    }
    let shown = folder.display();
    println!("{shown} is a policy of kind {} in {}:", args.kind.word(), args.lang.word());
    println!("  {:38} what it decides", source(args.lang));
    println!("  {:38} what it answers to what", "cases/first.json");
    println!("  {:38} the contract, line by line", "wit/policy.wit");
    println!("next: cd {shown} && ./build.sh");
    Ok(passed(true))
}

fn check_name(name: &str) -> Result<()> {
    let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let sound = (1..=63).contains(&name.len())
        && name.bytes().all(letter)
        && name.as_bytes()[0].is_ascii_lowercase()
        && !name.ends_with('-');
    if !sound {
        bail!("{name:?} cannot name a policy: 1-63 of a-z, 0-9 and -, a letter first");
    }
    Ok(())
}

fn contents(kind: PolicyKind, lang: Language) -> Vec<Content> {
    use Language::{Js, Python, Rust};
    use PolicyKind::{Allocation, DnsNaming, FailureHandling};
    let source = match (lang, kind) {
        (Rust, Allocation) => template!("rust/allocation.rs"),
        (Rust, DnsNaming) => template!("rust/dns_naming.rs"),
        (Rust, FailureHandling) => template!("rust/failure_handling.rs"),
        (Python, Allocation) => template!("python/allocation.py"),
        (Python, DnsNaming) => template!("python/dns_naming.py"),
        (Python, FailureHandling) => template!("python/failure_handling.py"),
        (Js, Allocation) => template!("javascript/allocation.js"),
        (Js, DnsNaming) => template!("javascript/dns_naming.js"),
        (Js, FailureHandling) => template!("javascript/failure_handling.js"),
    };
    let case = match kind {
        Allocation => template!("allocation.json"),
        DnsNaming => template!("dns_naming.json"),
        FailureHandling => template!("failure_handling.json"),
    };
    let mut all = vec![
        (self::source(lang), source, false),
        ("cases/first.json", case, false),
        ("wit/policy.wit", WIT, false),
        ("policy.yaml", template!("policy.yaml"), false),
        (".gitignore", template!("gitignore"), false),
    ];
    match lang {
        Rust => {
            all.push(("Cargo.toml", template!("rust/Cargo.toml.txt"), false));
            all.push(("build.sh", template!("rust/build.sh"), true));
        }
        Python => {
            all.push(("requirements.txt", REQUIREMENTS, false));
            all.push(("build.sh", template!("python/build.sh"), true));
        }
        Js => {
            all.push(("package.json", PACKAGE, false));
            all.push(("package-lock.json", PACKAGE_LOCK, false));
            all.push(("build.sh", template!("javascript/build.sh"), true));
        }
    }
    all
}

fn source(lang: Language) -> &'static str {
    match lang {
        Language::Rust => "src/lib.rs",
        Language::Python => "app.py",
        Language::Js => "app.js",
    }
}

fn filled(content: &str, args: &NewArgs) -> String {
    content
        .replace("@NAME@", &args.name)
        .replace("@WORLD@", &format!("{}-policy", args.kind.word()))
        .replace("@KIND@", args.kind.object())
}

fn write(path: &Path, content: &str, run: bool) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let made = || format!("cannot write {}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(made)?;
    }
    std::fs::write(path, content).with_context(made)?;
    if run {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
            .with_context(made)?;
    }
    Ok(())
}

impl PolicyKind {
    fn word(self) -> &'static str {
        match self {
            Self::Allocation => "allocation",
            Self::DnsNaming => "dns-naming",
            Self::FailureHandling => "failure-handling",
        }
    }

    /// As `spec.kind` has it.
    fn object(self) -> &'static str {
        match self {
            Self::Allocation => "Allocation",
            Self::DnsNaming => "DnsNaming",
            Self::FailureHandling => "FailureHandling",
        }
    }
}

impl Language {
    fn word(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
            Self::Python => "Python",
            Self::Js => "JavaScript",
        }
    }
}
