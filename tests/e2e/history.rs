//! `flowgate history`: earlier deployments, beside the running gateway.

use crate::harness::{Process, flow_set, page, program};
use serde_json::Value as Json;
use std::path::Path;
use std::process::Stdio;

/// What the command prints, and what it complains of.
fn history(directory: &Path, arguments: &[&str]) -> (String, String) {
    let arguments = [&["history"], arguments].concat();
    let mut command = program(directory, &arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn earlier_deployments_are_listed_and_can_be_deployed_again() {
    let place = tempfile::tempdir().unwrap();
    let process = Process::start("", place.path());
    let token = process.sign_in("admin").await;
    let first = flow_set(&[page("a", "/a", "first")]);
    process.deploy(&token, &first).await;
    process
        .deploy(&token, &flow_set(&[page("a", "/a", "second")]))
        .await;

    let (list, _) = history(place.path(), &[]);
    let lines: Vec<Vec<&str>> = list
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0], ["revision", "deployed", "type", "user"]);
    assert_eq!(lines.len(), 3, "{list}");
    assert_eq!(lines[1][2..], ["full", "admin"]);
    let revision = lines[2][0];

    let (flows, _) = history(place.path(), &[&revision[..8]]);
    let flows: Json = serde_json::from_str(&flows).unwrap();
    assert_eq!(flows, first);
    process.deploy(&token, &flows).await;

    for (asked, complaint) in [
        ("nothing", "the history has no revision \"nothing\""),
        ("", "the history has 3 revisions that begin with \"\""),
    ] {
        let (printed, complained) = history(place.path(), &[asked]);
        assert_eq!(printed, "");
        assert!(complained.contains(complaint), "{complained}");
    }
}

#[test]
fn without_deployments_the_history_is_empty() {
    let place = tempfile::tempdir().unwrap();
    let (printed, complained) = history(place.path(), &[]);
    assert_eq!(printed, "");
    assert!(
        complained.contains("flowgate.db: entity not found"),
        "{complained}"
    );
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}
