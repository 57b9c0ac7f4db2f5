//! A gateway in front of an engine that runs apart, on a Unix socket: everything works as in one
//! process, and the gateway survives the engine.

use crate::client::PASSWORD;
use crate::comms_client::Channel;
use crate::engine_process::{EngineProcess, Separated, command, write_file};
use crate::full_flows::circling;
use crate::harness::{
    Gateway, TEST_TIMEOUT, flow_set, hash, page, program, public, run_command, script, until,
};
use crate::tunnel::{open_as, try_out};
use serde_json::{Value as Json, json};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::process::Command;

/// A flow whose inject node leads to a debug node, a status and a context.
pub fn reporting(tab: &str) -> Vec<Json> {
    let id = |part: &str| format!("{tab}-{part}");
    let code = "node.status({ text: 'ok' }); flow.set('key', msg.payload); return msg";
    vec![
        json!({ "id": tab, "type": "tab", "label": tab }),
        json!({ "id": id("go"), "type": "inject", "z": tab, "x": 1, "y": 1, "props": [{ "p": "payload" }],
                "payload": tab, "payloadType": "str", "wires": [[id("f")]] }),
        json!({ "id": id("f"), "type": "function", "z": tab, "x": 2, "y": 1, "func": code, "outputs": 1, "wires": [[id("d")]] }),
        json!({ "id": id("d"), "type": "debug", "z": tab, "x": 3, "y": 1, "active": true, "tosidebar": true,
                "complete": "payload", "targetType": "msg", "wires": [] }),
    ]
}

/// A WebSocket that repeats what it gets.
pub fn echo() -> Vec<Json> {
    vec![
        json!({ "id": "ws", "type": "tab", "label": "ws" }),
        json!({ "id": "l", "type": "websocket-listener", "path": "/ws", "wholemsg": "false" }),
        json!({ "id": "i", "type": "websocket in", "z": "ws", "x": 1, "y": 2, "server": "l", "wires": [["o"]] }),
        json!({ "id": "o", "type": "websocket out", "z": "ws", "x": 2, "y": 2, "server": "l", "wires": [] }),
    ]
}

/// Waits until an editor has received this deployment; an older one may come before.
pub async fn until_deployed(editor: &mut Channel, rev: &str) {
    while editor.topic("notification/runtime-deploy").await["revision"] != *rev {}
}

async fn read(gateway: &Gateway, token: &str, path: &str) -> Json {
    let answer = gateway.get(path).token(token).send().await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

#[tokio::test]
async fn deployments_revisions_credentials_and_history_work_in_front_of_an_engine_that_runs_apart()
{
    let separated = Separated::start(&public(&["/a"]));
    let token = separated.sign_in("admin").await;
    let first = flow_set(&[page("a", "/a", "first")]);
    let one = separated.deploy(&token, &first).await;
    assert_eq!(separated.get("/a").send().await.text(), "first");
    let mut second = flow_set(&[page("a", "/a", "second")]);
    let broker = json!({ "id": "b", "type": "mqtt-broker", "broker": "h", "port": "1", "autoConnect": false,
                         "credentials": { "user": "ann", "password": "hunter2" } });
    second.as_array_mut().unwrap().push(broker);
    let stale = separated.deployment(&token, &second, Some("other"));
    let stale = stale.send().await;
    assert_eq!(
        (stale.status, stale.code().as_str()),
        (409, "version_mismatch")
    );
    let two = separated
        .deployment(&token, &second, Some(&one))
        .send()
        .await;
    assert_eq!(two.status, 200, "{}", two.text());
    assert_eq!(separated.get("/a").send().await.text(), "second");
    let kept = read(&separated, &token, "/credentials/mqtt-broker/b").await;
    assert_eq!(kept, json!({ "user": "ann", "has_password": true }));
    assert!(
        !separated
            .flows(&token)
            .await
            .to_string()
            .contains("hunter2")
    );

    let path = format!("/gateway/deployments/{one}?flows=true");
    assert_eq!(read(&separated, &token, &path).await["flows"], first);
    let back = separated.post(&format!("/gateway/deployments/{one}/rollback"));
    let body = json!({ "rev": two.rev() });
    let back = back.token(&token).json(&body).send().await;
    assert_eq!(back.status, 200, "{}", back.text());
    assert_eq!(separated.get("/a").send().await.text(), "first");
    let reload = separated.post("/flows").token(&token);
    let reload = reload.header("Node-RED-Deployment-Type", "reload");
    assert_eq!(reload.json(&json!([])).send().await.status, 204);
    assert_eq!(
        read(&separated, &token, "/flows/state").await["state"],
        "start"
    );
    let dry = separated.post("/gateway/check").token(&token).json(&second);
    assert_eq!(dry.send().await.json()["allowed"], true);
    let profile = read(&separated, &token, "/gateway/profile?seconds=1").await;
    assert!(profile["nodes"].is_array(), "{profile}");
}

#[tokio::test]
async fn a_flow_sees_the_client_and_its_user_and_an_engine_keeps_no_audit_log_and_no_session() {
    let route = "[[route]]\npath = \"/who\"\npermission = \"http.read\"\n";
    let separated = Separated::start(&(route.to_owned() + &public(&["/open"])));
    let token = separated.sign_in("admin").await;
    let code = "msg.payload = { user: msg.req.user, ip: msg.req.ip, secure: msg.req.secure, \
                id: msg.req.headers['x-request-id'], auth: msg.req.headers.authorization, \
                forged: msg.req.headers['x-flowgate-user'] }; return msg";
    let flows = flow_set(&[
        script("w", "get", "/who", code),
        script("o", "get", "/open", code),
    ]);
    separated.deploy(&token, &flows).await;
    let reader = separated.sign_in("reader").await;
    let forged = [
        ("X-Flowgate-User", "root"),
        ("X-Flowgate-Permissions", "*"),
        ("X-Forwarded-For", "6.6.6.6"),
    ];
    let ask = |path: &str| {
        let request = separated.get(path).from("127.0.0.9");
        forged.iter().fold(request, |request, (name, value)| {
            request.header(name, value)
        })
    };
    let answer = ask("/who").token(&reader).send().await;
    let id = answer.header("x-request-id").to_owned();
    let seen = answer.json();
    assert_eq!(
        seen["user"],
        json!({ "username": "reader", "permissions": ["read"] })
    );
    assert_eq!(
        (&seen["ip"], &seen["secure"], &seen["id"]),
        (&json!("127.0.0.9"), &json!(true), &json!(id))
    );
    assert!(
        seen.get("auth").is_none() && seen.get("forged").is_none(),
        "{seen}"
    );
    let seen = ask("/open").send().await.json();
    assert!(
        seen.get("user").is_none() && seen["ip"] == "127.0.0.9",
        "{seen}"
    );

    let data = separated.engine_directory().join("data");
    let names: Vec<_> = fs::read_dir(&data)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert!(data.join("flows.json").exists(), "{names:?}");
    assert!(
        !names
            .iter()
            .any(|name| name.to_string_lossy().contains("audit")),
        "{names:?}"
    );
    let database = rusqlite::Connection::open(data.join("flowgate.db")).unwrap();
    let sessions: i64 = database
        .query_row("SELECT count(*) FROM session", [], |row| row.get(0))
        .unwrap();
    assert_eq!(sessions, 0);
    assert!(!separated.engine_directory().join("certs").exists());
}

#[tokio::test]
async fn while_the_engine_is_away_requests_are_503_and_editors_stay_connected() {
    let mut separated = Separated::start(&public(&["/a"]));
    let token = separated.sign_in("admin").await;
    let flows = flow_set(&[page("a", "/a", "here"), reporting("r"), echo()]);
    let rev = separated.deploy(&token, &flows).await;
    let mut editor = separated.editor(&token).await;
    editor.subscribe("notification/#").await;
    editor.subscribe("debug").await;
    until_deployed(&mut editor, &rev).await;
    let mut websocket = open_as(&separated, &token).await.unwrap();
    try_out(&mut websocket).await;
    let inject = async |gateway: &Gateway| {
        gateway
            .post("/inject/r-go")
            .token(&token)
            .send()
            .await
            .status
    };
    assert_eq!(inject(&separated).await, 200);
    assert_eq!(editor.topic("debug").await["msg"], "r");
    let context = read(&separated, &token, "/context/flow/r/key").await;
    assert_eq!(context["msg"], "r");

    separated.engine.take().unwrap().kill();
    for path in ["/a", "/flows"] {
        let away = separated.get(path).token(&token).send().await;
        assert_eq!(
            (away.status, away.code().as_str()),
            (503, "upstream_not_listening")
        );
        assert_eq!(away.header("retry-after"), "1");
    }
    until("it is not ready", async || {
        separated.operations("/readyz").await.status == 503
    })
    .await;
    separated.start_engine(&[]);
    assert_eq!(separated.get("/a").send().await.text(), "here");
    // The deployment is retained, so the editor gets it whenever its link is open again.
    let rev = separated.deploy(&token, &flows).await;
    until_deployed(&mut editor, &rev).await;
    assert_eq!(inject(&separated).await, 200);
    assert_eq!(editor.topic("debug").await["msg"], "r");
    let ended = separated.engine.take().unwrap().terminate();
    assert_eq!(ended.code(), Some(0));
}

/// A user who sees the flow `one` only, and another one who sees all.
fn users() -> String {
    let user = format!(
        "[[auth.user]]\nname = \"ann\"\npassword_hash = \"{}\"\npermissions = [\"flows.read:one\", \"status.read\", \"inject.write\"]\n",
        hash(PASSWORD)
    );
    let admin = user.replace("\"ann\"", "\"admin\"").replace(
        "[\"flows.read:one\", \"status.read\", \"inject.write\"]",
        "[\"*\"]",
    );
    user + &admin
}

#[tokio::test]
async fn the_flows_that_an_engine_has_stopped_are_shown_to_those_who_see_them() {
    let separated = Separated::start(&users());
    let token = separated.sign_in("admin").await;
    let ann = separated.sign_in("ann").await;
    let flows = flow_set(&[circling(2), page("one", "/one", "alive")]);
    separated.deploy(&token, &flows).await;
    until("it was stopped", async || {
        read(&separated, &token, "/flows/state").await["stopped"][0]["id"] == "loop"
    })
    .await;
    let seen = read(&separated, &ann, "/flows/state").await;
    assert_eq!(seen, json!({ "state": "start" }));
    let now = read(&separated, &token, "/gateway/now").await;
    assert_eq!(now["stopped"][0]["id"], "loop");
    let stop = separated.post("/flows/state").token(&token);
    let stop = stop.json(&json!({ "state": "stop" })).send().await;
    assert_eq!(stop.status, 200, "{}", stop.text());
    let now = read(&separated, &token, "/gateway/now").await;
    assert_eq!(now["flows"], "stop");
}

#[tokio::test]
async fn an_editor_of_one_flow_sees_nothing_of_another_through_the_hop() {
    let separated = Separated::start(&users());
    let token = separated.sign_in("admin").await;
    separated
        .deploy(&token, &flow_set(&[reporting("one"), reporting("two")]))
        .await;
    let ann = separated.sign_in("ann").await;
    let seen = separated.flows(&ann).await.to_string();
    assert!(
        seen.contains("one-go") && !seen.contains("two-go"),
        "{seen}"
    );
    let mut editor = separated.editor(&ann).await;
    editor.subscribe("debug").await;
    for (id, status) in [("two-go", 404), ("one-go", 200)] {
        let path = format!("/inject/{id}");
        let answer = separated.post(&path).token(&ann).send().await;
        assert_eq!(answer.status, status, "{id}: {}", answer.text());
        let path = format!("/inject/{id}");
        assert_eq!(separated.post(&path).token(&token).send().await.status, 200);
    }
    // Those of `two` came first, if at all.
    assert_eq!(editor.topic("debug").await["msg"], "one");
}

#[tokio::test]
async fn safe_mode_and_a_restart_are_the_engines_own() {
    let mut separated = Separated::start(&public(&["/a"]));
    let token = separated.sign_in("admin").await;
    separated
        .deploy(&token, &flow_set(&[page("a", "/a", "here")]))
        .await;
    separated.engine.take().unwrap().kill();
    separated.start_engine(&["--safe"]);
    assert_eq!(
        read(&separated, &token, "/flows/state").await["state"],
        "safe"
    );
    assert_eq!(separated.get("/a").send().await.status, 404);
    let start = separated.post("/flows/state").token(&token);
    let start = start.json(&json!({ "state": "start" })).send().await;
    assert_eq!(start.status, 200, "{}", start.text());
    assert_eq!(separated.get("/a").send().await.text(), "here");
}

#[test]
fn each_command_takes_its_own_file_only() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    write_file("", place);
    fs::write(place.join("gateway.toml"), "auth = \"off\"\n").unwrap();
    let (code, output) = run_command(program(place, &["--config", "engine.toml", "run"]));
    assert_eq!(code, Some(1));
    assert!(
        output.contains("start it with `flowgate engine`"),
        "{output}"
    );
    let (code, output) = run_command(program(place, &["engine"]));
    assert_eq!(code, Some(1));
    assert!(output.contains("needs [engine.listen]"), "{output}");
    let (code, _) = run_command(program(place, &["--config", "engine.toml", "check"]));
    assert_eq!(code, Some(0));
    write_file("[auth]", place);
    let (code, output) = run_command(command(place, &[]));
    assert_eq!(code, Some(1));
    assert!(output.contains("auth"), "{output}");
}

#[test]
fn the_socket_is_the_owners_and_that_of_a_dead_engine_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let engine = EngineProcess::start("", directory.path());
    let socket = directory.path().join("engine.sock");
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // Another one on the same socket, with data of its own.
    let file = directory.path().join("engine.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}[storage]\ndirectory = \"other\"\n")).unwrap();
    let (code, output) = run_command(command(directory.path(), &[]));
    assert_eq!(code, Some(1));
    assert!(output.contains("another process listens there"), "{output}");
    fs::write(&file, text).unwrap();
    engine.kill();
    EngineProcess::launch(command(directory.path(), &[]));
}

#[tokio::test]
async fn an_engine_listens_on_the_socket_of_systemd_and_reports_that_it_is_ready() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    write_file("", place);
    let listener = UnixListener::bind(place.join("given.sock")).unwrap();
    let notify = UnixDatagram::bind(place.join("notify")).unwrap();
    notify.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let script =
        "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" --config engine.toml engine 3<&0 </dev/null";
    let mut command = Command::new("sh");
    command
        .args(["-c", script, env!("CARGO_BIN_EXE_flowgate")])
        .env("NOTIFY_SOCKET", place.join("notify"))
        .current_dir(place)
        .stdin(OwnedFd::from(listener));
    let _engine = EngineProcess::launch(command);
    let mut buffer = [0; 64];
    let length = notify.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"READY=1\nSTATUS=serving");
    let socket = place.join("given.sock");
    let gateway = Gateway::with(&format!(
        "[upstream]\nurl = \"unix:{}\"\n",
        socket.display()
    ));
    let token = gateway.sign_in("admin").await;
    assert_eq!(gateway.flows(&token).await["flows"], json!([]));
    assert!(!place.join("engine.sock").exists());
}
