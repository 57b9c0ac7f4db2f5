//! `change` in a running engine.

use crate::bench::{Bench, around, payloads};
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
async fn a_failing_expression_stops_the_message_and_is_told() {
    let node = json!({ "type": "change", "rules": [
        { "t": "set", "p": "payload", "pt": "msg", "to": "payload + 'x'", "tot": "jsonata" },
    ] });
    let mut bench = Bench::with(&around(&node, &json!({ "payload": 1 }), 1)).await;
    bench.inject("in").await;
    let (id, text) = bench.complaint().await;
    assert_eq!(id, "node");
    assert!(text.contains("Invalid JSONata expression: "), "{text}");
}
