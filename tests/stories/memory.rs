//! Memory that was needed for a moment goes back to the system.

use crate::harness::{Process, flow_set, page, until};
use serde_json::json;

/// What may stay, in KiB.
const MAY_STAY: u64 = 8 << 10;

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
    until("the memory is back", async || {
        process.memory("RssAnon") < before + MAY_STAY
    })
    .await;
}
