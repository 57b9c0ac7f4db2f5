//! Flows that crash an engine apart from its gateway: the gateway stays, answers 503 and keeps its
//! editors, and the engine falls back as it does in one process.

use crate::comms_client::Channel;
use crate::engine_process::{Separated, command};
use crate::harness::{KillOnDrop, flow_set, page, public, until};
use serde_json::{Value as Json, json};
use std::fs;
use std::process::Stdio;

/// A page, and a flow that kills its process when it starts, as long as there is a file `armed`.
fn deadly() -> Json {
    let mut flows = vec![page("a", "/a", "bad")];
    flows.push(vec![
        json!({ "id": "k", "type": "tab", "label": "k" }),
        json!({ "id": "ki", "type": "inject", "z": "k", "x": 1, "y": 1, "once": true, "onceDelay": 0.1,
                "props": [], "repeat": "", "crontab": "", "wires": [["ke"]] }),
        json!({ "id": "ke", "type": "exec", "z": "k", "x": 2, "y": 1, "command": "[ -e armed ] && kill -9 $PPID",
                "addpay": "", "append": "", "useSpawn": "false", "timer": "", "wires": [[], [], []] }),
    ]);
    flow_set(&flows)
}

/// Waits until an editor has received this deployment; an older one may come before.
async fn until_deployed(editor: &mut Channel, rev: &str) {
    while editor.topic("notification/runtime-deploy").await["revision"] != *rev {}
}

#[tokio::test]
async fn flows_that_crash_an_engine_apart_are_set_aside_while_the_gateway_and_its_editors_stay() {
    let mut separated = Separated::start(&public(&["/a"]));
    let directory = separated.engine_directory();
    let token = separated.sign_in("admin").await;
    let harmless = flow_set(&[page("a", "/a", "good")]);
    separated.deploy(&token, &harmless).await;
    let bad = separated.deploy(&token, &deadly()).await;
    let mut editor = separated.editor(&token).await;
    editor.subscribe("notification/#").await;
    until_deployed(&mut editor, &bad).await;
    fs::write(directory.join("armed"), "").unwrap();
    separated.engine.take().unwrap().kill();

    // As systemd would start it.
    for _ in 0..3 {
        let mut command = command(&directory, &[]);
        let child = command.stderr(Stdio::null()).spawn().unwrap();
        let status = KillOnDrop(child).ended();
        assert_eq!(status.code(), None, "it was not killed");
        let away = separated.get("/a").send().await;
        assert_eq!((away.status, away.header("retry-after")), (503, "1"));
        let sessions = separated.get("/gateway/sessions").token(&token);
        assert_eq!(
            sessions.send().await.status,
            200,
            "the gateway itself answers"
        );
    }
    separated.start_engine(&[]);
    until("the flows before run", async || {
        separated.get("/a").send().await.text() == "good"
    })
    .await;
    let active = separated.flows(&token).await;
    assert_eq!(active["flows"], harmless);
    assert_ne!(active["rev"], *bad);
    let copy = directory.join(format!("data/flows.set-aside-{bad}.json"));
    let copy: Json = serde_json::from_str(&fs::read_to_string(copy).unwrap()).unwrap();
    assert_eq!(copy, deadly());
    until("the gateway is degraded", async || {
        let ready = separated.operations("/readyz").await;
        assert_eq!(ready.status, 200);
        ready.json()["status"] == "degraded" && ready.json()["set_aside"] == *bad
    })
    .await;
    let now = separated.get("/gateway/now").token(&token).send().await;
    assert_eq!(now.json()["set_aside"], *bad);

    // The same channel gets what is deployed next.
    let mended = flow_set(&[page("a", "/a", "mended")]);
    let rev = separated.deploy(&token, &mended).await;
    until_deployed(&mut editor, &rev).await;
    assert_eq!(separated.get("/a").send().await.text(), "mended");
}

#[tokio::test]
async fn an_engine_apart_that_crashes_in_safe_mode_never_starts_its_flows() {
    let mut separated = Separated::start(&public(&["/a"]));
    let directory = separated.engine_directory();
    let token = separated.sign_in("admin").await;
    separated.deploy(&token, &deadly()).await;
    fs::write(directory.join("armed"), "").unwrap();
    for _ in 0..4 {
        separated.engine.take().unwrap().kill();
        separated.start_engine(&["--safe"]);
        let state = separated.get("/flows/state").token(&token).send().await;
        assert_eq!(state.json()["state"], "safe");
        until("the gateway is degraded", async || {
            let ready = separated.operations("/readyz").await;
            ready.json()["flows"] == "safe: loaded and not started"
        })
        .await;
        assert_eq!(separated.flows(&token).await["flows"], deadly());
    }
    fs::remove_file(directory.join("armed")).unwrap();
    let start = separated.post("/flows/state").token(&token);
    let start = start.json(&json!({ "state": "start" })).send().await;
    assert_eq!(start.status, 200, "{}", start.text());
    assert_eq!(separated.get("/a").send().await.text(), "bad");
}
