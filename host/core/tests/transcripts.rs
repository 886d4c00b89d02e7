//! Stories as transcripts: what was seen, what was answered, and every step that followed.
//!
//! Each file in `tests/transcripts` replays byte for byte. After an intended change of behaviour,
//! `UPDATE_TRANSCRIPTS=1 cargo test -p capmaas-core --test transcripts` writes them anew; the
//! difference is then read like any other change.

mod stories;
mod world;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use capmaas_core::{Reply, Step, cluster, machine};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts")
}

fn updating() -> bool {
    std::env::var_os("UPDATE_TRANSCRIPTS").is_some()
}

fn files() -> BTreeSet<PathBuf> {
    let entries = std::fs::read_dir(folder()).expect("the folder of transcripts");
    entries.map(|e| e.expect("an entry").path()).filter(|p| p.extension().is_some()).collect()
}

/// Pretty, with sorted keys whatever features serde_json was built with.
fn text(value: &Value) -> String {
    fn sorted(value: &Value) -> Value {
        match value {
            Value::Object(map) => {
                let mut keys: Vec<&String> = map.keys().collect();
                keys.sort();
                keys.into_iter().map(|k| (k.clone(), sorted(&map[k]))).collect()
            }
            Value::Array(list) => list.iter().map(sorted).collect(),
            other => other.clone(),
        }
    }
    serde_json::to_string_pretty(&sorted(value)).expect("JSON") + "\n"
}

/// One reconcile, told again from its snapshot and its replies alone.
fn replayed(recorded: &Value) -> Value {
    let replies: Vec<Reply> = serde_json::from_value(recorded["replies"].clone()).expect("replies");
    let of = recorded["of"].as_str().expect("a kind");
    let (snapshot, steps) = match of {
        "MaasMachine" => again(recorded, &replies, machine::next),
        "MaasCluster" => again(recorded, &replies, cluster::next),
        other => panic!("no reconcile of {other}"),
    };
    json!({ "of": of, "snapshot": snapshot, "replies": replies, "steps": steps })
}

fn again<N: DeserializeOwned + Serialize, S: Serialize>(
    recorded: &Value,
    replies: &[Reply],
    next: impl Fn(&N, &[Reply]) -> Step<S>,
) -> (Value, Vec<Value>) {
    let snapshot: N = serde_json::from_value(recorded["snapshot"].clone()).expect("a snapshot");
    let steps = (0..=replies.len()).map(|n| json!(next(&snapshot, &replies[..n]))).collect();
    (json!(snapshot), steps)
}

#[test]
fn every_transcript_replays_byte_for_byte() {
    if updating() {
        return;
    }
    let mut reconciles = 0;
    for path in files() {
        let recorded = std::fs::read_to_string(&path).expect("a transcript");
        let mut document: Value = serde_json::from_str(&recorded).expect("JSON");
        for reconcile in document["reconciles"].as_array_mut().expect("reconciles") {
            *reconcile = replayed(reconcile);
            reconciles += 1;
        }
        let told = text(&document);
        assert!(told == recorded, "{}", first_difference(&path, &recorded, &told));
    }
    assert!(reconciles > 0, "no transcript was found");
}

#[test]
fn every_story_still_goes_as_it_is_written_down() {
    let mut written = BTreeSet::new();
    for story in stories::all() {
        let path = folder().join(format!("{}.json", story.name));
        let told = text(&story.document());
        if updating() {
            std::fs::write(&path, &told).expect("the transcript is written");
        }
        let recorded = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(told == recorded, "{}", first_difference(&path, &recorded, &told));
        assert!(written.insert(path), "two stories are called {}", story.name);
    }
    if updating() {
        for stray in files().difference(&written) {
            std::fs::remove_file(stray).expect("the transcript is removed");
        }
    }
    assert_eq!(files(), written, "a transcript without a story");
}

fn first_difference(path: &Path, recorded: &str, told: &str) -> String {
    let mut lines = recorded.lines().zip(told.lines()).enumerate();
    let (line, (was, is)) =
        lines.find(|(_, (was, is))| was != is).unwrap_or((0, ("another end", "")));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!("{name}, line {}:\n  was {was}\n  is  {is}", line + 1)
}
