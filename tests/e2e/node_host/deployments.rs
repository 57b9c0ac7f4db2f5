//! Deployments of flow sets that have foreign nodes.

use super::{Hosted, chain, function, trial};
use serde_json::{Value as Json, json};

/// Counts the starts and stops of a node in the global context.
fn counted(id: &str, version: u32) -> Json {
    let mut node = trial(id, "send(msg); done()");
    let count = |what: &str| {
        format!(
            "const c = node.context().global, key = '{what}_' + node.id; c.set(key, (c.get(key) || 0) + 1);"
        )
    };
    node["setup"] = json!(count("start"));
    node["closing"] = json!(format!(
        "{} if (removed) c.set('removed_' + node.id, true)",
        count("stop")
    ));
    node["version"] = version.into();
    node
}

fn flows(a: u32, b: u32, code: &str) -> Vec<Json> {
    let report = "msg.payload = Object.fromEntries(global.keys().sort().map((k) => [k, global.get(k)])); return msg";
    chain(vec![
        function("f", code),
        counted("a", a),
        counted("b", b),
        function("g", report),
    ])
}

#[tokio::test]
async fn a_deployment_of_nodes_restarts_the_foreign_nodes_that_changed() {
    let hosted = Hosted::start().await;
    hosted.run(&json!(flows(1, 1, "return msg"))).await;
    let started = json!({ "start_a": 1, "start_b": 1 });
    assert_eq!(hosted.show("/do").await, started);
    // A native node alone: the host is not asked.
    hosted
        .deploy_as("nodes", &hosted.token, &json!(flows(1, 1, "return  msg")))
        .await;
    assert_eq!(hosted.show("/do").await, started);
    hosted
        .deploy_as("nodes", &hosted.token, &json!(flows(2, 1, "return  msg")))
        .await;
    let changed = json!({ "start_a": 2, "start_b": 1, "stop_a": 1 });
    assert_eq!(hosted.show("/do").await, changed);
    // `flows` restarts the whole tab, `full` everything.
    hosted
        .deploy_as("flows", &hosted.token, &json!(flows(2, 1, "return msg")))
        .await;
    let whole = json!({ "start_a": 3, "start_b": 2, "stop_a": 2, "stop_b": 1 });
    assert_eq!(hosted.show("/do").await, whole);
    hosted
        .deploy_as("full", &hosted.token, &json!(flows(2, 1, "return msg")))
        .await;
    let full = json!({ "start_a": 4, "start_b": 3, "stop_a": 3, "stop_b": 2 });
    assert_eq!(hosted.show("/do").await, full);
    // Also when nothing has changed.
    hosted
        .deploy_as("full", &hosted.token, &json!(flows(2, 1, "return msg")))
        .await;
    let full = json!({ "start_a": 5, "start_b": 4, "stop_a": 4, "stop_b": 3 });
    assert_eq!(hosted.show("/do").await, full);
    // A node that is gone is closed as removed.
    let mut without = flows(2, 1, "return msg");
    without.retain(|node| node["id"] != "b");
    without.iter_mut().find(|n| n["id"] == "a").unwrap()["wires"] = json!([["g"]]);
    hosted
        .deploy_as("nodes", &hosted.token, &json!(without))
        .await;
    let removed =
        json!({ "removed_b": true, "start_a": 5, "start_b": 4, "stop_a": 4, "stop_b": 4 });
    assert_eq!(hosted.show("/do").await, removed);
}

#[tokio::test]
async fn a_deployment_that_touches_no_foreign_node_does_not_reach_the_host() {
    let hosted = Hosted::start().await;
    let flows = |code: &str, width: u32| {
        let mut counting = trial("a", "send(msg); done()");
        counting["g"] = json!("g");
        // The runtime says so whenever it has been given flows.
        counting["setup"] = json!(
            "const count = () => { const c = node.context().global; c.set('given', (c.get('given') || 0) + 1); };
            if (!globalThis.counting) globalThis.counting = require('@node-red/util').events.on('flows:started', count);"
        );
        let shown = function("f", "msg.payload = global.get('given') || 0; return msg");
        let mut flow = chain(vec![counting, shown]);
        flow.extend([
            json!({ "id": "g", "type": "group", "z": "t", "x": 0, "y": 0, "w": width, "h": 9, "nodes": ["a", "n"] }),
            json!({ "id": "n", "type": "function", "z": "t", "g": "g", "x": 1, "y": 1, "func": code, "wires": [] }),
            json!({ "id": "t2", "type": "tab", "label": code }),
            json!({ "id": "m", "type": "function", "z": "t2", "x": 1, "y": 1, "func": code, "wires": [] }),
        ]);
        json!(flow)
    };
    hosted.run(&flows("return msg", 9)).await;
    let before = hosted.show("/do").await;
    // A node beside a foreign one, in a group that has grown, and a node on another tab.
    hosted.run_more(&flows("return", 99)).await;
    assert_eq!(hosted.show("/do").await, before);
    hosted.run(&flows("return", 99)).await;
    assert_ne!(hosted.show("/do").await, before);
}

#[tokio::test]
async fn config_nodes_of_packages_have_their_credentials_and_variables_of_the_environment() {
    let hosted = Hosted::start().await;
    let mut user = trial(
        "a",
        "const c = RED.nodes.getNode(config.config); msg.payload = [c.label, c.credentials, config.path]; send(msg); done()",
    );
    user["config"] = json!("c");
    user["path"] = json!("${PATH}");
    let mut flow = chain(vec![user]);
    flow.push(json!({ "id": "c", "type": "trial-config", "label": "l", "credentials": { "secret": "hidden" } }));
    hosted.run(&json!(flow)).await;
    let path = std::env::var("PATH").unwrap();
    let shown = hosted.show("/do").await;
    assert_eq!(shown, json!(["l", { "secret": "hidden" }, path]));
}

#[tokio::test]
async fn stopped_flows_stop_their_foreign_nodes_which_keep_their_data() {
    let hosted = Hosted::start().await;
    hosted.run(&json!(flows(1, 1, "return msg"))).await;
    // Its first flow set runs.
    hosted.show("/do").await;
    for state in ["stop", "start"] {
        let request = hosted.post("/flows/state").token(&hosted.token);
        let answer = request.json(&json!({ "state": state })).send().await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let restarted = json!({ "start_a": 2, "start_b": 2, "stop_a": 1, "stop_b": 1 });
    assert_eq!(hosted.show("/do").await, restarted);
}

#[tokio::test]
async fn a_type_that_no_package_has_is_missing() {
    let hosted = Hosted::start().await;
    hosted.run(&json!(flows(1, 1, "return msg"))).await;
    // Its first flow set runs: it is known what packages have.
    hosted.show("/do").await;
    let mut flow = chain(vec![trial("a", "send(msg); done()")]);
    flow[2]["type"] = json!("nobody-has-this");
    hosted.run(&json!(flow)).await;
    hosted.process.wait_for_log("nobody-has-this");
    assert_eq!(hosted.get("/do").send().await.status, 404);
}

#[tokio::test]
async fn native_flows_run_before_the_host_is_ready_and_messages_wait_for_it() {
    let hosted = Hosted::without_waiting("").await;
    let mut flow = chain(vec![trial("a", "msg.payload = 'late'; send(msg); done()")]);
    flow.extend([
        json!({ "id": "in2", "type": "http in", "z": "t", "method": "get", "url": "/show", "x": 1, "y": 1, "wires": [["g"]] }),
        json!({ "id": "g", "type": "function", "z": "t", "x": 1, "y": 1, "wires": [["out"]], "func": "msg.payload = 'native'; return msg" }),
    ]);
    hosted.run(&json!(flow)).await;
    assert_eq!(hosted.get("/show").send().await.text(), "native");
    assert_eq!(hosted.get("/do").send().await.text(), "late");
}
