//! Subflows that packages make node types of (`RED.nodes.registerSubflow`).

use super::{Hosted, chain, function, trial};
use crate::harness::until;
use crate::node_red::{NodeRed, Release};
use serde_json::{Value as Json, json};
use std::fs;
use std::path::Path;

const PACKAGE: &str = "node-red-contrib-packed";

/// A subflow with native nodes, a catch node, and an instance of a subflow of its own. As in
/// Node-RED, no inner id may be a type.
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

/// Writes the package of `subflow`.
fn write(directory: &Path) {
    write_package(directory, &subflow());
}

/// Writes a package of a subflow.
fn write_package(directory: &Path, subflow: &Json) {
    let (name, kind) = (&subflow["meta"]["module"], &subflow["meta"]["type"]);
    let package = directory.join("node_modules").join(name.as_str().unwrap());
    fs::create_dir_all(&package).unwrap();
    let facts = json!({
        "name": name, "version": "1.0.0", "node-red": { "nodes": { kind.as_str().unwrap(): "packed.js" } }
    });
    fs::write(package.join("package.json"), facts.to_string()).unwrap();
    fs::write(package.join("subflow.json"), subflow.to_string()).unwrap();
    let program = "module.exports = (RED) => RED.nodes.registerSubflow(require('./subflow.json'));";
    fs::write(package.join("packed.js"), program).unwrap();
}

/// `GET /do?payload=…` goes through an instance; the errors that it does not catch are the response
/// too.
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

/// A packaged subflow that tells of what is around it: variables and contexts of its own, its
/// flow's and all flows'.
fn telling() -> Json {
    let tell = "const names = ['WORD', 'OF_GROUP', 'OF_TAB', '$parent.OF_TAB', '$parent.WORD', 'OF_SUBFLOW', 'NR_FLOW_NAME',
            'NR_GROUP_NAME', 'NR_NODE_NAME', 'NR_SUBFLOW_NAME', 'NR_SUBFLOW_ID', 'NOTHING'];
        const seen = Object.fromEntries(names.map((name) => [name, env.get(name) ?? null]));
        for (const key of ['own', '$parent.of_flow', '$parent.$parent.of_flow', 'of_flow']) seen['flow ' + key] = flow.get(key) ?? null;
        seen.global = global.get('native') ?? null;
        context.set('n', (context.get('n') ?? 0) + 1);
        flow.set('own', (flow.get('own') ?? 0) + 1);
        flow.set('$parent.told', (flow.get('$parent.told') ?? 0) + 1);
        seen.n = context.get('n');
        msg.payload.push(seen);
        return msg";
    json!({
        "id": "tf", "type": "subflow", "name": "Telling",
        "meta": { "module": "node-red-contrib-telling", "type": "telling", "version": "1.0.0" },
        "env": [{ "name": "WORD", "type": "str", "value": "default" }],
        "in": [{ "wires": [{ "id": "tell" }] }], "out": [{ "wires": [{ "id": "tell", "port": 0 }] }],
        "flow": [
            { "id": "tell", "type": "function", "z": "tf", "g": "box", "name": "tell", "x": 1, "y": 1, "func": tell, "outputs": 1, "wires": [[]] },
            { "id": "box", "type": "group", "z": "tf", "name": "box", "nodes": ["tell"], "env": [] },
            { "id": "shows", "type": "debug", "z": "tf", "name": "shows", "x": 1, "y": 1, "active": true, "tosidebar": true,
                "complete": "payload", "targetType": "msg", "wires": [] },
        ]
    })
}

/// `GET /do` goes through an instance in a group, one in no group, and one inside an instance of a
/// subflow.
fn telling_flows() -> Json {
    let mut flow = chain(vec![
        function(
            "f",
            "global.set('native', 'of all'); flow.set('of_flow', 'of the flow'); msg.payload = []; return msg",
        ),
        json!({ "id": "grouped", "type": "telling", "z": "t", "g": "g", "name": "named", "x": 5, "y": 1, "WORD": "given" }),
        json!({ "id": "plain", "type": "telling", "z": "t", "name": "", "x": 5, "y": 1, "WORD": "default" }),
        json!({ "id": "i", "type": "subflow:s", "z": "t", "name": "", "x": 5, "y": 1, "env": [{ "name": "OF_SUBFLOW", "type": "str", "value": "of the instance" }] }),
        function("h", "msg.payload.push(flow.get('told')); return msg"),
    ]);
    flow[0]["env"] = json!([{ "name": "OF_TAB", "type": "str", "value": "of the tab" }]);
    flow.extend([
        json!({ "id": "g", "type": "group", "z": "t", "name": "a group", "nodes": ["grouped"], "x": 1, "y": 1, "w": 9, "h": 9,
            "env": [{ "name": "OF_GROUP", "type": "str", "value": "of the group" }] }),
        json!({ "id": "s", "type": "subflow", "name": "Outer", "env": [{ "name": "OF_SUBFLOW", "type": "str", "value": "default" }],
            "in": [{ "x": 1, "y": 1, "wires": [{ "id": "inside" }] }], "out": [{ "x": 1, "y": 1, "wires": [{ "id": "k", "port": 0 }] }] }),
        json!({ "id": "inside", "type": "telling", "z": "s", "name": "", "x": 5, "y": 1, "WORD": "inside", "wires": [["k"]] }),
        json!({ "id": "k", "type": "function", "z": "s", "x": 5, "y": 1, "outputs": 1, "wires": [[]],
            "func": "msg.payload.push(flow.get('told') ?? null); return msg" }),
    ]);
    json!(flow)
}

#[tokio::test]
async fn a_packaged_subflow_sees_the_variables_and_contexts_that_it_sees_on_node_red() {
    let prepare = |directory: &Path| write_package(directory, &telling());
    let red = NodeRed::prepared_with(Release::Four, "", prepare);
    until("Node-RED has started its flows", async || red.starts() > 0).await;
    red.deploy(&telling_flows()).await;
    let hosted = Hosted::prepared("", prepare).await;
    hosted.run(&telling_flows()).await;
    for _ in 0..2 {
        let there = red.request("GET", "/do").send().await;
        assert_eq!(there.status, 200, "{}", there.text());
        assert_eq!(hosted.show("/do").await, there.json());
    }
}

#[tokio::test]
async fn a_debug_node_inside_a_packaged_subflow_reaches_editors() {
    let mut subflow = telling();
    subflow["flow"][0]["wires"] = json!([["shows"]]);
    let hosted = Hosted::prepared("", |directory| write_package(directory, &subflow)).await;
    hosted.run(&telling_flows()).await;
    let mut editor = hosted.editor(&hosted.token).await;
    hosted.show("/do").await;
    let shown = |m: &Json| (m["topic"] == "debug").then(|| m["data"].clone());
    let data = editor.find(shown).await;
    assert_eq!(
        (&data["name"], &data["format"]),
        (&json!("grouped-shows"), &json!("array[1]")),
        "{data}"
    );
    assert!(
        data["msg"].as_str().unwrap().contains("of the flow"),
        "{data}"
    );
}
