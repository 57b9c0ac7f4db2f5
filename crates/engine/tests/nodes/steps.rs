//! Sends several messages through one node, one after another, and collects all that comes out of
//! it.

use crate::bench::{Bench, debug};
use serde_json::{Value as Json, json};
use std::time::Duration;

/// An observed output of a node: `out0`, `out1` … with the message, `complete`, `catch` with the
/// error's text.
pub(crate) type Seen = (String, Json);

/// A tab with the node under test between the inject node `in` and debug nodes, with a catch and a
/// complete node.
fn flow(node: &Json, outputs: usize) -> Json {
    let mut node = node.clone();
    let names: Vec<String> = (0..outputs).map(|n| format!("out{n}")).collect();
    for (key, value) in [
        ("id", json!("node")),
        ("z", json!("t")),
        ("x", json!(1)),
        ("y", json!(1)),
    ] {
        node[key] = value;
    }
    node["wires"] = names.iter().map(|n| json!([n])).collect();
    let place = |mut element: Json| {
        for (key, value) in [("z", json!("t")), ("x", json!(1)), ("y", json!(1))] {
            element[key] = value;
        }
        element
    };
    let mut flow = vec![
        json!({ "id": "t", "type": "tab", "label": "T" }),
        node,
        place(json!({ "id": "in", "type": "inject", "props": [], "wires": [["fn"]] })),
        // Buffers cannot be injected: `{"$buffer": "text"}` becomes one.
        place(
            json!({ "id": "fn", "type": "function", "outputs": 2, "wires": [["node"], ["j0"]], "func":
            "const make = v => v && v.$buffer !== undefined ? Buffer.from(v.$buffer) : v;\
             for (const k of Object.keys(msg)) { msg[k] = make(msg[k]); }\
             if (msg.parts) { for (const k of Object.keys(msg.parts)) { msg.parts[k] = make(msg.parts[k]); } }\
             return msg.end ? [null, msg] : msg;" }),
        ),
        place(json!({ "id": "c", "type": "catch", "scope": null, "wires": [["catch"]] })),
        place(json!({ "id": "d", "type": "complete", "scope": ["node"], "wires": [["complete"]] })),
        debug("catch"),
        debug("complete"),
        debug("mark"),
        // The end comes behind the messages, and takes more hops than they.
        place(
            json!({ "id": "end", "type": "inject", "props": [{ "p": "end", "v": "true", "vt": "bool" }], "wires": [["fn"]] }),
        ),
    ];
    flow.extend((0..8).map(|n| {
        let to = if n == 7 {
            "mark".to_owned()
        } else {
            format!("j{}", n + 1)
        };
        place(json!({ "id": format!("j{n}"), "type": "junction", "wires": [[to]] }))
    }));
    flow.extend(names.iter().map(|n| debug(n)));
    Json::Array(flow)
}

/// A bench with the node under test.
pub(crate) async fn bench(node: &Json, outputs: usize) -> Bench {
    Bench::with(&flow(node, outputs)).await
}

/// Sends a message to the node.
pub(crate) async fn send(bench: &Bench, message: &Json) {
    let props: Vec<Json> = message
        .as_object()
        .unwrap()
        .iter()
        .map(|(p, v)| json!({ "p": p, "v": v.to_string(), "vt": "json" }))
        .collect();
    let body = json!({ "__user_inject_props__": props });
    bench.engine.inject("in", Some(body)).await.unwrap();
}

/// The next thing seen, without ids and without what the complete and catch nodes add.
pub(crate) async fn next(bench: &mut Bench) -> Seen {
    let (id, mut message) = bench.output().await;
    let object = message.as_object_mut().unwrap();
    object.shift_remove("_msgid");
    match id.as_str() {
        "complete" => {
            object.shift_remove("complete");
        }
        "catch" => message = message["error"]["message"].take(),
        _ => {}
    }
    (id, message)
}

/// Sends messages at once, and returns all output of the node, without completions and random ids
/// (`parts.id` is `"*"` unless the test gave it), until `after` has passed.
pub(crate) async fn outputs(node: &Json, messages: &[Json], after: Duration) -> Vec<Seen> {
    let mut seen = all(node, messages, after).await;
    seen.retain(|(id, _)| id != "complete");
    seen
}

/// The same with completions.
pub(crate) async fn all(node: &Json, messages: &[Json], after: Duration) -> Vec<Seen> {
    let count = usize::try_from(node["outputs"].as_u64().unwrap_or(1)).unwrap();
    let mut bench = bench(node, count).await;
    for message in messages {
        send(&bench, message).await;
    }
    // The time that the node's own timers need is part of what is tested.
    pass(after).await;
    bench.inject("end").await;
    let mut seen = Vec::new();
    loop {
        let (id, mut message) = next(&mut bench).await;
        if id == "mark" {
            return seen;
        }
        if let Some(parts) = message.get_mut("parts").and_then(Json::as_object_mut)
            && parts
                .get("id")
                .and_then(Json::as_str)
                .is_some_and(|id| id.len() == 16)
        {
            parts.insert("id".to_owned(), json!("*"));
        }
        seen.push((id, message));
    }
}

/// Waits for so long in little steps: on a busy machine each of them is late, and the engine gets
/// its time.
async fn pass(time: Duration) {
    const STEP: Duration = Duration::from_millis(5);
    for _ in 0..time.as_millis() / STEP.as_millis() {
        tokio::time::sleep(STEP).await;
    }
}

/// The payloads of output 0.
pub(crate) async fn payloads(node: &Json, messages: &[Json], after: Duration) -> Json {
    let seen = outputs(node, messages, after).await;
    let out = seen.into_iter().filter(|(id, _)| id == "out0");
    out.map(|(_, mut message)| message["payload"].take())
        .collect()
}

/// Long enough for what needs no timer.
pub(crate) const SOON: Duration = Duration::from_millis(20);

/// A message of a sequence `s`.
pub(crate) fn part(payload: &Json, index: usize, count: usize, more: &Json) -> Json {
    let parts = merged(json!({ "id": "s", "index": index, "count": count }), more);
    json!({ "payload": payload, "parts": parts })
}

/// A node with other properties than it has, or more.
pub(crate) fn merged(mut node: Json, more: &Json) -> Json {
    for (key, value) in more.as_object().unwrap() {
        node[key] = value.clone();
    }
    node
}

/// Messages of these payloads.
pub(crate) fn messages(payloads: &[i32]) -> Vec<Json> {
    payloads.iter().map(|p| json!({ "payload": p })).collect()
}
