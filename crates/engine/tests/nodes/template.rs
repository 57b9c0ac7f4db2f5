//! `template` in a running engine.

use crate::bench::payloads;
use serde_json::json;

#[tokio::test]
async fn names_lead_to_the_message_and_to_the_environment() {
    let node = json!({ "type": "template", "field": "payload", "fieldType": "msg", "syntax": "mustache",
        "template": "{{payload}} {{{payload}}} in {{env.NR_FLOW_NAME}} {{flow.nothing}}.", "output": "str" });
    assert_eq!(
        payloads(&node, &json!({ "payload": "<b>" })).await,
        [json!("&lt;b&gt; <b> in T .")]
    );
}

#[tokio::test]
async fn partials_are_empty() {
    // Node-RED fails on them.
    let node = json!({ "type": "template", "field": "payload", "fieldType": "msg", "syntax": "mustache",
        "template": "{{> partial}}[{{>other}}]", "output": "str" });
    assert_eq!(payloads(&node, &json!({})).await, [json!("[]")]);
}
