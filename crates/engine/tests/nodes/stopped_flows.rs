//! Flows that the engine stops: those that grow without end, and the largest when memory is short.

use crate::bench::{Bench, around, debug, inject};
use engine::Error;
use engine::stopped_flows::Reason;
use events::Event;
use flows::DeploymentType;
use serde_json::{Value as Json, json};
use std::time::Duration;

/// A node that is wired twice to itself, on tab `loop`; tab `t` passes messages on.
fn doubling() -> Json {
    let mut flow = around(&json!({ "type": "change", "rules": [] }), &json!({}), 1);
    let more = json!([
        { "id": "loop", "type": "tab", "label": "Loop" },
        { "id": "go", "type": "inject", "z": "loop", "x": 1, "y": 1, "props": [], "wires": [["twice"]] },
        { "id": "twice", "type": "change", "z": "loop", "x": 1, "y": 1, "rules": [], "wires": [["twice", "twice"]] },
    ]);
    flow.as_array_mut()
        .unwrap()
        .extend(more.as_array().unwrap().iter().cloned());
    flow
}

/// Waits until the engine has stopped flows, and gives what it tells editors.
async fn stopped(bench: &mut Bench) -> Json {
    bench
        .next(|event| match event {
            Event::StoppedFlows(data) => Some(data.clone()),
            _ => None,
        })
        .await
}

#[tokio::test]
async fn a_loop_that_doubles_is_stopped_and_the_others_run_on() {
    let mut bench = Bench::set(&doubling(), |settings| settings.queue_messages = 1000).await;
    bench.inject("go").await;
    loop {
        let (id, status) = bench.status().await;
        if id == "twice" {
            assert_eq!(
                status,
                json!({ "fill": "red", "shape": "ring", "text": "stopped: queue" })
            );
            break;
        }
    }
    let notice = stopped(&mut bench).await;
    assert_eq!(
        notice["flows"],
        json!([{ "id": "loop", "label": "Loop", "reason": "queue" }])
    );
    assert_eq!(notice["type"], "warning");
    let list = bench.engine.stopped_flows();
    assert_eq!(
        (list[0].id.as_str(), list[0].reason, list.len()),
        ("loop", Reason::Queue, 1)
    );
    assert!(matches!(
        bench.engine.inject("go", None).await,
        Err(Error::NoSuchNode)
    ));
    bench.inject("in").await;
    assert_eq!(bench.output().await.0, "out0");
}

#[tokio::test]
async fn any_deployment_starts_stopped_flows_again() {
    for kind in [
        DeploymentType::Nodes,
        DeploymentType::Flows,
        DeploymentType::Full,
    ] {
        let mut bench = Bench::set(&doubling(), |settings| settings.queue_messages = 1000).await;
        bench.inject("go").await;
        stopped(&mut bench).await;
        bench.deploy(&doubling(), kind).await;
        assert!(bench.engine.stopped_flows().is_empty());
        assert_eq!(
            stopped(&mut bench).await,
            json!({}),
            "editors close the notification"
        );
        bench.inject("go").await;
        assert_eq!(stopped(&mut bench).await["flows"][0]["label"], "Loop");
    }
}

#[tokio::test]
async fn a_flow_that_splits_large_messages_is_not_stopped() {
    let split = json!({ "type": "split", "splt": "\\n", "spltType": "str", "arraySplt": 1, "arraySpltType": "len" });
    let lines: Vec<usize> = (0..20_000).collect();
    let mut flow = around(&split, &json!({ "payload": lines }), 1);
    let count = json!({ "id": "out0", "type": "function", "z": "t", "x": 1, "y": 1, "outputs": 1, "wires": [["end"]],
        "func": "return msg.parts.index === msg.parts.count - 1 ? msg : null" });
    for node in flow.as_array_mut().unwrap() {
        if node["id"] == "out0" {
            *node = count.clone();
        }
    }
    flow.as_array_mut().unwrap().push(debug("end"));
    let mut bench = Bench::set(&flow, |settings| settings.queue_messages = 1000).await;
    bench.inject("in").await;
    assert_eq!(bench.output().await.1["payload"], 19_999);
    assert!(bench.engine.stopped_flows().is_empty());
}

#[tokio::test]
async fn the_flow_with_the_largest_queue_stops_when_memory_is_short() {
    // A message that a node sends at its start, and that circles.
    let circle = |tab: &str, size: usize| {
        let turn = format!("{tab}-turn");
        json!([
            { "id": tab, "type": "tab", "label": tab },
            { "id": format!("{tab}-start"), "type": "function", "z": tab, "x": 1, "y": 1, "outputs": 1, "func": "",
              "initialize": format!("node.send({{ payload: 'x'.repeat({size}) }})"), "wires": [[turn]] },
            { "id": turn, "type": "change", "z": tab, "x": 1, "y": 1, "rules": [], "wires": [[turn]] },
        ])
    };
    let mut flow = circle("large", 3 << 20);
    let small = circle("small", 100);
    flow.as_array_mut()
        .unwrap()
        .extend(small.as_array().unwrap().iter().cloned());
    // This process always needs more than that.
    let mut bench = Bench::set(&flow, |settings| settings.memory = Some(128 << 10)).await;
    let notice = stopped(&mut bench).await;
    assert_eq!(
        notice["flows"],
        json!([{ "id": "large", "label": "large", "reason": "memory" }])
    );
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let list = bench.engine.stopped_flows();
    assert_eq!(
        (list.len(), list[0].reason),
        (1, Reason::Memory),
        "the other queue is small"
    );
}

#[tokio::test]
async fn sources_pause_while_memory_is_short() {
    let flow = json!([
        { "id": "t", "type": "tab", "label": "T" },
        inject("in", &json!({}), &["out"]),
        debug("out"),
    ]);
    let bench = Bench::set(&flow, |settings| settings.memory = Some(1 << 16)).await;
    while bench.engine.inject("in", None).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(matches!(
        bench.engine.inject("in", None).await,
        Err(Error::Full)
    ));
    assert!(
        bench.engine.stopped_flows().is_empty(),
        "its queue is empty"
    );
}
