//! Which flow is slow: profiles of the engine as JSON, for speedscope and in a terminal, and the
//! metrics of flows.

use crate::harness::{Gateway, Process, TEST_TIMEOUT, flow_set, page, program, until};
use crate::mock_upstream::{Action, MockUpstream};
use serde_json::{Value as Json, json};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use tokio::time::timeout;

/// A name that is markup, and controls a terminal.
const NAME: &str = "<script>\u{1b}[2J";

/// A tab with a function node that sends itself a message again, each time after two milliseconds
/// of work.
fn busy() -> Vec<Json> {
    let on = |id: &str, kind: &str, wires: &str| json!({ "id": id, "type": kind, "z": "busy", "x": 1, "y": 1, "wires": [[wires]] });
    let (start, mut work) = (
        on("start", "inject", "work"),
        on("work", "function", "work"),
    );
    work["name"] = NAME.into();
    work["func"] = "const end = Date.now() + 2; while (Date.now() < end) {} return msg".into();
    vec![
        json!({ "id": "busy", "type": "tab", "label": "A & B" }),
        start,
        work,
    ]
}

/// Deploys the busy tab beside a quiet one, and lets it run.
async fn run_busy(gateway: &crate::client::Client, token: &str) {
    let flows = flow_set(&[busy(), page("quiet", "/quiet", "here")]);
    gateway.deploy(token, &flows).await;
    let started = gateway.post("/inject/start").token(token).send().await;
    assert_eq!(started.status, 200);
}

/// Runs a command to its end, beside the gateway.
async fn output(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = program(directory, arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    finished(command).await
}

async fn finished(mut command: Command) -> Output {
    let done = tokio::task::spawn_blocking(move || command.output().unwrap());
    timeout(TEST_TIMEOUT, done).await.unwrap().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn the_node_that_uses_most_time_is_the_first_of_a_profile() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    run_busy(&gateway, &token).await;
    let answer = gateway
        .get("/gateway/profile?seconds=1")
        .token(&token)
        .send()
        .await;
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, "application/json; charset=utf-8")
    );
    let profile = answer.json();
    let seconds = |value: &Json| value.as_f64().unwrap();
    assert!(seconds(&profile["seconds"]) >= 1.0, "{profile}");
    let first = &profile["nodes"][0];
    let named =
        ["id", "type", "name", "flow", "flow_label"].map(|key| first[key].as_str().unwrap());
    assert_eq!(named, ["work", "function", NAME, "busy", "A & B"]);
    assert_eq!(first["path"], json!([]));
    // Each call sends one on, and the last one may not have ended.
    assert_eq!(
        (&first["outputs"], &first["errors"]),
        (&json!([first["messages"]]), &json!(0))
    );
    assert!(
        seconds(&first["seconds"]) > 0.3 && first["messages"].as_u64().unwrap() > 10,
        "{profile}"
    );
    assert!(
        seconds(&profile["busy_seconds"]) >= seconds(&first["seconds"]),
        "{profile}"
    );
    let nodes = profile["nodes"].as_array().unwrap();
    assert!(
        nodes.iter().all(|node| node["flow"] != "quiet"),
        "{profile}"
    );
    assert_eq!(
        profile["others"],
        json!({ "nodes": 0, "messages": 0, "seconds": 0.0 })
    );
}

#[tokio::test]
async fn a_profile_for_speedscope_has_the_names_of_tabs_and_nodes() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    run_busy(&gateway, &token).await;
    let path = "/gateway/profile?seconds=1&format=speedscope";
    let file = gateway.get(path).token(&token).send().await.json();
    let names = ["engine", "A & B", &format!("{NAME} (function)")];
    let frames = file["shared"]["frames"].as_array().unwrap();
    let frames: Vec<&Json> = frames.iter().map(|frame| &frame["name"]).collect();
    assert_eq!(frames[..3], names);
    let profile = &file["profiles"][0];
    assert_eq!(profile["samples"][0], json!([0, 1, 2]));
    assert!(profile["weights"][0].as_f64().unwrap() > 0.3, "{profile}");
}

#[tokio::test]
async fn a_duration_or_format_that_there_is_not_is_explained() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("reader").await;
    for (query, message) in [
        ("seconds=61", "seconds must be a whole number from 1 to 60"),
        ("seconds=ten", "seconds must be a whole number from 1 to 60"),
        ("seconds=1&format=png", "format must be json or speedscope"),
    ] {
        let path = format!("/gateway/profile?{query}");
        let answer = gateway.get(&path).token(&token).send().await;
        let expected = json!({ "code": "invalid_request", "message": message });
        assert_eq!((answer.status, answer.json()), (400, expected), "{query}");
    }
}

#[tokio::test]
async fn in_front_of_an_upstream_there_is_no_profile() {
    let upstream =
        MockUpstream::start(|_| Action::Respond(crate::mock_upstream::ok("text/plain", "here")))
            .await;
    let gateway = Gateway::with(&upstream.config());
    let token = gateway.sign_in("admin").await;
    upstream.take();
    let answer = gateway.get("/gateway/profile").token(&token).send().await;
    assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"));
    assert!(
        answer.text().contains("run in an upstream"),
        "{}",
        answer.text()
    );
    assert!(upstream.take().is_empty());
    let refused = output(gateway.directory.path(), &["top", "--once"]).await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused.stderr).contains("the flows run in an upstream"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn four_profiles_are_taken_at_a_time_and_those_of_disconnected_clients_end() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    let long = || gateway.get("/gateway/profile?seconds=60").token(&token);
    let mut pending: Vec<_> = (0..5).map(|_| tokio::spawn(long().try_send())).collect();
    until("one is refused", async || {
        pending.iter().any(tokio::task::JoinHandle::is_finished)
    })
    .await;
    let refused = pending.extract_if(.., |pending| pending.is_finished());
    let [refused] = refused.collect::<Vec<_>>().try_into().unwrap();
    let refused = refused.await.unwrap().unwrap();
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (503, "too_many_profiles")
    );
    assert_eq!(refused.header("retry-after"), "1");
    pending.iter().for_each(tokio::task::JoinHandle::abort);
    let short = || {
        gateway
            .get("/gateway/profile?seconds=1")
            .token(&token)
            .send()
    };
    until("they end with their clients", async || {
        short().await.status == 200
    })
    .await;
}

#[tokio::test]
async fn a_profile_ends_with_the_session_of_its_client() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    let pending = tokio::spawn(
        gateway
            .get("/gateway/profile?seconds=60")
            .token(&token)
            .try_send(),
    );
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!pending.is_finished());
    let revoked = gateway
        .post("/auth/revoke")
        .token(&token)
        .json(&json!({ "token": token }))
        .send()
        .await;
    assert_eq!(revoked.status, 200);
    let answer = timeout(TEST_TIMEOUT, pending)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert_eq!(answer.status, 401);
}

#[tokio::test]
async fn a_profile_does_not_delay_the_drain() {
    let directory = tempfile::tempdir().unwrap();
    let process = Process::start("", directory.path());
    let token = process.sign_in("admin").await;
    let pending = tokio::spawn(
        process
            .get("/gateway/profile?seconds=60")
            .token(&token)
            .try_send(),
    );
    tokio::time::sleep(Duration::from_millis(300)).await;
    process.signal("TERM");
    let answer = timeout(TEST_TIMEOUT, pending)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert_eq!((answer.status, answer.code().as_str()), (503, "draining"));
    assert!(process.end().success());
}

#[tokio::test]
async fn a_busy_flow_shows_in_the_metrics_for_as_long_as_it_is_there() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    let busy = "flowgate_flow_busy_seconds_total{flow=\"busy\"}";
    assert_eq!(gateway.metric(busy).await, None);
    run_busy(&gateway, &token).await;
    until("it is busy", async || {
        gateway.metric(busy).await.unwrap() > 0.3
    })
    .await;
    until("its messages are counted", async || {
        let counted = gateway.metric("flowgate_node_messages_total{type=\"function\"}");
        counted.await.unwrap() > 10.0
    })
    .await;
    let quiet = gateway
        .metric("flowgate_flow_busy_seconds_total{flow=\"quiet\"}")
        .await
        .unwrap();
    assert!(quiet < 0.1, "{quiet}");
    until("its message waits", async || {
        gateway
            .metric("flowgate_flow_waiting_messages{flow=\"busy\"}")
            .await
            == Some(1.0)
    })
    .await;
    gateway
        .deploy(&token, &flow_set(&[page("quiet", "/quiet", "here")]))
        .await;
    assert_eq!(gateway.metric(busy).await, None);
    let waiting = gateway
        .metric("flowgate_flow_waiting_messages{flow=\"quiet\"}")
        .await;
    assert_eq!(waiting, Some(0.0));
}

#[tokio::test]
async fn top_prints_the_nodes_once_where_there_is_no_terminal() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    run_busy(&gateway, &token).await;
    for arguments in [
        &["top", "--once", "--interval", "1s"][..],
        &["top", "--interval", "1s"],
    ] {
        let shown = output(gateway.directory.path(), arguments).await;
        assert_eq!(
            (shown.status.code(), text(&shown.stderr).as_str()),
            (Some(0), "")
        );
        let shown = text(&shown.stdout);
        let lines: Vec<&str> = shown.lines().collect();
        assert!(
            lines[0].starts_with("engine ") && lines[0].ends_with(" MiB"),
            "{shown}"
        );
        assert!(!lines[0].contains(" 0 MiB"), "{shown}");
        let words: Vec<&str> = lines[1].split_whitespace().collect();
        assert_eq!(words, ["time", "messages/s", "type", "name", "flow"]);
        assert!(
            lines[2].ends_with("  function  <script>\\u{1b}[2J  A & B"),
            "{shown}"
        );
        assert!(!shown.contains('\u{1b}'), "{shown}");
    }
    let refused = output(gateway.directory.path(), &["top", "--interval", "1h"]).await;
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        text(&refused.stderr).contains("expected a duration from 1s to 30s"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn top_without_a_running_gateway_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let refused = output(directory.path(), &["top"]).await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused.stderr).contains("no flowgate runs on this data directory"),
        "{refused:?}"
    );
}
