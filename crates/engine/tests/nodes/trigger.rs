//! `trigger` in a running engine: results observed on Node-RED 4.1.15.

use crate::steps::{SOON, bench, merged, outputs, payloads, send};
use serde_json::{Value as Json, json};
use std::time::Duration;

fn trigger(extra: &Json) -> Json {
    merged(
        json!({ "type": "trigger", "op1": "1", "op2": "0", "op1type": "str", "op2type": "str",
        "duration": "400", "extend": false, "overrideDelay": false, "units": "ms", "reset": "", "bytopic": "all",
        "topic": "topic", "outputs": 1 }),
        extra,
    )
}

fn message(payload: &str, x: i32) -> Json {
    json!({ "payload": payload, "x": x })
}

const LATER: Duration = Duration::from_millis(1200);

#[tokio::test]
async fn two_messages_are_sent_of_a_type_each() {
    let table = [
        (json!({}), json!(["1", "0"])),
        (
            json!({ "op1type": "val", "op2type": "val", "op2": "true" }),
            json!(["1", true]),
        ),
        (
            json!({ "op1type": "pay", "op2type": "payl" }),
            json!(["a", "b"]),
        ),
        (
            json!({ "op1type": "pay", "op2type": "pay" }),
            json!(["a", "a"]),
        ),
        (
            json!({ "op1type": "nul", "op2type": "payl", "extend": true }),
            json!(["b"]),
        ),
        (json!({ "op2type": "nul" }), json!(["1"])),
        (
            json!({ "op1type": "json", "op1": "{\"a\":1}", "op2type": "num", "op2": "5" }),
            json!([{ "a": 1 }, 5]),
        ),
        (
            json!({ "op1": "hi {{payload}}", "op2": "by {{payload}}" }),
            json!(["hi a", "by a"]),
        ),
        (
            json!({ "op1type": "msg", "op1": "x", "op2type": "jsonata", "op2": "x + 1" }),
            json!([1, 2]),
        ),
    ];
    for (node, expected) in table {
        let list = [message("a", 1), message("b", 2)];
        assert_eq!(
            payloads(&trigger(&node), &list, LATER).await,
            expected,
            "{node}"
        );
    }
}

#[tokio::test]
async fn the_second_output_and_the_properties_are_kept() {
    let node = trigger(&json!({ "outputs": 2 }));
    assert_eq!(
        outputs(&node, &[message("a", 1)], LATER).await,
        [
            ("out0".to_owned(), json!({ "payload": "1", "x": 1 })),
            ("out1".to_owned(), json!({ "payload": "0", "x": 1 })),
        ]
    );
}

#[tokio::test]
async fn it_is_reset_by_a_property_or_a_payload() {
    let forever = trigger(&json!({ "duration": "0", "reset": "stop" }));
    let list = [
        message("a", 1),
        message("b", 1),
        message("stop", 1),
        message("c", 1),
    ];
    assert_eq!(payloads(&forever, &list, SOON).await, json!(["1", "1"]));
    let list = [message("a", 1), json!({ "reset": true }), message("c", 1)];
    assert_eq!(payloads(&forever, &list, SOON).await, json!(["1", "1"]));
}

#[tokio::test]
async fn topics_are_separate() {
    let node = trigger(&json!({ "bytopic": "topic", "op1type": "pay" }));
    let of = |payload: &str, topic: &str| json!({ "payload": payload, "topic": topic });
    let list = [
        of("a", "A"),
        of("b", "B"),
        of("c", "A"),
        json!({ "reset": 1, "topic": "A" }),
    ];
    assert_eq!(payloads(&node, &list, LATER).await, json!(["a", "b", "0"]));
    let mut bench = bench(&node, 1).await;
    send(&bench, &list[0]).await;
    send(&bench, &list[1]).await;
    assert_eq!(
        bench.status().await.1,
        json!({ "fill": "blue", "shape": "dot" })
    );
    assert_eq!(
        bench.status().await.1,
        json!({ "fill": "blue", "shape": "dot", "text": "2" })
    );
    assert_eq!(
        bench.status().await.1,
        json!({ "fill": "blue", "shape": "dot" })
    );
    assert_eq!(bench.status().await.1, json!(null));
}

#[tokio::test]
async fn it_repeats_until_it_is_reset_and_obeys_the_message() {
    let again = trigger(&json!({ "duration": "-100", "op1type": "pay" }));
    let made = payloads(&again, &[message("a", 1)], Duration::from_millis(250)).await;
    assert!(made.as_array().unwrap().len() >= 2, "{made}");
    assert_eq!(made[1], "a");
    let own = trigger(&json!({ "duration": "100000", "overrideDelay": true }));
    let list = [json!({ "payload": "a", "delay": "50" })];
    assert_eq!(payloads(&own, &list, LATER).await, json!(["1", "0"]));
}

#[tokio::test]
async fn broken_values_fail_on_each_message() {
    let node = trigger(&json!({ "op1type": "json", "op1": "{a" }));
    let seen = outputs(&node, &[message("a", 1)], SOON).await;
    assert_eq!(seen.len(), 1);
    assert_eq!(
        seen[0],
        (
            "catch".to_owned(),
            json!("SyntaxError: Expected property name or '}' in JSON at position 1")
        )
    );
}
