//! Function nodes that run in the node host, because the engine cannot load their modules.

use super::{Hosted, chain, function, trial};
use crate::harness::until;
use serde_json::{Value as Json, json};
use std::fs;
use std::path::Path;

const WHEN_NEEDED: &str = "functions = \"when needed\"\n";

/// A function node with modules, each under its own name.
fn with_modules(id: &str, modules: &[&str], code: &str) -> Json {
    let mut node = function(id, code);
    let libs = modules
        .iter()
        .map(|module| json!({ "var": module.replace('-', "_"), "module": module }));
    node["libs"] = libs.collect();
    node
}

/// A package that the engine refuses: an ES module.
fn with_es_module(user: &Path) {
    let package = user.join("node_modules/es-only");
    fs::create_dir_all(&package).unwrap();
    let facts =
        json!({ "name": "es-only", "version": "1.0.0", "type": "module", "exports": "./index.js" });
    fs::write(package.join("package.json"), facts.to_string()).unwrap();
    fs::write(
        package.join("index.js"),
        "export const word = 'from an ES module';",
    )
    .unwrap();
    let listed = json!({ "private": true, "dependencies": { "es-only": "1.0.0" } });
    fs::write(user.join("package.json"), listed.to_string()).unwrap();
}

/// `GET /do?fail=…` goes through a native function, one with modules, and a foreign node; its
/// errors, status and completed messages are seen by native nodes.
fn flows(modules: &[&str], code: &str) -> Json {
    let mut flow = chain(vec![
        function(
            "f",
            "global.set('native', 1); msg.payload = [typeof WebAssembly]; return msg",
        ),
        with_modules("x", modules, code),
        trial(
            "a",
            "msg.payload.push(node.context().global.get('hosted')); send(msg); done()",
        ),
    ]);
    flow.extend([
        json!({ "id": "c", "type": "catch", "z": "t", "scope": ["x"], "x": 1, "y": 1, "wires": [["h"]] }),
        json!({ "id": "h", "type": "function", "z": "t", "x": 1, "y": 1, "wires": [["out"]],
            "func": "msg.payload = [msg.error.message, msg.error.source.type]; return msg" }),
        json!({ "id": "s", "type": "status", "z": "t", "scope": ["x"], "x": 1, "y": 1, "wires": [["g"]] }),
        json!({ "id": "k", "type": "complete", "z": "t", "scope": ["x"], "x": 1, "y": 1, "wires": [["g"]] }),
        json!({ "id": "g", "type": "function", "z": "t", "x": 1, "y": 1, "wires": [],
            "func": "if (msg.status) global.set('status', msg.status.text);
                     if (msg.complete) global.set('complete', msg.complete.source.id)" }),
        json!({ "id": "in2", "type": "http in", "z": "t", "method": "get", "url": "/show", "x": 1, "y": 1, "wires": [["e"]] }),
        json!({ "id": "e", "type": "function", "z": "t", "x": 1, "y": 1, "wires": [["out"]],
            "func": "msg.payload = [global.get('status'), global.get('complete')]; return msg" }),
    ]);
    flow[0]["env"] = json!([{ "name": "WORD", "value": "of the tab", "type": "str" }]);
    json!(flow)
}

const CODE: &str = "if (msg.req.query.fail) throw new Error('on purpose');
    node.status({ text: 'at work' });
    global.set('hosted', global.get('native') + 1);
    msg.payload.push(fs.existsSync('/'), typeof WebAssembly, es_only.word, env.get('WORD'));
    return msg";

#[tokio::test]
async fn a_function_with_modules_that_the_engine_refuses_runs_in_the_host_like_any_other() {
    let hosted = Hosted::prepared(WHEN_NEEDED, with_es_module).await;
    hosted.run(&flows(&["fs", "es-only"], CODE)).await;
    let line = hosted
        .process
        .wait_for_log("function nodes run in the node host");
    assert!(line.contains("\"x\"") || line.contains("nodes=x"), "{line}");
    let all = json!([
        "undefined",
        true,
        "object",
        "from an ES module",
        "of the tab",
        2
    ]);
    assert_eq!(hosted.show("/do").await, all);
    let caught = hosted.show("/do?fail=1").await;
    assert!(
        caught[0].as_str().unwrap().contains("on purpose"),
        "{caught}"
    );
    assert_eq!(caught[1], "function");
    hosted.until_shown("/show", &json!(["at work", "x"])).await;

    // It is an ordinary function again when it needs no such module, and the other way round.
    let native =
        "global.set('hosted', 0); msg.payload.push(typeof WebAssembly, path.sep); return msg";
    hosted.run_more(&flows(&["path"], native)).await;
    assert_eq!(
        hosted.show("/do").await,
        json!(["undefined", "undefined", "/", 0])
    );
    hosted.run_more(&flows(&["fs", "es-only"], CODE)).await;
    assert_eq!(hosted.show("/do").await, all);
}

#[tokio::test]
async fn no_function_runs_in_the_host_unless_the_configuration_says_so() {
    let hosted = Hosted::prepared("", with_es_module).await;
    hosted.run(&flows(&["fs", "es-only"], CODE)).await;
    // The node is broken, and drops its messages.
    hosted
        .process
        .wait_for_log("needs files, the network or other processes");
    let native = "global.set('hosted', 0); msg.payload.push(typeof WebAssembly); return msg";
    hosted.run_more(&flows(&[], native)).await;
    assert_eq!(
        hosted.show("/do").await,
        json!(["undefined", "undefined", 0])
    );
}

#[tokio::test]
async fn a_function_with_a_module_that_nobody_has_is_broken_alone() {
    let hosted = Hosted::prepared(WHEN_NEEDED, with_es_module).await;
    let mut flow = chain(vec![with_modules(
        "y",
        &["fs"],
        "msg.payload = [fs.existsSync('/')]; return msg",
    )]);
    let mut broken = with_modules("x", &["fs", "not-there"], "return msg");
    broken["wires"] = json!([[]]);
    flow.push(broken);
    hosted.run(&json!(flow)).await;
    hosted
        .process
        .wait_for_log("needs files, the network or other processes");
    assert_eq!(hosted.show("/do").await, json!([true]));
}

#[tokio::test]
async fn a_function_in_a_subflow_runs_in_the_host_with_the_variables_of_each_instance() {
    let hosted = Hosted::prepared(WHEN_NEEDED, with_es_module).await;
    let instance = |id: &str, word: &str| {
        json!({ "id": id, "type": "subflow:sf", "z": "t", "x": 1, "y": 1,
            "env": [{ "name": "WORD", "value": word, "type": "str" }] })
    };
    let mut flow = chain(vec![
        function("f", "msg.payload = []; return msg"),
        instance("i", "one"),
        instance("j", "two"),
    ]);
    let mut inner = with_modules(
        "x",
        &["child_process"],
        "const n = (flow.get('n') || 0) + 1; flow.set('n', n);
         msg.payload.push(typeof child_process.spawn, env.get('WORD'), n); return msg",
    );
    (inner["z"], inner["wires"]) = (json!("sf"), json!([[]]));
    flow.extend([
        json!({ "id": "sf", "type": "subflow", "name": "s", "in": [{ "x": 1, "y": 1, "wires": [{ "id": "x" }] }],
            "out": [{ "x": 1, "y": 1, "wires": [{ "id": "x", "port": 0 }] }] }),
        inner,
    ]);
    hosted.run(&json!(flow)).await;
    assert_eq!(
        hosted.show("/do").await,
        json!(["function", "one", 1, "function", "two", 1])
    );
    assert_eq!(hosted.show("/do").await[2], 2);
}

#[tokio::test]
async fn a_function_in_the_host_ends_with_it_and_comes_back() {
    let hosted = Hosted::with(WHEN_NEEDED).await;
    let code = "if (msg.req.query.end) setTimeout(() => process_of.exit(1), 1);
                msg.payload = [msg.req.query.end ? 'ends' : 'alive']; return msg";
    let mut ending = with_modules("x", &[], code);
    ending["libs"] =
        json!([{ "var": "fs", "module": "fs" }, { "var": "process_of", "module": "process" }]);
    let mut flow = chain(vec![ending]);
    flow.extend([
        json!({ "id": "c", "type": "catch", "z": "t", "scope": null, "x": 1, "y": 1, "wires": [["h"]] }),
        json!({ "id": "h", "type": "function", "z": "t", "x": 1, "y": 1, "wires": [["out"]],
            "func": "msg.payload = [msg.error.message]; return msg" }),
    ]);
    hosted.run(&json!(flow)).await;
    assert_eq!(hosted.show("/do").await, json!(["alive"]));
    assert_eq!(hosted.show("/do?end=1").await, json!(["ends"]));
    hosted.process.wait_for_log("the node host has ended");
    until("it is back", async || {
        let answer = hosted.get("/do").send().await;
        answer.status == 200 && answer.json() == json!(["alive"])
    })
    .await;
}
