//! Tests the delivery of messages: order, copies, links, subflows, errors, status, completion,
//! context.

use super::bench::{Bench, around, debug, inject, through};
use crate::steps::merged;
use flows::DeploymentType;
use serde_json::{Value as Json, json};

pub(crate) fn node(id: &str, kind: &str, wires: &Json) -> Json {
    json!({ "id": id, "type": kind, "z": "t", "x": 1, "y": 1, "wires": wires })
}

pub(crate) fn tab() -> Json {
    json!({ "id": "t", "type": "tab", "label": "T" })
}

pub(crate) fn set_payload(id: &str, to: &str, wires: &Json) -> Json {
    let rules = json!([{ "t": "set", "p": "payload", "pt": "msg", "to": to, "tot": "str" }]);
    merged(node(id, "change", wires), &json!({ "rules": rules }))
}

async fn order(flow: &Json, count: usize) -> Vec<String> {
    let mut bench = Bench::with(flow).await;
    bench.inject("in").await;
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(bench.output().await.0);
    }
    ids
}

#[tokio::test]
async fn messages_travel_breadth_first() {
    let pass = |id: &str, to: &[&str]| node(id, "junction", &json!([to]));
    let flow = json!([
        tab(),
        inject("in", &json!({}), &["b", "c"]),
        pass("b", &["db", "b2"]),
        pass("c", &["dc", "c2"]),
        pass("b2", &["db2", "b3"]),
        pass("c2", &["dc2"]),
        pass("b3", &["db3"]),
        debug("db"),
        debug("dc"),
        debug("db2"),
        debug("dc2"),
        debug("db3"),
    ]);
    assert_eq!(order(&flow, 5).await, ["db", "dc", "db2", "dc2", "db3"]);
}

#[tokio::test]
async fn a_message_sent_to_two_nodes_is_changed_by_one_without_the_other_seeing_it() {
    let flow = json!([
        tab(),
        inject("in", &json!({ "payload": "before" }), &["c", "d2"]),
        set_payload("c", "after", &json!([["d1"]])),
        debug("d1"),
        debug("d2"),
    ]);
    let mut bench = Bench::with(&flow).await;
    bench.inject("in").await;
    let mut seen = [bench.output().await, bench.output().await];
    seen.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(seen[0].1["payload"], "after");
    assert_eq!(seen[1].1["payload"], "before");
    assert_eq!(seen[0].1["_msgid"], seen[1].1["_msgid"]);
}

#[tokio::test]
async fn a_link_is_made_by_either_side() {
    let flow = json!([
        tab(),
        inject("in", &json!({ "payload": 1 }), &["o1", "o2"]),
        merged(
            node("o1", "link out", &json!([])),
            &json!({ "mode": "link", "links": ["i1"] })
        ),
        merged(
            node("o2", "link out", &json!([])),
            &json!({ "mode": "link", "links": [] })
        ),
        merged(
            node("i1", "link in", &json!([["d1"]])),
            &json!({ "links": [] })
        ),
        merged(
            node("i2", "link in", &json!([["d2"]])),
            &json!({ "links": ["o2"] })
        ),
        debug("d1"),
        debug("d2"),
    ]);
    assert_eq!(order(&flow, 2).await, ["d1", "d2"]);
}

#[tokio::test]
async fn a_link_call_gets_its_answer_back() {
    let flow = json!([
        tab(),
        inject("in", &json!({ "payload": "q" }), &["call"]),
        merged(
            node("call", "link call", &json!([["d"]])),
            &json!({ "links": ["i"], "linkType": "static", "timeout": "5" })
        ),
        merged(
            node("i", "link in", &json!([["c"]])),
            &json!({ "links": [] })
        ),
        set_payload("c", "answer", &json!([["r"]])),
        merged(
            node("r", "link out", &json!([])),
            &json!({ "mode": "return", "links": [] })
        ),
        debug("d"),
    ]);
    let mut bench = Bench::with(&flow).await;
    bench.inject("in").await;
    let (_, message) = bench.output().await;
    assert_eq!(message["payload"], "answer");
    assert_eq!(
        message["_linkSource"],
        Json::Null,
        "the way back is taken off"
    );
}

#[tokio::test]
async fn a_subflow_passes_messages_through_and_sees_its_own_variables() {
    let flow = json!([
        tab(),
        { "id": "s", "type": "subflow", "name": "S", "env": [{ "name": "V", "type": "str", "value": "default" }],
          "in": [{ "x": 1, "y": 1, "wires": [{ "id": "sc" }] }],
          "out": [{ "x": 1, "y": 1, "wires": [{ "id": "sc", "port": 0 }] }] },
        { "id": "sc", "type": "change", "z": "s", "x": 1, "y": 1, "wires": [[]],
          "rules": [{ "t": "set", "p": "payload", "pt": "msg", "to": "V", "tot": "env" },
                    { "t": "set", "p": "node", "pt": "msg", "to": "NR_NODE_ID", "tot": "env" }] },
        inject("in", &json!({ "payload": "x" }), &["i1", "i2"]),
        { "id": "i1", "type": "subflow:s", "z": "t", "x": 1, "y": 1, "wires": [["d1"]] },
        { "id": "i2", "type": "subflow:s", "z": "t", "x": 1, "y": 1, "wires": [["d2"]],
          "env": [{ "name": "V", "type": "str", "value": "own" }] },
        debug("d1"),
        debug("d2"),
    ]);
    let mut bench = Bench::with(&flow).await;
    bench.inject("in").await;
    let (first, second) = (bench.output().await, bench.output().await);
    assert_eq!(
        (first.0.as_str(), &first.1["payload"], &first.1["node"]),
        ("d1", &json!("default"), &json!("i1-sc"))
    );
    assert_eq!(
        (second.0.as_str(), &second.1["payload"], &second.1["node"]),
        ("d2", &json!("own"), &json!("i2-sc"))
    );
}

#[tokio::test]
async fn a_complete_node_reports_that_a_node_has_finished() {
    let flow = json!([
        tab(),
        inject("in", &json!({ "payload": 1 }), &["c"]),
        set_payload("c", "x", &json!([[]])),
        merged(
            node("done", "complete", &json!([["d"]])),
            &json!({ "scope": ["c"] })
        ),
        debug("d"),
    ]);
    let mut bench = Bench::with(&flow).await;
    bench.inject("in").await;
    let (_, message) = bench.output().await;
    assert_eq!(message["complete"]["source"]["id"], "c");
    assert_eq!(message["payload"], "x");
}

#[tokio::test]
async fn a_status_node_reports_the_status_of_others() {
    let shown = merged(
        debug("shown"),
        &json!({ "tostatus": true, "complete": "payload", "targetType": "msg", "tosidebar": false }),
    );
    let flow = json!([
        tab(),
        inject("in", &json!({ "payload": "busy" }), &["shown"]),
        shown,
        merged(
            node("s", "status", &json!([["d"]])),
            &json!({ "scope": ["shown"] })
        ),
        debug("d"),
    ]);
    let mut bench = Bench::with(&flow).await;
    bench.inject("in").await;
    let (_, message) = bench.output().await;
    assert_eq!(message["status"]["text"], "busy");
    assert_eq!(message["status"]["source"]["id"], "shown");
}

#[tokio::test]
async fn a_wire_to_nowhere_does_not_stop_the_others() {
    let flow = json!([
        tab(),
        inject("in", &json!({ "payload": 1 }), &["no-such-node", "d"]),
        debug("d")
    ]);
    assert_eq!(order(&flow, 1).await, ["d"]);
}

#[tokio::test]
async fn a_whole_property_that_is_a_variable_is_replaced_before_the_node_is_built() {
    let flow = json!([
        merged(
            tab(),
            &json!({ "env": [{ "name": "WHO", "type": "str", "value": "world" }] })
        ),
        inject("in", &json!({}), &["c"]),
        set_payload("c", "${WHO}", &json!([["d"]])),
        debug("d"),
    ]);
    let mut bench = Bench::with(&flow).await;
    bench.inject("in").await;
    assert_eq!(bench.output().await.1["payload"], "world");
}

#[tokio::test]
async fn an_unknown_type_stops_everything_until_it_is_gone() {
    let good = json!([
        tab(),
        inject("in", &json!({ "payload": 1 }), &["d"]),
        debug("d")
    ]);
    let mut bad = good.clone();
    bad.as_array_mut()
        .unwrap()
        .push(node("x", "no such type", &json!([])));
    let mut bench = Bench::with(&good).await;
    bench.deploy(&bad, DeploymentType::Nodes).await;
    assert!(bench.engine.inject("in", None).await.is_err());
    bench.deploy(&good, DeploymentType::Nodes).await;
    bench.inject("in").await;
    assert_eq!(bench.output().await.0, "d");
}

#[tokio::test]
async fn flow_context_survives_a_restart_of_the_node_and_goes_with_its_flow() {
    let set = |to: &str| {
        json!([
            tab(),
            inject("in", &json!({ "payload": 1 }), &["w"]),
            inject("read", &json!({ "payload": 1 }), &["r"]),
            merged(
                node("w", "change", &json!([["written"]])),
                &json!({ "rules": [{ "t": "set", "p": "k", "pt": "flow", "to": to, "tot": "str" }] })
            ),
            merged(
                node("r", "change", &json!([["d"]])),
                &json!({ "rules": [{ "t": "set", "p": "payload", "pt": "msg", "to": "k", "tot": "flow" }] })
            ),
            debug("d"),
            debug("written"),
        ])
    };
    let mut bench = Bench::with(&set("one")).await;
    bench.inject("in").await;
    assert_eq!(bench.output().await.0, "written");
    bench.deploy(&set("two"), DeploymentType::Full).await;
    bench.inject("read").await;
    assert_eq!(bench.output().await.1["payload"], "one");
    bench.deploy(&json!([]), DeploymentType::Full).await;
    bench.deploy(&set("two"), DeploymentType::Full).await;
    bench.inject("read").await;
    assert_eq!(bench.output().await.1["payload"], Json::Null);
}

#[tokio::test]
async fn a_nodes_deployment_leaves_other_nodes_running() {
    let flow = |to: &str| {
        json!([
            tab(),
            merged(
                inject("start", &json!({ "payload": 1 }), &["started"]),
                &json!({ "once": true, "onceDelay": 0 })
            ),
            inject("in", &json!({ "payload": 1 }), &["c"]),
            set_payload("c", to, &json!([["d"]])),
            debug("started"),
            debug("d"),
        ])
    };
    let mut bench = Bench::with(&flow("a")).await;
    assert_eq!(bench.output().await.0, "started");
    bench.deploy(&flow("b"), DeploymentType::Nodes).await;
    bench.inject("in").await;
    let (id, message) = bench.output().await;
    assert_eq!(
        (id.as_str(), &message["payload"]),
        ("d", &json!("b")),
        "the inject node did not start again"
    );
    bench.deploy(&flow("b"), DeploymentType::Full).await;
    assert_eq!(bench.output().await.0, "started");
}

#[tokio::test]
async fn the_table_harness_distinguishes_outputs() {
    let rules = json!([{ "t": "eq", "v": "1", "vt": "num" }, { "t": "else" }]);
    let switch = json!({ "type": "switch", "property": "payload", "propertyType": "msg", "rules": rules, "checkall": "true", "outputs": 2 });
    assert_eq!(
        through(&switch, &json!({ "payload": 1 }), 2).await,
        [(0, json!({ "payload": 1 }))]
    );
    assert_eq!(
        through(&switch, &json!({ "payload": 2 }), 2).await,
        [(1, json!({ "payload": 2 }))]
    );
    assert_eq!(around(&switch, &json!({}), 2).as_array().unwrap().len(), 15);
}

#[tokio::test]
async fn an_instance_of_a_subflow_never_completes() {
    let inner = json!({ "id": "s", "type": "function", "z": "sf", "x": 1, "y": 1, "func": "return msg;", "wires": [[]] });
    let flow = json!([
        tab(),
        { "id": "sf", "type": "subflow", "in": [{ "wires": [{ "id": "s" }] }], "out": [{ "wires": [{ "id": "s", "port": 0 }] }] },
        inner,
        inject("in", &json!({}), &["i"]),
        node("i", "subflow:sf", &json!([["out"]])),
        merged(node("c", "complete", &json!([["complete"]])), &json!({ "scope": ["i", "last"] })),
        debug("complete"),
        node("out", "junction", &json!([["last"]])),
        node("last", "function", &json!([[]])),
    ]);
    let mut bench = Bench::with(&flow).await;
    bench.inject("in").await;
    let (_, message) = bench.output().await;
    assert_eq!(message["complete"]["source"]["id"], "last");
}
