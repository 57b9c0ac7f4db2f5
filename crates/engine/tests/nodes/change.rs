//! `change` in a running engine.

use crate::bench::{Bench, around, payloads};
use crate::steps::{SOON, all};
use serde_json::json;

#[tokio::test]
async fn rules_are_applied_in_order() {
    let node = json!({ "type": "change", "rules": [
        { "t": "set", "p": "payload", "pt": "msg", "to": "abc", "tot": "str" },
        { "t": "set", "p": "kept", "pt": "flow", "to": "payload", "tot": "msg" },
        { "t": "change", "p": "payload", "pt": "msg", "from": "b", "fromt": "str", "to": "-", "tot": "str" },
        { "t": "set", "p": "payload", "pt": "msg", "to": "$flowContext('kept') & payload", "tot": "jsonata" },
    ] });
    assert_eq!(
        payloads(&node, &json!({ "payload": 1 })).await,
        [json!("abca-c")]
    );
}

#[tokio::test]
async fn a_failing_expression_stops_the_message_and_is_an_error() {
    let node = json!({ "type": "change", "rules": [
        { "t": "set", "p": "payload", "pt": "msg", "to": "payload + 'x'", "tot": "jsonata" },
    ] });
    let mut bench = Bench::with(&around(&node, &json!({ "payload": 1 }), 1)).await;
    bench.inject("in").await;
    let (id, text) = bench.error().await;
    assert_eq!(id, "node");
    assert!(text.contains("Invalid JSONata expression: "), "{text}");
}

#[tokio::test]
async fn a_rule_about_a_property_that_cannot_be_named_does_nothing() {
    let node = json!({ "type": "change", "rules": [
        { "t": "set", "p": "a..b", "pt": "msg", "to": "x", "tot": "str" },
        { "t": "delete", "p": "", "pt": "msg" },
        { "t": "move", "p": "payload", "pt": "msg", "to": "payload", "tot": "msg" },
        { "t": "set", "p": "payload.y", "pt": "msg", "to": "z", "tot": "str" },
    ] });
    assert_eq!(
        payloads(&node, &json!({ "payload": { "x": 1 } })).await,
        [json!({ "x": 1, "y": "z" })]
    );
}

#[tokio::test]
async fn completions_come_right_behind_what_was_sent() {
    let node = json!({ "type": "change", "rules": [] });
    let fan = json!([
        { "id": "t", "type": "tab", "label": "T" },
        { "id": "in", "type": "inject", "z": "t", "x": 1, "y": 1, "props": [], "wires": [["two"]] },
        { "id": "two", "type": "function", "z": "t", "x": 1, "y": 1, "func": "return [[{}, {}]];", "wires": [["node"]] },
        { "id": "node", "type": "change", "rules": node["rules"], "z": "t", "x": 1, "y": 1, "wires": [["out"]] },
        { "id": "c", "type": "complete", "scope": ["node"], "z": "t", "x": 1, "y": 1, "wires": [["complete"]] },
        crate::bench::debug("out"),
        crate::bench::debug("complete"),
    ]);
    let mut bench = Bench::with(&fan).await;
    bench.inject("in").await;
    let mut order = Vec::new();
    for _ in 0..4 {
        order.push(bench.output().await.0);
    }
    assert_eq!(order, ["out", "complete", "out", "complete"]);
}

#[tokio::test]
async fn a_failing_expression_is_caught_as_a_bare_text() {
    let node = json!({ "type": "change", "rules": [
        { "t": "set", "p": "payload", "pt": "msg", "to": "$error('boom')", "tot": "jsonata" },
    ] });
    let seen = all(&node, &[json!({ "payload": 1 })], SOON).await;
    assert_eq!(
        seen,
        [(
            "catch".to_owned(),
            json!("Invalid JSONata expression: boom")
        )]
    );
}

#[tokio::test]
async fn the_message_goes_on_if_a_changed_context_value_is_missing_or_another() {
    // Node-RED loses it.
    let node = json!({ "type": "change", "rules": [
        { "t": "change", "p": "missing", "pt": "flow", "from": "1", "fromt": "num", "to": "2", "tot": "num" },
        { "t": "set", "p": "k", "pt": "flow", "to": "3", "tot": "num" },
        { "t": "change", "p": "k", "pt": "flow", "from": "1", "fromt": "num", "to": "2", "tot": "num" },
        { "t": "set", "p": "payload", "pt": "msg", "to": "k", "tot": "flow" },
    ] });
    assert_eq!(payloads(&node, &json!({ "payload": 1 })).await, [json!(3)]);
}

#[tokio::test]
async fn the_old_form_moves_a_property() {
    // Node-RED loses the message.
    let node = json!({ "type": "change", "action": "move", "property": "topic", "to": "payload" });
    assert_eq!(
        payloads(&node, &json!({ "topic": "t" })).await,
        [json!("t")]
    );
}
