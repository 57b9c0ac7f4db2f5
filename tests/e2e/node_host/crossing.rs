//! Messages between native and foreign nodes, and what nodes report and remember.

use super::{Hosted, chain, function, trial};
use serde_json::json;

#[tokio::test]
async fn a_request_passes_through_a_foreign_node_and_is_answered() {
    let hosted = Hosted::start().await;
    let nodes = vec![
        function("f", "msg.payload = { n: 1, id: msg._msgid }; return msg"),
        trial(
            "a",
            "msg.payload.n += 1; msg.payload.same = msg._msgid === msg.payload.id; send(msg); done()",
        ),
        function(
            "g",
            "msg.payload = { n: msg.payload.n, same: msg.payload.same && msg._msgid === msg.payload.id }; return msg",
        ),
    ];
    hosted.run(&json!(chain(nodes))).await;
    assert_eq!(hosted.show("/do").await, json!({ "n": 2, "same": true }));
}

#[tokio::test]
async fn messages_keep_their_order_there_and_back() {
    let hosted = Hosted::start().await;
    let nodes = vec![
        function(
            "f",
            "for (let n = 0; n < 2000; n++) node.send({ n, last: n === 1999 ? { req: msg.req, res: msg.res } : undefined }); return null",
        ),
        trial("a", "send(msg); done()"),
        trial("b", "send(msg); done()"),
        function(
            "g",
            "const seen = context.get('seen') || []; seen.push(msg.n); context.set('seen', seen);
             if (!msg.last) return null;
             return { ...msg.last, payload: { count: seen.length, ordered: seen.every((n, i) => n === i) } }",
        ),
    ];
    hosted.run(&json!(chain(nodes))).await;
    let expected = json!({ "count": 2000, "ordered": true });
    assert_eq!(hosted.show("/do").await, expected);
}

#[tokio::test]
async fn foreign_nodes_hand_each_other_the_same_object_and_the_engine_delivers_it_once() {
    let hosted = Hosted::start().await;
    let nodes = vec![
        trial(
            "a",
            "msg.live = new Set([1]); node.context().flow.set('n', 0); send(msg); done()",
        ),
        trial(
            "b",
            "const n = node.context().flow.get('n') + 1; node.context().flow.set('n', n); msg.payload = [n, msg.live.has(1)]; delete msg.live; setTimeout(() => { send(msg); done(); }, 50)",
        ),
    ];
    hosted.run(&json!(chain(nodes))).await;
    assert_eq!(hosted.show("/do").await, json!([1, true]));
}

#[tokio::test]
async fn contexts_have_one_truth() {
    let hosted = Hosted::start().await;
    let nodes = vec![
        function(
            "f",
            "global.set('a.b', [1]); flow.set('x', Buffer.from('x')); return msg",
        ),
        trial(
            "a",
            "const c = node.context(), flow = c.flow, global = c.global;
             c.set('mine', (c.get('mine') || 0) + 1);
             global.set('a.c', global.get('a.b[0]') + 1);
             flow.set(['y', 'z'], [String(flow.get('x')), c.get('mine')]);
             flow.get(['y', 'z'], (error, y, z) => {
                 msg.payload = [y, z, global.keys(), flow.keys().sort(), flow.get('nothing') === undefined];
                 send(msg); done();
             })",
        ),
        function(
            "g",
            "msg.payload.push(global.get('a'), flow.get('y'), flow.get('z')); return msg",
        ),
    ];
    hosted.run(&json!(chain(nodes))).await;
    for n in 1..=2 {
        let expected = json!(["x", n, ["a"], ["x", "y", "z"], true, { "b": [1], "c": 2 }, "x", n]);
        assert_eq!(hosted.show("/do").await, expected);
    }
}

#[tokio::test]
async fn catch_status_and_complete_nodes_get_what_foreign_nodes_report() {
    let hosted = Hosted::start().await;
    let mut flow = chain(vec![trial(
        "a",
        "node.status({ fill: 'red', text: 7 });
         if (msg.req.query.how === 'throw') throw new Error('thrown');
         if (msg.req.query.how === 'done') return done(new Error('done'));
         if (msg.req.query.how === 'error') { node.error('told', msg); return; }
         node.warn('a warning'); node.error('no message');
         msg.payload = 'fine'; done(); setTimeout(() => send(msg), 50)",
    )]);
    let keep = "flow.set(msg.status ? 'status' : 'complete', msg.status ? [msg.status.text, msg.status.source.id] : msg.complete.source.id)";
    flow.extend([
        json!({ "id": "c", "type": "catch", "z": "t", "scope": ["a"], "x": 1, "y": 1, "wires": [["h"]] }),
        json!({ "id": "h", "type": "function", "z": "t", "x": 1, "y": 1, "wires": [["out"]],
            "func": "msg.payload = [msg.error.message, msg.error.source.type]; return msg" }),
        json!({ "id": "s", "type": "status", "z": "t", "scope": ["a"], "x": 1, "y": 1, "wires": [["k"]] }),
        json!({ "id": "d", "type": "complete", "z": "t", "scope": ["a"], "uncaught": false, "x": 1, "y": 1, "wires": [["k"]] }),
        json!({ "id": "k", "type": "function", "z": "t", "x": 1, "y": 1, "wires": [], "func": keep }),
        json!({ "id": "in2", "type": "http in", "z": "t", "method": "get", "url": "/show", "x": 1, "y": 1, "wires": [["r"]] }),
        json!({ "id": "r", "type": "function", "z": "t", "x": 1, "y": 1, "wires": [["out"]],
            "func": "msg.payload = [flow.get('status'), flow.get('complete')]; return msg" }),
    ]);
    hosted.run(&json!(flow)).await;
    for (how, text) in [
        ("throw", "Error: thrown"),
        ("done", "Error: done"),
        ("error", "told"),
    ] {
        let shown = hosted.show(&format!("/do?how={how}")).await;
        assert_eq!(shown, json!([text, "trial"]), "{how}");
    }
    let answer = hosted.get("/do").send().await;
    assert_eq!(answer.text(), "fine");
    hosted.until_shown("/show", &json!([["7", "a"], "a"])).await;
    hosted.process.wait_for_log("a warning");
    hosted.process.wait_for_log("no message");
}

#[tokio::test]
async fn a_subflow_with_native_and_foreign_nodes_runs_in_both() {
    let hosted = Hosted::start().await;
    let instance = |id: &str, env: &str| {
        json!({ "id": id, "type": "subflow:s", "z": "t", "x": 1, "y": 1,
            "env": [{ "name": "WORD", "value": env, "type": "str" }] })
    };
    let mut flow = chain(vec![
        function("f", "msg.payload = []; return msg"),
        instance("i", "one"),
        instance("j", "two"),
    ]);
    let inner = |id: &str, kind: &str, code: &str, to: &str| {
        let wires = if to.is_empty() {
            json!([[]])
        } else {
            json!([[to]])
        };
        json!({ "id": id, "type": kind, "z": "s", "x": 1, "y": 1, "wires": wires, "func": code, "input": code, "outputs": 1 })
    };
    flow.extend([
        json!({ "id": "s", "type": "subflow", "name": "s", "env": [{ "name": "WORD", "value": "none", "type": "str" }],
            "in": [{ "x": 1, "y": 1, "wires": [{ "id": "n1" }] }], "out": [{ "x": 1, "y": 1, "wires": [{ "id": "a2", "port": 0 }] }] }),
        inner("n1", "function", "msg.payload.push('n1'); return msg", "a1"),
        inner(
            "a1",
            "trial",
            "msg.payload.push(node._flow.getSetting('WORD')); node.context().flow.set('$parent.seen', node.id); send(msg); done()",
            "n2",
        ),
        inner("n2", "function", "msg.payload.push(env.get('WORD')); return msg", "a2"),
        inner("a2", "trial", "msg.payload.push(node.id); send(msg); done()", ""),
    ]);
    let last = flow.iter().position(|n| n["id"] == "out").unwrap();
    flow.insert(
        last,
        json!({ "id": "g", "type": "function", "z": "t", "x": 1, "y": 1, "outputs": 1, "wires": [["out"]],
            "func": "msg.payload.push(flow.get('seen')); return msg" }),
    );
    let j = flow.iter().position(|n| n["id"] == "j").unwrap();
    flow[j]["wires"] = json!([["g"]]);
    hosted.run(&json!(flow)).await;
    let expected = json!([
        "n1", "one", "one", "i-a2", "n1", "two", "two", "j-a2", "j-a1"
    ]);
    assert_eq!(hosted.show("/do").await, expected);
}
