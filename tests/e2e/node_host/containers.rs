//! Foreign nodes behind link nodes, in groups, and on disabled tabs.

use super::{Hosted, chain, function, trial};
use serde_json::{Value as Json, json};

fn native(id: &str, kind: &str, more: &Json) -> Json {
    let mut node = json!({ "id": id, "type": kind, "z": "t", "x": 1, "y": 1 });
    for (name, value) in more.as_object().unwrap() {
        node[name] = value.clone();
    }
    node
}

#[tokio::test]
async fn link_calls_go_through_foreign_nodes_and_return() {
    let hosted = Hosted::start().await;
    let mut flow = chain(vec![
        function("f", "msg.payload = []; return msg"),
        trial("a", "msg.payload.push('a'); send(msg); done()"),
        native(
            "call",
            "link call",
            &json!({ "links": ["inner"], "timeout": "5" }),
        ),
        trial("b", "msg.payload.push('b'); send(msg); done()"),
        native(
            "dynamic",
            "link call",
            &json!({ "links": [], "linkType": "dynamic", "timeout": "5" }),
        ),
        function(
            "g",
            "msg.payload.push(msg._linkSource === undefined); return msg",
        ),
    ]);
    let link_in = |id: &str, name: &str, to: &str| {
        native(
            id,
            "link in",
            &json!({ "name": name, "links": [], "wires": [[to]] }),
        )
    };
    let mut leave = trial("c", "msg.payload.push('c'); send(msg); done()");
    leave["wires"] = json!([["nested"]]);
    let mut deepest = trial("d", "msg.payload.push('d'); send(msg); done()");
    deepest["wires"] = json!([["return"]]);
    flow.extend([
        link_in("inner", "inner", "c"),
        leave,
        native(
            "nested",
            "link call",
            &json!({ "links": ["deep"], "timeout": "5", "wires": [["return"]] }),
        ),
        link_in("deep", "deep", "d"),
        deepest,
        native(
            "return",
            "link out",
            &json!({ "mode": "return", "links": [], "wires": [] }),
        ),
    ]);
    let b = flow.iter().position(|node| node["id"] == "b").unwrap();
    flow[b]["input"] = "msg.payload.push('b'); msg.target = 'deep'; send(msg); done()".into();
    hosted.run(&json!(flow)).await;
    let expected = json!(["a", "c", "d", "b", "d", true]);
    assert_eq!(hosted.show("/do").await, expected);
}

#[tokio::test]
async fn a_foreign_node_sends_to_link_out_nodes() {
    let hosted = Hosted::start().await;
    let mut flow = chain(vec![
        trial("a", "msg.payload = ['a']; send(msg); done()"),
        native(
            "lo",
            "link out",
            &json!({ "mode": "link", "links": ["li"], "wires": [] }),
        ),
        function("g", "msg.payload.push('g'); return msg"),
    ]);
    flow.push(native(
        "li",
        "link in",
        &json!({ "links": ["lo"], "wires": [["g"]] }),
    ));
    hosted.run(&json!(flow)).await;
    assert_eq!(hosted.show("/do").await, json!(["a", "g"]));
}

#[tokio::test]
async fn a_foreign_node_in_nested_groups_has_their_variables() {
    let hosted = Hosted::start().await;
    let group = |id: &str, within: Option<&str>, nodes: &Json, env: &Json| {
        let mut group = json!({ "id": id, "type": "group", "z": "t", "nodes": nodes, "x": 1, "y": 1, "w": 1, "h": 1,
            "env": env });
        if let Some(within) = within {
            group["g"] = within.into();
        }
        group
    };
    let text = |name: &str, value: &str| json!({ "name": name, "value": value, "type": "str" });
    let mut inner = trial(
        "a",
        "msg.payload = [config.word, RED.util.evaluateNodeProperty('OUTER', 'env', node)]; send(msg); done()",
    );
    inner["g"] = "in-group".into();
    inner["word"] = "${INNER}".into();
    let mut flow = chain(vec![
        inner,
        native(
            "g",
            "function",
            &json!({ "g": "in-group", "outputs": 1, "func": "msg.payload.push(env.get('INNER')); return msg" }),
        ),
    ]);
    flow.extend([
        group(
            "out-group",
            None,
            &json!(["in-group"]),
            &json!([text("OUTER", "outer"), text("INNER", "hidden")]),
        ),
        group(
            "in-group",
            Some("out-group"),
            &json!(["a", "g"]),
            &json!([text("INNER", "inner")]),
        ),
    ]);
    hosted.run(&json!(flow)).await;
    assert_eq!(hosted.show("/do").await, json!(["inner", "outer", "inner"]));
}

/// A flow that shows which of the foreign nodes `off` (disabled) and `other` (on another tab) have
/// started.
fn with_disabled(tab: bool, node: bool) -> Json {
    let mut flow = chain(vec![function(
        "g",
        "msg.payload = ['off', 'other'].filter((id) => global.get(id)); return msg",
    )]);
    let mark = |id: &str, z: &str| {
        let mut node = trial(id, "send(msg); done()");
        node["z"] = z.into();
        node["setup"] = "node.context().global.set(node.id, true)".into();
        node["closing"] = "node.context().global.set(node.id, undefined)".into();
        node
    };
    let mut off = mark("off", "t");
    if node {
        off["d"] = true.into();
    }
    flow.push(off);
    flow.push(json!({ "id": "u", "type": "tab", "label": "u", "disabled": tab }));
    flow.push(mark("other", "u"));
    json!(flow)
}

#[tokio::test]
async fn disabled_tabs_and_nodes_do_not_run_until_they_are_enabled() {
    let hosted = Hosted::start().await;
    hosted.run(&with_disabled(true, true)).await;
    assert_eq!(hosted.show("/do").await, json!([]));
    for kind in ["nodes", "flows", "full"] {
        hosted
            .deploy_as(kind, &hosted.token, &with_disabled(false, false))
            .await;
        assert_eq!(hosted.show("/do").await, json!(["off", "other"]), "{kind}");
        hosted
            .deploy_as(kind, &hosted.token, &with_disabled(true, false))
            .await;
        assert_eq!(hosted.show("/do").await, json!(["off"]), "{kind}");
        hosted
            .deploy_as(kind, &hosted.token, &with_disabled(true, true))
            .await;
        assert_eq!(hosted.show("/do").await, json!([]), "{kind}");
    }
}
