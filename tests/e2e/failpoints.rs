//! `kill -9` at every step of a start and a deployment, one after the other, until a deployment
//! passes without dying.
//!
//! The steps are those of the store, which counts everything that it does on disk, those of the
//! audit log, of which a new file is begun on the way, the control socket, and the phases of a
//! deployment.

use crate::client::Client;
use crate::harness::{Process, config_text, flow_set, page, program, public, run_command};
use serde_json::Value as Json;
use std::fs;
use std::path::Path;
use tempfile::{TempDir, tempdir};

/// The audit log begins a new file every few lines.
fn lines() -> String {
    public(&["/a", "/b"]) + "[audit]\nrotate_size = \"1KiB\"\nkeep = 3\nkeep_for = \"1s\"\n"
}

/// Both tabs carry the text, so that a torn flow set shows.
fn flows(text: &str) -> Json {
    let mut flows = flow_set(&[page("a", "/a", text), page("b", "/b", text)]);
    flows[1]["credentials"] = serde_json::json!({ "secret": text });
    flows
}

/// The same as `GET /flows` tells it.
fn flows_of(text: &str) -> Json {
    flow_set(&[page("a", "/a", text), page("b", "/b", text)])
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir_all(&target).unwrap();
            copy(&entry.path(), &target);
        } else if entry.file_type().unwrap().is_file() {
            // What else there is, the control socket, is made anew.
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A directory in which `old` was deployed twice, and the process was killed: with a token, backups
/// and a log to recover.
async fn used() -> (TempDir, String, String) {
    let directory = tempdir().unwrap();
    let process = Process::start(&lines(), directory.path());
    let token = process.sign_in("admin").await;
    process.deploy(&token, &flows("older")).await;
    let rev = process.deploy(&token, &flows("old")).await;
    process.signal("KILL");
    process.end();
    (directory, token, rev)
}

/// What a deployment of `new` comes to when the process dies at a step.
#[derive(Debug, PartialEq)]
enum Outcome {
    DiedAtStart,
    DiedWhileDeploying,
    Acknowledged(String),
}

async fn deploy_and_die(directory: &Path, token: &str, step: u32) -> Outcome {
    let mut command = program(directory, &["run"]);
    command.env("FLOWGATE_KILL_AT_STEP", step.to_string());
    let Ok(process) = Process::launch(command, directory) else {
        return Outcome::DiedAtStart;
    };
    let request = process.deployment(token, &flows("new"), None);
    let outcome = match request.try_send().await {
        Ok(answer) => Outcome::Acknowledged(answer.rev()),
        Err(_) => Outcome::DiedWhileDeploying,
    };
    process.signal("KILL");
    process.end();
    outcome
}

/// All of the old or all of the new flow set is there, by its revision, its flows and what runs.
async fn found(client: &Client, token: &str, step: u32) -> (String, String) {
    assert!(
        client.accepts_token(token).await,
        "step {step}: the token is lost"
    );
    let active = client.flows(token).await;
    let text = active["flows"][2]["template"].as_str().unwrap().to_owned();
    assert!(text == "old" || text == "new", "step {step}: {text}");
    assert_eq!(active["flows"], flows_of(&text), "step {step}: torn");
    for path in ["/a", "/b"] {
        let shown = client.get(path).send().await.text();
        assert_eq!(shown, text, "step {step}: not what runs");
    }
    (text, active["rev"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn kill_9_at_every_step_leaves_all_of_the_old_or_all_of_the_new() {
    let (start, token, old) = used().await;
    let mut outcomes = Vec::new();
    let mut seen = Vec::new();
    for step in 1.. {
        let directory = tempdir().unwrap();
        copy(start.path(), directory.path());
        let outcome = deploy_and_die(directory.path(), &token, step).await;

        let process = Process::start(&lines(), directory.path());
        let (text, rev) = found(&process, &token, step).await;
        assert_eq!(text == "old", rev == old, "step {step}: another revision");
        let again = process.deploy(&token, &flows("next")).await;
        assert_eq!(process.flows(&token).await["rev"], *again);
        process.signal("TERM");
        assert_eq!(process.end().code(), Some(0), "step {step}");
        let (verified, output) = run_command(program(directory.path(), &["audit", "verify"]));
        assert_eq!(verified, Some(0), "step {step}: {output}");
        let stray: Vec<_> = fs::read_dir(directory.path().join("data"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.contains(".new") || name.ends_with("-wal"))
            .collect();
        assert_eq!(stray, [""; 0], "step {step}");

        seen.push(text);
        if let Outcome::Acknowledged(acknowledged) = &outcome {
            assert_eq!(*acknowledged, rev, "what was acknowledged is there");
            break;
        }
        outcomes.push(outcome);
    }
    // The audit log is written beside the store, so that the same step is not always the same.
    assert_eq!(seen.first().map(String::as_str), Some("old"));
    assert_eq!(seen.last().map(String::as_str), Some("new"));
    let died = |how| outcomes.iter().filter(|o| **o == how).count();
    assert!(died(Outcome::DiedAtStart) >= 3, "{outcomes:?}");
    assert!(died(Outcome::DiedWhileDeploying) >= 20, "{outcomes:?}");
    let new = seen.iter().filter(|text| *text == "new").count();
    assert!(new >= 8, "{seen:?}");
}

#[tokio::test]
async fn kill_9_at_every_step_of_a_first_start_leaves_a_directory_that_starts() {
    for step in 1.. {
        let directory = tempdir().unwrap();
        fs::write(directory.path().join("gateway.toml"), config_text("")).unwrap();
        let mut command = program(directory.path(), &["run"]);
        command.env("FLOWGATE_KILL_AT_STEP", step.to_string());
        let came_up = Process::launch(command, directory.path()).is_ok();
        let process = Process::start("", directory.path());
        let token = process.sign_in("admin").await;
        process.deploy(&token, &flows("new")).await;
        if came_up {
            assert!(step > 5, "only {step} steps");
            return;
        }
    }
}
