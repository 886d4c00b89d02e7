//! A test guest of all three kinds that misbehaves on purpose. Its configuration, a JSON text of two
//! words, says how and towards which cluster: `"spin blue"`. All other clusters are served well.

wit_bindgen::generate!({
    path: "../../../wit",
    inline: "
        package tests:hostile;
        world everything {
            include capmaas:policy/allocation-policy@0.1.0;
            include capmaas:policy/dns-naming-policy@0.1.0;
            include capmaas:policy/failure-handling-policy@0.1.0;
        }
    ",
    world: "tests:hostile/everything",
    generate_all,
});

use capmaas::policy::host::{Level, log};
use capmaas::policy::types::{Context, Delay, Refusal};
use exports::capmaas::policy::allocation::{
    Candidate, Constraints, Guest as Allocation, Ranking, Rejection, Request, Shortlisting,
};
use exports::capmaas::policy::dns_naming::{Guest as DnsNaming, Name, Request as NameRequest};
use exports::capmaas::policy::failure_handling::{
    Action, Failure, Guest as FailureHandling, Replacement,
};
use exports::capmaas::policy::metadata::{Description, Guest as Metadata, Issue};

struct Policy;

/// The words of the configuration: `"spin blue"`, or `{"how":"spin blue"}` where only an object will do.
fn configured(config: &str) -> &str {
    let inner = config.strip_prefix(r#"{"how":"#).and_then(|rest| rest.strip_suffix('}'));
    inner.unwrap_or(config).trim_matches('"')
}

/// How to treat this cluster; empty means well.
fn behaviour(context: &Context) -> String {
    let text = configured(&context.config);
    let (how, cluster) = text.split_once(' ').unwrap_or_default();
    if cluster == context.cluster { how.to_owned() } else { String::new() }
}

/// What every kind of policy can do.
fn misbehave(how: &str) {
    match how {
        "spin" => spin(),
        "recurse" => {
            recurse(&[0; 64]);
        }
        "grow" => grow(),
        "panic" => panic!("on purpose"),
        "flood" => (0..1_000_000).for_each(|_| log(Level::Info, "a line")),
        _ => {}
    }
}

fn spin() {
    let mut turns = 0_u64;
    loop {
        turns = std::hint::black_box(turns.wrapping_add(1));
    }
}

#[allow(unconditional_recursion)]
fn recurse(deep: &[u64; 64]) -> u64 {
    let mut more = *deep;
    more[(deep[0] % 64) as usize] += 1;
    recurse(std::hint::black_box(&more)) + more[1]
}

fn grow() {
    let mut kept = Vec::new();
    loop {
        kept.push(std::hint::black_box(vec![1_u8; 1 << 20]));
    }
}

/// Ten thousand strings of a megabyte, which are all the same megabyte.
fn aliases() -> Vec<String> {
    let text = "x".repeat(1 << 20);
    let (at, length) = (text.as_ptr().cast_mut(), text.len());
    std::mem::forget(text);
    // SAFETY: none; whoever frees two of them is lost. The host must not get so far.
    (0..10_000).map(|_| unsafe { String::from_raw_parts(at, length, length) }).collect()
}

fn zones(zones: Vec<String>) -> Constraints {
    let none = Vec::new;
    Constraints {
        min_cpu_cores: 0,
        min_memory_mib: 0,
        zones,
        pools: none(),
        tags: none(),
        not_zones: none(),
        not_pools: none(),
        not_tags: none(),
    }
}

fn endless(reason: &str) -> Delay {
    Delay { seconds: u32::MAX, reason: reason.into() }
}

impl Metadata for Policy {
    fn describe() -> Description {
        Description {
            name: "hostile".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "misbehaves".into(),
            config_schema: "{}".into(),
        }
    }

    fn check_config(config: String) -> Result<(), Vec<Issue>> {
        if configured(&config) != "flood-issues" {
            return Ok(());
        }
        let problem = format!("\u{1b}[2J{}", "y".repeat(100_000));
        Err(vec![Issue { pointer: "/\n".into(), problem }; 20])
    }
}

impl Allocation for Policy {
    fn shortlist(request: Request) -> Result<Shortlisting, Refusal> {
        let how = behaviour(&request.context);
        misbehave(&how);
        Ok(match how.as_str() {
            // A hundred megabytes in one list.
            "list" => Shortlisting::Narrow(zones(vec!["z".repeat(100); 1_000_000])),
            "aliases" => Shortlisting::Narrow(zones(aliases())),
            "many-names" => Shortlisting::Narrow(zones(vec!["z".into(); 1_001])),
            "long-name" => Shortlisting::Inspect(zones(vec!["z".repeat(10_000)])),
            "long-reason" => Shortlisting::Reject("\u{7}r".repeat(100_000)),
            "long-delay" => Shortlisting::Defer(endless("for good")),
            ranking if ranking.starts_with("rank-") => Shortlisting::Inspect(zones(vec![])),
            _ => Shortlisting::Narrow(zones(vec![])),
        })
    }

    fn rank(request: Request, candidates: Vec<Candidate>) -> Result<Ranking, Refusal> {
        let count = u32::try_from(candidates.len()).unwrap_or(u32::MAX);
        let rejection = |index| Rejection { index, reason: "not this one".into() };
        let (order, rejected) = match behaviour(&request.context).as_str() {
            "rank-twice" => (vec![0, 0], vec![]),
            "rank-outside" => (vec![count], vec![]),
            "rank-far-outside" => (vec![u32::MAX], vec![]),
            "rank-none" => (vec![], vec![]),
            "rank-rejected-outside" => (vec![], vec![rejection(count)]),
            "rank-rejected-too" => (vec![0], vec![rejection(0)]),
            "rank-flood" => (vec![0; 1_000_000], vec![]),
            _ => ((0..count).collect(), vec![]),
        };
        Ok(Ranking { order, rejected })
    }
}

impl DnsNaming for Policy {
    fn propose(request: NameRequest) -> Result<Option<Name>, Refusal> {
        let how = behaviour(&request.context);
        misbehave(&how);
        let label = match how.as_str() {
            "dots" => "api.example".into(),
            "odd" => "Äpi_*\u{1b}[2J".into(),
            "long" => "n".repeat(10_000),
            "empty" => String::new(),
            _ => request.suffix,
        };
        let domain = (how == "foreign").then(|| "example.com".to_owned());
        Ok(Some(Name { label, domain, ttl_seconds: None }))
    }
}

impl FailureHandling for Policy {
    fn handle(failure: Failure) -> Result<Action, Refusal> {
        let how = behaviour(&failure.context);
        misbehave(&how);
        Ok(match how.as_str() {
            "long-delay" => Action::Retry(endless(&"\u{7}d".repeat(100_000))),
            "long-replacement" => Action::ReleaseAndReplace(Replacement {
                delay: endless("for good"),
                avoid_seconds: Some(u32::MAX),
            }),
            _ => Action::UseDefault,
        })
    }
}

export!(Policy);
