//! Values on their way through a foreign node.

use super::{Hosted, chain, function, trial};
use serde_json::{Value as Json, json};

/// Makes one value of each kind.
const MAKE: &str = r#"
const e = new TypeError("broken"); e.code = "E1"; e.cause = "why";
msg.v = {
    u: undefined, nan: NaN, inf: -Infinity, zero: -0, date: new Date(1234), none: new Date(NaN), re: /a"b/gi, e,
    buffer: Buffer.from([0, 255, 10]), nested: [[{ b: Buffer.from("x") }], null, "é\u2028"], dollar: { $: "undefined", a: NaN },
    big: 1e300,
};
"#;

/// Describes the values that arrived.
const DESCRIBE: &str = r#"
const v = msg.v;
msg.payload = [
    "u" in v && v.u === undefined, Number.isNaN(v.nan), v.inf, Object.is(v.zero, -0), v.date instanceof Date && +v.date,
    v.none instanceof Date && Number.isNaN(+v.none), v.re instanceof RegExp && String(v.re),
    v.e instanceof TypeError && [v.e.name, v.e.message, v.e.code], Buffer.isBuffer(v.buffer) && [...v.buffer],
    Buffer.isBuffer(v.nested[0][0].b) && String(v.nested[0][0].b), v.nested.slice(1), v.dollar.$, Number.isNaN(v.dollar.a),
    v.big, Object.keys(v).join(),
].map((x) => typeof x === "number" && !Number.isFinite(x) ? String(x) : x);
"#;

fn described() -> Json {
    json!([
        true,
        true,
        "-Infinity",
        true,
        1234,
        true,
        "/a\"b/gi",
        ["TypeError", "broken", "E1"],
        [0, 255, 10],
        "x",
        [null, "é\u{2028}"],
        "undefined",
        true,
        1e300,
        "u,nan,inf,zero,date,none,re,e,buffer,nested,dollar,big"
    ])
}

#[tokio::test]
async fn every_kind_of_value_crosses_in_both_directions() {
    let hosted = Hosted::start().await;
    let send = "send(msg); done()";
    // From the engine to the host, and from the host to the engine.
    let to_host = vec![
        function("f", &format!("{MAKE} return msg")),
        trial("a", &format!("{DESCRIBE} delete msg.v; {send}")),
    ];
    let from_host = vec![
        trial("a", &format!("{MAKE} {send}")),
        function("f", &format!("{DESCRIBE} delete msg.v; return msg")),
    ];
    for nodes in [to_host, from_host] {
        hosted.run(&json!(chain(nodes))).await;
        assert_eq!(hosted.show("/do").await, described());
    }
}

#[tokio::test]
async fn what_cannot_travel_comes_back_as_the_same_object() {
    let hosted = Hosted::start().await;
    let nodes = vec![
        trial(
            "a",
            "node.context().kept = msg.live = new Map([[1, 2]]); msg.run = () => 7; send(msg); done()",
        ),
        function("f", "msg.seen = typeof msg.live; return msg"),
        trial(
            "b",
            "msg.payload = [msg.live instanceof Map && msg.live.get(1), msg.run(), msg.seen]; delete msg.live; delete msg.run; send(msg); done()",
        ),
    ];
    hosted.run(&json!(chain(nodes))).await;
    assert_eq!(hosted.show("/do").await, json!([2, 7, "object"]));
}

#[tokio::test]
async fn a_message_that_contains_itself_is_an_error_that_a_catch_node_gets() {
    let hosted = Hosted::start().await;
    let mut flow = chain(vec![trial(
        "a",
        "msg.payload = { inner: [] }; msg.payload.inner.push(msg.payload); global.res = 1; send(msg); done()",
    )]);
    let kept = "flow.set('res', msg.res); flow.set('req', 1); return msg";
    flow.insert(2, function("k", kept));
    flow[1]["wires"] = json!([["k"]]);
    flow[2]["wires"] = json!([["a"]]);
    flow.extend([
        json!({ "id": "c", "type": "catch", "z": "t", "scope": null, "x": 1, "y": 1, "wires": [["h"]] }),
        json!({ "id": "h", "type": "function", "z": "t", "x": 1, "y": 1, "wires": [["out"]],
            "func": "msg.payload = { text: msg.error.message, by: msg.error.source.id }; msg.res = flow.get('res'); return msg" }),
    ]);
    hosted.run(&json!(flow)).await;
    let shown = hosted.show("/do").await;
    assert_eq!(shown["by"], "a");
    let text = shown["text"].as_str().unwrap();
    assert!(
        text.contains("msg.payload.inner.0 refers to an object that contains it"),
        "{text}"
    );
}
