//! WebSocket connections to `websocket-listener` nodes of the engine: authorization, messages, and
//! their end.

use crate::client::Client;
use crate::harness::{Gateway, public, until};
use crate::tunnel::{Socket, open};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value as Json, json};
use tokio_tungstenite::tungstenite::{Error, Message};

/// A flow whose listener on `/ws` says everything again in capitals.
fn shouting() -> Json {
    json!([
        { "id": "t", "type": "tab", "label": "T" },
        { "id": "l", "type": "websocket-listener", "path": "/ws", "wholemsg": "false" },
        { "id": "ws-in", "type": "websocket in", "z": "t", "x": 1, "y": 1, "server": "l", "client": "", "wires": [["up"]] },
        { "id": "up", "type": "function", "z": "t", "x": 1, "y": 1, "outputs": 1, "wires": [["ws-out"]],
          "func": "if (typeof msg.payload === 'string') { msg.payload = msg.payload.toUpperCase(); } return msg;" },
        { "id": "ws-out", "type": "websocket out", "z": "t", "x": 1, "y": 1, "server": "l", "client": "", "wires": [] },
    ])
}

async fn received(socket: &mut Socket) -> Message {
    socket.next().await.unwrap().unwrap()
}

/// How it ended: the code of the other end's goodbye.
async fn ending(mut socket: Socket) -> u16 {
    loop {
        if let Message::Close(frame) = received(&mut socket).await {
            return frame.map_or(1005, |frame| frame.code.into());
        }
    }
}

async fn as_user(client: &Client, token: &str) -> Result<Socket, Error> {
    open(
        client,
        "/ws",
        &[("Authorization", &format!("Bearer {token}"))],
    )
    .await
}

#[tokio::test]
async fn messages_of_clients_pass_through_the_flow_and_back() {
    let gateway = Gateway::with(&public(&["/ws"]));
    let token = gateway.sign_in("admin").await;
    gateway.deploy(&token, &shouting()).await;
    let mut one = open(&gateway, "/ws", &[("Sec-WebSocket-Protocol", "chat")])
        .await
        .unwrap();
    let mut two = open(&gateway, "/WS/", &[]).await.unwrap();
    let large = "x".repeat(1 << 20);
    let all = [(true, "hello"), (false, "you"), (true, large.as_str())];
    for (first, output) in all {
        let socket = if first { &mut one } else { &mut two };
        socket.send(Message::text(output)).await.unwrap();
        assert_eq!(received(socket).await, Message::text(output.to_uppercase()));
    }
    one.send(Message::binary(vec![0, 255])).await.unwrap();
    assert_eq!(received(&mut one).await, Message::binary(vec![0, 255]));
    one.send(Message::Ping("there?".into())).await.unwrap();
    assert_eq!(received(&mut one).await, Message::Pong("there?".into()));
    one.close(None).await.unwrap();
    assert_eq!(
        gateway.get("/ws").send().await.status,
        404,
        "it is no endpoint of another kind"
    );
}

#[tokio::test]
async fn a_listener_needs_a_permission_and_closes_when_the_token_expires() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    gateway.deploy(&token, &shouting()).await;
    assert!(
        matches!(open(&gateway, "/ws", &[]).await, Err(Error::Http(refusal)) if refusal.status() == 401)
    );
    let own = gateway.sign_in("admin").await;
    let mut socket = as_user(&gateway, &own).await.unwrap();
    socket.send(Message::text("a")).await.unwrap();
    assert_eq!(received(&mut socket).await, Message::text("A"));
    let revoked = gateway
        .post("/auth/revoke")
        .token(&own)
        .form(&[("token", &own)])
        .send()
        .await;
    assert_eq!(revoked.status, 200);
    assert_eq!(ending(socket).await, 1008);
}

#[tokio::test]
async fn a_deployment_that_stops_the_listener_closes_its_websockets_and_no_others() {
    let gateway = Gateway::with(&public(&["/ws"]));
    let token = gateway.sign_in("admin").await;
    gateway.deploy(&token, &shouting()).await;
    let socket = open(&gateway, "/ws", &[]).await.unwrap();
    gateway.deploy(&token, &json!([])).await;
    assert_eq!(ending(socket).await, 1001);
    assert!(open(&gateway, "/ws", &[]).await.is_err());
    gateway.deploy(&token, &shouting()).await;
    until("it is there again", async || {
        open(&gateway, "/ws", &[]).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn a_frame_over_the_limit_is_refused() {
    let gateway = Gateway::with(&format!("[limits]\nbody = \"2KiB\"\n{}", public(&["/ws"])));
    let token = gateway.sign_in("admin").await;
    gateway.deploy(&token, &shouting()).await;
    let mut socket = open(&gateway, "/ws", &[]).await.unwrap();
    socket.send(Message::text("x".repeat(3000))).await.unwrap();
    assert_eq!(ending(socket).await, 1009);
}
