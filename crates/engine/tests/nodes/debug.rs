//! `debug` in a running engine.

use crate::bench::{Bench, debug, inject};
use crate::steps::merged;
use events::Event;
use serde_json::{Value as Json, json};

fn flow(extra: &Json) -> Json {
    let debug = merged(
        json!({ "id": "d", "type": "debug", "z": "t", "x": 1, "y": 1, "name": "dbg", "complete": "payload",
        "targetType": "msg", "wires": [] }),
        extra,
    );
    json!([{ "id": "t", "type": "tab", "label": "T" }, inject("in", &json!({ "payload": "hello" }), &["d"]), debug])
}

/// The debug message for the sidebar.
fn shown(event: &Event) -> Option<Json> {
    if let Event::Debug(data) = event {
        Some(data.clone())
    } else {
        None
    }
}

#[tokio::test]
async fn the_sidebar_gets_the_recorded_frame() {
    let mut bench = Bench::with(&flow(&json!({}))).await;
    bench.inject("in").await;
    let frame = bench.next(shown).await;
    let expected = json!({ "id": "d", "z": "t", "path": "t", "name": "dbg", "property": "payload", "msg": "hello", "format": "string[5]" });
    assert_eq!(frame, expected);
}

#[tokio::test]
async fn the_status_shows_the_value_or_the_count() {
    let mut bench = Bench::with(&flow(
        &json!({ "tosidebar": false, "tostatus": true, "statusType": "auto" }),
    ))
    .await;
    bench.inject("in").await;
    let grey = json!({ "fill": "grey", "shape": "dot", "text": "hello" });
    // The first two are those of the start.
    for status in [json!({ "fill": "grey", "shape": "ring" }), Json::Null, grey] {
        assert_eq!(bench.status().await, ("d".to_owned(), status));
    }
    let mut bench = Bench::with(&flow(
        &json!({ "tosidebar": false, "tostatus": true, "statusType": "counter" }),
    ))
    .await;
    assert_eq!(bench.status().await.1["shape"], "ring");
    assert_eq!(bench.status().await.1["text"], "0");
    bench.inject("in").await;
    assert_eq!(bench.status().await.1["text"], "1");
}

#[tokio::test]
async fn an_inactive_node_is_silent_until_it_is_switched_on() {
    let mut flow = flow(&json!({ "active": false }));
    let elements = flow.as_array_mut().unwrap();
    let source = elements.iter_mut().find(|e| e["id"] == "in").unwrap();
    source["wires"] = json!([["d", "w"]]);
    elements.push(debug("w"));
    let mut bench = Bench::with(&flow).await;
    bench.inject("in").await;
    assert_eq!(
        bench.next(shown).await["id"],
        "w",
        "only the other is heard"
    );
    bench
        .engine
        .set_debug(vec!["d".to_owned()], true)
        .await
        .unwrap();
    bench.inject("in").await;
    assert_eq!(bench.next(shown).await["id"], "d");
}
