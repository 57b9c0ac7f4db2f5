//! Editors hear what our own engine says, over `/comms`: who may, what they hear, and when they must go.

use crate::channel::Told;
use crate::harness::{Gateway, until};
use serde_json::{Value as Json, json};
use tokio_tungstenite::tungstenite::Error;

/// A flow with an inject node `go`, a function node `f` with this code, and a debug node `d`.
fn flow(code: &str) -> Json {
    json!([
        { "id": "t", "type": "tab", "label": "T" },
        { "id": "go", "type": "inject", "z": "t", "x": 1, "y": 1, "props": [], "wires": [["f"]] },
        { "id": "f", "type": "function", "z": "t", "x": 2, "y": 1, "func": code, "outputs": 1, "wires": [["d"]] },
        { "id": "d", "type": "debug", "z": "t", "x": 3, "y": 1, "active": true, "tosidebar": true,
          "complete": "payload", "targetType": "msg", "wires": [] },
    ])
}

async fn inject(gateway: &Gateway, token: &str) {
    let answer = gateway.post("/inject/go").token(token).send().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[tokio::test]
async fn an_editor_signs_in_and_hears_what_happens() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    let mut editor = gateway.editor(&token).await;
    editor.subscribe("notification/#").await;
    let told = editor.batch().await;
    assert_eq!(told[0]["topic"], "notification/runtime-state");
    assert_eq!(told[0]["data"]["state"], "start");
    assert_eq!(told[1]["topic"], "notification/runtime-deploy");

    let code = "node.status({ fill: 'green', shape: 'dot', text: 'ok' }); msg.payload = 'hello'; return msg";
    let rev = gateway.deploy(&token, &flow(code)).await;
    let deployed = editor.topic("notification/runtime-deploy").await;
    assert_eq!(deployed, json!({ "revision": rev }));
    inject(&gateway, &token).await;
    let status = editor.topic("status/f").await;
    assert_eq!(
        status,
        json!({ "text": "ok", "fill": "green", "shape": "dot" })
    );
    let shown = editor.topic("debug").await;
    assert_eq!(
        (&shown["msg"], &shown["format"]),
        (&json!("hello"), &json!("string[5]"))
    );
}

#[tokio::test]
async fn a_page_of_another_origin_is_refused() {
    let gateway = Gateway::with("[comms]\norigins = [\"https://trusted.example\"]");
    let own = format!("https://{}", gateway.address);
    for origin in [own.as_str(), "https://trusted.example:443"] {
        assert!(
            gateway.open_comms(&[("origin", origin)]).await.is_ok(),
            "{origin}"
        );
    }
    for origin in ["https://evil.example", "http://trusted.example", "null", ""] {
        match gateway.open_comms(&[("origin", origin)]).await {
            Err(Error::Http(response)) => assert_eq!(response.status(), 403, "{origin}"),
            other => panic!("{origin}: {:?}", other.map(|_| ())),
        }
    }
    until("all have gone", async || {
        gateway
            .metric("flowgate_comms_connections{state=\"waiting\"}")
            .await
            == Some(0.0)
    })
    .await;
}

#[tokio::test]
async fn who_shows_no_good_token_is_sent_away() {
    let gateway = Gateway::start();
    let mut editor = gateway.comms().await;
    editor.say(&json!({ "auth": "nope" })).await;
    editor.is_sent_away().await;
    let deployer = gateway.sign_in("deployer").await;
    for first in [json!({ "auth": deployer }), json!({ "subscribe": "debug" })] {
        let mut editor = gateway.comms().await;
        editor.say_text("{bad").await;
        editor.say(&first).await;
        editor.is_sent_away().await;
        assert_eq!(editor.hear().await, Told::Closed(Some(1006)));
    }
}
