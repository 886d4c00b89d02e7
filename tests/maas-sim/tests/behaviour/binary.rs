//! The binary.

use crate::common::Caller;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

fn start(arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_maas-sim"));
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the binary")
}

#[tokio::test]
async fn the_binary_says_where_it_is_and_ends_when_told() {
    let mut child = start(&["--listen", "127.0.0.1:0", "--version", "3.6.5", "--speed", "60"]);
    let mut stdout = BufReader::new(child.stdout.take().expect("its output"));
    let mut line = String::new();
    stdout.read_line(&mut line).expect("a line");
    let said: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(said.as_object().map(|o| o.len()), Some(2));
    let (url, key) =
        (said["url"].as_str().expect("url"), said["api_key"].as_str().expect("api_key"));
    let admin = Caller::new(url, key);
    assert_eq!(admin.get("/version/").await.str("version"), "3.6.5");
    assert_eq!(admin.get("/users/?op=whoami").await.str("username"), "admin");
    let told =
        Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill");
    assert!(told.success());
    assert_eq!(child.wait().expect("an end").code(), Some(0));
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).expect("the rest");
    assert_eq!(rest, "", "exactly one line");
}

#[test]
fn the_binary_names_the_field_of_a_bad_inventory() {
    let path = std::env::temp_dir().join(format!("maas-sim-bad-{}.yaml", std::process::id()));
    std::fs::write(&path, "machines: [{hostname: a, cores: 1, memory: 1, pool: nowhere}]")
        .expect("a file");
    let output =
        start(&["--inventory", path.to_str().expect("a path")]).wait_with_output().expect("an end");
    std::fs::remove_file(&path).expect("removed");
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("machines[0]") && error.contains("nowhere"), "{error}");
}
