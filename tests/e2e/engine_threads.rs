//! Flows on several threads of the engine: a function that blocks delays neither the endpoints nor the timers of other
//! flows, and the API shows all flows as on one thread.

use crate::harness::{Gateway, flow_set, page, public, restart_marker, script};
use serde_json::{Value as Json, json};
use std::time::{Duration, Instant};

/// Two threads, and endpoints that are public.
fn two_threads(paths: &[&str]) -> String {
    format!("{}[engine]\nthreads = 2\n", public(paths))
}

/// An inject node with a timer, and a function node.
fn timer(tab: &str, seconds: &str, code: &str) -> Vec<Json> {
    let work = format!("{tab}-work");
    vec![
        json!({ "id": tab, "type": "tab", "label": tab }),
        json!({ "id": format!("{tab}-tick"), "type": "inject", "z": tab, "x": 1, "y": 1, "props": [], "repeat": seconds,
                "wires": [[work]] }),
        json!({ "id": work, "type": "function", "z": tab, "x": 2, "y": 1, "outputs": 1, "func": code, "wires": [[]] }),
    ]
}

/// Blocks 300 of every 350 ms.
fn blocking() -> Vec<Json> {
    let code = "const end = Date.now() + 300; while (Date.now() < end); return null";
    timer("block", "0.35", code)
}

/// The duration that nine of ten requests do not exceed: on the thread of the function every fifth waits for 300 ms.
async fn usual(gateway: &Gateway, path: &str) -> Duration {
    let mut times = Vec::new();
    for _ in 0..100 {
        let began = Instant::now();
        assert_eq!(gateway.get(path).send().await.status, 200);
        times.push(began.elapsed());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    times.sort_unstable();
    times[89]
}

#[tokio::test]
async fn a_function_that_blocks_delays_no_endpoint_and_no_timer_of_another_thread() {
    let gateway = Gateway::with(&two_threads(&["/quiet", "/gaps"]));
    let token = gateway.sign_in("admin").await;
    let mut timed = timer(
        "timer",
        "0.05",
        "const now = Date.now(), before = context.get('t'); context.set('t', now);
         if (before) flow.set('gaps', [...(flow.get('gaps') || []), now - before]); return null",
    );
    timed.extend(
        script(
            "shown",
            ("get", "/gaps"),
            "msg.payload = flow.get('gaps'); return msg",
        )
        .split_off(1),
    );
    for node in &mut timed[3..] {
        node["z"] = "timer".into();
    }
    let flows = flow_set(&[page("quiet", "/quiet", "quiet"), blocking(), timed]);
    gateway.deploy(&token, &flows).await;
    let time = usual(&gateway, "/quiet").await;
    assert!(time < Duration::from_millis(200), "{time:?}");
    let gaps = gateway.get("/gaps").send().await.json();
    let gaps: Vec<u64> = gaps
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Json::as_u64)
        .collect();
    let late = gaps.iter().filter(|gap| **gap > 200).count();
    assert!(gaps.len() >= 10 && late * 10 <= gaps.len(), "{gaps:?}");
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
    // The third flow is on the thread of the first one; one of the two that are joined moves to the other.
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
        script(tab, ("get", &format!("/{tab}")), &code)
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
