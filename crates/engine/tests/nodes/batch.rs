//! `batch` in a running engine: results observed on Node-RED 4.1.15.

use crate::steps::{SOON, merged, outputs, part, payloads};
use serde_json::{Value as Json, json};
use std::time::Duration;

fn batch(extra: &Json) -> Json {
    merged(
        json!({ "type": "batch", "mode": "count", "count": 2, "overlap": 0, "interval": 10,
        "allowEmptySequence": false, "honourParts": false, "topics": [] }),
        extra,
    )
}

fn numbers(n: usize) -> Vec<Json> {
    (1..=n).map(|n| json!({ "payload": n })).collect()
}

#[tokio::test]
async fn a_number_of_messages_makes_a_sequence() {
    let mut messages = numbers(3);
    messages[1]["parts"] = json!({ "id": "x", "index": 0 });
    let part = |index: usize| json!({ "id": "*", "index": index, "count": 2 });
    assert_eq!(
        outputs(&batch(&json!({})), &messages, SOON).await,
        [
            ("out0".to_owned(), json!({ "payload": 1, "parts": part(0) })),
            ("out0".to_owned(), json!({ "payload": 2, "parts": part(1) })),
        ]
    );
}

#[tokio::test]
async fn sequences_may_overlap_and_end_early() {
    let table = [
        (
            json!({ "count": 3, "overlap": 2 }),
            numbers(5),
            json!([1, 2, 3, 2, 3, 4, 3, 4, 5]),
        ),
        (
            json!({ "count": 3, "overlap": 1 }),
            numbers(5),
            json!([1, 2, 3, 3, 4, 5]),
        ),
        (json!({ "count": 2, "overlap": 2 }), numbers(3), json!([])),
        (json!({ "count": 0 }), numbers(2), json!([1, 2])),
        (
            json!({ "count": 3, "honourParts": true }),
            vec![
                part(&json!("a"), 0, 2, &json!({})),
                part(&json!("b"), 1, 2, &json!({})),
                json!({ "payload": "c" }),
            ],
            json!(["a", "b"]),
        ),
        (
            json!({}),
            vec![
                json!({ "payload": 1 }),
                json!({ "reset": 1 }),
                json!({ "payload": 2 }),
                json!({ "payload": 3 }),
            ],
            json!([2, 3]),
        ),
    ];
    for (node, messages, expected) in table {
        assert_eq!(
            payloads(&batch(&node), &messages, SOON).await,
            expected,
            "{node}"
        );
    }
}

#[tokio::test]
async fn the_messages_of_an_interval_make_a_sequence() {
    let node = batch(&json!({ "mode": "interval", "interval": "2" }));
    let seen = outputs(&node, &numbers(2), Duration::from_millis(2800)).await;
    assert_eq!(
        seen[1].1,
        json!({ "payload": 2, "parts": { "id": "*", "index": 1, "count": 2 } })
    );
    assert_eq!(seen.len(), 2);
    let node = batch(&json!({ "mode": "interval", "interval": "0.2", "allowEmptySequence": true }));
    let seen = outputs(&node, &[], Duration::from_millis(900)).await;
    assert_eq!(
        seen[0].1,
        json!({ "payload": null, "parts": { "id": "*", "index": 0, "count": 1 } })
    );
}

#[tokio::test]
async fn sequences_are_concatenated_by_topic() {
    let node = batch(&json!({ "mode": "concat", "topics": [{ "topic": "A" }, { "topic": "B" }] }));
    let message = |payload: &str, topic: &str, index: usize, count: usize| {
        let mut message = part(&json!(payload), index, count, &json!({}));
        message["topic"] = json!(topic);
        message
    };
    let messages = [
        message("b1", "B", 0, 2),
        message("b2", "B", 1, 2),
        message("a1", "A", 0, 1),
        message("z", "C", 0, 1),
        json!({ "payload": "n", "topic": "A" }),
    ];
    let seen = outputs(&node, &messages, SOON).await;
    let made: Vec<&Json> = seen
        .iter()
        .filter(|(id, _)| id == "out0")
        .map(|(_, m)| &m["payload"])
        .collect();
    assert_eq!(made, [&json!("a1"), &json!("b1"), &json!("b2")]);
    assert_eq!(
        seen[2].1["parts"],
        json!({ "id": "*", "index": 2, "count": 3 })
    );
    assert_eq!(
        seen[3],
        ("catch".to_owned(), json!("no parts property in message"))
    );
}
