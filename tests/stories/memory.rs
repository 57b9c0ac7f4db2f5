//! Memory that was needed for a moment goes back to the system.

use crate::harness::{Process, flow_set, page, until};
use serde_json::json;
use std::time::{Duration, Instant};

/// What may stay, in KiB.
const MAY_STAY: u64 = 8 << 10;

/// The allocator gives some of it back by itself, later: after some ten seconds.
const SOON: Duration = Duration::from_secs(3);

#[tokio::test]
async fn what_a_deployment_needed_goes_back_when_it_is_done() {
    let place = tempfile::tempdir().unwrap();
    let process = Process::start("", place.path());
    let token = process.sign_in("admin").await;
    let before = process.memory("RssAnon");

    // 4 MiB, which are there several times while they are deployed.
    let mut large = page("a", "/a", "a");
    large.push(json!({ "id": "c", "type": "comment", "z": "a", "x": 1, "y": 1, "info": "i".repeat(4 << 20) }));
    process.deploy(&token, &flow_set(&[large])).await;
    let small = flow_set(&[page("a", "/a", "b")]);
    process.deploy(&token, &small).await;
    comes_back(&process, before).await;
}

#[tokio::test]
async fn what_a_refused_deployment_needed_goes_back_too() {
    let place = tempfile::tempdir().unwrap();
    let process = Process::start("", place.path());
    let token = process.sign_in("admin").await;
    let before = process.memory("RssAnon");

    let text = "[".repeat(5 << 20);
    let answer = process
        .post("/flows")
        .token(&token)
        .header("Content-Type", "application/json")
        .body(text)
        .send()
        .await;
    assert_eq!(answer.status, 400);
    comes_back(&process, before).await;
}

async fn comes_back(process: &Process, before: u64) {
    let since = Instant::now();
    until("the memory is back", async || {
        process.memory("RssAnon") < before + MAY_STAY
    })
    .await;
    assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
}
