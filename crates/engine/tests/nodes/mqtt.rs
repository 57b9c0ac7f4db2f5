//! `mqtt-broker`, `mqtt in` and `mqtt out` in a running engine, with mosquitto as the broker.

use crate::bench::{Bench, debug};
use crate::http_server::certificate;
use crate::mosquitto::{Mosquitto, OPEN};
use crate::steps::merged;
use serde_json::{Value as Json, json};
use std::process::Command;
use std::time::Duration;
use testing::ports;

fn mqtt_in(id: &str, more: &Json) -> Json {
    merged(
        json!({ "id": id, "type": "mqtt in", "z": "t", "x": 1, "y": 1, "topic": "a/#", "qos": "2",
        "datatype": "auto-detect", "broker": "b", "nl": false, "rap": true, "rh": 0, "inputs": 0, "wires": [["out"]] }),
        more,
    )
}

fn mqtt_out(more: &Json) -> Json {
    merged(
        json!({ "id": "send", "type": "mqtt out", "z": "t", "x": 1, "y": 1, "topic": "", "qos": "", "retain": "",
        "broker": "b", "wires": [] }),
        more,
    )
}

/// A tab in which `in` sends to `send`; `out` shows what comes, `done` what is completed, `caught`
/// what fails.
fn flow(nodes: &[Json]) -> Json {
    let mut flow = vec![
        json!({ "id": "t", "type": "tab", "label": "T" }),
        json!({ "id": "in", "type": "inject", "z": "t", "x": 1, "y": 1, "props": [], "wires": [["send"]] }),
        json!({ "id": "ask", "type": "inject", "z": "t", "x": 1, "y": 1, "props": [], "wires": [["listen"]] }),
        json!({ "id": "c", "type": "complete", "z": "t", "x": 1, "y": 1, "scope": ["send", "listen"], "wires": [["done"]] }),
        json!({ "id": "e", "type": "catch", "z": "t", "x": 1, "y": 1, "scope": null, "wires": [["caught"]] }),
        debug("out"),
        debug("done"),
        debug("caught"),
    ];
    flow.extend_from_slice(nodes);
    Json::Array(flow)
}

/// Sends a message into the flow.
async fn send(bench: &Bench, at: &str, message: &Json) {
    let props = message.as_object().unwrap().iter();
    let props: Vec<Json> = props
        .map(|(p, v)| json!({ "p": p, "v": v.to_string(), "vt": "json" }))
        .collect();
    bench
        .engine
        .inject(at, Some(json!({ "__user_inject_props__": props })))
        .await
        .unwrap();
}

/// The next message of the debug node of this name.
async fn at(bench: &mut Bench, name: &str) -> Json {
    loop {
        let (from, mut message) = bench.output().await;
        if from == name {
            message.as_object_mut().unwrap().remove("_msgid");
            return message;
        }
    }
}

/// Waits for the status of a node.
async fn wait_for_status(bench: &mut Bench, node: &str, text: &str) {
    loop {
        let (id, status) = bench.status().await;
        if id == node && status["text"] == format!("node-red:common.status.{text}") {
            return;
        }
    }
}

/// A bench on which all of these nodes are connected.
async fn connected(nodes: &[Json]) -> Bench {
    let mut bench = Bench::with(&flow(nodes)).await;
    wait_for_status(
        &mut bench,
        nodes.last().unwrap()["id"].as_str().unwrap(),
        "connected",
    )
    .await;
    bench
}

#[tokio::test]
async fn messages_go_out_and_come_in_at_every_quality_in_every_version() {
    let broker = Mosquitto::open().await;
    for version in ["3", "4", "5"] {
        let nodes = [
            broker.node(&json!({ "protocolVersion": version })),
            mqtt_in("listen", &json!({})),
            mqtt_out(&json!({})),
        ];
        let mut bench = connected(&nodes).await;
        for qos in 0..3 {
            send(
                &bench,
                "in",
                &json!({ "topic": "a/b", "qos": qos, "payload": { "n": qos } }),
            )
            .await;
            // Completion and arrival may come in either order.
            let (first, second) = (bench.output().await, bench.output().await);
            let (done, came) = if first.0 == "done" {
                (first.1, second.1)
            } else {
                (second.1, first.1)
            };
            assert_eq!(
                (&came["topic"], &came["payload"]),
                (&json!("a/b"), &json!({ "n": qos })),
                "version {version}"
            );
            assert_eq!(
                (&came["qos"], &came["retain"], &came["_topic"]),
                (&json!(qos), &json!(false), &json!("a/b"))
            );
            assert_eq!(
                (&done["topic"], &done["complete"]["source"]["id"]),
                (&json!("a/b"), &json!("send"))
            );
        }
    }
}

#[tokio::test]
async fn retained_messages_wait_for_subscribers() {
    let broker = Mosquitto::open().await;
    let mut bench = connected(&[
        broker.node(&json!({})),
        mqtt_out(&json!({ "topic": "a/kept", "retain": "true", "qos": "1" })),
    ])
    .await;
    send(&bench, "in", &json!({ "payload": "kept" })).await;
    at(&mut bench, "done").await;
    let mut bench = connected(&[
        broker.node(&json!({})),
        mqtt_in(
            "listen",
            &json!({ "topic": "+/kept", "datatype": "buffer" }),
        ),
    ])
    .await;
    let came = at(&mut bench, "out").await;
    assert_eq!(
        (&came["retain"], &came["payload"]["data"]),
        (&json!(true), &json!(b"kept"))
    );
}

#[tokio::test]
async fn version_5_carries_properties() {
    let broker = Mosquitto::open().await;
    let out = mqtt_out(
        &json!({ "respTopic": "re/ply", "correl": "id", "expiry": "60", "contentType": "application/json",
        "userProps": "{\"a\":\"1\"}" }),
    );
    let nodes = [
        broker.node(&json!({ "protocolVersion": "5" })),
        mqtt_in("listen", &json!({})),
        out,
    ];
    let mut bench = connected(&nodes).await;
    for _ in 0..2 {
        // The second one goes by its alias.
        send(&bench, "in", &json!({ "topic": "a/5", "payload": "[1]", "topicAlias": 1, "payloadFormatIndicator": true })).await;
        let came = at(&mut bench, "out").await;
        assert_eq!(
            (&came["topic"], &came["payload"]),
            (&json!("a/5"), &json!([1]))
        );
        assert_eq!(
            (&came["responseTopic"], &came["contentType"]),
            (&json!("re/ply"), &json!("application/json"))
        );
        assert_eq!(
            (&came["correlationData"]["data"], &came["userProperties"]),
            (&json!(b"id"), &json!({ "a": "1" }))
        );
        assert_eq!(
            (
                &came["messageExpiryInterval"],
                &came["payloadFormatIndicator"]
            ),
            (&json!(60), &json!(true))
        );
    }
}

#[tokio::test]
async fn messages_control_subscriptions() {
    let broker = Mosquitto::open().await;
    let nodes = [
        broker.node(&json!({})),
        mqtt_out(&json!({})),
        mqtt_in("listen", &json!({ "inputs": 1, "topic": "" })),
    ];
    let mut bench = connected(&nodes).await;
    send(&bench, "ask", &json!({ "action": "subscribe", "topic": ["a/1", { "topic": "a/2", "qos": 1, "datatype": "base64" }] })).await;
    let all =
        json!([{ "topic": "a/1", "qos": 2 }, { "topic": "a/2", "qos": 1, "datatype": "base64" }]);
    assert_eq!(at(&mut bench, "done").await["subscriptions"], all);
    send(&bench, "ask", &json!({ "action": "getSubscriptions" })).await;
    let listed = at(&mut bench, "out").await;
    assert_eq!(
        (&listed["topic"], &listed["payload"]),
        (&json!("subscriptions"), &all)
    );
    send(
        &bench,
        "in",
        &json!({ "topic": "a/2", "payload": "hi", "qos": 2 }),
    )
    .await;
    let came = at(&mut bench, "out").await;
    assert_eq!(
        (&came["payload"], &came["qos"]),
        (&json!("aGk="), &json!(1))
    );
    send(
        &bench,
        "ask",
        &json!({ "action": "unsubscribe", "topic": "a/2" }),
    )
    .await;
    // The message that was published may be completed first.
    let left = loop {
        let done = at(&mut bench, "done").await;
        if done["action"] == "unsubscribe" {
            break done;
        }
    };
    assert_eq!(left["subscriptions"], json!([{ "topic": "a/1", "qos": 2 }]));
    for payload in ["2", "1"] {
        send(
            &bench,
            "in",
            &json!({ "topic": format!("a/{payload}"), "payload": payload }),
        )
        .await;
    }
    assert_eq!(at(&mut bench, "out").await["topic"], "a/1");
    for (message, words) in [
        (
            json!({ "action": "fly" }),
            "Error: Invalid action specified",
        ),
        (
            json!({ "action": "subscribe", "topic": 5 }),
            "Error: msg.topic is missing or invalid",
        ),
        (
            json!({ "action": "subscribe", "topic": "a#" }),
            "Error: Invalid topic specified",
        ),
        (
            json!({ "action": "connect", "broker": { "port": 1 } }),
            "Error: Disconnect from broker before connecting",
        ),
    ] {
        send(&bench, "ask", &message).await;
        assert_eq!(at(&mut bench, "caught").await["error"]["message"], words);
    }
}

#[tokio::test]
async fn messages_connect_and_disconnect() {
    let (first, second) = (Mosquitto::open().await, Mosquitto::open().await);
    let mut bench = Bench::with(&flow(&[
        first.node(&json!({ "autoConnect": false })),
        mqtt_in("listen", &json!({})),
        mqtt_out(&json!({})),
    ]))
    .await;
    send(&bench, "in", &json!({ "action": "connect" })).await;
    assert_eq!(at(&mut bench, "done").await["action"], "connect");
    send(
        &bench,
        "in",
        &json!({ "action": "connect", "broker": { "port": second.port, "force": true } }),
    )
    .await;
    assert_eq!(at(&mut bench, "done").await["broker"]["force"], true);
    send(&bench, "in", &json!({ "topic": "a", "payload": "second" })).await;
    assert_eq!(at(&mut bench, "out").await["payload"], "second");
    send(&bench, "in", &json!({ "action": "disconnect" })).await;
    wait_for_status(&mut bench, "send", "disconnected").await;
}

#[tokio::test]
async fn birth_close_and_will_messages_reach_the_broker() {
    let broker = Mosquitto::open().await;
    let mut watch = connected(&[
        broker.node(&json!({})),
        mqtt_in("listen", &json!({ "topic": "life" })),
    ])
    .await;
    let notices = json!({ "birthTopic": "life", "birthPayload": "born", "birthQos": "1", "closeTopic": "life", "closePayload": "closed", "closeQos": "0",
        "willTopic": "life", "willPayload": "died", "willQos": "1", "clientid": "mortal" });
    let mut bench = connected(&[broker.node(&notices), mqtt_out(&json!({}))]).await;
    assert_eq!(at(&mut watch, "out").await["payload"], "born");
    bench.deploy(&json!([]), flows::DeploymentType::Full).await;
    assert_eq!(at(&mut watch, "out").await["payload"], "closed");
    let _bench = connected(&[broker.node(&notices), mqtt_out(&json!({}))]).await;
    assert_eq!(at(&mut watch, "out").await["payload"], "born");
    // Another client of the same name pushes it out.
    let _other = connected(&[
        broker.node(&json!({ "clientid": "mortal" })),
        mqtt_out(&json!({})),
    ])
    .await;
    assert_eq!(at(&mut watch, "out").await["payload"], "died");
}

#[tokio::test]
async fn a_lost_connection_comes_back_with_its_subscriptions() {
    let mut broker = Mosquitto::open().await;
    let nodes = [
        broker.node(&json!({})),
        mqtt_in("listen", &json!({})),
        mqtt_out(&json!({})),
    ];
    let mut bench = Bench::set(&flow(&nodes), |engine| {
        engine.mqtt_reconnect = Duration::from_millis(20);
    })
    .await;
    wait_for_status(&mut bench, "send", "connected").await;
    broker.child.kill().unwrap();
    broker.child.wait().unwrap();
    wait_for_status(&mut bench, "send", "disconnected").await;
    wait_for_status(&mut bench, "send", "connecting").await;
    let directory = std::mem::replace(&mut broker.directory, tempfile::tempdir().unwrap());
    let _again = Mosquitto::again(OPEN, directory, broker.port).await;
    wait_for_status(&mut bench, "send", "connected").await;
    send(
        &bench,
        "in",
        &json!({ "topic": "a/again", "payload": "back" }),
    )
    .await;
    assert_eq!(at(&mut bench, "out").await["payload"], "back");
}

#[tokio::test]
async fn a_password_tls_and_websockets_lead_to_the_broker() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (certificate, key) = certificate();
    std::fs::write(path("cert.pem"), &certificate).unwrap();
    std::fs::write(path("key.pem"), key).unwrap();
    std::fs::write(path("users"), "u:p\n").unwrap();
    let hashed = Command::new("mosquitto_passwd")
        .arg("-U")
        .arg(path("users"))
        .status()
        .unwrap();
    assert!(hashed.success());
    let (tls, ws) = (ports::free(), ports::free());
    let config = format!(
        "listener {{}} 127.0.0.1\nlistener {tls} 127.0.0.1\ncertfile {}\nkeyfile {}\nlistener {ws} 127.0.0.1\nprotocol websockets\npassword_file {}\n",
        path("cert.pem"),
        path("key.pem"),
        path("users")
    );
    let broker = Mosquitto::start(&config).await;
    let credentials = json!({ "user": "u", "password": "p" });
    let secure = json!({ "id": "tls", "type": "tls-config", "ca": path("cert.pem"), "verifyservercert": true });
    for more in [
        json!({ "credentials": credentials }),
        json!({ "credentials": credentials, "broker": "localhost", "port": tls, "usetls": true, "tls": "tls" }),
        json!({ "credentials": credentials, "broker": format!("ws://127.0.0.1:{ws}") }),
    ] {
        let nodes = [
            secure.clone(),
            broker.node(&more),
            mqtt_in("listen", &json!({})),
            mqtt_out(&json!({})),
        ];
        let mut bench = connected(&nodes).await;
        send(&bench, "in", &json!({ "topic": "a", "payload": "in" })).await;
        assert_eq!(at(&mut bench, "out").await["payload"], "in", "{more}");
    }
}

#[tokio::test]
async fn invalid_topics_and_payloads_are_errors() {
    let broker = Mosquitto::open().await;
    let mut bench = connected(&[broker.node(&json!({})), mqtt_out(&json!({}))]).await;
    send(&bench, "in", &json!({ "topic": "a/+", "payload": "x" })).await;
    assert_eq!(
        bench.error().await,
        ("send".into(), "Error: Invalid topic specified".into())
    );
    let wrong = flow(&[
        broker.node(&json!({})),
        mqtt_in("listen", &json!({ "topic": "a#" })),
    ]);
    bench.deploy(&wrong, flows::DeploymentType::Full).await;
    assert_eq!(
        bench.error().await,
        ("listen".into(), "Invalid topic specified".into())
    );
    let missing = flow(&[mqtt_out(&json!({ "broker": "nowhere" }))]);
    bench.deploy(&missing, flows::DeploymentType::Full).await;
    assert_eq!(
        bench.error().await,
        ("send".into(), "missing broker configuration".into())
    );
}
