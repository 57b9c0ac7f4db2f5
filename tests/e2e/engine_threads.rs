//! Flows on several threads of the engine: a function that blocks delays neither the endpoints nor
//! the timers of other flows, and the API shows all flows as on one thread.

use crate::harness::{Gateway, flow_set, public, restart_marker, script};
use serde_json::{Value as Json, json};

/// Two threads, and endpoints that are public.
fn two_threads(paths: &[&str]) -> String {
    format!("{}[engine]\nthreads = 2\n", public(paths))
}

/// Requests and timer ticks of other flows that a blocked flow must let pass. With one thread it
/// lets at most one request pass, which comes before it blocks.
const MANY: u64 = 20;

/// A flow whose timer ticks every 50 ms, and whose endpoint answers with the number of ticks.
fn ticking() -> Vec<Json> {
    let code = "msg.payload = String(flow.get('ticks') || 0); return msg";
    let mut flow = script("ticks", "get", "/ticks", code);
    flow.extend([
        json!({ "id": "ticks-inject", "type": "inject", "z": "ticks", "x": 1, "y": 1, "props": [], "repeat": "0.05",
                "wires": [["ticks-count"]] }),
        json!({ "id": "ticks-count", "type": "function", "z": "ticks", "x": 2, "y": 1, "outputs": 1, "wires": [[]],
                "func": "flow.set('ticks', (flow.get('ticks') || 0) + 1); return null" }),
    ]);
    flow
}

#[tokio::test]
async fn a_function_that_blocks_delays_no_endpoint_and_no_timer_of_another_thread() {
    let gateway = Gateway::with(&two_threads(&["/block", "/ticks"]));
    let token = gateway.sign_in("admin").await;
    let blocks = "const end = Date.now() + 5000; while (Date.now() < end); return msg";
    let flows = flow_set(&[script("block", "get", "/block", blocks), ticking()]);
    gateway.deploy(&token, &flows).await;

    let ticks = async || -> u64 {
        let answer = gateway.get("/ticks").send().await;
        assert_eq!(answer.status, 200);
        answer.text().parse().unwrap()
    };
    let before = ticks().await;
    let blocked = tokio::spawn(gateway.get("/block").send());
    let (mut answered, mut last) = (0, before);
    while !blocked.is_finished() {
        last = ticks().await;
        answered += 1;
    }
    assert_eq!(blocked.await.unwrap().status, 200);
    assert!(
        answered > MANY && last - before > MANY,
        "while a function blocked, {answered} requests were answered, and a timer ticked {} times",
        last - before
    );
}

#[tokio::test]
async fn a_nodes_deployment_restarts_only_what_changed_or_moved() {
    let paths = ["/a", "/b", "/c"];
    let gateway = Gateway::with(&two_threads(&paths));
    let token = gateway.sign_in("admin").await;
    let marked = ["a", "b", "c"].map(|tab| restart_marker(tab, &format!("/{tab}")));
    let markers = async || {
        let mut markers = Vec::new();
        for path in paths {
            markers.push(gateway.get(path).send().await.text());
        }
        markers
    };
    gateway.deploy(&token, &flow_set(&marked)).await;
    let first = markers().await;
    let mut edited = marked.clone();
    edited[0][2]["name"] = "edited".into();
    gateway.deploy_as("nodes", &token, &flow_set(&edited)).await;
    let second = markers().await;
    assert_ne!(first[0], second[0]);
    assert_eq!(first[1..], second[1..]);
    // The third flow is on the thread of the first one; one of the two that are joined moves to the
    // other.
    edited[1][1]["wires"] = json!([["b-node", "a-node"]]);
    gateway.deploy_as("nodes", &token, &flow_set(&edited)).await;
    let third = markers().await;
    assert_eq!(second[2], third[2]);
    let restarted = (0..2).filter(|n| second[*n] != third[*n]).count();
    assert_eq!(restarted, 1, "{second:?} {third:?}");
}

#[tokio::test]
async fn metrics_and_contexts_are_those_of_all_threads() {
    let gateway = Gateway::with(&two_threads(&["/a", "/b"]));
    let token = gateway.sign_in("admin").await;
    let flow = |tab: &str| {
        let code = format!("flow.set('who', '{tab}'); return msg");
        script(tab, "get", &format!("/{tab}"), &code)
    };
    gateway
        .deploy(&token, &flow_set(&[flow("a"), flow("b")]))
        .await;
    for tab in ["a", "b"] {
        gateway.get(&format!("/{tab}")).send().await;
        let path = format!("/context/flow/{tab}/who");
        let answer = gateway.get(&path).token(&token).send().await;
        assert_eq!(answer.json()["msg"], tab);
    }
    let flows = gateway.metric("flowgate_flows_running").await;
    let nodes = gateway.metric("flowgate_nodes_running").await;
    assert_eq!((flows, nodes), (Some(2.0), Some(6.0)));
    let page = gateway.operations("/metrics").await.text();
    for tab in ["a", "b", "global"] {
        let series = format!("flowgate_flow_pauses_total{{flow=\"{tab}\"}} ");
        let lines = page.lines().filter(|line| line.starts_with(&series));
        assert_eq!(lines.count(), 1, "{series}");
    }
}
