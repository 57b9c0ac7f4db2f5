//! An upstream that listens on a Unix socket: a server on TCP with a socket before it, through
//! which every byte passes.

use crate::comms_client::Channel;
use crate::harness::{Gateway, public, until};
use crate::mock_upstream::{Action, MockUpstream, ok};
use crate::node_red::NodeRed;
use crate::tunnel::{open_as, try_out};
use serde_json::{Value as Json, json};
use std::net::SocketAddr;
use std::path::Path;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpStream, UnixListener};
use tokio::task::{AbortHandle, JoinSet};

/// Listens on a Unix socket until it is aborted, with all connections.
fn listen(socket: &Path, server: SocketAddr) -> AbortHandle {
    let _ = std::fs::remove_file(socket);
    let listener = UnixListener::bind(socket).unwrap();
    let accepts = async move {
        let mut connections = JoinSet::new();
        loop {
            let (mut unix, _) = listener.accept().await.unwrap();
            connections.spawn(async move {
                let mut tcp = TcpStream::connect(server).await.unwrap();
                let _ = copy_bidirectional(&mut unix, &mut tcp).await;
            });
        }
    };
    tokio::spawn(accepts).abort_handle()
}

/// A debug node behind an inject node, and a WebSocket that repeats what it gets.
fn flows() -> Json {
    json!([
        { "id": "t", "type": "tab", "label": "t" },
        { "id": "go", "type": "inject", "z": "t", "x": 1, "y": 1, "props": [{ "p": "payload" }],
          "payload": "hello", "payloadType": "str", "wires": [["d"]] },
        { "id": "d", "type": "debug", "z": "t", "x": 3, "y": 1, "active": true, "tosidebar": true,
          "complete": "payload", "targetType": "msg", "wires": [] },
        { "id": "l", "type": "websocket-listener", "path": "/ws", "wholemsg": "false" },
        { "id": "i", "type": "websocket in", "z": "t", "x": 1, "y": 2, "server": "l", "wires": [["o"]] },
        { "id": "o", "type": "websocket out", "z": "t", "x": 2, "y": 2, "server": "l", "wires": [] },
    ])
}

/// Waits until an editor has received this deployment; an older one may come before.
async fn until_deployed(editor: &mut Channel, rev: &str) {
    while editor.topic("notification/runtime-deploy").await["revision"] != *rev {}
}

#[tokio::test]
async fn a_unix_socket_has_admin_roots_and_names_as_other_upstreams() {
    let answer = |request: &str| request.lines().next().unwrap_or_default().to_owned();
    let behind =
        MockUpstream::start(move |request| Action::Respond(ok("text/plain", &answer(request))))
            .await;
    let directory = tempfile::tempdir().unwrap();
    let _listening = listen(&directory.path().join("plant.sock"), behind.address);
    let lines =
        "[[upstream]]\nurl = \"unix:plant.sock\"\npath = \"/plant\"\nadmin_root = \"/admin\"\n";
    let gateway = Gateway::open(&(lines.to_owned() + &public(&["/x"])), directory);
    assert_eq!(
        gateway.get("/plant/x").send().await.text(),
        "GET /x HTTP/1.1"
    );
    until("its health check has succeeded", async || {
        let ready = gateway.operations("/readyz").await;
        ready.status == 200 && ready.json()["upstreams"]["plant.sock"] == "well"
    })
    .await;
    // Among the gateway's own health checks.
    let received = behind.received().into_iter();
    let mut forwarded = received.filter(|request| request.bytes.starts_with("GET /x "));
    let head = forwarded.next().unwrap().bytes;
    assert!(
        head.contains(&format!("host: {}\r\n", gateway.address)),
        "{head}"
    );
}

#[tokio::test]
async fn deployments_channels_and_websockets_pass_through_a_unix_socket_and_editors_stay_while_nobody_listens()
 {
    let red = NodeRed::open();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("red.sock");
    let listening = listen(&socket, red.address);
    let lines = "[upstream]\nurl = \"unix:red.sock\"\n[comms]\nupstream_away = \"1m\"\n";
    let gateway = Gateway::open(lines, directory);
    let token = gateway.sign_in("admin").await;
    let rev = gateway.deploy(&token, &flows()).await;
    until("the flows run", async || red.starts() == 2).await;
    let stale = gateway.deployment(&token, &flows(), Some("other"));
    assert_eq!(stale.send().await.code(), "version_mismatch");
    let mut editor = gateway.editor(&token).await;
    editor.subscribe("notification/#").await;
    until_deployed(&mut editor, &rev).await;
    let mut websocket = open_as(&gateway, &token).await.unwrap();
    try_out(&mut websocket).await;

    listening.abort();
    until("the socket refuses", async || {
        std::os::unix::net::UnixStream::connect(&socket).is_err()
    })
    .await;
    let refused = gateway.get("/flows").token(&token).send().await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (503, "upstream_not_listening")
    );
    assert_eq!(refused.header("retry-after"), "1");
    let _listening = listen(&socket, red.address);
    assert_eq!(gateway.flows(&token).await["rev"], *rev);
    // The deployment is retained, so the editor gets it whenever its link is open again.
    let mut changed = flows();
    changed[0]["label"] = "changed".into();
    let rev = gateway.deploy(&token, &changed).await;
    until_deployed(&mut editor, &rev).await;
    until("the flow runs", async || {
        let injected = gateway.post("/inject/go").token(&token).send().await;
        injected.status == 200
    })
    .await;
    assert_eq!(editor.topic("debug").await["msg"], "hello");
}
