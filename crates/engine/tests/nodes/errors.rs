//! Errors on their way: which catch nodes get them, and how uncaught ones are shown.

use super::bench::{Bench, debug, inject};
use crate::delivery::{node, tab};
use crate::steps::merged;
use serde_json::{Value as Json, json};

/// A change node whose expression fails on every message.
fn failing(id: &str, z: &str) -> Json {
    json!({ "id": id, "type": "change", "z": z, "name": "bad", "x": 1, "y": 1, "wires": [[]],
            "rules": [{ "t": "set", "p": "payload", "pt": "msg", "to": "$error('boom')", "tot": "jsonata" }] })
}

#[tokio::test]
async fn an_error_reaches_the_catch_node_that_names_the_failing_node() {
    let flow = json!([
        tab(),
        inject("in", &json!({ "payload": "kept" }), &["f"]),
        failing("f", "t"),
        merged(
            node("other", "catch", &json!([["d0"]])),
            &json!({ "scope": ["x"] })
        ),
        merged(
            node("mine", "catch", &json!([["d1"]])),
            &json!({ "scope": ["f"] })
        ),
        merged(
            node("rest", "catch", &json!([["d2"]])),
            &json!({ "scope": null, "uncaught": true })
        ),
        debug("d0"),
        debug("d1"),
        debug("d2"),
    ]);
    let mut bench = Bench::with(&flow).await;
    bench.inject("in").await;
    let (id, message) = bench.output().await;
    assert_eq!(id, "d1");
    assert_eq!(message["payload"], "kept");
    let source = &message["error"]["source"];
    assert_eq!(
        *source,
        json!({ "id": "f", "type": "change", "name": "bad", "count": 1 })
    );
    assert!(
        message["error"]["message"]
            .as_str()
            .unwrap()
            .contains("boom"),
        "{message}"
    );
}

#[tokio::test]
async fn an_error_in_a_subflow_reaches_the_flow_around_it() {
    let flow = json!([
        tab(),
        { "id": "s", "type": "subflow", "in": [{ "wires": [{ "id": "sf" }] }], "out": [] },
        failing("sf", "s"),
        inject("in", &json!({ "payload": 1 }), &["i"]),
        { "id": "i", "type": "subflow:s", "z": "t", "x": 1, "y": 1, "wires": [] },
        merged(node("c", "catch", &json!([["d"]])), &json!({ "scope": ["i"] })),
        debug("d"),
    ]);
    let mut bench = Bench::with(&flow).await;
    bench.inject("in").await;
    assert_eq!(bench.output().await.1["error"]["source"]["id"], "i-sf");
}

#[tokio::test]
async fn an_uncaught_error_is_shown() {
    let flow = json!([
        tab(),
        inject("in", &json!({ "payload": 1 }), &["f"]),
        failing("f", "t")
    ]);
    let mut bench = Bench::with(&flow).await;
    bench.inject("in").await;
    let (id, text) = bench.error().await;
    assert_eq!(id, "f");
    assert!(text.contains("boom"), "{text}");
}

#[tokio::test]
async fn an_error_that_comes_back_to_its_node_ends_after_ten_rounds() {
    let flow = json!([
        tab(),
        inject("in", &json!({ "payload": 1 }), &["f"]),
        failing("f", "t"),
        merged(
            node("c", "catch", &json!([["f"]])),
            &json!({ "scope": null })
        ),
    ]);
    let mut bench = Bench::with(&flow).await;
    bench.inject("in").await;
    assert_eq!(
        bench.error().await.1,
        "Message exceeded maximum number of catches"
    );
}

#[tokio::test]
async fn a_status_without_fields_clears_it_and_a_text_of_null_is_one() {
    // Node-RED fails on them.
    for (status, shown) in [
        ("undefined", json!(null)),
        ("null", json!(null)),
        ("{ text: null }", json!({ "text": "null" })),
    ] {
        let func = format!(
            "const again = context.get('again'); context.set('again', 1); node.status(again ? {status} : {{ text: 'first' }});"
        );
        let node = json!({ "type": "function", "outputs": 1, "func": func });
        let mut bench = Bench::with(&crate::bench::around(&node, &json!({}), 1)).await;
        bench.inject("in").await;
        assert_eq!(bench.status().await.1["text"], "first");
        bench.inject("in").await;
        assert_eq!(bench.status().await, ("node".to_owned(), shown), "{status}");
    }
}
