//! `rbe` in a running engine: results observed on Node-RED 4.1.15.

use crate::bench::Bench;
use crate::steps::{SOON, all, bench, merged, messages, payloads, send};
use serde_json::{Value as Json, json};

fn rbe(extra: &Json) -> Json {
    merged(
        json!({ "type": "rbe", "func": "rbe", "gap": "", "start": "", "inout": "out", "septopics": true,
        "property": "payload", "topi": "topic" }),
        extra,
    )
}

#[tokio::test]
async fn only_changes_pass() {
    let table = [
        (json!({}), vec![1, 1, 2, 2], json!([1, 2])),
        (
            json!({ "func": "rbei" }),
            vec![1, 1, 2, 2, 3],
            json!([2, 3]),
        ),
        (
            json!({ "func": "deadband", "gap": "5" }),
            vec![0, 2, 5, 6, 10, 15],
            json!([0, 6, 15]),
        ),
        (
            json!({ "func": "narrowband", "gap": "5" }),
            vec![0, 2, 10, 5],
            json!([0, 2, 5]),
        ),
    ];
    for (node, values, expected) in table {
        assert_eq!(
            payloads(&rbe(&node), &messages(&values), SOON).await,
            expected,
            "{node}"
        );
    }
}

#[tokio::test]
async fn topics_are_separate_and_can_be_reset() {
    let of = |topic: &str| json!({ "payload": topic, "topic": topic });
    let list = [
        of("a"),
        of("b"),
        of("a"),
        json!({ "reset": 1, "topic": "a" }),
        of("a"),
        of("b"),
        json!({ "reset": 0 }),
        of("b"),
    ];
    assert_eq!(
        payloads(&rbe(&json!({})), &list, SOON).await,
        json!(["a", "b", "a", "b"])
    );
    let same = [
        json!({ "payload": 1, "topic": "a" }),
        json!({ "payload": 1, "topic": "b" }),
    ];
    assert_eq!(
        payloads(&rbe(&json!({ "septopics": false })), &same, SOON).await,
        json!([1])
    );
}

#[tokio::test]
async fn it_never_completes_and_warns_about_values_that_are_not_numbers() {
    let seen = all(&rbe(&json!({})), &messages(&[1, 1]), SOON).await;
    assert_eq!(seen, [("out0".to_owned(), json!({ "payload": 1 }))]);
    let mut bench: Bench = bench(&rbe(&json!({ "func": "deadband", "gap": "5" })), 1).await;
    send(&bench, &json!({ "payload": "a" })).await;
    assert_eq!(bench.error().await.1, "no number found in payload");
}
