//! A node host that is a service of its own: `flowgate node-host` connects to the engine.

use super::{Hosted, chain, function, trial};
use crate::harness::{program, until};
use serde_json::{Value as Json, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Stdio};

const SOCKET: &str = "socket = \"nodes/host.sock\"\nstart_timeout = \"10s\"\n";

/// The service, which ends with the test.
struct Service(Child);

impl Service {
    fn start(hosted: &Hosted) -> Self {
        let user = hosted.user_directory();
        let directory = user.parent().unwrap();
        let socket = directory.join("nodes/host.sock");
        let mut command = program(directory, &["node-host", "--memory", "128"]);
        command.arg("--socket").arg(socket);
        command.arg("--directory").arg(user);
        Self(command.stderr(Stdio::null()).spawn().unwrap())
    }

    /// Its processes: the service itself is the first one.
    fn processes(&self) -> Vec<u32> {
        let children = format!("/proc/{0}/task/{0}/children", self.0.id());
        let children = fs::read_to_string(children).unwrap_or_default();
        let children = children.split_whitespace().map(|id| id.parse().unwrap());
        std::iter::once(self.0.id()).chain(children).collect()
    }

    async fn ends(&mut self) {
        until("the service ends", async || {
            self.0.try_wait().unwrap().is_some()
        })
        .await;
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_running(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The state follows the name in parentheses (proc(5)).
    let state = status.rsplit(')').next().unwrap_or_default().trim_start();
    !state.is_empty() && !state.starts_with('Z')
}

fn flows() -> Json {
    let mut flow = chain(vec![
        function("f", "msg.payload = [new Date(5)]; return msg"),
        trial(
            "a",
            "msg.payload[0] = msg.payload[0].getTime(); node.context().global.set('foreign', 6); send(msg); done()",
        ),
        function("g", "msg.payload.push(global.get('foreign')); return msg"),
    ]);
    flow.extend([
        json!({ "id": "c", "type": "catch", "z": "t", "scope": null, "x": 1, "y": 1, "wires": [["h"]] }),
        json!({ "id": "h", "type": "function", "z": "t", "x": 1, "y": 1, "wires": [["out"]],
            "func": "msg.payload = [msg.error.message]; return msg" }),
    ]);
    json!(flow)
}

#[tokio::test]
async fn messages_for_a_service_that_does_not_connect_are_errors() {
    let socket = SOCKET.replace("10s", "2s");
    let hosted = Hosted::prepared_without_waiting(&socket, |_| {}).await;
    hosted.run(&flows()).await;
    let answer = hosted.show("/do").await;
    let lost = json!(["Error: the node host ended before it took the message"]);
    let down = json!(["Error: the node host does not run"]);
    assert!(answer == lost || answer == down, "{answer}");
    assert_eq!(hosted.show("/do").await, down);
}

#[tokio::test]
async fn a_service_runs_the_foreign_nodes_and_comes_back_after_its_end() {
    let hosted = Hosted::prepared_without_waiting(SOCKET, super::http::with_web).await;
    hosted.run(&flows()).await;
    let mut service = Service::start(&hosted);
    hosted.until_shown("/do", &json!([5, 6])).await;
    // What packages serve comes through sockets beside the one of the engine.
    let request = hosted.get("/web/who").token(&hosted.token);
    assert_eq!(request.send().await.json()["user"]["username"], "admin");
    let nodes = hosted.user_directory().parent().unwrap().join("nodes");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&nodes), 0o700);
    for name in ["host.sock", "endpoints.sock", "admin.sock"] {
        assert_eq!(mode(&nodes.join(name)), 0o600, "{name}");
    }

    service.0.kill().unwrap();
    service.ends().await;
    hosted.process.wait_for_log("the node host has ended");
    let down = json!(["Error: the node host does not run"]);
    hosted.until_shown("/do", &down).await;
    let _again = Service::start(&hosted);
    hosted.until_shown("/do", &json!([5, 6])).await;
}

#[tokio::test]
async fn a_service_that_hangs_ends_with_the_gateway() {
    let hosted = Hosted::prepared_without_waiting(SOCKET, |_| {}).await;
    let mut flow = flows();
    flow[3]["input"] = "for (;;);".into();
    hosted.run(&flow).await;
    let mut service = Service::start(&hosted);
    hosted.process.wait_for_log("the node host is ready");
    let processes = service.processes();
    assert_eq!(processes.len(), 2, "{processes:?}");
    tokio::select! {
        answer = hosted.get("/do").send() => panic!("{}", answer.text()),
        () = until("it hangs", async || is_busy(processes[1])) => {}
    }
    hosted.process.signal("KILL");
    service.ends().await;
    until("Node.js has ended", async || !is_running(processes[1])).await;
}

/// Returns whether a process is on a processor.
fn is_busy(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = status.rsplit(')').next().unwrap_or_default().trim_start();
    state.starts_with('R')
}

#[tokio::test]
async fn until_a_service_connects_native_flows_run_and_messages_for_foreign_nodes_become_errors() {
    let lines = "socket = \"nodes/host.sock\"\nstart_timeout = \"1s\"\n";
    let hosted = Hosted::prepared_without_waiting(lines, |_| {}).await;
    hosted.run(&flows()).await;
    let line = hosted.process.wait_for_log("the node host has ended");
    assert!(line.contains("no node host has connected"), "{line}");
    hosted
        .until_shown("/do", &json!(["Error: the node host does not run"]))
        .await;
}
