//! Packages of npm, and other releases of Node-RED's runtime.

use super::dashboards::{install, kill_host};
use super::http::with_web;
use super::{Hosted, chain, function, trial};
use crate::harness::{program, run_command};
use serde_json::{Value as Json, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

fn placed(mut node: Json) -> Json {
    (node["z"], node["x"], node["y"]) = (json!("t"), json!(1), json!(1));
    node
}

fn with_packages(directory: &Path) {
    let packages = [
        "node-red-node-random",
        "node-red-node-smooth",
        "node-red-contrib-queue-gate",
    ];
    install(directory, &packages);
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

fn installed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/node_modules")
}

/// Configures the Node.js that Node-RED 5 needs, a newer one than many systems have.
pub fn node_red_5() -> String {
    let node = ["x64", "arm64"].map(|cpu| installed().join(format!("node-linux-{cpu}/bin/node")));
    let node = node.iter().find(|node| node.exists()).unwrap();
    format!("node = \"{}\"\n", node.display())
}

/// Puts the runtime of Node-RED 5 into a user directory.
pub fn with_node_red_5(directory: &Path) {
    let link = directory.join("node_modules/@node-red");
    fs::remove_file(&link).unwrap();
    symlink(installed().join("node-red-5/node_modules/@node-red"), link).unwrap();
}

#[tokio::test]
async fn the_runtime_of_node_red_5_works_too() {
    let hosted = Hosted::prepared(&node_red_5(), with_node_red_5).await;
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

#[tokio::test]
async fn the_editor_has_the_resources_plugins_words_and_examples_of_packages() {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/node_modules");
    let lines = format!("[editor]\nmodules = {modules:?}\n");
    let hosted = Hosted::prepared(&lines, with_web).await;
    let text = async |path: &str| {
        let answer = hosted.get(path).token(&hosted.token).send().await;
        assert_eq!(answer.status, 200, "{path}");
        answer.text()
    };
    // The editor loads it before it has a token.
    let resource = hosted.get("/resources/@tests/node-red-web/web.js");
    let resource = resource.send().await;
    assert_eq!(resource.text(), "window.webResource = true;\n");
    assert!(
        resource
            .header("content-type")
            .starts_with("text/javascript")
    );
    for path in ["package.json", "../web.js", "%2e%2e/web.js", "nope.js"] {
        let path = format!("/resources/@tests/node-red-web/{path}");
        let status = hosted.get(&path).send().await.status;
        assert!(matches!(status, 400 | 404), "{path}: {status}");
    }
    let html = text("/plugins").await;
    let plugin = "<!-- --- [red-plugin:@tests/node-red-web/web-plugin] --- -->";
    assert!(html.contains(plugin), "{html}");
    let request = hosted.get("/plugins").token(&hosted.token);
    let listed = request
        .header("Accept", "application/json")
        .send()
        .await
        .json();
    assert_eq!(listed[0]["id"], "@tests/node-red-web/web-plugin");
    assert_eq!(listed[0]["version"], "1.2.3");
    let words = text("/plugins/messages?lng=de").await;
    assert!(words.contains("Hello"), "{words}");
    let examples = text("/library/examples/flows/").await;
    assert!(examples.contains("\"@tests/node-red-web\""), "{examples}");
    let folder = text("/library/examples/flows/@tests/node-red-web/").await;
    assert_eq!(folder, "[\"first\"]");
    let example = text("/library/examples/flows/@tests/node-red-web/first/example").await;
    assert!(example.contains("An example"), "{example}");
}

#[tokio::test]
async fn policies_and_checks_know_the_types_of_packages() {
    let lines = "[policy]\nrequire_types = true\n";
    let hosted = Hosted::prepared(lines, with_packages).await;
    let random = |kind: &str| {
        let mut node = placed(json!({ "id": "r", "type": kind, "wires": [] }));
        node["name"] = kind.into();
        json!([{ "id": "t", "type": "tab", "label": "t" }, node])
    };
    let checked = async |kind: &str| {
        let request = hosted.post("/gateway/check").token(&hosted.token);
        let request = request.header("Service-API-Version", "v1");
        request.json(&random(kind)).send().await.text()
    };
    let deployed = async |kind: &str| {
        let request = hosted.deployment(&hosted.token, &random(kind), None);
        request.send().await.status
    };
    assert_eq!(deployed("unheard-of").await, 403);
    assert!(checked("unheard-of").await.contains("unheard-of"));
    assert_eq!(deployed("random").await, 200);
    assert!(!checked("random").await.contains("require_types"));
    // Also while the host does not run.
    kill_host(&hosted.process);
    hosted.process.wait_for_log("the node host has ended");
    assert_eq!(deployed("random").await, 200);

    // A command without a running gateway reads the files.
    for (kind, code) in [("random", 0), ("unheard-of", 1)] {
        let directory = hosted.user_directory();
        let directory = directory.parent().unwrap();
        fs::write(directory.join("new.json"), random(kind).to_string()).unwrap();
        let (status, output) = run_command(program(directory, &["check-flows", "new.json"]));
        assert_eq!(status, Some(code), "{output}");
    }
}
