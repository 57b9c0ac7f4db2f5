//! Channels and tunnels of clients with a certificate.

use crate::certificate_authority::{Authority, ClientCertificate};
use crate::client_certificates::{gateway, users};
use crate::comms_client::{Channel, ServerMessage};
use crate::harness::until;
use crate::tunnel;
use serde_json::json;
use tokio_tungstenite::tungstenite::Error;

#[tokio::test]
async fn a_certificate_that_expires_while_its_connection_is_open_counts_no_longer() {
    let authority = Authority::new("ours");
    let gateway = gateway(&authority, "");
    let token = gateway.sign_in("admin").await;
    gateway.deploy(&token, &tunnel_flow()).await;
    let soon = authority.sign(&ClientCertificate::named("root").good(-60, 3));
    let client = gateway.with_certificate(&soon);
    let mut open = client.connect(true).await.unwrap();
    assert_eq!(open.send(gateway.get("/flows")).await.unwrap().status, 200);
    let mut editor = client.comms().await;
    editor.subscribe("#").await;
    let socket = tunnel::open(&client, "/ws", &[]).await.unwrap();
    until("it is over", async || {
        open.send(gateway.get("/flows")).await.unwrap().status == 401
    })
    .await;
    refused(&mut editor).await;
    assert_eq!(ending(socket).await, 1008);
}

/// Reads until the gateway refuses the editor.
async fn refused(editor: &mut Channel) {
    while editor.receive().await != ServerMessage::Auth("fail".to_owned()) {}
}

/// A flow with a listener on `/ws`.
pub fn tunnel_flow() -> serde_json::Value {
    json!([
        { "id": "t", "type": "tab", "label": "T" },
        { "id": "l", "type": "websocket-listener", "path": "/ws", "wholemsg": "false" },
        { "id": "ws-in", "type": "websocket in", "z": "t", "x": 1, "y": 1, "server": "l", "client": "", "wires": [[]] },
    ])
}

async fn ending(mut socket: tunnel::Socket) -> u16 {
    use futures_util::StreamExt;
    use tokio_tungstenite::tungstenite::Message;
    loop {
        if let Message::Close(frame) = socket.next().await.unwrap().unwrap() {
            return frame.map_or(1005, |frame| frame.code.into());
        }
    }
}

#[tokio::test]
async fn a_certificate_opens_the_channel_of_an_editor_but_not_of_another_origin() {
    let authority = Authority::new("ours");
    let gateway = gateway(
        &authority,
        "[comms]\norigins = [\"https://trusted.example\"]\n",
    );
    let robot = authority.sign(&ClientCertificate::named("x").dns("robot.example.org"));
    let client = gateway.with_certificate(&robot);
    let mut editor = client.comms().await;
    editor.subscribe("#").await;
    until("it is signed in", async || {
        let open =
            |line: &serde_json::Value| line["event"] == "comms.open" && line["user"] == "robot";
        gateway.audit().iter().any(open)
    })
    .await;
    for foreign in ["https://elsewhere.example", "null"] {
        let opened = client.open_comms(&[("Origin", foreign)]).await;
        assert!(matches!(opened, Err(Error::Http(refusal)) if refusal.status() == 403));
    }
    let opened = client
        .open_comms(&[("Origin", "https://trusted.example")])
        .await;
    let mut trusted = opened.unwrap().0;
    trusted.subscribe("#").await;
    assert_eq!(
        trusted.receive().await,
        ServerMessage::Auth("fail".to_owned())
    );
    // A token counts more, here too.
    let mut other = client.comms().await;
    other.send(&json!({ "auth": "nonsense" })).await;
    assert_eq!(
        other.receive().await,
        ServerMessage::Auth("fail".to_owned())
    );
    assert!(
        gateway
            .reload(
                &users("")
                    .replace("dns:robot", "dns:gone")
                    .replace("email:robot", "email:gone")
            )
            .await
    );
    // The user is gone.
    refused(&mut editor).await;
}
