//! Commands for the running gateway: service tokens, sessions, reload.

use crate::harness::{Gateway, Process, config_text, flow_set, page, program, until};
use serde_json::{Value as Json, json};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::process::Stdio;

/// Runs the program; gives its exit code, what it printed, and what it complained about.
fn run(directory: &Path, line: &str) -> (i32, String, String) {
    let arguments: Vec<&str> = line.split(' ').collect();
    let output = program(directory, &arguments)
        .stdout(Stdio::piped())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap().trim_end().to_owned();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn done(directory: &Path, line: &str) -> String {
    let (code, output, complained) = run(directory, line);
    assert_eq!(code, 0, "{line}: {complained}");
    output
}

fn refused(directory: &Path, line: &str) -> String {
    let (code, output, complained) = run(directory, line);
    assert_eq!((code, output.as_str()), (1, ""), "{line}");
    complained
}

fn list(directory: &Path, line: &str) -> Vec<Json> {
    serde_json::from_str(&done(directory, line)).unwrap()
}

async fn status(gateway: &crate::client::Client, token: &str) -> u16 {
    gateway.get("/flows").token(token).send().await.status
}

#[tokio::test]
async fn a_token_for_a_machine_deploys_outlives_restarts_and_is_revoked_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let process = Process::start("", place);
    let token = done(
        place,
        "token create --name ci --permission flows.write --permission flows.read --expires 90d",
    );
    assert_eq!(token.len(), 43);
    process
        .deploy(&token, &flow_set(&[page("a", "/a", "x")]))
        .await;
    assert_eq!(
        process.get("/settings").token(&token).send().await.status,
        401
    );
    assert_eq!(
        process
            .post("/auth/token")
            .form(&[("client_id", "service-token")])
            .send()
            .await
            .status,
        400
    );

    let [listed] = list(place, "token list --json").try_into().unwrap();
    assert_eq!(
        (&listed["name"], &listed["user"]),
        (&json!("ci"), &json!("token:ci"))
    );
    assert_eq!(listed["permissions"], json!(["flows.write", "flows.read"]));
    assert!(done(place, "token list").contains("token:ci  service-token  flows.write flows.read"));
    assert_eq!(list(place, "session list --json"), [] as [Json; 0]);

    process.signal("TERM");
    process.end();
    let process = Process::start("auth = { idle = \"1s\" }", place);
    process.signal("HUP");
    process.wait_for_log("reloaded");
    assert_eq!(status(&process, &token).await, 200);
    assert_eq!(done(place, "token revoke ci"), "revoked");
    assert_eq!(status(&process, &token).await, 401);
    assert_eq!(
        refused(place, "token revoke ci"),
        "flowgate: there is no token named ci"
    );

    let log = std::fs::read_to_string(place.join("data/audit.log")).unwrap();
    let line = |event: &str| -> Json {
        let name = format!("\"event\":\"{event}\"");
        serde_json::from_str(log.lines().find(|line| line.contains(&name)).unwrap()).unwrap()
    };
    assert_eq!(
        (&line("token.create")["name"], &line("token.revoke")["name"]),
        (&json!("ci"), &json!("ci"))
    );
    assert_eq!(line("flows.deploy")["user"], "token:ci");
    assert_eq!(line("token.create")["by"], "control");
    assert!(!log.contains(&token));
}

#[tokio::test]
async fn a_token_expires_and_one_without_expiry_is_warned_about() {
    let gateway = Gateway::start();
    let place = gateway.directory.path();
    let token = done(
        place,
        "token create --name brief --permission * --expires 1s",
    );
    until("it is over", async || status(&gateway, &token).await == 401).await;
    // Its name is free again.
    let (code, token, warned) = run(
        place,
        "token create --name brief --permission read --expires never --json",
    );
    assert!(
        code == 0 && warned.starts_with("warning: this token never ends"),
        "{warned}"
    );
    let answer: Json = serde_json::from_str(&token).unwrap();
    assert_eq!(answer["expires"], "never");
    let token = answer["token"].as_str().unwrap();
    let settings = gateway.get("/settings").token(token).send().await.json();
    assert_eq!(
        settings["user"],
        json!({ "username": "token:brief", "permissions": "read" })
    );
    assert!(done(place, "token list").ends_with("  never"));
}

#[tokio::test]
async fn invalid_arguments_of_token_commands_are_explained() {
    let gateway = Gateway::start();
    let place = gateway.directory.path();
    done(place, "token create --name ci --permission read");
    for (line, output) in [
        (
            "token create --name ci --permission read",
            "another token has this name",
        ),
        (
            "token create --name a/b --permission read",
            "a name has 1 to 64 letters",
        ),
        (
            "token create --name x --permission a\u{7}b",
            "is no permission",
        ),
        (
            "session revoke --id 0000000000000000",
            "there is no such session",
        ),
    ] {
        assert!(refused(place, line).contains(output), "{line}");
    }
    for line in [
        "token create --name x",
        "token create --permission read",
        "token create --name x --permission read --expires 1",
        "token create --name x --permission read --expires 4000d",
        "session revoke",
        "session revoke --user a --id b",
    ] {
        assert_eq!(run(place, line).0, 2, "{line}");
    }
}

#[tokio::test]
async fn sessions_are_listed_and_revoked_by_user_or_id_and_end_at_once() {
    let gateway = Gateway::start();
    let place = gateway.directory.path();
    let reader = [
        gateway.sign_in("reader").await,
        gateway.sign_in("reader").await,
    ];
    let admin = gateway.sign_in("admin").await;
    let sessions = list(place, "session list --json");
    assert_eq!(sessions.len(), 3);
    let table = done(place, "session list");
    for token in reader.iter().chain([&admin]) {
        assert!(!table.contains(&token[..8]), "no token is shown");
    }
    // An id is no token.
    let id = sessions[0]["id"].as_str().unwrap();
    assert_eq!(status(&gateway, id).await, 401);

    let mut channel = gateway.editor(&admin).await;
    let [own] = list(place, "session list --user admin --json")
        .try_into()
        .unwrap();
    let id = own["id"].as_str().unwrap();
    assert_eq!(
        done(place, &format!("session revoke --id {id}")),
        "1 revoked"
    );
    channel.is_rejected().await;
    assert_eq!(status(&gateway, &admin).await, 401);

    assert_eq!(done(place, "session revoke --user reader"), "2 revoked");
    assert_eq!(done(place, "session revoke --user reader"), "0 revoked");
    for token in &reader {
        assert_eq!(status(&gateway, token).await, 401);
    }
    assert_eq!(gateway.metric("flowgate_sessions_active").await, Some(0.0));
    let line = gateway
        .audit()
        .into_iter()
        .find(|line| line["event"] == "session.revoke")
        .unwrap();
    assert_eq!((&line["of"], &line["id"]), (&json!("admin"), &json!(id)));
}

#[tokio::test]
async fn reload_reports_success_and_failure() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let process = Process::start("", place);
    let token = process.sign_in("reader").await;
    assert_eq!(done(place, "reload"), "reloaded");
    assert_eq!(status(&process, &token).await, 200);

    let others = config_text(
        "[[auth.user]]\nname = \"other\"\npassword_hash = \"$2b$08$W99V1mAwhUg5M9.hX6kjY.qtLHyvMOmTvm/hfRdpVY8u2XJsIHwFC\"\npermissions = [\"*\"]",
    );
    std::fs::write(place.join("gateway.toml"), others).unwrap();
    assert_eq!(done(place, "reload"), "reloaded");
    assert_eq!(status(&process, &token).await, 401);

    std::fs::write(place.join("gateway.toml"), "[auth\n").unwrap();
    assert!(refused(place, "reload").contains("gateway.toml:1"));
}

#[tokio::test]
async fn without_a_running_gateway_the_commands_fail_with_a_hint() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let expected = "flowgate: no flowgate runs on this data directory (data)";
    for line in [
        "token list",
        "session list",
        "reload",
        "token create --name a --permission read",
    ] {
        assert_eq!(refused(place, line), expected);
    }
    // Nor after one that was killed and left its socket.
    let process = Process::start("", place);
    let socket = place.join("data/flowgate.sock");
    let metadata = std::fs::metadata(&socket).unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    process.signal("KILL");
    process.end();
    assert!(socket.exists());
    assert_eq!(refused(place, "token list"), expected);
    let process = Process::start("", place);
    done(place, "token list");
    process.signal("TERM");
    process.end();
    assert!(!socket.exists());
}

#[tokio::test]
async fn where_authentication_is_off_there_are_no_tokens() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = format!(
        "{}\nauth = \"off\"\n",
        "operations = \"off\"\nserver = { listen = [\"127.0.0.1:0\"] }"
    );
    std::fs::write(directory.path().join("gateway.toml"), gateway).unwrap();
    let config =
        flowgate::config::Config::load(Some(&directory.path().join("gateway.toml"))).unwrap();
    let running = flowgate::server::start(config).unwrap();
    let output = refused(directory.path(), "token create --name a --permission read");
    assert_eq!(
        output,
        "flowgate: authentication is off: there are no tokens and no sessions"
    );
    running.stop().await;
}
