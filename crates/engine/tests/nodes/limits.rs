//! Limits on messages and on regular expressions: flows that nest or double a message each time
//! round, and searches that backtrack without end.

use crate::bench::{Bench, inject};
use flows::DeploymentType;
use serde_json::{Value as Json, json};

/// A tab with these nodes in a ring (without id, z and wires), the first of them fed with a
/// message.
fn ring(nodes: &[Json], message: &Json) -> Json {
    let mut flow = vec![
        json!({ "id": "t", "type": "tab", "label": "T" }),
        inject("in", message, &["n0"]),
    ];
    for (n, node) in nodes.iter().enumerate() {
        let mut node = node.clone();
        node["id"] = format!("n{n}").into();
        node["z"] = "t".into();
        (node["x"], node["y"]) = (1.into(), 1.into());
        node["wires"] = json!([[format!("n{}", (n + 1) % nodes.len())]]);
        flow.push(node);
    }
    Json::Array(flow)
}

fn change(rules: &Json) -> Json {
    json!({ "type": "change", "rules": rules })
}

fn set(property: &str, to: &str, kind: &str) -> Json {
    json!({ "t": "set", "p": property, "pt": "msg", "to": to, "tot": kind })
}

/// The ring ends with an error of one of its nodes, and the engine takes the next deployment.
async fn ends(nodes: &[Json], message: &Json, with: &str) {
    let mut bench = Bench::with(&ring(nodes, message)).await;
    bench.inject("in").await;
    let (_, text) = bench.error().await;
    assert!(text.contains(with), "{text} of {nodes:?}");
    let node = json!({ "type": "change", "rules": [set("payload", "alive", "str")] });
    let next = crate::bench::around(&node, &json!({}), 1);
    bench.deploy(&next, DeploymentType::Full).await;
    bench.inject("in").await;
    let (_, message) = bench.output().await;
    assert_eq!(message["payload"], "alive");
}

const DEEP: &str = "value is nested too deeply";

#[tokio::test]
async fn a_ring_that_moves_a_property_into_itself_ends() {
    let rule =
        json!({ "t": "move", "p": "payload", "pt": "msg", "to": "payload.in", "tot": "msg" });
    ends(&[change(&json!([rule]))], &json!({ "payload": 1 }), DEEP).await;
}

#[tokio::test]
async fn a_ring_that_sets_a_property_within_itself_ends() {
    let node = change(&json!([set("payload.in", "payload", "msg")]));
    ends(&[node], &json!({ "payload": {} }), DEEP).await;
}

#[tokio::test]
async fn a_ring_that_sets_an_element_within_its_array_ends() {
    let node = change(&json!([set("payload[0]", "payload", "msg")]));
    ends(&[node], &json!({ "payload": [] }), DEEP).await;
}

#[tokio::test]
async fn a_ring_of_expressions_ends() {
    let node = change(&json!([set("payload", "{\"in\": payload}", "jsonata")]));
    ends(&[node], &json!({ "payload": 1 }), DEEP).await;
}

/// A call in tail position costs no stack, so the result of one evaluation may have any depth.
#[tokio::test]
async fn an_expression_that_nests_by_itself_is_an_error() {
    let code = "($f := function($x, $n) { $n = 0 ? $x : $f({\"in\": $x}, $n - 1) }; $f(1, 2000))";
    ends(
        &[change(&json!([set("payload", code, "jsonata")]))],
        &json!({}),
        DEEP,
    )
    .await;
}

#[tokio::test]
async fn a_ring_of_functions_ends() {
    let node =
        json!({ "type": "function", "outputs": 1, "func": "return {payload: {in: msg.payload}}" });
    ends(&[node], &json!({ "payload": 1 }), DEEP).await;
}

#[tokio::test]
async fn a_ring_of_joins_ends() {
    let node = json!({
        "type": "join", "mode": "custom", "build": "array", "property": "payload", "propertyType": "msg", "count": "1",
    });
    ends(&[node], &json!({ "payload": 1 }), DEEP).await;
}

/// The parts of a message keep the parts around them.
#[tokio::test]
async fn a_ring_of_splits_ends() {
    let split = json!({ "type": "split", "splt": "\\n", "spltType": "str", "arraySplt": 1, "arraySpltType": "len" });
    let again = change(&json!([set("payload", "[1]", "json")]));
    ends(&[split, again], &json!({ "payload": [1] }), DEEP).await;
}

#[tokio::test]
async fn a_context_value_that_is_set_within_itself_ends() {
    let first = json!({ "t": "set", "p": "tree.first", "pt": "flow", "to": "1", "tot": "num" });
    let deeper = json!({ "t": "set", "p": "tree.in", "pt": "flow", "to": "tree", "tot": "flow" });
    ends(&[change(&json!([first, deeper]))], &json!({}), DEEP).await;
}

/// Each time round costs no memory, as the halves are shared; written out they would fill any.
#[tokio::test]
async fn a_ring_that_doubles_a_message_ends() {
    let rules = json!([
        set("half", "payload", "msg"),
        set("payload.a", "half", "msg"),
        set("payload.b", "half", "msg"),
        { "t": "delete", "p": "half", "pt": "msg" },
    ]);
    ends(
        &[change(&rules)],
        &json!({ "payload": {} }),
        "too many parts",
    )
    .await;
}

/// One message through many rules: each value may be as deep as a message, and no deeper in
/// between.
#[tokio::test]
async fn many_rules_of_one_node_end_too() {
    let rule =
        json!({ "t": "move", "p": "payload", "pt": "msg", "to": "payload.in", "tot": "msg" });
    let rules = Json::Array(vec![rule; 2_000]);
    ends(&[change(&rules)], &json!({ "payload": 1 }), DEEP).await;
}

#[tokio::test]
async fn an_error_about_a_message_that_is_too_deep_reaches_the_catch_node() {
    let rule =
        json!({ "t": "move", "p": "payload", "pt": "msg", "to": "payload.in", "tot": "msg" });
    let mut flow = ring(
        &[change(&json!([rule]))],
        &json!({ "payload": 1, "kept": "k" }),
    );
    let nodes = flow.as_array_mut().unwrap();
    nodes.push(json!({ "id": "c", "type": "catch", "scope": null, "z": "t", "x": 1, "y": 1, "wires": [["cut"]] }));
    let cut = json!([{ "t": "delete", "p": "payload", "pt": "msg" }]);
    nodes.push(json!({ "id": "cut", "type": "change", "rules": cut, "z": "t", "x": 1, "y": 1, "wires": [["out"]] }));
    nodes.push(crate::bench::debug("out"));
    let mut bench = Bench::with(&flow).await;
    bench.inject("in").await;
    let (_, message) = bench.output().await;
    let text = message["error"]["message"].as_str().unwrap();
    assert!(
        text.contains("value is nested too deeply: more than 500 levels"),
        "{text}"
    );
    assert_eq!(message["error"]["source"]["id"], "n0");
    assert_eq!(message["kept"], "k");
}

/// Characters that `^(a+)+$` tries in a billion ways.
const ATTACK: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!";

#[tokio::test]
async fn a_search_without_end_is_an_error_of_the_node() {
    let switch = json!({ "type": "switch", "property": "payload", "propertyType": "msg", "checkall": "true", "rules": [
        { "t": "regex", "v": "^(a+)+$", "vt": "str", "case": false },
    ] });
    let changes = change(&json!([
        { "t": "change", "p": "payload", "pt": "msg", "from": "(a|a)+$", "fromt": "re", "to": "x", "tot": "str" },
    ]));
    for node in [switch, changes] {
        ends(
            &[node],
            &json!({ "payload": ATTACK }),
            "was stopped: more than 2000740 steps",
        )
        .await;
    }
}

/// The clock of functions stops their regular expressions too.
#[tokio::test]
async fn a_search_without_end_in_a_function_is_stopped_by_its_clock() {
    let node = json!({ "type": "function", "outputs": 1, "timeout": "0.2", "func": "/^(a+)+$/.test(msg.payload); return msg" });
    ends(&[node], &json!({ "payload": ATTACK }), "timed out").await;
}

/// `JSONata` has linear expressions.
#[tokio::test]
async fn a_search_in_an_expression_needs_no_limit() {
    let node = change(&json!([set(
        "payload",
        "$contains(payload, /^(a+)+$/)",
        "jsonata"
    )]));
    let came = crate::bench::payloads(&node, &json!({ "payload": ATTACK })).await;
    assert_eq!(came, [json!(false)]);
}

/// A schema that refers to itself twice at each level.
#[tokio::test]
async fn a_schema_that_branches_into_itself_is_an_error() {
    let schema = json!({ "anyOf": [{ "$ref": "#" }, { "$ref": "#" }], "not": {} });
    let node = json!({ "type": "json", "property": "payload", "action": "obj" });
    ends(
        &[node],
        &json!({ "payload": "{}", "schema": schema }),
        "JSON Schema error",
    )
    .await;
}
