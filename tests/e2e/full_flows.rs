//! Flows for which too many messages wait: what the gateway reports of them, and that it serves the
//! others.

use crate::client::Client;
use crate::harness::{Process, flow_set, page, program, public, until};
use serde_json::{Value as Json, json};
use tempfile::tempdir;

/// A message that is injected at the start and goes round in a node, `times` as many each time.
pub fn circling(times: usize) -> Vec<Json> {
    vec![
        json!({ "id": "loop", "type": "tab", "label": "Loop" }),
        json!({ "id": "go", "type": "inject", "z": "loop", "x": 1, "y": 1, "once": true, "onceDelay": 0,
                "props": [{ "p": "payload", "v": "1", "vt": "num" }], "wires": [["turn"]] }),
        json!({ "id": "turn", "type": "change", "z": "loop", "x": 1, "y": 1, "rules": [],
                "wires": [vec!["turn"; times]] }),
    ]
}

async fn state(client: &Client, token: &str) -> Json {
    let answer = client.get("/flows/state").token(token).send().await;
    serde_json::from_str(&answer.text()).unwrap()
}

#[tokio::test]
async fn a_node_wired_twice_to_itself_is_stopped_and_the_others_answer() {
    let directory = tempdir().unwrap();
    let process = Process::start(&public(&["/other"]), directory.path());
    let token = process.sign_in("admin").await;
    let flows = flow_set(&[circling(2), page("other", "/other", "alive")]);
    process.deploy(&token, &flows).await;
    let line = process.wait_for_log("flows stopped: their queue did not get shorter");
    assert!(line.contains("Loop"), "{line}");
    assert_eq!(process.get("/other").send().await.text(), "alive");
    let stopped = json!([{ "id": "loop", "label": "Loop", "reason": "queue" }]);
    assert_eq!(
        state(&process, &token).await,
        json!({ "state": "start", "stopped": stopped })
    );
    let series = "flowgate_flows_stopped_total{reason=\"queue\"}";
    assert_eq!(process.metric(series).await, Some(1.0));
    let dropped = "flowgate_node_messages_dropped_total{type=\"change\"}";
    assert!(process.metric(dropped).await > Some(100_000.0));
    assert_eq!(process.metric("flowgate_flows_running").await, Some(1.0));
    assert!(process.memory("VmHWM") < 500 << 10);
    let flows = flow_set(&[page("other", "/other", "again")]);
    process.deploy(&token, &flows).await;
    assert_eq!(state(&process, &token).await, json!({ "state": "start" }));
    assert_eq!(process.get("/other").send().await.text(), "again");
}

#[tokio::test]
async fn messages_are_counted_while_flows_are_busy() {
    let directory = tempdir().unwrap();
    let process = Process::start("", directory.path());
    let token = process.sign_in("admin").await;
    process.deploy(&token, &flow_set(&[circling(1)])).await;
    let series = "flowgate_node_messages_total{type=\"change\"}";
    let mut before = None;
    until("the count grows", async || {
        let now = process.metric(series).await;
        let grown = before.is_some() && now > before;
        before = now;
        grown
    })
    .await;
}

#[tokio::test]
async fn the_flow_with_the_largest_queue_is_stopped_when_memory_is_short() {
    let directory = tempdir().unwrap();
    let lines = format!("{}[engine]\nmemory = \"96MiB\"\n", public(&["/other"]));
    let process = Process::start(&lines, directory.path());
    let token = process.sign_in("admin").await;
    let mut large = circling(1);
    large[1]["wires"] = json!([["make"]]);
    large.push(json!({ "id": "make", "type": "function", "z": "loop", "x": 1, "y": 1, "outputs": 1, "wires": [["turn"]],
        "func": "for (let n = 0; n < 200; n++) node.send({ payload: n + 'x'.repeat(1e6) })" }));
    let flows = flow_set(&[large, page("other", "/other", "alive")]);
    process.deploy(&token, &flows).await;
    process
        .wait_for_log("flows stopped: the memory limit is exceeded and their queue is the largest");
    // Its memory goes back to the system, and the other flow's requests are no longer refused.
    until("the other flow answers", async || {
        process.get("/other").send().await.status == 200
    })
    .await;
    let stopped = &state(&process, &token).await["stopped"];
    assert_eq!(
        *stopped,
        json!([{ "id": "loop", "label": "Loop", "reason": "memory" }])
    );
    let series = "flowgate_flows_stopped_total{reason=\"memory\"}";
    assert_eq!(process.metric(series).await, Some(1.0));
}

#[test]
fn a_memory_budget_is_auto_or_a_size() {
    for (memory, valid) in [
        ("\"auto\"", true),
        ("\"1GiB\"", true),
        ("\"1KiB\"", false),
        ("\"half\"", false),
    ] {
        let directory = tempdir().unwrap();
        let text = crate::harness::config_text(&format!("[engine]\nmemory = {memory}\n"));
        std::fs::write(directory.path().join("gateway.toml"), text).unwrap();
        let (code, log) = crate::harness::run_command(program(directory.path(), &["check"]));
        assert_eq!(code == Some(0), valid, "{log}");
        assert!(
            valid || log.contains("\"auto\", a size from \"64MiB\""),
            "{log}"
        );
    }
}
