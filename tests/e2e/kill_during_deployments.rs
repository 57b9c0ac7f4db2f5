//! `kill -9` during a stream of deployments: acknowledged ones are complete afterwards.

use crate::client::Client;
use crate::harness::{Process, flow_set, page, public};
use serde_json::Value as Json;
use std::path::Path;
use tempfile::tempdir;

const DEPLOYMENTS: usize = 200;
const KILLS: usize = 8;

/// A flow set that shows when it is torn: both tabs carry its number, and they fill several blocks
/// of a disk.
fn numbered(n: usize) -> Json {
    let text = format!("{n} {}", "x".repeat(8000));
    flow_set(&[page("a", "/a", &text), page("b", "/b", &text)])
}

/// The number of the active flow set; that it is one of those deployed, whole.
async fn number(client: &Client, token: &str) -> (usize, String) {
    let active = client.flows(token).await;
    let flows = &active["flows"];
    let text = flows
        .as_array()
        .unwrap()
        .iter()
        .find_map(|node| node["template"].as_str());
    let n = text.unwrap().split(' ').next().unwrap().parse().unwrap();
    assert_eq!(*flows, numbered(n), "torn");
    (n, active["rev"].as_str().unwrap().to_owned())
}

/// Numbers that differ from run to run, but are the same again for the same seed (splitmix64,
/// Steele et al. 2014).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

fn start(directory: &Path) -> Process {
    // So many starts that end so badly would make it fall back.
    let lines = format!("{}[engine]\nstart_attempts = 0\n", public(&["/a", "/b"]));
    Process::start(&lines, directory)
}

/// Deploys numbers until the process is gone or all are done; gives the last one acknowledged with
/// its revision.
async fn stream(
    client: &Client,
    token: &str,
    numbers: std::ops::Range<usize>,
) -> Option<(usize, String)> {
    let mut acknowledged = None;
    let mut connection = client.connect(false).await.ok()?;
    for n in numbers {
        match connection
            .send(client.deployment(token, &numbered(n), None))
            .await
        {
            Ok(answer) => acknowledged = Some((n, answer.rev())),
            Err(_) => break,
        }
    }
    acknowledged
}

#[tokio::test]
async fn acknowledged_deployments_survive_kill_9_at_any_moment() {
    let seed = std::env::var("STORIES_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from_le_bytes(crypto::random()));
    println!("STORIES_SEED={seed} repeats this run");
    let mut dice = Dice(seed);
    let directory = tempdir().unwrap();
    let mut process = start(directory.path());
    let token = process.sign_in("admin").await;
    let mut active = (0, process.deploy(&token, &numbered(0)).await);
    for kill in 1..=KILLS {
        let revoked = process.sign_in("reader").await;
        let revoke = process
            .post("/auth/revoke")
            .token(&token)
            .form(&[("token", &revoked)]);
        assert_eq!(revoke.send().await.status, 200);

        // Numbers of this round, and the moment of the kill: between two of them, or within one.
        let numbers = (kill - 1) * DEPLOYMENTS / KILLS + 1..kill * DEPLOYMENTS / KILLS + 1;
        let moment = std::time::Duration::from_micros(dice.below(250_000));
        let client = Client::clone(&process);
        let first = active.0;
        let killed = async {
            tokio::time::sleep(moment).await;
            process.signal("KILL");
        };
        let (acknowledged, ()) = tokio::join!(stream(&client, &token, numbers.clone()), killed);
        process.end();
        active = acknowledged.unwrap_or(active);

        process = start(directory.path());
        assert!(process.accepts_token(&token).await, "the token is lost");
        assert!(
            !process.accepts_token(&revoked).await,
            "a revoked token is back"
        );
        let found = number(&process, &token).await;
        // One more than acknowledged may have become durable before its answer could be sent.
        let next = if active.0 == first {
            numbers.start
        } else {
            active.0 + 1
        };
        assert!(
            found.0 == active.0 || found.0 == next,
            "{} is active after {}",
            found.0,
            active.0
        );
        assert_eq!(
            found.0 == active.0,
            found.1 == active.1,
            "the revision is another one"
        );
        let shown = process.get("/b").send().await.text();
        assert_eq!(
            shown.split(' ').next().unwrap(),
            found.0.to_string(),
            "not what runs"
        );
        active = found;
    }
}
