//! Editors receive the events of a real Node-RED over `/comms`, through the gateway.

use super::{NodeRed, PROTECTED, Release, TOKEN};
use crate::comms_client::{Channel, ServerMessage};
use crate::harness::{Gateway, until};
use serde_json::{Value as Json, json};

/// Inject → function with a status → debug.
fn chatty() -> Json {
    let code = "node.status({ fill: 'green', shape: 'dot', text: 'ok' }); msg.payload = 'hello'; return msg";
    json!([
        { "id": "t", "type": "tab", "label": "chatty" },
        { "id": "go", "type": "inject", "z": "t", "x": 1, "y": 1, "props": [], "wires": [["f"]] },
        { "id": "f", "type": "function", "z": "t", "x": 2, "y": 1, "func": code, "outputs": 1, "wires": [["d"]] },
        { "id": "d", "type": "debug", "z": "t", "x": 3, "y": 1, "active": true, "tosidebar": true,
          "complete": "payload", "targetType": "msg", "wires": [] },
    ])
}

async fn protected(release: Release) -> (NodeRed, Gateway) {
    let red = NodeRed::start(release, PROTECTED);
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("token"), TOKEN).unwrap();
    // A busy machine takes longer than Node-RED's usual seconds to start it again.
    let lines = red.config_with("token_file = \"token\"") + "[comms]\nupstream_away = \"1m\"\n";
    let gateway = Gateway::open(&lines, directory);
    until("its flows run", async || red.starts() == 1).await;
    (red, gateway)
}

async fn deployed(editor: &mut Channel) -> String {
    let deployed_text = editor.topic("notification/runtime-deploy").await;
    deployed_text["revision"].as_str().unwrap().to_owned()
}

async fn inject(gateway: &Gateway, token: &str) {
    until("the flow runs", async || {
        gateway.post("/inject/go").token(token).send().await.status == 200
    })
    .await;
}

#[tokio::test]
async fn editors_receive_events_of_node_red_4_while_authorized() {
    Box::pin(editors_hear(Release::Four)).await;
}

#[tokio::test]
async fn editors_receive_events_of_node_red_5_while_authorized() {
    Box::pin(editors_hear(Release::Five)).await;
}

/// Deployments, statuses, debug messages; until the token is revoked.
async fn editors_hear(release: Release) {
    let (_red, gateway) = protected(release).await;
    let token = gateway.sign_in("admin").await;
    let reader = gateway.sign_in("reader").await;
    let mut one = gateway.editor(&token).await;
    let mut other = gateway.editor(&reader).await;
    for editor in [&mut one, &mut other] {
        editor.subscribe("notification/#").await;
        // What is retained: the revision that is active.
        deployed(editor).await;
    }
    let rev = gateway.deploy(&token, &chatty()).await;
    for editor in [&mut one, &mut other] {
        assert_eq!(deployed(editor).await, rev);
    }
    inject(&gateway, &token).await;
    for editor in [&mut one, &mut other] {
        let shown = editor.topic("debug").await;
        assert_eq!(
            (&shown["msg"], &shown["format"]),
            (&json!("hello"), &json!("string[5]"))
        );
    }
    let mut late = gateway.editor(&reader).await;
    late.subscribe("status/#").await;
    assert_eq!(late.topic("status/f").await["text"], "ok");

    let revoke = gateway
        .post("/auth/revoke")
        .token(&reader)
        .form(&[("token", &reader)]);
    assert_eq!(revoke.send().await.status, 200);
    for editor in [&mut other, &mut late] {
        editor.is_rejected().await;
    }
    inject(&gateway, &token).await;
    assert_eq!(one.topic("debug").await["msg"], "hello");
}

#[tokio::test]
async fn an_editor_stays_connected_while_node_red_restarts() {
    let (red, gateway) = protected(Release::Four).await;
    let token = gateway.sign_in("admin").await;
    gateway.deploy(&token, &chatty()).await;
    // Else the editor gets the deployment twice, as an event and as a retained message.
    until("it has logged the start", async || red.starts() == 2).await;
    let mut editor = gateway.editor(&token).await;
    editor.subscribe("notification/#").await;
    deployed(&mut editor).await;

    let start_again = red.stop();
    assert_eq!(gateway.get("/flows").token(&token).send().await.status, 502);
    let red = start_again();
    until("its flows run", async || red.starts() == 1).await;
    deployed(&mut editor).await;
    inject(&gateway, &token).await;
    assert_eq!(editor.topic("debug").await["msg"], "hello");
}

#[tokio::test]
async fn no_frame_of_an_editor_ends_node_red() {
    let (red, gateway) = protected(Release::Four).await;
    let token = gateway.sign_in("reader").await;
    let values = [
        "null",
        "5",
        "true",
        "[]",
        "[1]",
        "{}",
        r#""""#,
        r#""x""#,
        r#""__proto__""#,
        r#"{"toString":1}"#,
        r#"{"__proto__":{"x":1}}"#,
        r#"{"session":null}"#,
        r#"{"session":{"toString":1}}"#,
        r#"{"session":[[]]}"#,
        r#"{"session":"x","location":null}"#,
        r#"{"session":"__proto__"}"#,
    ];
    let topics = [
        "multiplayer/connect",
        "multiplayer/disconnect",
        "multiplayer/location",
        "debug",
        "__proto__",
        "",
    ];
    let mut frames = vec![
        String::new(),
        "{".to_owned(),
        "\"auth\"".to_owned(),
        "[[]]".to_owned(),
        format!("{}1{}", "[".repeat(5000), "]".repeat(5000)),
    ];
    for value in values {
        frames.push(value.to_owned());
        frames.push(format!(r#"{{"subscribe":{value}}}"#));
        frames.push(format!(r#"{{"topic":{value},"data":1}}"#));
        frames.push(format!(r#"{{"auth":"{token}","subscribe":{value}}}"#));
        frames.extend(topics.map(|topic| format!(r#"{{"topic":"{topic}","data":{value}}}"#)));
    }
    // Each over a channel that has not signed in, and over one that has; either may be closed for
    // it.
    for (number, frame) in frames.iter().enumerate() {
        let mut anonymous = gateway.comms().await;
        anonymous.send_text(frame).await;
        let mut editor = gateway.editor(&token).await;
        editor.send_text(frame).await;
        editor.send(&json!({ "auth": number })).await;
        while !matches!(editor.receive().await, ServerMessage::Closed(_)) {}
    }
    let mut editor = gateway.editor(&token).await;
    editor.subscribe("notification/#").await;
    deployed(&mut editor).await;
    assert!(!red.log().contains("ncaught"), "{}", red.log());
    let alive = red.request("GET", "/flows").token(TOKEN).send().await;
    assert_eq!(alive.status, 200);
}
