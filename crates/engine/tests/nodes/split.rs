//! `split` in a running engine: results observed on Node-RED 4.1.15.

use crate::steps::{SOON, all, merged, outputs, payloads};
use serde_json::{Value as Json, json};

fn split(extra: &Json) -> Json {
    merged(
        json!({ "type": "split", "splt": "\\n", "spltType": "str", "arraySplt": 1, "arraySpltType": "len",
        "stream": false, "addname": "", "property": "payload" }),
        extra,
    )
}

fn out(message: Json) -> (String, Json) {
    ("out0".to_owned(), message)
}

#[tokio::test]
async fn each_element_has_its_part() {
    let message = json!({ "payload": [1, { "c": 1 }], "topic": "t" });
    let part =
        |index: usize| json!({ "id": "*", "type": "array", "count": 2, "len": 1, "index": index });
    assert_eq!(
        outputs(&split(&json!({})), &[message], SOON).await,
        [
            out(json!({ "payload": 1, "topic": "t", "parts": part(0) })),
            out(json!({ "payload": { "c": 1 }, "topic": "t", "parts": part(1) })),
        ]
    );
}

#[tokio::test]
async fn texts_objects_and_buffers_are_split_too() {
    let table = [
        (
            json!({ "arraySplt": 2 }),
            json!([1, 2, 3, 4, 5]),
            json!([[1, 2], [3, 4], [5]]),
        ),
        (
            json!({}),
            json!("a\nb\n\nc\n"),
            json!(["a", "b", "", "c", ""]),
        ),
        (json!({ "splt": "\\t" }), json!("a\tb"), json!(["a", "b"])),
        (
            json!({ "splt": "2", "spltType": "len" }),
            json!("abcde"),
            json!(["ab", "cd", "e"]),
        ),
        (
            json!({ "splt": "[44,32]", "spltType": "bin" }),
            json!("a, b,c"),
            json!(["a", "b,c"]),
        ),
        (json!({}), json!({ "a": 1, "b": [2] }), json!([1, [2]])),
        (json!({}), json!({}), json!([])),
        (json!({}), json!([]), json!([])),
        (json!({}), json!(""), json!([""])),
        (json!({}), json!(5), json!([])),
    ];
    for (node, payload, expected) in table {
        let message = json!({ "payload": payload });
        assert_eq!(
            payloads(&split(&node), &[message], SOON).await,
            expected,
            "{node} {payload}"
        );
    }
    let buffer = json!({ "payload": { "$buffer": "a,b" } });
    let node = split(&json!({ "splt": "[44]", "spltType": "bin" }));
    let seen = outputs(&node, &[buffer], SOON).await;
    assert_eq!(
        seen[0].1["parts"],
        json!({ "id": "*", "type": "buffer", "ch": [44], "count": 2, "index": 0 })
    );
}

#[tokio::test]
async fn the_key_of_a_property_can_be_kept_and_another_property_split() {
    let node = split(&json!({ "property": "a.b", "addname": "x.y" }));
    let message = json!({ "a": { "b": { "k": 1 } }, "payload": "p" });
    let parts = json!({ "id": "*", "property": "a.b", "type": "object", "key": "k", "index": 0, "count": 1 });
    assert_eq!(
        outputs(&node, &[message], SOON).await,
        [out(
            json!({ "a": { "b": 1 }, "payload": "p", "parts": parts, "x": { "y": "k" } })
        )]
    );
}

#[tokio::test]
async fn parts_that_are_there_go_inside() {
    let message = json!({ "payload": [1], "parts": { "id": "x", "index": 3 } });
    let seen = outputs(&split(&json!({})), &[message], SOON).await;
    assert_eq!(
        seen[0].1["parts"]["parts"],
        json!({ "id": "x", "index": 3 })
    );
}

#[tokio::test]
async fn a_stream_goes_on_where_the_last_message_ended() {
    let messages = ["a\nb", "c\nd", "e\n"].map(|text| json!({ "payload": text }));
    let seen = outputs(&split(&json!({ "stream": true })), &messages, SOON).await;
    let part = |index: usize| json!({ "id": "*", "type": "string", "ch": "\n", "index": index });
    assert_eq!(
        seen,
        [
            out(json!({ "payload": "a", "parts": part(0) })),
            out(json!({ "payload": "bc", "parts": part(1) })),
            out(json!({ "payload": "de", "parts": part(2) })),
        ]
    );
}

#[tokio::test]
async fn it_is_done_once_and_fails_on_null() {
    let seen = all(&split(&json!({})), &[json!({ "payload": [1, 2] })], SOON).await;
    assert_eq!(seen.iter().filter(|(id, _)| id == "complete").count(), 1);
    assert_eq!(
        outputs(&split(&json!({})), &[json!({ "payload": null })], SOON).await,
        [(
            "catch".to_owned(),
            json!("TypeError: Cannot convert undefined or null to object")
        )]
    );
}
