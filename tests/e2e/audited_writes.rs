//! Every authorized write of the admin API and every read of a secret is in the audit log, with its
//! outcome.

use crate::client::PASSWORD;
use crate::harness::{Gateway, Process, until};
use crate::mock_upstream::{Action, MockUpstream, ok, status};
use serde_json::{Value as Json, json};
use std::fs;
use std::path::Path;

/// Method, path, and the status that is answered.
type Row = (&'static str, &'static str, u16);

/// What is written of requests to the admin API that have no event of their own.
fn written(lines: &[Json]) -> Vec<(String, String, String, Json)> {
    let text = |line: &Json, field: &str| line[field].as_str().unwrap_or_default().to_owned();
    lines
        .iter()
        .filter(|line| {
            let event = line["event"].as_str().unwrap();
            event.starts_with("admin.write") || event == "secret.read"
        })
        .map(|line| {
            assert_eq!(
                (&line["user"], &line["by"]),
                (&json!("admin"), &json!("token"))
            );
            assert_eq!(line["address"], "127.0.0.1");
            assert!(!text(line, "request").is_empty());
            (
                text(line, "event"),
                text(line, "method"),
                text(line, "path"),
                line["status"].clone(),
            )
        })
        .collect()
}

fn expected(rows: &[Row]) -> Vec<(String, String, String, Json)> {
    let row = |(method, path, status): &Row| {
        let event = match (*method, status) {
            ("GET", _) => "secret.read",
            (_, 400..500) => "admin.write.fail",
            _ => "admin.write",
        };
        let path = path.split('?').next().unwrap().to_owned();
        (event.to_owned(), (*method).to_owned(), path, json!(status))
    };
    rows.iter().map(row).collect()
}

/// Sends each, with a JSON object if it may have a body.
async fn send(gateway: &Gateway, token: &str, rows: &[Row]) {
    for (method, path, status) in rows {
        let request = gateway.request(method, path).token(token);
        let request = match *method {
            "GET" | "DELETE" => request,
            _ => request.json(&json!({ "text": "a-secret", "nodes": [], "enabled": true })),
        };
        let answer = request.send().await;
        assert_eq!(answer.status, *status, "{method} {path}: {}", answer.text());
    }
}

#[tokio::test]
async fn every_authorized_write_and_every_read_of_credentials_is_in_the_log() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    let reader = gateway.sign_in("reader").await;
    let broker = json!([{ "id": "m", "type": "mqtt-broker", "credentials": { "user": "ann" } }]);
    gateway.deploy(&token, &broker).await;
    let rows = [
        ("POST", "/library/local/flows/a/b", 204),
        ("POST", "/settings/user", 204),
        ("POST", "/inject/none?token=a-secret", 404),
        ("DELETE", "/context/global/key?store=memory", 204),
        ("PUT", "/nodes/node-red/inject", 200),
        ("POST", "/debug/none/enable", 404),
        ("POST", "/debug/disable", 201),
        ("POST", "/nodes", 403),
        ("DELETE", "/nodes/some-module", 403),
        ("POST", "/projects", 404),
        ("GET", "/credentials/mqtt-broker/m", 200),
    ];
    send(&gateway, &token, &rows).await;
    for path in [
        // Shows nothing.
        "/credentials/mqtt-broker/none",
        "/flows",
        "/settings",
        "/nodes",
        "/context/global",
        "/library/local/flows",
    ] {
        gateway.get(path).token(&token).send().await;
    }
    // Refused, so it is no write.
    let refused = gateway
        .post("/settings/user")
        .token(&reader)
        .json(&json!({}));
    assert_eq!(refused.send().await.status, 401);
    // A deployment has an event of its own.
    gateway.deploy(&token, &json!([])).await;
    let directory = gateway.stop().await;
    let text = fs::read_to_string(directory.path().join("data/audit.log")).unwrap();
    assert!(!text.contains("a-secret"), "{text}");
    let lines: Vec<Json> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(written(&lines), expected(&rows));
}

#[tokio::test]
async fn forwarded_writes_are_in_the_log_with_the_status_of_the_upstream() {
    let behind = MockUpstream::start(|request| {
        Action::Respond(match request.split(' ').nth(1).unwrap() {
            "/projects/a" => status("409 Conflict", "application/json", "{}"),
            "/credentials/a/b" => ok("application/json", "{\"user\":\"ann\"}"),
            _ => ok("application/json", "{}"),
        })
    })
    .await;
    let config = format!(
        "{}[[route]]\npath = \"/hello\"\npermission = \"http.write\"\n",
        behind.config()
    );
    let gateway = Gateway::with(&config);
    let token = gateway.sign_in("admin").await;
    let rows = [
        ("POST", "/nodes", 200),
        ("PUT", "/nodes/@some/module", 200),
        ("DELETE", "/nodes/module", 200),
        ("PUT", "/projects/a", 409),
        ("DELETE", "/projects/a/branches/b/c/d/e/f/g", 200),
        ("POST", "/settings/user/keys", 200),
        ("POST", "/library/local/flows/a", 200),
        ("POST", "/inject/a", 200),
        ("DELETE", "/context/flow/a/b", 200),
        ("POST", "/debug/a/disable", 200),
        // Without an admin root this may be a path of the admin API that a package adds.
        ("POST", "/unlisted/by-package", 200),
        ("DELETE", "/unlisted", 200),
        ("GET", "/credentials/a/b", 200),
    ];
    send(&gateway, &token, &rows).await;
    // An endpoint of a flow is none of the admin API: a `[[route]]` names it.
    gateway.post("/hello").token(&token).send().await;
    let directory = gateway.stop().await;
    let text = fs::read_to_string(directory.path().join("data/audit.log")).unwrap();
    let lines: Vec<Json> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(written(&lines), expected(&rows));
    let upstream = behind.address.to_string();
    let forwarded = |line: &&Json| line["method"].is_string();
    for line in lines.iter().filter(forwarded) {
        assert_eq!(line["upstream"], upstream);
    }
}

#[tokio::test]
async fn a_client_that_hangs_up_is_in_the_log_as_well() {
    let behind = MockUpstream::start(|_| Action::Hang(String::new())).await;
    let gateway = Gateway::with(&behind.config());
    let token = gateway.sign_in("admin").await;
    for http2 in [false, true] {
        let mut connection = gateway.connect(http2).await.unwrap();
        let install = gateway
            .post("/nodes")
            .token(&token)
            .json(&json!({ "module": "x" }));
        let before = behind.received().len();
        tokio::select! {
            answer = connection.begin(install) => panic!("{answer:?}"),
            () = until("the upstream has it", async || behind.received().len() > before) => {}
        }
        drop(connection);
        let lines = usize::from(http2) + 1;
        until("it is in the log", async || {
            written(&gateway.audit()).len() == lines
        })
        .await;
    }
    for (event, method, path, status) in written(&gateway.audit()) {
        assert_eq!(
            (event.as_str(), method.as_str(), path.as_str()),
            ("admin.write", "POST", "/nodes")
        );
        assert_eq!(status, Json::Null);
    }
}

/// A gateway in front of an upstream whose audit log goes to a pipe that nothing reads any more.
async fn with_a_broken_pipe(behind: &MockUpstream, directory: &Path) -> (Process, String) {
    let lines = format!("{}[audit]\nto = \"stdout\"\n", behind.config());
    let (process, mut stdout) = Process::start_with_stdout(&lines, directory);
    let token = process.sign_in("admin").await;
    let mut output = String::new();
    while !output.contains("auth.login") {
        std::io::BufRead::read_line(&mut stdout, &mut output).unwrap();
    }
    process.break_stdout(stdout).await;
    (process, token)
}

#[tokio::test]
async fn while_the_log_fails_no_secret_is_shown_and_nothing_is_written() {
    let behind =
        MockUpstream::start(|_| Action::Respond(ok("application/json", "{\"user\":\"a\"}"))).await;
    let directory = tempfile::tempdir().unwrap();
    let (process, token) = with_a_broken_pipe(&behind, directory.path()).await;
    let secret = process.get("/credentials/a/b").token(&token).send().await;
    assert_eq!(
        (secret.status, secret.code().as_str()),
        (503, "audit_unavailable")
    );
    assert!(!secret.text().contains("user"));
    let sign_in = process.sign_in_request("admin", PASSWORD, "").send().await;
    assert_eq!(sign_in.status, 503);
    let received = behind.received().len();
    for (method, path) in [
        ("POST", "/nodes"),
        ("DELETE", "/nodes/a"),
        ("PUT", "/projects/a"),
        ("POST", "/inject/a"),
    ] {
        let mut request = process.request(method, path).token(&token);
        if method != "DELETE" {
            request = request.json(&json!({ "module": "x" }));
        }
        let answer = request.send().await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (503, "audit_unavailable"),
            "{method} {path}"
        );
    }
    assert_eq!(behind.received().len(), received, "{:?}", behind.received());
    // What is only read goes on.
    assert_eq!(process.get("/nodes").token(&token).send().await.status, 200);
}
