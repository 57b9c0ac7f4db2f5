//! Rights to read single flows: two users, each with a flow of their own, ask for everything there
//! is, and no answer and no frame to one has anything of the other's flow; on flowgate's own engine
//! and in front of a real Node-RED.

use crate::client::PASSWORD;
use crate::comms_client::{Channel, ServerMessage};
use crate::harness::{Gateway, TEST_TIMEOUT, hash};
use crate::mock_upstream::{Action, MockUpstream, ok, status};
use crate::node_red::NodeRed;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use tokio::time::timeout;

/// In every name, text, message, context and credential of the flow of `ben`, and in the ids of
/// most of its elements.
const FOREIGN: &str = "belongs-to-ben";
/// The ids of the flow of `ben` that the rows of the authorization matrix ask for.
const IDS: [&str; 3] = ["\"T1\"", "\"N1\"", "\"B1\""];

/// Every permission but those about flows.
const OTHERS: &str = r#""settings.read", "settings.write", "nodes.read", "nodes.write", "credentials.read",
    "context.read", "context.write", "inject.write", "debug.write", "library.read", "library.write", "diagnostics.read",
    "plugins.read", "plugins.write", "udp-ports.read", "udp-ports.write", "projects.read", "projects.write",
    "status.read", "http.read", "http.write", "admin.read", "admin.write""#;

/// `admin`, `ann` who changes the flow `Mine`, `eve` who reads it, and `ben` who changes the other
/// one.
fn users() -> String {
    let hash = hash(PASSWORD);
    let user = |name: &str, permissions: &str| {
        format!(
            "[[auth.user]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\npermissions = [{permissions}]\n"
        )
    };
    user("admin", r#""*""#)
        + &user("ann", &format!(r#""flows.write:Mine", {OTHERS}"#))
        + &user("eve", &format!(r#""flows.read:Mine", {OTHERS}"#))
        + &user("ben", &format!(r#""flows.write:{FOREIGN}*", {OTHERS}"#))
}

/// A flow that reports something five times a second: a status, a warning, a debug message,
/// contexts, and once more from inside a subflow.
fn busy(ids: [&str; 4], label: &str, mark: &str) -> Vec<Json> {
    let [tab, function, broker, subflow] = ids;
    let id = |part: &str| format!("{mark}-{part}");
    let report = "node.status({ text: msg.payload }); node.warn(msg.payload); flow.set('key', msg.payload); \
                  context.set('key', msg.payload); return msg;";
    let debug = json!({
        "type": "debug", "name": mark, "active": true, "tosidebar": true, "console": false, "tostatus": false,
        "complete": "payload", "targetType": "msg", "wires": [],
    });
    let inner = json!({ "type": "function", "name": mark, "func": report, "outputs": 1, "wires": [[id("inner-debug")]] });
    let placed = |id: &str, z: &str, mut node: Json| {
        (node["id"], node["z"]) = (id.into(), z.into());
        (node["x"], node["y"]) = (100.into(), 100.into());
        node
    };
    let tick = json!({
        "type": "inject", "name": mark, "props": [{ "p": "payload" }], "repeat": "0.2", "once": true,
        "onceDelay": 0.1, "payload": mark, "payloadType": "str", "wires": [[function]],
    });
    let broker_node = json!({
        "id": broker, "type": "mqtt-broker", "name": mark, "broker": mark, "port": "1", "autoConnect": false,
        "credentials": { "user": mark, "password": mark },
    });
    vec![
        json!({ "id": tab, "type": "tab", "label": label, "info": mark, "env": [{ "name": "E", "value": mark, "type": "str" }] }),
        broker_node,
        json!({ "id": subflow, "type": "subflow", "name": mark, "in": [{ "x": 1, "y": 1, "wires": [{ "id": id("inner") }] }], "out": [] }),
        placed(&id("inner"), subflow, inner),
        placed(&id("inner-debug"), subflow, debug.clone()),
        placed(&id("tick"), tab, tick),
        placed(
            function,
            tab,
            json!({ "type": "function", "name": mark, "func": report, "outputs": 1, "wires": [[id("debug"), id("instance")]] }),
        ),
        placed(&id("debug"), tab, debug),
        placed(
            &id("instance"),
            tab,
            json!({ "type": format!("subflow:{subflow}"), "wires": [] }),
        ),
        placed(
            &id("note"),
            tab,
            json!({ "type": "comment", "name": mark, "uses": broker, "wires": [] }),
        ),
    ]
}

/// Both flows, with links from each to the other.
fn flows() -> Json {
    let mut all = busy(
        ["mine-tab", "mine-function", "mine-broker", "mine-subflow"],
        "Mine",
        "mine",
    );
    all.extend(busy(
        ["T1", "N1", "B1", &format!("{FOREIGN}-subflow")],
        &format!("{FOREIGN} tab"),
        FOREIGN,
    ));
    let link = |id: String, z: &str, kind: &str, to: String| json!({ "id": id, "type": kind, "z": z, "x": 1, "y": 1, "mode": "link", "links": [to], "wires": [[]] });
    let there = format!("{FOREIGN}-link");
    all.push(link(
        "mine-link".to_owned(),
        "mine-tab",
        "link out",
        there.clone(),
    ));
    all.push(link(there, "T1", "link in", "mine-link".to_owned()));
    all.into()
}

fn is_foreign(text: &str) -> bool {
    text.contains(FOREIGN) || IDS.iter().any(|id| text.contains(id))
}

/// A row of the table of endpoints.
#[derive(Deserialize)]
struct Row {
    method: String,
    target: String,
    send: String,
    body: Option<String>,
}

fn rows() -> Vec<Row> {
    #[derive(Deserialize)]
    struct File {
        table: Vec<Row>,
    }
    let text = include_str!("../data/authorization-matrix.json");
    serde_json::from_str::<File>(text).unwrap().table
}

/// The answers to all requests that read something, for this user: the path, and whether `ben`'s
/// flow is in the answer.
async fn read_everything(gateway: &Gateway, user: &str) -> Vec<(String, bool)> {
    let token = gateway.sign_in(user).await;
    let rev = gateway.flows(&token).await["rev"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut found = Vec::new();
    let mut read = rows();
    read.retain(|row| row.method == "GET" && row.target != "Comms");
    assert!(read.len() > 60);
    let more = |method: &str, send: &str| Row {
        method: method.to_owned(),
        target: String::new(),
        send: send.to_owned(),
        body: None,
    };
    for path in [
        "/flow/global",
        "/context/flow/T1/key",
        "/context/node/N1/key",
        "/credentials/mqtt-broker/B1",
        "/gateway/deployments?limit=5",
        "/library/local/flows",
    ] {
        read.push(more("GET", path));
    }
    for path in [
        format!("/gateway/deployments/{rev}?flows=true"),
        format!("/gateway/diff?from={rev}"),
    ] {
        read.push(more("GET", &path));
    }
    for row in read {
        for version in ["v1", "v2"] {
            let request = gateway.request(&row.method, &row.send).token(&token);
            let answer = request.header("Service-API-Version", version).send().await;
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            found.push((row.send.clone(), is_foreign(&text)));
        }
    }
    let check = gateway.post("/gateway/check").token(&token);
    let mut submission = gateway.flows(&token).await["flows"].clone();
    let own = submission.as_array_mut().unwrap();
    own.push(json!({ "id": "lost", "type": "no such type", "z": "mine-tab", "x": 1, "y": 1, "wires": [["nowhere"]] }));
    let checked = check.json(&submission).send().await;
    assert_eq!(checked.status, 200, "{}", checked.text());
    found.push(("/gateway/check".to_owned(), is_foreign(&checked.text())));
    found
}

/// Reads a channel until its messages, as one text, satisfy a condition.
async fn heard(channel: &mut Channel, enough: impl Fn(&str) -> bool) -> String {
    let mut all = String::new();
    let hear = async {
        while !enough(&all) {
            match channel.receive_any().await {
                ServerMessage::Batch(batch) => all += &Json::from(batch).to_string(),
                other => panic!("{other:?}"),
            }
        }
    };
    let done = timeout(TEST_TIMEOUT, hear).await;
    assert!(done.is_ok(), "not heard in {all}");
    all
}

async fn editor(gateway: &Gateway, user: &str) -> Channel {
    let token = gateway.sign_in(user).await;
    let mut channel = gateway.editor(&token).await;
    for topic in [
        "debug",
        "status/#",
        "notification/#",
        "multiplayer/#",
        "+/+",
    ] {
        channel.subscribe(topic).await;
    }
    channel
}

/// Returns whether status, warning and debug message of a flow, and those from inside its subflow,
/// have come.
fn has_all(text: &str, mark: &str, function: &str) -> bool {
    let status = text.contains(&format!("\"topic\":\"status/{function}\""));
    let debug = text.contains(&format!("\"id\":\"{mark}-debug\""));
    let inner = text.contains(&format!("\"_alias\":\"{mark}-inner-debug\""));
    let warning = text.contains("\"level\":30");
    status && debug && inner && warning && text.matches("\"topic\":\"debug\"").count() > 20
}

/// What `ben` does is not heard by `ann`, before and after deployments of others.
async fn listen_to_everything(gateway: &Gateway) {
    let (mut ann, mut eve) = (editor(gateway, "ann").await, editor(gateway, "eve").await);
    let mut ben = editor(gateway, "ben").await;
    // So that the test can fail.
    let told = heard(&mut ben, |text| has_all(text, FOREIGN, "N1")).await;
    assert!(told.contains(FOREIGN) && !told.contains("mine-debug"));
    let admin = gateway.sign_in("admin").await;
    for deployment in 0..3 {
        for channel in [&mut ann, &mut eve] {
            let told = heard(channel, |text| has_all(text, "mine", "mine-function")).await;
            assert!(!is_foreign(&told), "{told}");
        }
        let mut changed = flows();
        for node in changed.as_array_mut().unwrap() {
            if node["type"] == "comment" {
                node["name"] = format!("{FOREIGN} {deployment}").into();
            }
        }
        changed[9]["name"] = "of mine".into();
        let kind = ["nodes", "flows", "full"][deployment];
        let rev = gateway.deploy_as(kind, &admin, &changed).await;
        for channel in [&mut ann, &mut eve] {
            let announced = |text: &str| text.contains(&rev);
            let told = heard(channel, announced).await;
            assert!(!is_foreign(&told), "{told}");
        }
    }
}

/// What a user of another flow may not do; the paths are those of `ben`'s nodes.
async fn act_on_everything(gateway: &Gateway, user: &str) {
    let token = gateway.sign_in(user).await;
    for (method, path) in [
        ("POST", "/inject/N1"),
        ("POST", "/debug/N1/disable"),
        ("POST", "/debug/N1/enable"),
        ("DELETE", "/context/flow/T1/key"),
        ("DELETE", "/context/node/N1/key"),
        ("GET", "/flow/T1"),
    ] {
        let unknown = path.replace("T1", "unknown").replace("N1", "unknown");
        let mut answers = Vec::new();
        for path in [path, &unknown] {
            let answer = gateway.request(method, path).token(&token).send().await;
            answers.push((answer.status, answer.text()));
        }
        assert_eq!(answers[0].0, 404, "{method} {path}: {}", answers[0].1);
        assert_eq!(answers[0], answers[1], "{method} {path}");
    }
    let bulk = json!({ "nodes": [format!("{FOREIGN}-debug")] });
    let bulk = gateway.post("/debug/disable").token(&token).json(&bulk);
    assert!([200, 201].contains(&bulk.send().await.status));
    // Everything that is about all flows is refused with a sentence.
    let mut refused = 0;
    for row in rows() {
        if row.method == "GET" || row.target.starts_with("Admin(D") || row.send.starts_with("/auth")
        {
            continue;
        }
        let request = gateway.request(&row.method, &row.send).token(&token);
        let request = match &row.body {
            Some(body) if row.target == "Absent" || row.target.starts_with("Admin(S") => request
                .header("Content-Type", "application/json")
                .body(body.clone()),
            _ => continue,
        };
        let answer = request.send().await;
        if row.target == "Absent" {
            assert_eq!((answer.status, answer.code().as_str()), (403, "some_flows"));
            assert!(answer.text().contains("flows.read"));
            refused += 1;
        }
    }
    assert!(refused > 20);
    let global = gateway.get("/context/global").token(&token).send().await;
    assert_eq!((global.status, global.code().as_str()), (403, "some_flows"));
}

async fn deployed(lines: &str) -> Gateway {
    let gateway = Gateway::with(&(lines.to_owned() + &users()));
    let token = gateway.sign_in("admin").await;
    gateway.deploy(&token, &flows()).await;
    gateway
}

/// The whole walk; `seen`: paths at which `ben` must find the own flow, so that the search can find
/// something.
async fn nothing_leaks(gateway: &Gateway, seen: &[&str]) {
    Box::pin(listen_to_everything(gateway)).await;
    for user in ["ann", "eve"] {
        let leaks: Vec<String> = read_everything(gateway, user)
            .await
            .into_iter()
            .filter_map(|(path, leaks)| leaks.then_some(path))
            .collect();
        assert_eq!(leaks, [""; 0], "{user}");
        act_on_everything(gateway, user).await;
    }
    // The flow still runs, and no request has disabled its debug node.
    let mut ben = editor(gateway, "ben").await;
    heard(&mut ben, |text| has_all(text, FOREIGN, "N1")).await;
    let of_ben = read_everything(gateway, "ben").await;
    for path in seen {
        let shown = |(of, shown): &(String, bool)| of == path && *shown;
        assert!(of_ben.iter().any(shown), "{path}");
    }
}

const SEEN: [&str; 7] = [
    "/flows",
    "/flow/T1",
    "/flow/global",
    "/context/flow/T1",
    "/context/node/N1",
    "/context/flow/T1/key",
    "/context/node/N1/key",
];

#[tokio::test]
async fn no_answer_and_no_frame_of_the_engine_shows_a_flow_that_the_user_may_not_read() {
    let gateway = deployed("").await;
    let seen = [&SEEN[..], &["/credentials/mqtt-broker/B1"]].concat();
    Box::pin(nothing_leaks(&gateway, &seen)).await;
}

#[tokio::test]
async fn no_answer_and_no_frame_of_a_node_red_shows_a_flow_that_the_user_may_not_read() {
    let red = NodeRed::open();
    let gateway = deployed(&red.config()).await;
    Box::pin(nothing_leaks(&gateway, &SEEN)).await;
}

#[tokio::test]
async fn a_token_for_one_flow_shows_an_administrator_that_flow_only() {
    let gateway = deployed("").await;
    let scope = "flows.read:Mine context.read status.read";
    let signed_in = gateway.sign_in_request("admin", PASSWORD, scope);
    let token = signed_in.send().await.json()["access_token"].clone();
    let flows = gateway.flows(token.as_str().unwrap()).await;
    let shown = flows.to_string();
    assert!(
        shown.contains("mine-function") && !is_foreign(&shown),
        "{shown}"
    );
    let wider = gateway.sign_in_request("ann", PASSWORD, "flows.read");
    assert_eq!(wider.send().await.status, 400);
}

#[tokio::test]
async fn a_reload_of_the_configuration_that_takes_a_flow_away_ends_what_an_open_channel_shows_of_it()
 {
    let gateway = deployed("").await;
    let mut ben = editor(&gateway, "ben").await;
    heard(&mut ben, |text| has_all(text, FOREIGN, "N1")).await;
    let users = users().replace(&format!("flows.write:{FOREIGN}*"), "flows.write:Mine");
    assert!(gateway.reload(&users).await);
    // What was sent before the reload may still be on its way.
    heard(&mut ben, |text| text.contains("mine-debug")).await;
    let told = heard(&mut ben, |text| has_all(text, "mine", "mine-function")).await;
    assert!(!is_foreign(&told), "{told}");
}

#[tokio::test]
async fn without_the_active_flow_set_of_the_upstream_nothing_is_shown_and_nothing_is_done() {
    let upstream = MockUpstream::start(|request| {
        Action::Respond(if request.starts_with("GET /flows ") {
            status("500 Internal Server Error", "text/plain", FOREIGN)
        } else {
            ok("application/json", &format!("{{\"msg\":\"{FOREIGN}\"}}"))
        })
    })
    .await;
    let gateway = Gateway::with(&(upstream.config() + &users()));
    let token = gateway.sign_in("ann").await;
    let flows = json!([{ "id": "mine-tab", "type": "tab", "label": "Mine" }]);
    for request in [
        gateway.get("/flows"),
        gateway.get("/flow/T1"),
        gateway.get("/context/flow/T1"),
        gateway.post("/inject/N1"),
        gateway.post("/debug/N1/enable"),
        gateway
            .post("/debug/enable")
            .json(&json!({ "nodes": ["N1"] })),
        gateway.post("/flows").json(&flows),
        gateway.request("DELETE", "/flow/T1"),
    ] {
        let answer = request.token(&token).send().await;
        assert_eq!(answer.status, 502, "{}", answer.text());
        assert!(!is_foreign(&answer.text()), "{}", answer.text());
        assert!(!answer.code().is_empty());
    }
    for request in upstream.received() {
        let line = request.bytes.lines().next().unwrap().to_owned();
        assert!(line.starts_with("GET /flows "), "{line}");
    }
}
