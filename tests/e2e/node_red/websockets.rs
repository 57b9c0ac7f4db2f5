//! A `WebSocket` made by a flow of a real Node-RED.

use super::NodeRed;
use crate::harness::{Gateway, public, until};
use crate::tunnel::{Socket, open_as};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value as Json, json};
use tokio_tungstenite::tungstenite::{Error, Message};

/// `/ws` says everything in capitals to who has said it; `POST /tell` tells all.
fn shouting() -> Json {
    let node = |id: &str, kind: &str, more: Json| {
        let mut node = json!({ "id": id, "type": kind, "z": "t", "x": 1, "y": 1, "wires": [] });
        node.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        node
    };
    let shout = "msg.payload = typeof msg.payload === 'string' ? msg.payload.toUpperCase() : msg.payload.reverse(); return msg";
    json!([
        { "id": "t", "type": "tab", "label": "shouting" },
        { "id": "l", "type": "websocket-listener", "path": "/ws", "wholemsg": "false" },
        node("i", "websocket in", json!({ "server": "l", "wires": [["f"]] })),
        node("f", "function", json!({ "func": shout, "outputs": 1, "wires": [["o"]] })),
        node("o", "websocket out", json!({ "server": "l" })),
        node("h", "http in", json!({ "method": "post", "url": "/tell", "wires": [["o", "r"]] })),
        node("r", "http response", json!({})),
    ])
}

#[tokio::test]
async fn a_websocket_of_a_flow_needs_a_permission_and_ends_with_the_token_or_the_flow() {
    let red = NodeRed::open();
    let gateway = Gateway::with(&(red.config() + &public(&["/tell"])));
    let token = gateway.sign_in("admin").await;
    gateway.deploy(&token, &shouting()).await;
    until("the flow runs", async || red.starts() == 2).await;

    let anonymous = open_as(&gateway, "x").await;
    assert!(matches!(anonymous, Err(Error::Http(answer)) if answer.status() == 401));
    let reader = gateway.sign_in("reader").await;
    let mut one = open_as(&gateway, &token).await.unwrap();
    let mut other = open_as(&gateway, &reader).await.unwrap();
    one.send("hello".into()).await.unwrap();
    assert_eq!(receive(&mut one).await, "HELLO".into());
    other.send(vec![1, 2, 3].into()).await.unwrap();
    assert_eq!(receive(&mut other).await, Message::binary(vec![3, 2, 1]));
    let large = "x".repeat(1 << 20);
    one.send(large.clone().into()).await.unwrap();
    assert_eq!(receive(&mut one).await, large.to_uppercase().into());

    let broadcast = gateway
        .post("/tell")
        .header("Content-Type", "text/plain")
        .body("all");
    assert_eq!(broadcast.send().await.status, 200);
    for socket in [&mut one, &mut other] {
        assert_eq!(receive(socket).await, "all".into());
    }

    let revoke = gateway
        .post("/auth/revoke")
        .token(&reader)
        .form(&[("token", &reader)]);
    assert_eq!(revoke.send().await.status, 200);
    ended(other).await;
    one.send("still".into()).await.unwrap();
    assert_eq!(receive(&mut one).await, "STILL".into());

    gateway.deploy(&token, &json!([])).await;
    ended(one).await;
}

async fn receive(socket: &mut Socket) -> Message {
    socket.next().await.unwrap().unwrap()
}

async fn ended(mut socket: Socket) {
    while let Some(message) = socket.next().await {
        assert!(
            matches!(message, Ok(Message::Close(_)) | Err(_)),
            "{message:?}"
        );
    }
}
