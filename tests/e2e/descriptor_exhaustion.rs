//! Too few file descriptors: open connections go on, and the log names the remedy.

use crate::client::Client;
use crate::harness::{Process, config_text, flow_set, page, public, until};
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::tempdir;

/// The program, started by a shell that takes something from it before.
fn limited(limit: &str, lines: &str, directory: &Path) -> Command {
    fs::write(directory.join("gateway.toml"), config_text(lines)).unwrap();
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            &format!("{limit}; exec \"$0\" run"),
            env!("CARGO_BIN_EXE_flowgate"),
        ])
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

/// Hundredths of a second of processor time that a process has had.
fn worked(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    // proc(5): utime and stime are fields 14 and 15; the first after the name is field 3.
    fields
        .split(' ')
        .skip(11)
        .take(2)
        .map(|ticks| ticks.parse::<u64>().unwrap())
        .sum()
}

async fn works(client: &Client, token: &str) {
    assert!(client.accepts_token(token).await);
    client
        .deploy(token, &flow_set(&[page("a", "/a", "new")]))
        .await;
    client.sign_in("reader").await;
    assert_eq!(client.operations("/readyz").await.status, 200);
}

#[tokio::test]
async fn without_free_descriptors_open_connections_go_on_and_accepting_does_not_spin() {
    let place = tempdir().unwrap();
    let lines = public(&["/a"])
        + "[limits]\nconnections_per_address = 50\n[timeouts]\nhandshake = \"5s\"\n";
    let command = limited("ulimit -n 128", &lines, place.path());
    let process = Process::launch(command, place.path()).unwrap();
    let token = process.sign_in("admin").await;
    process
        .deploy(&token, &flow_set(&[page("a", "/a", "old")]))
        .await;
    let mut here = process.connect(false).await.unwrap();

    let mut crowd = Vec::new();
    for n in 0..300_u16 {
        let from = IpAddr::from([127, 0, 1, u8::try_from(n % 200).unwrap() + 1]);
        crowd.push(process.tcp(from).await);
    }
    until("they are more than it takes", async || {
        let total = "flowgate_connections_refused_total{reason=\"total\"}";
        process.metric(total).await > Some(0.0)
    })
    .await;
    let before = worked(process.id());
    for _ in 0..20 {
        let answer = here.send(process.get("/a")).await.unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (200, "old"));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let deployed = process.deployment(&token, &flow_set(&[page("a", "/a", "new")]), None);
    assert_eq!(here.send(deployed).await.unwrap().status, 200);
    let signed_in = here.send(process.sign_in_request("reader", crate::client::PASSWORD, ""));
    assert_eq!(signed_in.await.unwrap().status, 200);
    assert_eq!(process.operations("/readyz").await.status, 200);
    assert!(worked(process.id()) - before < 100, "it spins");

    drop(crowd);
    until("there is room again", async || {
        process
            .get("/a")
            .try_send()
            .await
            .is_ok_and(|answer| answer.status == 200)
    })
    .await;
    works(&process, &token).await;
    process.signal("TERM");
    let output = process.whole_log().join("\n");
    assert!(
        output.contains("may not open") && output.contains("It takes 64 connections"),
        "{output}"
    );
}
