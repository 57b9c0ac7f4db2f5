//! Back-pressure between the engine and the node host, and messages during a deployment.

use super::{Hosted, chain, function, trial};
use crate::harness::until;
use serde_json::json;
use std::pin::pin;

const TO_HOST: &str = "flowgate_node_host_messages_total{direction=\"to_host\"}";
const QUEUE: &str = "flowgate_node_host_queue_bytes";

#[tokio::test]
async fn a_slow_host_pauses_the_sources_of_its_flows() {
    let hosted = Hosted::with("[engine]\nqueue_bytes = \"1MiB\"\n").await;
    let mut slow = trial(
        "a",
        "if (msg.first) { const end = Date.now() + 3000; while (Date.now() < end); }
         if (msg.payload === 'last') { msg.payload = 'seen'; send(msg); } done()",
    );
    slow["wires"] = json!([["out"]]);
    let flood = "const { req, res } = msg;
        if (req.query.flood) for (let n = 0; n < 20; n++) node.send({ first: n === 0, payload: 'x'.repeat(50000) });
        return { req, res, payload: 'last' }";
    let flow = chain(vec![function("f", flood), slow]);
    hosted.run(&json!(flow)).await;
    assert_eq!(hosted.get("/do").send().await.text(), "seen");
    let sent = async || hosted.metric(TO_HOST).await.unwrap_or_default();
    let before = sent().await;
    // This answer waits behind the flood; meanwhile the flow takes no other request.
    let flooded = hosted.get("/do?flood=1").send();
    let refused = async {
        until("the host has the flood", async || {
            sent().await > before + 10.0
                && hosted.metric(QUEUE).await.unwrap_or_default() > 200_000.0
        })
        .await;
        until("the flow is full", async || {
            hosted.get("/do").send().await.status == 503
        })
        .await;
    };
    let (flooded, ()) = tokio::join!(flooded, refused);
    assert_eq!(flooded.text(), "seen");
    until("the flow has room", async || {
        hosted.get("/do").send().await.text() == "seen"
    })
    .await;
    until("nothing is on its way", async || {
        hosted.metric(QUEUE).await == Some(0.0)
    })
    .await;
}

#[tokio::test]
async fn a_profile_names_foreign_nodes() {
    let hosted = Hosted::start().await;
    let mut foreign = trial("a", "send(msg); done()");
    (foreign["name"], foreign["wires"]) = (json!("the foreign one"), json!([["out"]]));
    let flow = chain(vec![function("f", "return msg"), foreign]);
    hosted.run(&json!(flow)).await;
    let asked = hosted.process.get("/gateway/profile?seconds=2");
    let mut profile = pin!(asked.token(&hosted.token).send());
    let profile = loop {
        tokio::select! {
            answer = &mut profile => break answer,
            _ = hosted.get("/do").send() => {}
        }
    };
    let profile = profile.json();
    let nodes = profile["nodes"].as_array().unwrap();
    let named = nodes.iter().find(|node| node["id"] == "a").unwrap();
    assert_eq!(named["name"], "the foreign one", "{profile}");
    assert!(named["messages"].as_u64().unwrap() > 0, "{profile}");
}

#[tokio::test]
async fn a_host_that_sends_more_than_a_flow_takes_waits_and_loses_nothing() {
    let hosted = Hosted::with("[engine]\nqueue_messages = 50\n").await;
    let nodes = vec![
        trial(
            "a",
            "for (let n = 0; n < 5000; n++) send({ n, payload: 'x'.repeat(1000) });
             msg.last = true; send(msg); done()",
        ),
        function(
            "g",
            "const n = context.get('n') || 0;
             if (msg.last) { msg.payload = [n]; return msg }
             if (msg.n === n) context.set('n', n + 1); return null",
        ),
    ];
    hosted.run(&json!(chain(nodes))).await;
    assert_eq!(hosted.show("/do").await, json!([5000]));
}

#[tokio::test]
async fn what_foreign_nodes_send_while_they_start_reaches_the_native_nodes_after_them() {
    let hosted = Hosted::start().await;
    let mut early = trial("a", "send(msg); done()");
    early["setup"] = json!(
        "node.send({ start: 1 }); node.context().flow.set('asked', 1); setImmediate(() => node.send({ start: 2 }))"
    );
    let nodes = vec![
        early,
        function(
            "g",
            "const seen = flow.get('seen') || []; if (msg.start) { seen.push(msg.start); flow.set('seen', seen); return null }
             msg.payload = [seen, flow.get('asked')]; return msg",
        ),
    ];
    hosted.run(&json!(chain(nodes))).await;
    assert_eq!(hosted.show("/do").await, json!([[1, 2], 1]));
}

/// `cargo test --test e2e -- --ignored --nocapture round_trips`
#[tokio::test]
#[ignore = "measures"]
async fn round_trips_are_measured() {
    let hosted = Hosted::start().await;
    for (name, kind) in [("native", "function"), ("foreign", "trial")] {
        let mut pass = trial("a", "send(msg); done()");
        (pass["type"], pass["func"], pass["outputs"]) =
            (json!(kind), json!("return msg"), json!(1));
        pass["wires"] = json!([["g"]]);
        let count = "if (msg.left > 0) { msg.left--; return [msg, null] }
            msg.payload = [(Date.now() - msg.began) * 1000 / 5000]; return [null, msg]";
        let mut g = function("g", count);
        (g["outputs"], g["wires"]) = (json!(2), json!([["a"], ["out"]]));
        let f = function("f", "msg.left = 5000; msg.began = Date.now(); return msg");
        hosted.run(&json!(chain(vec![f, pass, g]))).await;
        for _ in 0..3 {
            println!("{name}: {} µs a round", hosted.show("/do").await[0]);
        }
    }
    tokio::time::sleep(std::time::Duration::from_secs(6)).await;
    let memory = hosted.metric("flowgate_node_host_memory_bytes").await;
    println!("resident memory of the host: {memory:?}");
}
