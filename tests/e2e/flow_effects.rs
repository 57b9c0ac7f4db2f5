//! Rights to single flows and approval look at what a submission makes run, in front of flowgate's
//! own engine and of an upstream: variables that JavaScript evaluates by its own rules, the order
//! of endpoints, names of links, and elements that a runtime would misread.

use crate::client::{Answer, Client, PASSWORD};
use crate::harness::hash;
use crate::policies::{Case, cases, refusal};
use crate::proposals::{decide, read};
use serde_json::{Value as Json, json};

/// `admin`; `ann`, who sees and changes the flow `Mine`; `eve`, whose changes of `Guard` need
/// approval, which `bob` gives.
fn users() -> String {
    let hash = hash(PASSWORD);
    let user = |name: &str, permissions: &str| {
        format!(
            "[[auth.user]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\npermissions = [{permissions}]\n"
        )
    };
    [
        "[policy]\napprove = [\"Guard\"]\n".to_owned(),
        user("admin", r#""*""#),
        user("ann", r#""flows.write:Mine", "http.read", "settings.read""#),
        user("eve", r#""read", "flows.write""#),
        user("bob", r#""read", "flows.write", "flows.approve""#),
    ]
    .concat()
}

fn tab(id: &str, label: &str) -> Json {
    json!({ "id": id, "type": "tab", "label": label })
}

fn node(id: &str, z: &str, more: &Json) -> Json {
    let mut node = json!({ "id": id, "z": z, "x": 1, "y": 1, "wires": [] });
    let more = more.as_object().unwrap().clone();
    node.as_object_mut().unwrap().extend(more);
    node
}

fn endpoint(id: &str, z: &str, url: &str) -> Json {
    node(
        id,
        z,
        &json!({ "type": "http in", "method": "get", "url": url, "wires": [[format!("{id}-code")]] }),
    )
}

/// An endpoint that answers with its id.
fn answering(id: &str, z: &str, url: &str) -> Vec<Json> {
    let code = format!("msg.payload = '{id}'; return msg");
    vec![
        endpoint(id, z, url),
        node(
            &format!("{id}-code"),
            z,
            &json!({ "type": "function", "func": code, "outputs": 1, "wires": [[format!("{id}-out")]] }),
        ),
        node(&format!("{id}-out"), z, &json!({ "type": "http response" })),
    ]
}

fn link_in(id: &str, z: &str, name: &str) -> Json {
    node(
        id,
        z,
        &json!({ "type": "link in", "name": name, "links": [] }),
    )
}

fn mine() -> Vec<Json> {
    vec![tab("m", "Mine"), link_in("m-link", "m", "own")]
}

/// Flows of others: a guarded one with two endpoints of one URL and a link call, and a free one
/// with its target and a broker.
fn others() -> Vec<Json> {
    let call = json!({ "type": "link call", "linkType": "dynamic", "links": [], "timeout": "5" });
    [
        vec![tab("g", "Guard"), tab("f", "Free")],
        answering("g1", "g", "/guard"),
        answering("g2", "g", "/guard"),
        vec![node("g-call", "g", &call), link_in("f-link", "f", "lib")],
        vec![json!({ "id": "brk", "type": "mqtt-broker", "broker": "127.0.0.1", "port": "1", "autoConnect": false })],
        vec![node("f-out", "f", &json!({ "type": "mqtt out", "broker": "brk", "topic": "t" }))],
    ]
    .concat()
}

fn all() -> Vec<Json> {
    [mine(), others()].concat()
}

async fn deployed() -> [Case; 2] {
    let cases = cases(&users()).await;
    for case in &cases {
        let token = case.gateway.sign_in("admin").await;
        case.gateway.deploy(&token, &all().into()).await;
    }
    cases
}

async fn submit(gateway: &Client, user: &str, flows: Vec<Json>) -> Answer {
    let token = gateway.sign_in(user).await;
    gateway.deployment(&token, &flows.into(), None).send().await
}

#[tokio::test]
async fn a_variable_that_javascript_makes_a_hidden_config_node_of_is_refused() {
    for case in deployed().await {
        for entry in [
            json!({ "type": "json", "value": ["\"brk\""] }),
            json!({ "type": "bin", "value": "\"brk\"" }),
            json!({ "type": "bin", "value": "[354,370,363]" }),
            json!({ "type": "bin", "value": "[\"0x62\",\"114\",\"107\"]" }),
            json!({ "type": "jsonata", "value": "'b'&'rk'" }),
        ] {
            let mut variable = json!({ "name": "B" });
            variable
                .as_object_mut()
                .unwrap()
                .extend(entry.as_object().unwrap().clone());
            let mut group = node(
                "m-group",
                "m",
                &json!({ "type": "group", "nodes": ["m-out"] }),
            );
            group["env"] = json!([variable]);
            let out = json!({ "type": "mqtt out", "broker": "${B}", "topic": "t", "g": "m-group" });
            let flows = [mine(), vec![group, node("m-out", "m", &out)]].concat();
            let (status, _, message) = refusal(&submit(&case.gateway, "ann", flows).await);
            // No editor writes a list as the value of a variable.
            let expected = if entry["value"].is_array() { 400 } else { 403 };
            assert_eq!(status, expected, "{entry}: {message}");
        }
    }
}

#[tokio::test]
async fn elements_that_a_runtime_would_misread_are_refused_for_everybody() {
    for case in deployed().await {
        for (element, words) in [
            (
                node(
                    "m-x",
                    "m",
                    &json!({ "type": "mqtt-broker", "_alias": "${B}" }),
                ),
                "_alias",
            ),
            (
                node("constructor", "m", &json!({ "type": "comment" })),
                "constructor",
            ),
            (tab("toString", "Mine"), "toString"),
            (
                node(
                    "m-g",
                    "m",
                    &json!({ "type": "group", "g": "missing", "nodes": [] }),
                ),
                "missing",
            ),
            (
                node(
                    "m-g",
                    "m",
                    &json!({ "type": "group", "g": "m-g", "nodes": [] }),
                ),
                "itself",
            ),
            (
                node(
                    "m-g",
                    "m",
                    &json!({ "type": "group", "nodes": [], "env": { "length": 1 } }),
                ),
                "env",
            ),
        ] {
            for (user, flows) in [("ann", mine()), ("admin", all())] {
                let flows = [flows, vec![element.clone()]].concat();
                let (status, code, message) = refusal(&submit(&case.gateway, user, flows).await);
                assert_eq!(
                    (status, code.as_str()),
                    (400, "invalid_flows"),
                    "{user}: {message}"
                );
                assert!(message.contains(words), "{user}: {message}");
            }
        }
    }
}

#[tokio::test]
async fn another_order_of_guarded_endpoints_needs_approval_and_is_shown() {
    for case in deployed().await {
        let gateway = &case.gateway;
        let mut flows = all();
        let at = |id: &str, flows: &[Json]| flows.iter().position(|node| node["id"] == id).unwrap();
        let first = flows.remove(at("g1", &flows));
        flows.push(first);
        let answer = submit(gateway, "eve", flows).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        let path = answer.header("location").to_owned();
        let bob = gateway.sign_in("bob").await;
        let shown = read(gateway, &bob, &path).await.to_string();
        assert!(shown.contains("order among http in nodes"), "{shown}");
        let guard = async || gateway.get("/guard").token(&bob).send().await.text();
        if case.upstream.is_none() {
            assert_eq!(guard().await, "g1");
        }
        assert_eq!(decide(gateway, &bob, &path, "approve").await.status, 200);
        if case.upstream.is_none() {
            assert_eq!(guard().await, "g2");
        }
    }
}

#[tokio::test]
async fn an_endpoint_that_takes_the_requests_of_a_guarded_one_needs_approval() {
    for case in deployed().await {
        let gateway = &case.gateway;
        let free = |url: &str| answering("f1", "f", url);
        // The tab of a free endpoint of the same URL comes first.
        let moved = [vec![tab("f", "Free")], all(), free("/guard")].concat();
        let mut seen = false;
        let moved = moved
            .into_iter()
            .filter(|node| node["id"] != "f" || !std::mem::replace(&mut seen, true));
        let answer = submit(gateway, "eve", moved.collect()).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        // Behind it, it takes nothing.
        let behind = [all(), free("/:any")].concat();
        let answer = submit(gateway, "eve", behind).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

#[tokio::test]
async fn a_link_of_the_name_of_another_is_refused_or_needs_approval() {
    for case in deployed().await {
        let gateway = &case.gateway;
        let own = [mine(), vec![link_in("m-lib", "m", "lib")]].concat();
        let (status, _, message) = refusal(&submit(gateway, "ann", own).await);
        assert_eq!(status, 403, "{message}");
        let own = [mine(), vec![link_in("m-two", "m", "own")]].concat();
        // That is no matter of rights; but the guarded flow may call either.
        let answer = submit(gateway, "ann", own).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        let free = [all(), vec![link_in("f-lib", "f", "lib")]].concat();
        let answer = submit(gateway, "eve", free).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
    }
}
