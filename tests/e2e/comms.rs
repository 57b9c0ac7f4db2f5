//! Editors receive the engine's events over `/comms`: authentication, events, and the end of a
//! channel.

use crate::client::PASSWORD;
use crate::comms_client::ServerMessage;
use crate::harness::{Gateway, hash, until};
use crate::stopwatch::Stopwatch;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value as Json, json};
use std::time::{Duration, Instant};
use tokio_tungstenite::tungstenite::{Error, Message};

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
async fn an_editor_signs_in_and_receives_events() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    let mut editor = gateway.editor(&token).await;
    editor.subscribe("notification/#").await;
    // In one frame, or in two on a busy machine.
    let state = editor.topic("notification/runtime-state").await;
    assert_eq!(state["state"], "start");
    editor.topic("notification/runtime-deploy").await;

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
async fn a_channel_with_an_invalid_token_is_closed() {
    let gateway = Gateway::start();
    let mut editor = gateway.comms().await;
    editor.send(&json!({ "auth": "nope" })).await;
    editor.is_rejected().await;
    let deployer = gateway.sign_in("deployer").await;
    for first in [json!({ "auth": deployer }), json!({ "subscribe": "debug" })] {
        let mut editor = gateway.comms().await;
        // What is not JSON is ignored.
        editor.send_text("{bad").await;
        editor.send(&first).await;
        editor.is_rejected().await;
    }
    let checks = "flowgate_token_checks_total{result=\"invalid\"}";
    assert_eq!(gateway.metric(checks).await, Some(1.0));
    let refused = "flowgate_comms_closed_total{cause=\"refused\"}";
    assert_eq!(gateway.metric(refused).await, Some(3.0));
    let fails = async || {
        let audit = gateway.audit();
        audit
            .iter()
            .filter(|line| line["event"] == "comms.auth.fail")
            .count()
            == 3
    };
    until("the audit log has them", fails).await;
}

#[tokio::test]
async fn a_channel_without_a_sign_in_is_closed_after_the_time_out() {
    let gateway = Gateway::with("[comms]\nsign_in = \"100ms\"");
    let mut editor = gateway.comms().await;
    editor.send_text("not JSON").await;
    editor.is_rejected().await;
    let silent = "flowgate_comms_closed_total{cause=\"silent\"}";
    assert_eq!(gateway.metric(silent).await, Some(1.0));
}

#[tokio::test]
async fn channels_without_a_sign_in_are_limited_and_a_sign_in_releases_one() {
    let gateway = Gateway::with("[comms]\nsign_in = \"1h\"\nwaiting_per_address = 3");
    let token = gateway.sign_in("reader").await;
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(gateway.comms().await);
    }
    let Err(Error::Http(refused)) = gateway.open_comms(&[]).await else {
        panic!("there was room for one more");
    };
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.headers()["retry-after"], "1");
    // One signs in, one leaves: both make room.
    let mut editor = waiting.pop().unwrap();
    editor.send(&json!({ "auth": token })).await;
    assert_eq!(editor.receive().await, ServerMessage::Auth("ok".to_owned()));
    waiting.push(gateway.comms().await);
    assert!(gateway.open_comms(&[]).await.is_err());
    waiting.pop();
    until("there is room again", async || {
        gateway.open_comms(&[]).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn no_event_is_sent_before_the_sign_in() {
    let gateway = Gateway::with("[comms]\nheartbeat = \"10ms\"");
    let token = gateway.sign_in("admin").await;
    let mut anonymous = gateway.comms().await;
    let mut editor = gateway.editor(&token).await;
    gateway.deploy(&token, &flow("return msg")).await;
    editor.topic("notification/runtime-deploy").await;
    for _ in 0..3 {
        editor.receive_any().await;
    }
    anonymous.send(&json!({ "auth": "nope" })).await;
    assert_eq!(
        anonymous.receive_any().await,
        ServerMessage::Auth("fail".to_owned())
    );
}

#[tokio::test]
async fn a_repeated_sign_in_must_have_a_valid_token() {
    let gateway = Gateway::start();
    let (one, other) = (
        gateway.sign_in("reader").await,
        gateway.sign_in("admin").await,
    );
    let mut editor = gateway.editor(&one).await;
    editor.send(&json!({ "auth": other })).await;
    assert_eq!(editor.receive().await, ServerMessage::Auth("ok".to_owned()));
    // The first session no longer counts.
    revoke(&gateway, &other, &one).await;
    editor.subscribe("notification/runtime-state").await;
    editor.topic("notification/runtime-state").await;
    editor.send(&json!({ "auth": "nope" })).await;
    editor.is_rejected().await;
}

#[tokio::test]
async fn a_sign_in_as_another_user_is_a_close_and_an_open_in_the_log() {
    let gateway = Gateway::start();
    let reader = gateway.sign_in("reader").await;
    let again = gateway.sign_in("reader").await;
    let admin = gateway.sign_in("admin").await;
    let mut editor = gateway.editor(&reader).await;
    for token in [&again, &admin] {
        editor.send(&json!({ "auth": token })).await;
        assert_eq!(editor.receive().await, ServerMessage::Auth("ok".to_owned()));
    }
    editor.send(&json!({ "auth": "nope" })).await;
    editor.is_rejected().await;
    let directory = gateway.stop().await;
    let text = std::fs::read_to_string(directory.path().join("data/audit.log")).unwrap();
    let lines = text.lines();
    let lines = lines.map(|line| serde_json::from_str::<Json>(line).unwrap());
    let comms: Vec<String> = lines
        .filter(|line| line["event"].as_str().unwrap().starts_with("comms."))
        .map(|line| {
            [&line["event"], &line["user"], &line["cause"]]
                .map(ToString::to_string)
                .join(" ")
        })
        .collect();
    let expected = [
        r#""comms.open" "reader" null"#,
        r#""comms.close" "reader" "replaced""#,
        r#""comms.open" "admin" null"#,
        r#""comms.close" "admin" "refused""#,
        r#""comms.auth.fail" "admin" "refused""#,
    ];
    assert_eq!(comms, expected);
}

async fn revoke(gateway: &Gateway, caller: &str, token: &str) {
    let request = gateway.post("/auth/revoke").token(caller);
    assert_eq!(request.form(&[("token", token)]).send().await.status, 200);
}

#[tokio::test]
async fn a_revoked_token_ends_its_channels_at_once() {
    let gateway = Gateway::start();
    let (token, other) = (
        gateway.sign_in("reader").await,
        gateway.sign_in("reader").await,
    );
    let (mut one, mut two) = (gateway.editor(&token).await, gateway.editor(&token).await);
    let mut stays = gateway.editor(&other).await;
    revoke(&gateway, &token, &token).await;
    one.is_rejected().await;
    two.is_rejected().await;
    stays.subscribe("notification/runtime-state").await;
    stays.topic("notification/runtime-state").await;
    let active = "flowgate_comms_connections{state=\"active\"}";
    until("two have ended", async || {
        gateway.metric(active).await == Some(1.0)
    })
    .await;
}

#[tokio::test]
async fn an_expired_token_ends_its_channels_within_seconds() {
    let gateway = Gateway::with("[auth]\nlifetime = \"4s\"");
    let token = gateway.sign_in("reader").await;
    let stopwatch = Stopwatch::start();
    let mut editor = gateway.editor(&token).await;
    editor.is_rejected().await;
    // Not by the sweep, which comes after 30 s.
    stopwatch.assert_within(Duration::from_secs(20));
    let ended = "flowgate_comms_closed_total{cause=\"session\"}";
    assert_eq!(gateway.metric(ended).await, Some(1.0));
}

#[tokio::test]
async fn a_reload_that_takes_the_permission_or_the_user_ends_their_channels() {
    let user = |name: &str, permission: &str| {
        let hash = hash(PASSWORD);
        format!(
            "[[auth.user]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\npermissions = [\"{permission}\"]\n"
        )
    };
    let before = user("ann", "read") + &user("bob", "read") + &user("eve", "*");
    let gateway = Gateway::with(&before);
    let mut editors = Vec::new();
    for name in ["ann", "bob", "eve"] {
        let token = gateway.sign_in(name).await;
        editors.push(gateway.editor(&token).await);
    }
    let after = user("bob", "flows.read") + &user("eve", "status.read");
    assert!(gateway.reload(&after).await);
    editors[0].is_rejected().await;
    editors[1].is_rejected().await;
    editors[2].subscribe("notification/runtime-state").await;
    editors[2].topic("notification/runtime-state").await;
    let lost = "flowgate_comms_closed_total{cause=\"permission\"}";
    assert_eq!(gateway.metric(lost).await, Some(1.0));
}

#[tokio::test]
async fn anonymous_readers_receive_events_without_a_token() {
    let gateway = Gateway::with("[auth]\nanonymous = [\"read\"]");
    let mut editor = gateway.comms().await;
    editor.subscribe("notification/runtime-state").await;
    editor.topic("notification/runtime-state").await;
    let token = gateway.sign_in("admin").await;
    editor.send(&json!({ "auth": token })).await;
    assert_eq!(editor.receive().await, ServerMessage::Auth("ok".to_owned()));
    let mut other = gateway.comms().await;
    other.subscribe("notification/runtime-state").await;
    other.topic("notification/runtime-state").await;
    gateway.reload("").await;
    other.is_rejected().await;
}

#[tokio::test]
async fn without_users_every_channel_receives_events_at_once() {
    let gateway = Gateway::with("auth = \"off\"");
    let mut editor = gateway.comms().await;
    editor.send(&json!({ "auth": "anything" })).await;
    assert_eq!(editor.receive().await, ServerMessage::Auth("ok".to_owned()));
    editor.subscribe("notification/runtime-state").await;
    editor.topic("notification/runtime-state").await;
}

#[tokio::test]
async fn an_invalid_frame_ends_the_channel_with_its_close_code() {
    let gateway = Gateway::with("[comms]\nframe = \"1KiB\"");
    let token = gateway.sign_in("reader").await;
    let publish = json!({ "topic": "multiplayer/connect", "data": { "session": "s" } });
    for (frame, code) in [
        (Message::text("[]"), 1008),
        (Message::text("7"), 1008),
        (Message::text(r#"{"subscribe":["a"]}"#), 1008),
        (Message::text(r#"{"topic":"a","data":null}"#), 1008),
        (Message::binary("{}"), 1003),
        (Message::text("x".repeat(1025)), 1009),
        (Message::text(publish.to_string()), 0),
        (Message::text("{bad"), 0),
        (Message::text(r#"{"subscribe":"++++"}"#), 0),
    ] {
        let mut editor = gateway.editor(&token).await;
        editor.socket.send(frame.clone()).await.unwrap();
        if code == 0 {
            editor.subscribe("notification/runtime-state").await;
            editor.topic("notification/runtime-state").await;
        } else {
            editor.ends_with(&ServerMessage::Closed(Some(code))).await;
        }
    }
}

#[tokio::test]
async fn a_ping_is_answered() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("reader").await;
    let mut editor = gateway.editor(&token).await;
    editor
        .socket
        .send(Message::Ping("there?".into()))
        .await
        .unwrap();
    while editor.socket.next().await.unwrap().unwrap() != Message::Pong("there?".into()) {}
}

#[tokio::test]
async fn the_first_valid_subprotocol_is_accepted_and_extensions_are_not() {
    let gateway = Gateway::start();
    let offer = ("sec-websocket-extensions", "permessage-deflate");
    let asked = [("sec-websocket-protocol", "one, two"), offer];
    let (_, answer) = gateway.open_comms(&asked).await.unwrap();
    assert_eq!(answer.headers()["sec-websocket-protocol"], "one");
    assert!(!answer.headers().contains_key("sec-websocket-extensions"));
    assert!(answer.headers().contains_key("x-request-id"));
    assert_eq!(gateway.get("/comms").send().await.status, 426);
}

#[tokio::test]
async fn a_heartbeat_carries_the_start_time_of_the_gateway() {
    let gateway = Gateway::with("[comms]\nheartbeat = \"20ms\"");
    let token = gateway.sign_in("reader").await;
    let mut editor = gateway.editor(&token).await;
    let mut heartbeats = Vec::new();
    while heartbeats.len() < 3 {
        match editor.receive_any().await {
            ServerMessage::Batch(batch) => {
                heartbeats.extend(batch.into_iter().filter(|m| m["topic"] == "hb"));
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(heartbeats[0]["data"].as_u64().unwrap() > 1_700_000_000_000);
    assert!(
        heartbeats
            .iter()
            .all(|heartbeat| *heartbeat == heartbeats[0])
    );
}

#[tokio::test]
async fn the_status_of_a_removed_node_is_cleared() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    gateway
        .deploy(&token, &flow("node.status('busy'); return msg"))
        .await;
    inject(&gateway, &token).await;
    let mut editor = gateway.editor(&token).await;
    let status_data = json!({ "text": "busy" });
    until("the status is retained", async || {
        editor.subscribe("status/f").await;
        editor.subscribe("notification/runtime-state").await;
        let batch = editor.batch().await;
        batch[0]["topic"] == "status/f" && batch[0]["data"] == status_data
    })
    .await;
    gateway.deploy(&token, &json!([])).await;
    let mut cleared = editor.topic("status/f").await;
    while cleared == status_data {
        cleared = editor.topic("status/f").await;
    }
    assert_eq!(cleared, json!({}));
    let mut other = gateway.editor(&token).await;
    other.subscribe("status/#").await;
    other.subscribe("notification/runtime-state").await;
    assert_eq!(
        other.batch().await[0]["topic"],
        "notification/runtime-state"
    );
}

#[tokio::test]
async fn a_flood_of_debug_messages_is_dropped_and_counted_and_the_last_status_arrives() {
    let gateway = Gateway::with("[comms]\nbacklog = \"64KiB\"");
    let token = gateway.sign_in("admin").await;
    let code = "for (let i = 0; i < 5000; i++) { node.send({ payload: i }); node.status('at ' + i) } node.status('done')";
    gateway.deploy(&token, &flow(code)).await;
    let mut editor = gateway.editor(&token).await;
    inject(&gateway, &token).await;
    let mut status = editor.topic("status/f").await;
    while status != json!({ "text": "done" }) {
        status = editor.topic("status/f").await;
    }
    let mut editor = gateway.editor(&token).await;
    editor.subscribe("status/f").await;
    assert_eq!(editor.topic("status/f").await, json!({ "text": "done" }));
}

#[tokio::test]
async fn a_slow_editor_is_disconnected_while_others_receive_everything() {
    let gateway = Gateway::with("[comms]\nqueue = \"64KiB\"");
    let token = gateway.sign_in("admin").await;
    gateway
        .deploy(
            &token,
            &flow("node.status('x'.repeat(60000) + Math.random())"),
        )
        .await;
    let _slow = gateway.editor(&token).await;
    let mut quick = gateway.editor(&token).await;
    let cut_off = "flowgate_comms_closed_total{cause=\"slow\"}";
    let mut output = 0;
    while gateway.metric(cut_off).await != Some(1.0) {
        inject(&gateway, &token).await;
        quick.topic("status/f").await;
        output += 1;
        assert!(output < 2_000, "it is never cut off");
    }
    inject(&gateway, &token).await;
    quick.topic("status/f").await;
}

/// Debug messages of 60 KB: more than the buffers of the two ends of a connection hold.
const LONG_MESSAGES: u64 = 400;

#[tokio::test]
async fn a_slow_editor_loses_debug_messages_and_receives_their_number_and_the_newest() {
    let gateway = Gateway::with("[comms]\nqueue = \"256KiB\"\n[engine]\ndebug_length = 100000");
    let token = gateway.sign_in("admin").await;
    let code =
        "msg.payload = (context.n = (context.n || 0) + 1) + ':' + 'x'.repeat(60000); return msg";
    gateway.deploy(&token, &flow(code)).await;
    let (mut slow, mut quick) = (gateway.editor(&token).await, gateway.editor(&token).await);
    let number = |data: &Json| {
        let text = data["msg"].as_str().unwrap();
        text.split(':').next().unwrap().parse::<u64>().ok()
    };
    for n in 1..=LONG_MESSAGES {
        inject(&gateway, &token).await;
        assert_eq!(number(&quick.topic("debug").await), Some(n));
    }
    let (mut received, mut lost, mut newest) = (0, 0, 0);
    while newest < LONG_MESSAGES {
        let data = slow.topic("debug").await;
        if let Some(n) = number(&data) {
            assert!(n > newest);
            (received, newest) = (received + 1, n);
        } else {
            let note = data["msg"].as_str().unwrap();
            lost += note.split(' ').next().unwrap().parse::<u64>().unwrap();
        }
    }
    assert_eq!(received + lost, LONG_MESSAGES);
    assert!(lost > 0);
}

#[tokio::test]
async fn a_flood_of_frames_is_rate_limited() {
    let gateway = Gateway::with("[comms]\nframes = 10");
    let token = gateway.sign_in("admin").await;
    let mut editor = gateway.editor(&token).await;
    gateway.deploy(&token, &json!([])).await;
    editor.topic("notification/runtime-deploy").await;
    let since = Instant::now();
    for _ in 0..30 {
        editor.subscribe("notification/runtime-state").await;
    }
    for _ in 0..30 {
        editor.batch().await;
    }
    // Ten at once (nine, after the token), ten when the next second begins, and so on.
    assert!(since.elapsed() > Duration::from_millis(900));
}

#[tokio::test]
async fn a_drain_closes_channels_with_going_away_within_seconds() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("reader").await;
    let (mut editor, mut anonymous) = (gateway.editor(&token).await, gateway.comms().await);
    let Gateway { running, .. } = gateway;
    let stopwatch = Stopwatch::start();
    tokio::join!(
        running.drain(),
        editor.ends_with(&ServerMessage::Closed(Some(1001))),
        async {
            anonymous
                .ends_with(&ServerMessage::Closed(Some(1001)))
                .await;
        }
    );
    stopwatch.assert_within(Duration::from_secs(15));
}
