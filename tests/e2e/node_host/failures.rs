//! A node host that crashes, hangs, or does not start: native flows run on.

use super::{Hosted, chain, trial};
use serde_json::{Value as Json, json};

/// `/do` passes through a foreign node, whose errors a catch node answers; `/show` is native.
fn flows(input: &str) -> Json {
    let mut flow = chain(vec![trial("a", input)]);
    flow.extend([
        json!({ "id": "c", "type": "catch", "z": "t", "scope": null, "x": 1, "y": 1, "wires": [["h"]] }),
        json!({ "id": "h", "type": "function", "z": "t", "x": 1, "y": 1, "wires": [["out"]],
            "func": "msg.payload = msg.error.message; return msg" }),
        json!({ "id": "in2", "type": "http in", "z": "t", "method": "get", "url": "/show", "x": 1, "y": 1, "wires": [["g"]] }),
        json!({ "id": "g", "type": "function", "z": "t", "x": 1, "y": 1, "wires": [["out"]], "func": "msg.payload = 'native'; return msg" }),
    ]);
    json!(flow)
}

impl Hosted {
    async fn text(&self, path: &str) -> String {
        self.get(path).send().await.text()
    }

    /// Waits until the foreign node answers.
    async fn until_answered(&self) {
        crate::harness::until("the host is back", async || {
            self.text("/do").await == "alive"
        })
        .await;
    }
}

/// Answers, and does harm a little later.
const ALIVE: &str =
    "msg.payload = msg.req.query.how === 'pid' ? String(process.pid) : 'alive'; send(msg); done();
    const harm = {
        crash() { throw new Error('a package failed'); },
        hang() { for (;;); },
        fill() { const all = []; for (;;) all.push(new Array(1e6).fill(0)); },
    }[msg.req.query.how];
    if (harm) setTimeout(harm, 100);";

#[tokio::test]
async fn a_host_that_crashes_comes_back_and_native_flows_run_on() {
    let hosted = Hosted::start().await;
    hosted.run(&flows(ALIVE)).await;
    hosted.until_answered().await;
    assert_eq!(hosted.text("/do?how=crash").await, "alive");
    hosted.process.wait_for_log("a package failed");
    assert_eq!(hosted.text("/show").await, "native");
    let text = hosted.text("/do").await;
    assert!(
        text.contains("the node host does not run") || text == "alive",
        "{text}"
    );
    hosted.until_answered().await;
}

#[tokio::test]
async fn a_host_that_is_killed_comes_back() {
    let hosted = Hosted::start().await;
    hosted.run(&flows(ALIVE)).await;
    for _ in 0..2 {
        hosted.until_answered().await;
        let process = hosted.text("/do?how=pid").await;
        let killed = std::process::Command::new("kill")
            .args(["-9", &process])
            .status();
        assert!(killed.unwrap().success());
        hosted.process.wait_for_log("the node host has ended");
        assert_eq!(hosted.text("/show").await, "native");
    }
    hosted.until_answered().await;
    let restarts = hosted.metric("flowgate_node_host_restarts_total").await;
    assert_eq!(restarts, Some(2.0));
}

#[tokio::test]
async fn a_message_that_the_host_had_not_taken_when_it_ended_is_an_error() {
    let hosted = Hosted::start().await;
    let kill = "if (msg.req.query.how === 'now') process.kill(process.pid, 'SIGKILL');";
    hosted.run(&flows(&format!("{kill}{ALIVE}"))).await;
    hosted.until_answered().await;
    let lost = "Error: the node host ended before it took the message";
    assert_eq!(hosted.text("/do?how=now").await, lost);
    hosted.until_answered().await;
}

#[tokio::test]
async fn a_host_that_needs_too_much_memory_ends_and_comes_back() {
    let hosted = Hosted::with("memory = \"64MiB\"\n").await;
    hosted.run(&flows(ALIVE)).await;
    hosted.until_answered().await;
    assert_eq!(hosted.text("/do?how=fill").await, "alive");
    hosted.process.wait_for_log("the node host has ended");
    hosted.until_answered().await;
}

#[tokio::test]
async fn a_host_that_hangs_is_killed_and_comes_back() {
    let hosted = Hosted::start().await;
    hosted.run(&flows(ALIVE)).await;
    hosted.until_answered().await;
    assert_eq!(hosted.text("/do?how=hang").await, "alive");
    hosted.process.wait_for_log("it hangs");
    hosted.until_answered().await;
}

#[tokio::test]
async fn a_host_that_cannot_start_leaves_native_flows_alone() {
    let hosted = Hosted::without_waiting("node = \"no-such-program\"\n").await;
    hosted.run(&flows(ALIVE)).await;
    hosted.process.wait_for_log("the node host has ended");
    assert_eq!(hosted.text("/show").await, "native");
    crate::harness::until("an error", async || {
        hosted
            .text("/do")
            .await
            .contains("the node host does not run")
    })
    .await;
}

/// Kills the gateway, and waits until its host has ended.
async fn killed_with_its_host(hosted: &Hosted, process: &str) {
    hosted.process.signal("KILL");
    let stat = format!("/proc/{process}/stat");
    crate::harness::until("the process is gone", async || {
        !std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z"))
    })
    .await;
}

#[tokio::test]
async fn the_host_ends_with_the_gateway() {
    let hosted = Hosted::start().await;
    hosted.run(&flows(ALIVE)).await;
    hosted.until_answered().await;
    let process = hosted.text("/do?how=pid").await;
    killed_with_its_host(&hosted, &process).await;
}

#[tokio::test]
async fn a_host_that_hangs_ends_with_the_gateway_too() {
    let hosted = Hosted::start().await;
    hosted.run(&flows(ALIVE)).await;
    hosted.until_answered().await;
    let process = hosted.text("/do?how=pid").await;
    assert_eq!(hosted.text("/do?how=hang").await, "alive");
    // Its processor time grows without pause when it hangs: it answers nothing then.
    let stat = format!("/proc/{process}/stat");
    let ticks = || -> u64 {
        let stat = std::fs::read_to_string(&stat).unwrap();
        let after = stat.rsplit(") ").next().unwrap();
        after.split(' ').nth(11).unwrap().parse().unwrap()
    };
    let before = ticks();
    crate::harness::until("it hangs", async || ticks() > before + 30).await;
    killed_with_its_host(&hosted, &process).await;
}
