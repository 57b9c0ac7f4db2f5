//! Packages of npm, and other releases of Node-RED's runtime.

use super::{Hosted, chain, function, trial};
use serde_json::{Value as Json, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

fn placed(mut node: Json) -> Json {
    (node["z"], node["x"], node["y"]) = (json!("t"), json!(1), json!(1));
    node
}

fn with_packages(directory: &Path) {
    for package in [
        "node-red-node-random",
        "node-red-node-smooth",
        "node-red-contrib-queue-gate",
    ] {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/node_host/node_modules");
        let to = directory.join("node_modules").join(package);
        symlink(from.join(package), to).unwrap();
    }
}

#[tokio::test]
async fn packages_do_their_work_between_native_nodes() {
    let hosted = Hosted::prepared("", with_packages).await;
    let gate = json!({
        "id": "q", "type": "q-gate", "controlTopic": "control", "defaultState": "queueing", "openCmd": "open",
        "closeCmd": "close", "toggleCmd": "toggle", "queueCmd": "queue", "defaultCmd": "default", "triggerCmd": "trigger",
        "flushCmd": "flush", "resetCmd": "reset", "maxQueueLength": 10, "keepNewest": false, "qToggle": false, "persist": true,
        "storeName": "memory"
    });
    let nodes = vec![
        placed(json!({ "id": "r", "type": "random", "low": "7", "high": "7", "inte": "true", "property": "payload" })),
        function(
            "f",
            "const { req, res } = msg;
             return [[{ payload: msg.payload, req, res }, { payload: 3 }, { topic: 'control', payload: 'trigger' }]]",
        ),
        placed(gate),
        placed(json!({ "id": "s", "type": "smooth", "property": "payload", "action": "max", "count": "3", "round": "", "mult": "single" })),
        // The queue is in a context of the engine, and the request in it.
        function("g", "msg.payload = [msg.payload]; return msg"),
    ];
    hosted.run(&json!(chain(nodes))).await;
    assert_eq!(hosted.show("/do").await, json!([7]));
}

#[tokio::test]
async fn the_runtime_of_node_red_5_works_too() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/node_modules");
    // Node-RED 5 needs a newer Node.js than many systems have.
    let node = ["x64", "arm64"].map(|cpu| tests.join(format!("node-linux-{cpu}/bin/node")));
    let node = node.iter().find(|node| node.exists()).unwrap();
    let runtime = tests.join("node-red-5/node_modules/@node-red");
    let prepare = |directory: &Path| {
        let link = directory.join("node_modules/@node-red");
        fs::remove_file(&link).unwrap();
        symlink(&runtime, link).unwrap();
    };
    let hosted = Hosted::prepared(&format!("node = {node:?}\n"), prepare).await;
    let nodes = vec![
        function("f", "msg.payload = [new Date(5)]; return msg"),
        trial(
            "a",
            "node.status({ text: 'x' }); node.context().global.set('n', 1); if (msg.req.query.fail) throw new Error('no');
             msg.payload.push(msg.payload[0] instanceof Date, process.version.split('.')[0]); send(msg); done()",
        ),
        function("g", "msg.payload.push(global.get('n')); msg.payload.shift(); return msg"),
    ];
    let mut flow = chain(nodes);
    flow.extend([
        json!({ "id": "c", "type": "catch", "z": "t", "scope": null, "x": 1, "y": 1, "wires": [["h"]] }),
        json!({ "id": "h", "type": "function", "z": "t", "x": 1, "y": 1, "wires": [["out"]],
            "func": "msg.payload = [msg.error.message]; return msg" }),
    ]);
    hosted.run(&json!(flow)).await;
    assert_eq!(hosted.show("/do").await, json!([true, "v24", 1]));
    assert_eq!(hosted.show("/do?fail=1").await, json!(["Error: no"]));
}

#[tokio::test]
async fn the_editor_has_the_packages_in_its_palette() {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/node_modules");
    let lines = format!("[editor]\nmodules = {modules:?}\n");
    let hosted = Hosted::prepared(&lines, with_packages).await;
    let json = |path: &str| {
        let request = hosted.get(path).token(&hosted.token);
        request.header("Accept", "application/json").send()
    };
    let sets = json("/nodes").await.json();
    let set = sets
        .as_array()
        .unwrap()
        .iter()
        .find(|set| set["types"] == json!(["random"]));
    let expected = json!({
        "id": "node-red-node-random/random", "name": "random", "types": ["random"], "enabled": true, "local": true,
        "user": true, "module": "node-red-node-random", "version": "0.4.1"
    });
    assert_eq!(set, Some(&expected));
    let module = json("/nodes/node-red-node-random").await.json();
    assert_eq!(module["nodes"], json!([expected]));
    assert_eq!(
        json("/nodes/node-red-node-random/random").await.json(),
        expected
    );
    assert_eq!(json("/nodes/node-red-node-random/inject").await.status, 404);

    let html = hosted
        .get("/nodes")
        .token(&hosted.token)
        .send()
        .await
        .text();
    let set = html
        .split("<!-- --- [red-module:node-red-node-random/random] --- -->")
        .nth(1)
        .unwrap();
    assert!(set.contains("RED.nodes.registerType('random'"), "{set}");
    let words = json("/nodes/messages?lng=en-US").await.json();
    assert!(words["node-red-node-random/random"].is_object(), "{words}");
    let icons = json("/icons").await.json();
    assert!(icons["node-red"].is_array(), "{icons}");
}
