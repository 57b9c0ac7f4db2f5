//! `inject` in a running engine.

use crate::bench::{Bench, debug};
use crate::steps::merged;
use serde_json::{Value as Json, json};

fn flow(extra: &Json) -> Json {
    let inject = merged(
        json!({ "id": "in", "type": "inject", "z": "t", "x": 1, "y": 1, "name": "n", "wires": [["out"]] }),
        extra,
    );
    json!([{ "id": "t", "type": "tab", "label": "T" }, inject, debug("out")])
}

#[tokio::test]
async fn environment_variables_are_those_of_the_node() {
    let props = json!([
        { "p": "payload", "v": "NR_FLOW_NAME", "vt": "env" },
        { "p": "topic", "v": "a-${NR_NODE_ID}-b", "vt": "env" },
    ]);
    let mut bench = Bench::with(&flow(&json!({ "props": props }))).await;
    bench.inject("in").await;
    let (_, message) = bench.output().await;
    assert_eq!(
        (&message["payload"], &message["topic"]),
        (&json!("T"), &json!("a-in-b"))
    );
    assert_eq!(message["_msgid"].as_str().unwrap().len(), 16);
}

#[tokio::test]
async fn once_and_repeat_send_by_themselves() {
    let props = json!([{ "p": "payload", "v": "tick", "vt": "str" }]);
    let mut bench = Bench::with(&flow(
        &json!({ "props": props, "once": true, "onceDelay": 0.3, "repeat": "0.05" }),
    ))
    .await;
    for _ in 0..3 {
        assert_eq!(bench.output().await.1["payload"], "tick");
    }
}

#[tokio::test]
async fn a_caller_may_give_the_properties() {
    let bench = &mut Bench::with(&flow(
        &json!({ "props": [{ "p": "payload", "v": "own", "vt": "str" }] }),
    ))
    .await;
    let body = json!({ "__user_inject_props__": [{ "p": "payload", "v": "2", "vt": "num" }] });
    bench.engine.inject("in", Some(body)).await.unwrap();
    assert_eq!(bench.output().await.1["payload"], 2);
}
