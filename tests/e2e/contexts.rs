//! Contexts of flows: read and deleted over the API, kept over a restart and a kill, in Node-RED's
//! files.

use crate::client::Client;
use crate::harness::{Gateway, Process, flow_set, public, script, until};
use serde_json::{Value as Json, json};

/// Two stores, the second one on disk, and a public endpoint.
fn settings() -> String {
    public(&["/do", "/show"])
        + r#"
[[engine.context]]
name = "memory"
module = "memory"
[[engine.context]]
name = "disk"
module = "localfilesystem"
flush = "20ms"
"#
}

const SET: &str = r#"
global.set("g", { b: [1, 2] });
flow.set("f", "text");
context.set("n", 7);
global.set("kept", { n: 1 }, "disk");
global.get("kept", "disk").n++;
flow.set("f", 1, "disk");
return msg"#;
const SHOW: &str =
    r#"msg.payload = { g: global.get("g"), kept: global.get("kept", "disk") }; return msg"#;

fn flows() -> Json {
    let show = script("u", "get", "/show", SHOW);
    flow_set(&[script("t", "get", "/do", SET), show])
}

async fn read(client: &Client, token: &str, path: &str) -> Json {
    let answer = client.get(path).token(token).send().await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

#[tokio::test]
async fn contexts_are_shown_and_deleted_as_the_editor_expects() {
    let gateway = Gateway::with(&settings());
    let token = gateway.sign_in("admin").await;
    gateway.deploy(&token, &flows()).await;
    assert_eq!(gateway.get("/do").send().await.status, 200);

    for (path, expected) in [
        (
            "/context/global",
            json!({ "memory": { "g": { "msg": "{\"b\":[1,2]}", "format": "Object" } },
                 "disk": { "kept": { "msg": "{\"n\":2}", "format": "Object" } } }),
        ),
        (
            "/context/global/g.b[1]",
            json!({ "msg": "2", "format": "number" }),
        ),
        (
            "/context/global/nope",
            json!({ "msg": "(undefined)", "format": "undefined" }),
        ),
        (
            "/context/flow/t?store=memory",
            json!({ "memory": { "f": { "msg": "text", "format": "string[4]" } } }),
        ),
        (
            "/context/global/kept?store=disk",
            json!({ "msg": "{\"n\":2}", "format": "Object", "store": "disk" }),
        ),
        ("/context/flow/unknown", json!({ "memory": {}, "disk": {} })),
        ("/context/node/unknown", json!({})),
        ("/context/node/t-in", json!({ "memory": {}, "disk": {} })),
        (
            "/context/node/t-node",
            json!({ "memory": { "n": { "msg": "7", "format": "number" } }, "disk": {} }),
        ),
        (
            "/context/global?keysOnly",
            json!({ "memory": { "keys": [{ "key": "g" }] }, "disk": { "keys": [{ "key": "kept" }] } }),
        ),
        (
            "/context/global/g?keysOnly",
            json!({ "memory": { "keys": [{ "key": "b", "format": "array[2]", "length": 2 }], "format": "object" } }),
        ),
        (
            "/settings",
            json!({ "default": "memory", "stores": ["memory", "disk"] }),
        ),
    ] {
        let shown = read(&gateway, &token, path).await;
        let shown = if path == "/settings" {
            &shown["context"]
        } else {
            &shown
        };
        assert_eq!(*shown, expected, "{path}");
    }
    for (method, path, status) in [
        ("GET", "/context/global?store=nope", 404),
        ("GET", "/context/elsewhere", 404),
        ("DELETE", "/context/global", 405),
        ("DELETE", "/context/global/kept", 204),
        ("DELETE", "/context/global/g.b", 204),
    ] {
        let answer = gateway.request(method, path).token(&token).send().await;
        assert_eq!(answer.status, status, "{method} {path}");
    }
    let rest = read(&gateway, &token, "/context/global/g").await;
    assert_eq!(rest["msg"], "{}");
    // The key of the other store was not meant.
    let kept = read(&gateway, &token, "/context/global/kept?store=disk").await;
    assert_eq!(kept["msg"], "{\"n\":2}");
}

#[tokio::test]
async fn a_store_on_disk_survives_a_restart_and_one_in_memory_does_not() {
    let gateway = Gateway::with(&settings());
    let token = gateway.sign_in("admin").await;
    gateway.deploy(&token, &flows()).await;
    assert_eq!(gateway.get("/do").send().await.status, 200);
    let gateway = gateway.restart_with(&settings()).await;
    let shown = gateway.get("/show").send().await.json();
    assert_eq!(shown, json!({ "kept": { "n": 2 } }));
    let file = std::fs::read_to_string(gateway.data("context/global/global.json")).unwrap();
    assert_eq!(file, "{\n    \"kept\": {\n        \"n\": 2\n    }\n}");
}

#[tokio::test]
async fn a_killed_process_leaves_what_was_flushed_and_a_broken_file_is_set_aside() {
    let place = tempfile::tempdir().unwrap();
    let spawned = Process::start(&settings(), place.path());
    let token = spawned.sign_in("admin").await;
    spawned.deploy(&token, &flows()).await;
    assert_eq!(spawned.get("/do").send().await.status, 200);
    let file = place.path().join("data/context/global/global.json");
    until("the context is on disk", async || file.exists()).await;
    spawned.signal("KILL");
    let _ = spawned.end();

    std::fs::write(
        place.path().join("data/context/global/other.json"),
        "{\"torn\": ",
    )
    .unwrap();
    let spawned = Process::start(&settings(), place.path());
    assert!(
        place
            .path()
            .join("data/context/global/other.json.broken")
            .exists()
    );
    let shown = spawned.get("/show").send().await.json();
    assert_eq!(shown, json!({ "kept": { "n": 2 } }));
}
