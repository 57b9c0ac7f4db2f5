//! Tests flows of several function nodes: the message of one is the object that the next one gets.

use super::bench::{Bench, debug, inject};
use super::delivery::{node, tab};
use crate::steps::merged;
use flows::DeploymentType;
use serde_json::{Value as Json, json};

fn function(id: &str, code: &str, to: &[&str]) -> Json {
    merged(
        node(id, "function", &json!([to])),
        &json!({ "func": code, "outputs": 1 }),
    )
}

async fn result(flow: &Json) -> Json {
    let mut bench = Bench::with(flow).await;
    bench.inject("in").await;
    bench.output().await.1["payload"].take()
}

#[tokio::test]
async fn a_function_gets_what_the_one_before_has_made_as_it_is() {
    let make = "msg.payload = { list: new Set([1, 2]), double: (n) => n * 2 }; return msg";
    let flow = json!([
        tab(),
        inject("in", &json!({ "payload": 1 }), &["make"]),
        function("make", make, &["pass"]),
        function("pass", "return msg", &["use"]),
        function(
            "use",
            "const p = msg.payload; msg.payload = p.double(p.list.size); return msg",
            &["out"]
        ),
        debug("out"),
    ]);
    assert_eq!(result(&flow).await, 4);
}

#[tokio::test]
async fn a_function_sees_what_the_one_before_changes_later() {
    let make = "msg.payload = []; setTimeout(() => msg.payload.push('later'), 1); return msg";
    let flow = json!([
        tab(),
        inject("in", &json!({ "payload": 1 }), &["make"]),
        function("make", make, &["wait"]),
        function(
            "wait",
            "setTimeout(() => node.send({ payload: msg.payload }), 50); return null",
            &["out"]
        ),
        debug("out"),
    ]);
    assert_eq!(result(&flow).await, json!(["later"]));
}

#[tokio::test]
async fn functions_of_which_another_node_gets_the_message_too_do_not_share_it() {
    let change = "msg.payload.a = 2; return msg";
    let flow = json!([
        tab(),
        inject("in", &json!({ "payload": { "a": 1 } }), &["make"]),
        function("make", "return msg", &["change", "seen"]),
        function("change", change, &["changed"]),
        debug("seen"),
        debug("changed"),
    ]);
    let mut bench = Bench::with(&flow).await;
    bench.inject("in").await;
    for expected in [("seen", 1), ("changed", 2)] {
        let (id, message) = bench.output().await;
        assert_eq!(
            (id.as_str(), &message["payload"]["a"]),
            (expected.0, &json!(expected.1))
        );
    }
}

#[tokio::test]
async fn a_complete_node_gets_the_message_with_which_a_function_is_done() {
    let flow = json!([
        tab(),
        inject("in", &json!({ "payload": { "a": 1 } }), &["first"]),
        function("first", "msg.payload.a++; return msg", &["second"]),
        function("second", "msg.payload.a++; return null", &[]),
        merged(
            node("done", "complete", &json!([["out"]])),
            &json!({ "scope": ["first", "second"] })
        ),
        debug("out"),
    ]);
    let mut bench = Bench::with(&flow).await;
    bench.inject("in").await;
    for expected in [2, 3] {
        assert_eq!(bench.output().await.1["payload"]["a"], expected);
    }
}

/// Messages go round between two functions, until a deployment wires one of them to another node.
#[tokio::test]
async fn no_message_is_lost_when_a_function_is_wired_to_another_node() {
    let count = 50;
    let code = format!("return [Array.from({{ length: {count} }}, (_, n) => ({{ payload: n }}))]");
    let flow = |to: &str| {
        json!([
            tab(),
            inject("in", &json!({ "payload": 1 }), &["make"]),
            function("make", &code, &["here"]),
            function(
                "here",
                "msg.turns = (msg.turns || 0) + 1; return msg",
                &["there"]
            ),
            function("there", "return msg", &[to]),
            debug("out"),
        ])
    };
    let mut bench = Bench::with(&flow("here")).await;
    bench.inject("in").await;
    bench.deploy(&flow("out"), DeploymentType::Nodes).await;
    let mut payloads = Vec::new();
    for _ in 0..count {
        let message = bench.output().await.1;
        assert!(message["turns"].as_u64().unwrap() > 0);
        payloads.push(message["payload"].as_u64().unwrap());
    }
    payloads.sort_unstable();
    assert_eq!(payloads, (0..count).collect::<Vec<u64>>());
}
