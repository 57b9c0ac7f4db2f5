//! `join` in a running engine: results observed on Node-RED 4.1.15.

use crate::bench::{Bench, debug};
use crate::steps::{SOON, all, bench, merged, next, outputs, part, payloads, send};
use serde_json::{Value as Json, json};
use std::time::{Duration, Instant};

fn join(mode: &str, extra: &Json) -> Json {
    merged(
        json!({ "type": "join", "mode": mode, "build": "object", "property": "payload", "propertyType": "msg",
        "key": "topic", "joiner": "\\n", "joinerType": "str", "useparts": false, "accumulate": false, "timeout": "",
        "count": "", "reduceRight": false, "reduceExp": "", "reduceInit": "", "reduceInitType": "", "reduceFixup": "" }),
        extra,
    )
}

fn out(message: Json) -> (String, Json) {
    ("out0".to_owned(), message)
}

fn p(payload: Json) -> Json {
    Json::Object([("payload".to_owned(), payload)].into_iter().collect())
}

#[tokio::test]
async fn split_messages_are_joined_again() {
    let auto = join("auto", &json!({}));
    let text = json!({ "type": "string", "ch": "-" });
    let object = |key: &str| json!({ "type": "object", "key": key });
    let buffer = json!({ "type": "buffer", "ch": { "$buffer": "," } });
    let none = json!({});
    let table = [
        (
            vec![
                part(&json!("b"), 1, 2, &none),
                part(&json!("a"), 0, 2, &none),
            ],
            json!(["a", "b"]),
        ),
        (
            vec![
                part(
                    &json!(["a", "x"]),
                    0,
                    2,
                    &json!({ "type": "array", "len": 2 }),
                ),
                part(&json!(["b"]), 1, 2, &json!({ "type": "array", "len": 2 })),
            ],
            json!(["a", "x", "b"]),
        ),
        (
            vec![
                part(&json!("b"), 1, 2, &text),
                part(&json!("a"), 0, 2, &text),
            ],
            json!("a-b"),
        ),
        (
            vec![
                part(&json!(1), 0, 3, &text),
                part(&json!({}), 1, 3, &text),
                part(&json!(null), 2, 3, &text),
            ],
            json!("1-[object Object]-"),
        ),
        (
            vec![
                part(&json!(1), 0, 2, &object("k1")),
                part(&json!(2), 1, 2, &object("k2")),
            ],
            json!({ "k1": 1, "k2": 2 }),
        ),
        (
            vec![
                part(&json!({ "$buffer": "a" }), 0, 2, &buffer),
                part(&json!({ "$buffer": "b" }), 1, 2, &buffer),
            ],
            json!({ "__enc__": true, "type": "Buffer", "data": [97, 44, 98], "length": 3 }),
        ),
    ];
    for (messages, expected) in table {
        let made = payloads(&auto, &messages, SOON).await;
        let expected = if expected.get("__enc__").is_some() {
            assert_eq!(made[0]["data"], expected["data"], "{made}");
            continue;
        } else {
            json!([expected])
        };
        assert_eq!(made, expected);
    }
}

#[tokio::test]
async fn the_result_merges_all_properties_and_has_the_outer_parts() {
    let mut first = part(
        &json!(1),
        0,
        2,
        &json!({ "parts": { "id": "o", "index": 4 } }),
    );
    first["q"] = json!(1);
    let mut second = part(
        &json!(2),
        1,
        2,
        &json!({ "parts": { "id": "o", "index": 4 } }),
    );
    second["r"] = json!(2);
    assert_eq!(
        outputs(&join("auto", &json!({})), &[first, second], SOON).await,
        [out(
            json!({ "payload": [1, 2], "parts": { "id": "o", "index": 4 }, "q": 1, "r": 2 })
        )]
    );
}

#[tokio::test]
async fn a_sequence_can_be_completed_or_dropped_early() {
    let auto = join("auto", &json!({}));
    let mut last = part(&json!(2), 2, 4, &json!({}));
    last["complete"] = json!(true);
    assert_eq!(
        outputs(&auto, &[part(&json!(1), 0, 4, &json!({})), last], SOON).await,
        // The empty place is undefined, as the debug node shows it.
        [out(
            json!({ "payload": [1, { "__enc__": true, "type": "undefined" }, 2] })
        )]
    );
    let reset = json!({ "reset": true, "parts": { "id": "s" } });
    let messages = [
        part(&json!(1), 0, 2, &json!({})),
        reset,
        part(&json!(2), 1, 2, &json!({})),
    ];
    let seen = all(&auto, &messages, SOON).await;
    assert_eq!(
        seen.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(),
        ["complete"; 2]
    );
}

#[tokio::test]
async fn messages_without_parts_are_warned_about() {
    let mut bench = bench(&join("auto", &json!({})), 1).await;
    send(&bench, &p(json!(1))).await;
    let warning = "Message missing msg.parts property - cannot join in 'auto' mode";
    assert_eq!(bench.error().await, ("node".to_owned(), warning.to_owned()));
}

#[tokio::test]
async fn manual_mode_sets_type_and_number_of_parts() {
    let buffer = |text: &str| p(json!({ "$buffer": text }));
    let topic = |payload: i32, topic: &str| json!({ "payload": payload, "topic": topic });
    let table = [
        (
            json!({ "build": "array", "count": "2" }),
            vec![p(json!("a")), p(json!("b")), p(json!("c"))],
            json!([["a", "b"]]),
        ),
        (
            json!({ "build": "string", "count": "3", "joiner": ", " }),
            vec![p(json!("a")), p(json!({ "x": 1 })), p(json!(3))],
            json!(["a, [object Object], 3"]),
        ),
        (
            json!({ "build": "string", "count": "2" }),
            vec![p(json!("a")), p(json!(null))],
            json!(["a\n"]),
        ),
        (
            json!({ "count": "2" }),
            vec![topic(1, "a"), topic(2, "a"), p(json!(9)), topic(3, "b")],
            json!([{ "a": 2, "b": 3 }]),
        ),
        (
            json!({ "count": "2", "accumulate": true }),
            vec![
                topic(1, "a"),
                topic(3, "b"),
                topic(4, "a"),
                json!({ "reset": true }),
                topic(5, "a"),
                topic(6, "c"),
            ],
            json!([{ "a": 1, "b": 3 }, { "a": 4, "b": 3 }, { "a": 5, "c": 6 }]),
        ),
        (
            json!({ "build": "merged", "count": "2" }),
            vec![
                p(json!({ "a": 1, "b": 1 })),
                p(json!(5)),
                p(json!({ "x": 1 })),
                p(json!({ "y": 1 })),
            ],
            json!([{ "a": 1, "b": 1 }, { "x": 1, "y": 1 }]),
        ),
        (
            json!({ "build": "array", "count": "2", "accumulate": true }),
            vec![p(json!(1)), p(json!(2)), p(json!(3))],
            json!([[1, 2], [1, 2, 3]]),
        ),
        (
            json!({ "build": "array" }),
            vec![
                p(json!("a")),
                json!({ "payload": "c", "complete": true }),
                json!({ "complete": true }),
            ],
            json!([["a", "c"], []]),
        ),
        (
            json!({ "build": "array", "useparts": true }),
            vec![
                part(&json!("b"), 1, 2, &json!({})),
                part(&json!("a"), 0, 2, &json!({})),
            ],
            json!([["b", "a"]]),
        ),
    ];
    for (node, messages, expected) in table {
        assert_eq!(
            payloads(&join("custom", &node), &messages, SOON).await,
            expected,
            "{node}"
        );
    }
    let node = join(
        "custom",
        &json!({ "build": "buffer", "count": "2", "joiner": "[44]", "joinerType": "bin" }),
    );
    let made = payloads(&node, &[buffer("a"), p(json!("b"))], SOON).await;
    assert_eq!(made[0]["data"], json!([97, 44, 98]), "{made}");
    assert_eq!(
        outputs(
            &join("custom", &json!({ "build": "buffer", "count": "1" })),
            &[p(json!(5))],
            SOON
        )
        .await,
        [("catch".to_owned(), json!("Cannot join number to buffer"))]
    );
}

#[tokio::test]
async fn an_incomplete_sequence_is_sent_after_the_time_out() {
    let node = join(
        "custom",
        &json!({ "build": "array", "count": "5", "timeout": "0.5" }),
    );
    let mut bench = bench(&node, 1).await;
    let begin = Instant::now();
    send(&bench, &p(json!("a"))).await;
    send(&bench, &p(json!("b"))).await;
    assert_eq!(
        next(&mut bench).await,
        out(json!({ "payload": ["a", "b"] }))
    );
    assert!(begin.elapsed() >= Duration::from_millis(500));
}

#[tokio::test]
async fn an_expression_reduces_a_sequence() {
    let reduce = |extra: &Json| {
        merged(
            join(
                "reduce",
                &json!({ "reduceExp": "$A+payload", "reduceInit": "0", "reduceInitType": "num" }),
            ),
            extra,
        )
    };
    let three = [1, 2, 3].map(|n| part(&json!(n), n - 1, 3, &json!({})));
    let seen = outputs(&reduce(&json!({ "reduceFixup": "$A*$N" })), &three, SOON).await;
    assert_eq!(
        seen,
        [out(
            json!({ "payload": 18, "parts": { "id": "s", "index": 2, "count": 3 } })
        )]
    );
    // A message of no sequence passes.
    assert_eq!(
        payloads(&reduce(&json!({})), &[p(json!(1))], SOON).await,
        json!([1])
    );
    let append = reduce(
        &json!({ "reduceExp": "$append($A,payload)", "reduceInit": "[]", "reduceInitType": "json" }),
    );
    let twice: Vec<Json> = three.iter().chain(&three).cloned().collect();
    assert_eq!(
        payloads(&append, &twice, SOON).await,
        json!([[1, 2, 3], [1, 2, 3]])
    );
    let text = [
        part(&json!("a"), 0, 2, &json!({})),
        part(&json!(2), 1, 2, &json!({})),
    ];
    let seen = all(&reduce(&json!({})), &text, SOON).await;
    let mut ids: Vec<&str> = seen.iter().map(|(id, _)| id.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["catch", "complete"]);
}

/// The time to split and then join `n` elements.
async fn there_and_back(n: usize) -> Duration {
    let flow = json!([
        { "id": "t", "type": "tab", "label": "T" },
        { "id": "in", "type": "inject", "z": "t", "x": 1, "y": 1, "wires": [["s"]],
          "props": [{ "p": "payload", "v": format!("[1..{n}]"), "vt": "jsonata" }] },
        { "id": "s", "type": "split", "z": "t", "x": 1, "y": 1, "wires": [["j"]] },
        { "id": "j", "type": "join", "mode": "auto", "z": "t", "x": 1, "y": 1, "wires": [["n"]] },
        { "id": "n", "type": "change", "z": "t", "x": 1, "y": 1, "wires": [["out"]],
          "rules": [{ "t": "set", "p": "payload", "pt": "msg", "to": "payload.length", "tot": "msg" }] },
        debug("out"),
    ]);
    let mut bench = Bench::with(&flow).await;
    let begin = Instant::now();
    bench.inject("in").await;
    assert_eq!(next(&mut bench).await.1["payload"], json!(n));
    begin.elapsed()
}

#[tokio::test]
async fn the_cost_of_split_and_join_is_linear() {
    there_and_back(1_000).await;
    let small = there_and_back(5_000).await;
    let large = there_and_back(50_000).await;
    // Ten times as many; a hundred times the time would be quadratic.
    assert!(
        large < small * 40,
        "{small:?} for 5,000, {large:?} for 50,000"
    );
}
