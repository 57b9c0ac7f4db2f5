//! Subflows that packages make node types of (`RED.nodes.registerSubflow`).

use super::{Hosted, chain, function, trial};
use serde_json::{Value as Json, json};
use std::fs;
use std::path::Path;

const PACKAGE: &str = "node-red-contrib-packed";

/// A subflow with native nodes, a catch node, and an instance of a subflow of its own. As in Node-RED, no inner id may be a
/// type.
fn subflow() -> Json {
    let work = "if (msg.payload === 'fail') throw new Error('not caught');
                if (msg.payload === 'caught') return node.error('caught inside', msg);
                const n = (flow.get('n') || 0) + 1;
                flow.set('n', n); global.set('packed', n);
                msg.payload = [env.get('WORD'), env.get('SECRET'), n, global.get('native')];
                return msg";
    let inner = |id: &str, kind: &str, z: &str, more: Json| {
        let mut node = json!({ "id": id, "type": kind, "z": z, "x": 1, "y": 1 });
        for (key, value) in more.as_object().unwrap() {
            node[key] = value.clone();
        }
        node
    };
    let set =
        json!([{ "t": "set", "p": "payload[4]", "pt": "msg", "to": "changed", "tot": "str" }]);
    json!({
        "id": "sf", "type": "subflow", "name": "Packed", "category": "packed things",
        "meta": { "module": PACKAGE, "type": "packed", "version": "1.0.0" },
        "env": [{ "name": "WORD", "type": "str", "value": "default" }, { "name": "SECRET", "type": "cred", "ui": {} }],
        "in": [{ "wires": [{ "id": "work" }] }],
        "out": [{ "wires": [{ "id": "changed", "port": 0 }, { "id": "caught", "port": 0 }] }],
        "status": { "wires": [{ "id": "shown", "port": 0 }] },
        "flow": [
            inner("work", "function", "sf", json!({ "func": work, "outputs": 1, "wires": [["nested"]] })),
            inner("nested", "subflow:deep", "sf", json!({ "wires": [["changed"]] })),
            inner("changed", "change", "sf", json!({ "rules": set, "wires": [["shown"]] })),
            inner("shown", "function", "sf", json!({ "func": "return { payload: 'done it' }", "outputs": 1, "wires": [[]] })),
            inner("catcher", "catch", "sf", json!({ "scope": ["work"], "wires": [["which"]] })),
            inner("which", "function", "sf", json!({ "wires": [["caught"]], "outputs": 1,
                "func": "if (msg.error.message !== 'caught inside') throw new Error('passed on: ' + msg.error.message);
                         msg.payload = [msg.error.message]; return msg" })),
            inner("caught", "change", "sf", json!({ "rules": [], "wires": [[]] })),
            { "id": "deep", "type": "subflow", "name": "deep", "in": [{ "wires": [{ "id": "pass" }] }],
              "out": [{ "wires": [{ "id": "pass", "port": 0 }] }] },
            inner("pass", "function", "deep", json!({ "outputs": 1, "wires": [[]],
                "func": "if (Array.isArray(msg.payload)) msg.payload[3] += ' deep'; return msg" })),
        ]
    })
}

/// Writes the package.
fn write(directory: &Path) {
    let package = directory.join("node_modules").join(PACKAGE);
    fs::create_dir_all(&package).unwrap();
    let facts = json!({
        "name": PACKAGE, "version": "1.0.0", "node-red": { "nodes": { "packed": "packed.js" } }
    });
    fs::write(package.join("package.json"), facts.to_string()).unwrap();
    fs::write(package.join("subflow.json"), subflow().to_string()).unwrap();
    let program = "module.exports = (RED) => RED.nodes.registerSubflow(require('./subflow.json'));";
    fs::write(package.join("packed.js"), program).unwrap();
}

/// `GET /do?payload=…` goes through an instance; the errors that it does not catch are the response too.
fn flows() -> Json {
    let mut flow = chain(vec![
        function(
            "f",
            "global.set('native', 'from the engine'); msg.payload = msg.req.query.payload; return msg",
        ),
        json!({ "id": "p", "type": "packed", "z": "t", "x": 5, "y": 1, "name": "", "WORD": "given", "SECRET": "",
            "credentials": { "SECRET": "hidden" } }),
        trial(
            "a",
            "if (Array.isArray(msg.payload)) msg.payload.push(node.context().global.get('packed')); send(msg); done()",
        ),
    ]);
    flow.extend([
        json!({ "id": "c", "type": "catch", "z": "t", "scope": ["p"], "x": 1, "y": 1, "wires": [["h"]] }),
        json!({ "id": "h", "type": "function", "z": "t", "x": 1, "y": 1, "wires": [["out"]],
            "func": "msg.payload = [msg.error.message, msg.error.source.id]; return msg" }),
        json!({ "id": "s", "type": "status", "z": "t", "scope": ["p"], "x": 1, "y": 1, "wires": [["g"]] }),
        json!({ "id": "g", "type": "function", "z": "t", "x": 1, "y": 1, "wires": [],
            "func": "if (msg.status.text) global.set('status', [msg.status.text])" }),
        json!({ "id": "in2", "type": "http in", "z": "t", "method": "get", "url": "/show", "x": 1, "y": 1, "wires": [["k"]] }),
        json!({ "id": "k", "type": "function", "z": "t", "x": 1, "y": 1, "wires": [["out"]],
            "func": "msg.payload = global.get('status'); return msg" }),
    ]);
    json!(flow)
}

#[tokio::test]
async fn a_packaged_subflow_is_a_node_between_native_and_foreign_ones() {
    let hosted = Hosted::prepared("", write).await;
    hosted.run(&flows()).await;
    let all = json!(["given", "hidden", 1, "from the engine deep", "changed", 1]);
    assert_eq!(hosted.show("/do?payload=x").await, all);
    hosted.until_shown("/show", &json!(["done it"])).await;
    assert_eq!(hosted.show("/do?payload=x").await[2], 2);
    // Its own catch node has one error; the other one goes on to that of the flow.
    assert_eq!(
        hosted.show("/do?payload=caught").await,
        json!(["caught inside", 2])
    );
    let passed_on = hosted.show("/do?payload=fail").await;
    assert!(
        passed_on[0]
            .as_str()
            .unwrap()
            .contains("passed on: Error: not caught"),
        "{passed_on}"
    );
    assert_eq!(passed_on[1], "p");
}

#[tokio::test]
async fn the_palette_has_packaged_subflows() {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/node_modules");
    let lines = format!("[editor]\nmodules = {modules:?}\n");
    let hosted = Hosted::prepared(&lines, write).await;
    let request = |path: &str| hosted.get(path).token(&hosted.token);
    let path = format!("/nodes/{PACKAGE}/packed");
    let set = request(&path)
        .header("Accept", "application/json")
        .send()
        .await;
    assert_eq!(set.json()["types"], json!(["packed"]), "{}", set.text());
    let html = request("/nodes").send().await.text();
    let own = html
        .split(&format!("<!-- --- [red-module:{PACKAGE}/packed] --- -->"))
        .nth(1);
    let own = own.unwrap_or_else(|| panic!("{html}"));
    assert!(own.contains("RED.nodes.registerType(\"packed\""), "{own}");
    assert!(own.contains("category: \"packed things\""), "{own}");
    let one = request(&path)
        .header("Accept", "text/html")
        .send()
        .await
        .text();
    assert!(one.contains("RED.nodes.registerType(\"packed\""), "{one}");
}

#[tokio::test]
async fn without_the_package_of_native_nodes_the_log_names_it_and_other_foreign_nodes_run() {
    let hosted = Hosted::prepared("", |user: &Path| {
        write(user);
        super::shared_config::without_native_nodes(user);
    })
    .await;
    let mut flow = chain(vec![trial(
        "a",
        "msg.payload = ['runs']; send(msg); done()",
    )]);
    flow.push(json!({ "id": "p", "type": "packed", "z": "t", "x": 5, "y": 1, "wires": [[]] }));
    hosted.run(&json!(flow)).await;
    let line = hosted
        .process
        .wait_for_log("nodes of type function do not run");
    assert!(line.contains("@node-red/nodes"), "{line}");
    assert_eq!(hosted.show("/do").await, json!(["runs"]));
}
