//! `switch` in a running engine.

use crate::bench::{Bench, around, through};
use crate::steps::{SOON, all};
use serde_json::json;

#[tokio::test]
async fn every_rule_that_is_met_has_its_output() {
    let node = json!({ "type": "switch", "property": "payload", "checkall": "true", "rules": [
        { "t": "gt", "v": "1", "vt": "num" }, { "t": "eq", "v": "9", "vt": "num" }, { "t": "lt", "v": "9", "vt": "num" },
    ] });
    let message = json!({ "payload": 5 });
    assert_eq!(
        through(&node, &message, 3).await,
        [(0, message.clone()), (2, message)]
    );
}

#[tokio::test]
async fn the_first_rule_that_is_met_can_be_the_only_one() {
    let node = json!({ "type": "switch", "property": "payload", "checkall": "false", "rules": [
        { "t": "eq", "v": "1", "vt": "num" }, { "t": "lt", "v": "5", "vt": "num" }, { "t": "else" },
    ] });
    assert_eq!(
        through(&node, &json!({ "payload": "1" }), 3).await,
        [(0, json!({ "payload": "1" }))]
    );
    assert_eq!(
        through(&node, &json!({ "payload": 8 }), 3).await,
        [(2, json!({ "payload": 8 }))]
    );
}

#[tokio::test]
async fn complete_and_catch_nodes_see_neither_its_messages_nor_a_failing_property() {
    let fails = json!({ "type": "switch", "property": "$error('x')", "propertyType": "jsonata", "rules": [{ "t": "else" }] });
    assert_eq!(all(&fails, &[json!({ "payload": 1 })], SOON).await, []);
    let works = json!({ "type": "switch", "property": "payload", "rules": [{ "t": "else" }] });
    let seen = all(&works, &[json!({ "payload": 1 })], SOON).await;
    assert_eq!(seen, [("out0".to_owned(), json!({ "payload": 1 }))]);
    let mut bench = Bench::with(&around(&fails, &json!({ "payload": 1 }), 1)).await;
    bench.inject("in").await;
    assert_eq!(bench.error().await.1, "Invalid JSONata expression: x");
}

#[tokio::test]
async fn a_path_into_a_context_that_the_message_cannot_fill_is_an_error_of_that_message_alone() {
    // Node-RED takes no message any more.
    let node = json!({ "type": "switch", "property": "switched[msg.topic]", "propertyType": "global", "rules": [{ "t": "null" }] });
    let messages = [json!({ "payload": 1 }), json!({ "topic": "b" })];
    let seen = all(&node, &messages, SOON).await;
    assert_eq!(seen[0].0, "catch", "{seen:?}");
    assert!(
        seen[0].1.to_string().contains("undefined reference"),
        "{seen:?}"
    );
    assert_eq!(seen[1..], [("out0".to_owned(), json!({ "topic": "b" }))]);
}
