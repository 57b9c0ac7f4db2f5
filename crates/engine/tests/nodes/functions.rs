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

#[tokio::test]
async fn a_message_is_not_lost_when_the_function_is_wired_to_another_node_while_it_waits() {
    let code = "await new Promise((done) => setTimeout(done, 300)); return msg";
    let flow = |to: &[&str]| {
        json!([
            tab(),
            inject("in", &json!({ "payload": 1 }), &["waits"]),
            function("waits", code, to),
            function("next", "return msg", &["sink"]),
            node("sink", "junction", &json!([])),
            debug("out"),
        ])
    };
    let mut bench = Bench::with(&flow(&["next"])).await;
    bench.inject("in").await;
    bench.deploy(&flow(&["out"]), DeploymentType::Nodes).await;
    assert_eq!(bench.output().await.1["payload"], 1);
}

fn change(id: &str, rules: &Json, to: &[&str]) -> Json {
    merged(node(id, "change", &json!([to])), &json!({ "rules": rules }))
}

fn switch(id: &str, property: &str, rules: &Json, to: &[&str]) -> Json {
    let wires: Vec<Json> = to.iter().map(|to| json!([to])).collect();
    let properties =
        json!({ "property": property, "propertyType": "msg", "rules": rules, "checkall": "true" });
    merged(node(id, "switch", &json!(wires)), &properties)
}

#[tokio::test]
async fn nodes_between_functions_pass_on_what_they_do_not_touch_as_it_is() {
    let set = json!([{ "t": "set", "p": "mark", "pt": "msg", "to": "1", "tot": "num" }]);
    let flow = json!([
        tab(),
        inject("in", &json!({ "payload": 1, "topic": "t" }), &["make"]),
        function(
            "make",
            "msg.payload = new Map([['a', 3]]); return msg",
            &["change"]
        ),
        change("change", &set, &["junction"]),
        node("junction", "junction", &json!([["switch"]])),
        switch(
            "switch",
            "topic",
            &json!([{ "t": "eq", "v": "t", "vt": "str" }]),
            &["use"]
        ),
        function(
            "use",
            "msg.payload = msg.payload.get('a') + msg.mark; return msg",
            &["out"]
        ),
        debug("out"),
    ]);
    assert_eq!(result(&flow).await, 4);
}

#[tokio::test]
async fn only_one_of_the_nodes_that_get_a_message_gets_the_object() {
    let rules = json!([{ "t": "nnull" }, { "t": "else" }, { "t": "eq", "v": "t", "vt": "str" }]);
    let flow = json!([
        tab(),
        inject("in", &json!({ "payload": 1, "topic": "t" }), &["make"]),
        function("make", "msg.payload = { a: 1 }; return msg", &["switch"]),
        switch("switch", "topic", &rules, &["first", "never", "second"]),
        function("first", "msg.payload.a += 10; return msg", &["out"]),
        function("never", "msg.payload.a += 100; return msg", &["out"]),
        function("second", "msg.payload.a += 1000; return msg", &["out"]),
        debug("out"),
    ]);
    let mut bench = Bench::with(&flow).await;
    bench.inject("in").await;
    for expected in [11, 1001] {
        assert_eq!(bench.output().await.1["payload"]["a"], expected);
    }
}

/// What comes out of two functions with a node between: with copies between them all, because
/// another node gets the message too, and without.
async fn with_and_without_copies(first: &str, between: &Json, second: &str) -> [Json; 2] {
    let mut found = Vec::new();
    for copies in [true, false] {
        let also: &[&str] = if copies {
            &["between", "sink"]
        } else {
            &["between"]
        };
        let message =
            json!({ "payload": { "a": [1, { "b": 2 }] }, "topic": "t", "k": 5, "name": "a" });
        let flow = json!([
            tab(),
            inject("in", &message, &["first"]),
            function("first", first, also),
            between,
            function("second", second, &["out"]),
            node("sink", "junction", &json!([])),
            merged(
                node("caught", "catch", &json!([["out"]])),
                &json!({ "scope": null })
            ),
            debug("out"),
        ]);
        let mut bench = Bench::with(&flow).await;
        bench.inject("in").await;
        let mut message = bench.output().await.1;
        message.as_object_mut().unwrap().remove("_msgid").unwrap();
        found.push(message);
    }
    found.try_into().unwrap()
}

#[tokio::test]
async fn a_node_between_functions_makes_the_same_of_objects_as_of_copies() {
    let rule = |rule: &Json| change("between", &json!([rule]), &["second"]);
    let nodes = [
        rule(&json!({ "t": "set", "p": "payload", "pt": "msg", "to": "new", "tot": "str" })),
        rule(&json!({ "t": "set", "p": "payload.a[0]", "pt": "msg", "to": "topic", "tot": "msg" })),
        rule(
            &json!({ "t": "set", "p": "payload[msg.name]", "pt": "msg", "to": "k", "tot": "msg" }),
        ),
        rule(&json!({ "t": "set", "p": "z", "pt": "msg", "to": "$keys($)", "tot": "jsonata" })),
        rule(&json!({ "t": "delete", "p": "payload", "pt": "msg" })),
        rule(&json!({ "t": "delete", "p": "k", "pt": "msg" })),
        rule(&json!({ "t": "move", "p": "payload.a", "pt": "msg", "to": "k", "tot": "msg" })),
        rule(
            &json!({ "t": "change", "p": "topic", "pt": "msg", "from": "t", "fromt": "str", "to": "u", "tot": "str" }),
        ),
        rule(&json!({ "t": "set", "p": "_msgid", "pt": "msg", "to": "mine", "tot": "str" })),
        rule(&json!({ "t": "delete", "p": "_msgid", "pt": "msg" })),
        switch(
            "between",
            "k",
            &json!([{ "t": "nnull" }, { "t": "null" }]),
            &["second", "second"],
        ),
        switch(
            "between",
            "payload.a",
            &json!([{ "t": "else" }]),
            &["second"],
        ),
        node("between", "junction", &json!([["second"]])),
    ];
    let codes = [
        "msg.k = 1; node.send(msg); return null",
        "return msg",
        "msg.k++; msg.topic = msg.topic; return msg",
        "if (msg.payload) { msg.payload.more = true } return msg",
        "delete msg.k; msg.x = msg.topic; return msg",
        "const m = msg; m.keys = Object.keys(m).sort(); return m",
        "return { payload: { a: msg.payload }, topic: 't', k: 1, name: 'a' }",
    ];
    for between in &nodes {
        for first in codes {
            for second in &codes[3..6] {
                let [copies, objects] = with_and_without_copies(first, between, second).await;
                assert_eq!(objects, copies, "{first} / {between} / {second}");
            }
        }
    }
}

#[tokio::test]
async fn an_error_of_a_node_between_functions_has_the_whole_message() {
    let rules =
        json!([{ "t": "set", "p": "k", "pt": "msg", "to": "$error('no')", "tot": "jsonata" }]);
    let flow = json!([
        tab(),
        inject("in", &json!({ "payload": 1 }), &["make"]),
        function("make", "msg.payload = { a: 1 }; return msg", &["change"]),
        change("change", &rules, &["use"]),
        function("use", "return msg", &["out"]),
        merged(
            node("caught", "catch", &json!([["out"]])),
            &json!({ "scope": null })
        ),
        debug("out"),
    ]);
    let mut bench = Bench::with(&flow).await;
    bench.inject("in").await;
    let message = bench.output().await.1;
    assert_eq!(message["payload"], json!({ "a": 1 }));
    assert!(message["error"]["message"].as_str().unwrap().contains("no"));
}
