//! What the documentation says is there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use capmaas::config::Cli;
use capmaas_api::MaasPolicy;
use clap::CommandFactory;
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every file below the folder with this ending, without what is built.
fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let built = name.starts_with('.') || ["target", "dist", "node_modules"].contains(&&*name);
        if path.is_dir() && !path.is_symlink() && !built {
            files(&path, ending, found);
        } else if name.ends_with(ending) {
            found.push(path);
        }
    }
}

fn all(ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(&root(), ending, &mut found);
    found
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Targets of `[text](target)`.
fn links(text: &str) -> Vec<&str> {
    let after = text.split("](").skip(1);
    after.filter_map(|rest| rest.split(')').next()).collect()
}

#[test]
fn b085_every_link_in_the_documentation_leads_somewhere() {
    let mut followed = 0;
    for page in all(".md") {
        let text = read(&page);
        for link in links(&text) {
            if link.contains("://") {
                continue;
            }
            let (file, section) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() {
                page.clone()
            } else {
                page.parent().expect("a folder").join(file)
            };
            assert!(target.exists(), "{} links to {link}", page.display());
            if !section.is_empty() {
                assert!(
                    headings(&read(&target)).contains(section),
                    "{} links to {link}",
                    page.display()
                );
            }
            followed += 1;
        }
    }
    assert!(followed > 20, "only {followed} links were found");
}

/// Names by which sections can be linked to.
fn headings(text: &str) -> BTreeSet<String> {
    let titles = text.lines().filter(|l| l.starts_with('#')).map(|l| l.trim_start_matches('#'));
    let name = |title: &str| -> String {
        let plain = title.trim().to_lowercase();
        let kept = plain.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    titles.map(name).collect()
}

#[test]
fn b085_every_make_target_in_the_documentation_exists() {
    let makefile = read(&root().join("Makefile"));
    let mut named = BTreeSet::new();
    for page in all(".md") {
        for words in read(&page).split("`make ").skip(1) {
            let target = words.split([' ', '`', '\n']).next().unwrap_or_default();
            named.insert(target.to_owned());
        }
    }
    assert!(named.contains("test") && named.len() > 3, "{named:?}");
    for target in named {
        let said = makefile.contains(&format!("\n{target}:"));
        assert!(said, "make {target} does not exist");
    }
}

/// Whatever is written is also what is read: a field that is misspelt gets lost.
fn kept(written: &Value, read: &Value) -> bool {
    match (written, read) {
        (Value::Object(written), Value::Object(read)) => {
            written.iter().all(|(key, value)| read.get(key).is_some_and(|r| kept(value, r)))
        }
        _ => written == read,
    }
}

#[test]
fn every_policy_in_the_documentation_is_one() {
    let mut shown = vec![read(&root().join("docs/examples/policy.yaml"))];
    for page in all(".md") {
        let page = read(&page);
        let blocks = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
        shown.extend(blocks.filter(|b| b.contains("kind: MaasPolicy")).map(str::to_owned));
    }
    assert!(shown.len() > 1, "the README shows one");
    for text in shown {
        let written: Value =
            serde_yaml_ng::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
        let policy = serde_json::from_value::<MaasPolicy>(written.clone());
        let read = serde_json::to_value(policy.unwrap_or_else(|e| panic!("{e}: {text}")));
        assert!(kept(&written, &read.expect("JSON")), "{text}");
    }
}

#[test]
fn every_flag_of_the_chart_and_every_flag_of_policies_in_the_documentation_exists() {
    let command = Cli::command();
    let flags: BTreeSet<&str> = command.get_arguments().filter_map(|a| a.get_long()).collect();
    let named = |text: &str, begins: &str| -> Vec<String> {
        let words = text.split("--").skip(1).map(|rest| {
            let end = |c: char| !(c.is_ascii_lowercase() || c == '-');
            rest.split(end).next().unwrap_or_default().trim_end_matches('-').to_owned()
        });
        words.filter(|w| w.starts_with(begins) && w.len() > 2).collect()
    };
    let deployment = read(&root().join("charts/capmaas/templates/deployment.yaml"));
    let mut all_named = named(&deployment, "");
    for page in all(".md") {
        let page = read(&page);
        for begins in ["default-", "decision-log", "policy-"] {
            all_named.extend(named(&page, begins));
        }
    }
    assert!(all_named.len() > 15, "{all_named:?}");
    for name in all_named {
        assert!(flags.contains(name.as_str()), "there is no flag --{name}");
    }
}

#[test]
fn every_metric_in_the_documentation_exists() {
    let source = read(&root().join("host/src/policy/metrics.rs"));
    let mut named = BTreeSet::new();
    for page in all(".md") {
        for rest in read(&page).split("capmaas_policy_").skip(1) {
            let end = |c: char| !(c.is_ascii_lowercase() || c == '_');
            named.extend(rest.split(end).next().map(str::to_owned));
        }
    }
    assert!(named.len() > 7, "{named:?}");
    for name in named {
        let registered = format!("\"{}\"", name.trim_end_matches("_total"));
        assert!(source.contains(&registered), "there is no metric capmaas_policy_{name}");
    }
}

/// Numbers in the name of a test: `r4_b063_…` shows case 63.
fn cases(test: &str) -> Vec<u32> {
    let number = |part: &str| {
        let digits = part.strip_prefix('b').filter(|d| d.len() == 3)?;
        digits.parse().ok()
    };
    test.split('_').filter_map(number).collect()
}

/// Every test with a case in its name.
fn tests_of_cases() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for source in all(".rs") {
        let text = read(&source);
        let mut marked = false;
        for line in text.lines().map(str::trim) {
            if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                marked = true;
            } else if let Some(rest) = line.split("fn ").nth(1).filter(|_| marked) {
                let name = rest.split(['(', '<']).next().unwrap_or_default();
                found.extend(Some(name.to_owned()).filter(|n| !cases(n).is_empty()));
                marked = false;
            }
        }
    }
    found
}

/// Case by case: the names in the last column, or the reason why there is none.
fn table() -> BTreeMap<u32, (Vec<String>, String)> {
    let page = read(&root().join("tests/field-cases.md"));
    let rows = page.lines().filter_map(|l| l.strip_prefix("| B"));
    let row = |line: &str| {
        let columns: Vec<&str> = line.split(" | ").collect();
        let [id, met, shown] = columns[..] else { panic!("three columns: {line}") };
        assert!(met.len() > 10, "{line}");
        let shown = shown.trim_end_matches(" |").to_owned();
        let names = shown.split('`').skip(1).step_by(2).map(str::to_owned);
        let names = names.filter(|n| !cases(n).is_empty()).collect();
        (id.parse().expect("a number"), (names, shown))
    };
    rows.map(row).collect()
}

#[test]
fn every_field_case_is_shown_by_a_test_or_says_why_not() {
    let (table, tests) = (table(), tests_of_cases());
    let known: Vec<u32> = (1..=141).step_by(2).collect();
    assert_eq!(table.keys().copied().collect::<Vec<_>>(), known, "each case has one row");
    for (id, (names, shown)) in &table {
        let reasoned = ["not yet: ", "does not apply"].iter().any(|w| shown.starts_with(w));
        assert!(names.is_empty() == reasoned, "B{id:03}: tests or a reason: {shown}");
        assert!(!reasoned || shown.len() > 50, "B{id:03}: a reason is a sentence: {shown}");
        for name in names {
            assert!(cases(name).contains(id), "B{id:03} is not in the name of {name}");
            assert!(tests.contains(name), "B{id:03}: there is no test {name}");
        }
    }
    for test in &tests {
        for id in cases(test) {
            let named = table.get(&id).is_some_and(|(names, _)| names.contains(test));
            assert!(named, "B{id:03}: the page does not name {test}");
        }
    }
}
