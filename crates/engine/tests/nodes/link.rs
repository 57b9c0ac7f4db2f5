//! `link in`, `link out` and `link call` in a running engine.

use crate::bench::{Bench, debug, inject};
use crate::steps::merged;
use serde_json::{Value as Json, json};

fn node(id: &str, kind: &str, extra: &Json, to: &[&str]) -> Json {
    merged(
        json!({ "id": id, "type": kind, "z": "t", "x": 1, "y": 1, "wires": [to] }),
        extra,
    )
}

fn flow(call: &Json, message: &Json) -> Json {
    let set = json!({ "rules": [{ "t": "set", "p": "payload", "pt": "msg", "to": "done", "tot": "str" }] });
    json!([
        { "id": "t", "type": "tab", "label": "T" },
        inject("in", message, &["call"]),
        node("call", "link call", call, &["out"]),
        node("sub", "link in", &json!({ "name": "routine" }), &["set"]),
        node("set", "change", &set, &["return"]),
        node("return", "link out", &json!({ "mode": "return" }), &[]),
        node("deaf", "link in", &json!({ "name": "deaf" }), &[]),
        node("catch", "catch", &json!({ "scope": null }), &["out"]),
        debug("out"),
    ])
}

#[tokio::test]
async fn a_call_comes_back_without_a_trace() {
    let mut bench = Bench::with(&flow(
        &json!({ "links": ["sub"], "linkType": "static" }),
        &json!({ "payload": 1 }),
    ))
    .await;
    bench.inject("in").await;
    let (_, message) = bench.output().await;
    assert_eq!(
        (&message["payload"], message.get("_linkSource")),
        (&json!("done"), None)
    );
}

#[tokio::test]
async fn a_dynamic_call_finds_its_target_by_name_or_id() {
    for target in ["routine", "sub"] {
        let message = json!({ "payload": 1, "target": target });
        let mut bench = Bench::with(&flow(&json!({ "linkType": "dynamic" }), &message)).await;
        bench.inject("in").await;
        assert_eq!(bench.output().await.1["payload"], "done");
    }
}

#[tokio::test]
async fn an_unknown_target_and_a_missing_response_are_caught() {
    let mut bench = Bench::with(&flow(
        &json!({ "linkType": "dynamic" }),
        &json!({ "target": "nowhere" }),
    ))
    .await;
    bench.inject("in").await;
    let text = bench.output().await.1["error"]["message"].to_string();
    assert!(text.contains("not found"), "{text}");
    let call = json!({ "links": ["deaf"], "timeout": "0.05" });
    let mut bench = Bench::with(&flow(&call, &json!({ "payload": 1 }))).await;
    bench.inject("in").await;
    assert_eq!(bench.output().await.1["error"]["message"], "timeout");
}
