//! `sort` in a running engine: results observed on Node-RED 4.1.15.

use crate::steps::{SOON, all, merged, outputs, part, payloads};
use serde_json::{Value as Json, json};

fn sort(extra: &Json) -> Json {
    merged(
        json!({ "type": "sort", "order": "ascending", "as_num": false, "target": "payload", "targetType": "msg",
        "msgKey": "payload", "msgKeyType": "elem", "seqKey": "payload", "seqKeyType": "msg" }),
        extra,
    )
}

#[tokio::test]
async fn arrays_are_sorted_by_element_or_key() {
    let keyed = json!([{ "k": 2, "s": "a" }, { "k": 1 }, { "k": 2, "s": "b" }]);
    let table = [
        (json!({}), json!([3, 10, 1, 2]), json!([[1, 2, 3, 10]])),
        (
            json!({ "order": "descending" }),
            json!([3, 10, 1, 2]),
            json!([[10, 3, 2, 1]]),
        ),
        (
            json!({}),
            json!(["3", "10", "1"]),
            json!([["1", "10", "3"]]),
        ),
        (
            json!({ "as_num": true }),
            json!(["3", "10", "1"]),
            json!([["1", "3", "10"]]),
        ),
        (
            json!({ "msgKey": "k", "msgKeyType": "jsonata" }),
            keyed,
            json!([[{ "k": 1 }, { "k": 2, "s": "a" }, { "k": 2, "s": "b" }]]),
        ),
        // A value that is no array is not sent on.
        (json!({}), json!("x"), json!([])),
    ];
    for (node, payload, expected) in table {
        let message = json!({ "payload": payload });
        assert_eq!(
            payloads(&sort(&node), &[message], SOON).await,
            expected,
            "{node}"
        );
    }
}

#[tokio::test]
async fn messages_of_a_sequence_are_sorted_and_numbered_anew() {
    let messages: Vec<Json> = [3, 1, 2]
        .iter()
        .enumerate()
        .map(|(i, n)| part(&json!(n), i, 3, &json!({})))
        .collect();
    let expected = |values: [i32; 3]| -> Vec<(String, Json)> {
        values
            .iter()
            .enumerate()
            .map(|(i, n)| ("out0".to_owned(), part(&json!(n), i, 3, &json!({}))))
            .collect()
    };
    let node = sort(&json!({ "targetType": "seq" }));
    assert_eq!(outputs(&node, &messages, SOON).await, expected([1, 2, 3]));
    let node = sort(&json!({ "targetType": "seq", "seqKey": "-payload", "seqKeyType": "jsonata" }));
    assert_eq!(outputs(&node, &messages, SOON).await, expected([3, 2, 1]));
}

#[tokio::test]
async fn messages_of_no_sequence_are_dropped_and_invalid_keys_are_errors() {
    let node = sort(&json!({ "targetType": "seq" }));
    let seen = all(&node, &[json!({ "payload": 1 })], SOON).await;
    assert_eq!(seen, [("complete".to_owned(), json!({ "payload": 1 }))]);
    let node = sort(&json!({ "msgKey": "$nope()", "msgKeyType": "jsonata" }));
    let seen = outputs(&node, &[json!({ "payload": [1, 2] })], SOON).await;
    assert_eq!(seen[0].0, "catch");
    let text = seen[0].1.as_str().unwrap();
    assert!(
        text.starts_with("Invalid JSONata expression in sort node: "),
        "{text}"
    );
}
