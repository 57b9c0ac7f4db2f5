//! `[engine] isolation`: the gateway starts the engine as a process of its own. Users see no
//! difference, the gateway survives the process, and the process does not survive the gateway.

use crate::harness::{
    Process, config_text, flow_set, page, program, public, run_command, run_to_exit, until,
};
use crate::separation::{reporting, until_deployed};
use crate::separation_attacks::{OTHER, not_as_root, place};
use serde_json::{Value as Json, json};
use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;

const CONFINED: &str = "engine.isolation = \"process\"\n";
const UNCONFINED: &str = "engine.isolation = \"process-unconfined\"\n";

/// A gateway of a user other than root, in this directory.
pub fn start(lines: &str, directory: &Path) -> Process {
    launch(lines, directory, |_| ())
}

/// The same with a command that was changed.
pub fn launch(lines: &str, directory: &Path, change: impl FnOnce(&mut Command)) -> Process {
    let file = directory.join("gateway.toml");
    fs::write(&file, config_text(lines)).unwrap();
    if rustix::process::geteuid().is_root() {
        chown(&file, Some(OTHER), Some(OTHER)).unwrap();
    }
    let mut command = not_as_root("--config gateway.toml run", directory);
    change(&mut command);
    Process::launch(command, directory).unwrap_or_else(|log| panic!("it does not listen:\n{log}"))
}

/// The processes whose parent is this one.
pub fn children(parent: u32) -> Vec<u32> {
    let line = format!("\nPPid:\t{parent}\n");
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_child = |process: &u32| {
        let status = fs::read_to_string(format!("/proc/{process}/status"));
        status.is_ok_and(|status| status.contains(&line) && !status.contains("State:\tZ"))
    };
    processes.filter(is_child).collect()
}

/// The engine's process, when it is there.
async fn engine_of(gateway: &Process) -> u32 {
    until("there is one engine", async || {
        children(gateway.id()).len() == 1
    })
    .await;
    children(gateway.id())[0]
}

fn kill(process: u32) {
    signal(process, "KILL");
}

pub fn signal(process: u32, name: &str) {
    let mut kill = Command::new("kill");
    let status = kill.args(["-s", name, &process.to_string()]).status();
    assert!(status.unwrap().success());
}

pub fn is_gone(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status"));
    status.map_or(true, |status| status.contains("State:\tZ"))
}

#[tokio::test]
async fn an_isolated_engine_is_used_as_one_in_the_gateways_process_and_flows_move_there_and_back() {
    let (directory, _) = place();
    let own = directory.path();
    let lines = public(&["/a"]);
    let one = start(&lines, own);
    let token = one.sign_in("admin").await;
    one.deploy(&token, &flow_set(&[page("a", "/a", "first")]))
        .await;
    one.signal("TERM");
    assert_eq!(one.end().code(), Some(0));

    let gateway = start(&(CONFINED.to_owned() + &lines), own);
    let engine = engine_of(&gateway).await;
    assert_eq!(gateway.get("/a").send().await.text(), "first");
    let ready = gateway.operations("/readyz").await;
    assert_eq!(ready.status, 200, "{}", ready.text());
    let token = gateway.sign_in("admin").await;
    let mut editor = gateway.editor(&token).await;
    editor.subscribe("notification/#").await;
    editor.subscribe("debug").await;
    let flows = flow_set(&[page("a", "/a", "second"), reporting("r")]);
    let rev = gateway.deploy(&token, &flows).await;
    until_deployed(&mut editor, &rev).await;
    assert_eq!(gateway.get("/a").send().await.text(), "second");
    let inject = gateway.post("/inject/r-go").token(&token).send().await;
    assert_eq!(inject.status, 200);
    assert_eq!(editor.topic("debug").await["msg"], "r");
    let get = async |path: &str| gateway.get(path).token(&token).send().await.json();
    assert_eq!(get("/context/flow/r/key").await["msg"], "r");
    assert_eq!(get("/flows/state").await["state"], "start");
    let past = get("/gateway/deployments").await;
    assert_eq!(past["deployments"][0]["rev"], *rev, "{past}");
    assert!(own.join("data/engine/flows.json").exists());
    assert!(!own.join("data/flows.json").exists());

    gateway.signal("TERM");
    let log = gateway.whole_log();
    assert!(is_gone(engine));
    let of_engine = |line: &&String| line.contains("process") && line.contains("ended");
    assert!(log.iter().any(|line| of_engine(&line)), "{log:?}");
    let again = start(&lines, own);
    assert_eq!(again.get("/a").send().await.text(), "second");
    assert!(own.join("data/flows.json").exists());
}

#[tokio::test]
async fn an_engine_that_was_killed_comes_back_while_editors_stay_and_requests_are_503() {
    let (directory, _) = place();
    let lines = CONFINED.to_owned() + "comms.upstream_away = \"1m\"\n" + &public(&["/a"]);
    let gateway = start(&lines, directory.path());
    let token = gateway.sign_in("admin").await;
    let flows = flow_set(&[page("a", "/a", "here"), reporting("r")]);
    let rev = gateway.deploy(&token, &flows).await;
    let mut editor = gateway.editor(&token).await;
    editor.subscribe("notification/#").await;
    until_deployed(&mut editor, &rev).await;
    // The delay is longer from time to time.
    for _ in 0..2 {
        let before = engine_of(&gateway).await;
        kill(before);
        until("requests are refused", async || {
            let away = gateway.get("/a").send().await;
            away.status == 503 && away.header("retry-after") == "1"
        })
        .await;
        until("it is back", async || {
            gateway.get("/a").send().await.text() == "here"
        })
        .await;
        assert_ne!(engine_of(&gateway).await, before);
    }
    let restarts = gateway.metric("flowgate_engine_restarts_total").await;
    assert_eq!(restarts, Some(2.0));
    let rev = gateway.deploy(&token, &flows).await;
    until_deployed(&mut editor, &rev).await;
}

#[tokio::test]
async fn an_engine_ends_with_its_gateway_even_if_that_is_killed() {
    let (directory, _) = place();
    let gateway = start(CONFINED, directory.path());
    let engine = engine_of(&gateway).await;
    gateway.signal("KILL");
    gateway.end();
    until("the engine is gone", async || is_gone(engine)).await;
}

/// `GET /exec` runs a command with an `exec` node.
fn running(command: &str) -> Json {
    json!([
        { "id": "t", "type": "tab", "label": "t" },
        { "id": "i", "type": "http in", "z": "t", "method": "get", "url": "/exec", "wires": [["e"]] },
        { "id": "e", "type": "exec", "z": "t", "command": command, "addpay": "", "append": "", "useSpawn": "false",
          "timer": "", "wires": [["o"], [], []] },
        { "id": "o", "type": "http response", "z": "t", "wires": [] },
    ])
}

#[tokio::test]
async fn an_engine_has_its_memory_limit_and_ends_before_the_gateway_when_memory_runs_out() {
    let (directory, _) = place();
    let lines = CONFINED.to_owned() + "engine.memory_limit = \"512MiB\"\n" + &public(&["/exec"]);
    let gateway = start(&lines, directory.path());
    let engine = engine_of(&gateway).await;
    let limits = fs::read_to_string(format!("/proc/{engine}/limits")).unwrap();
    let data = limits
        .lines()
        .find(|line| line.starts_with("Max data size"));
    assert!(data.unwrap().contains("536870912"), "{limits}");
    let score = |process: u32| {
        let score = fs::read_to_string(format!("/proc/{process}/oom_score_adj")).unwrap();
        score.trim().parse::<i32>().unwrap()
    };
    assert_eq!(score(engine), 500);
    assert!(score(gateway.id()) < 500);
    let token = gateway.sign_in("admin").await;
    let greedy = "perl -e 'print q(began); my $x = q(x) x 600000000; print q(got it)'";
    gateway.deploy(&token, &running(greedy)).await;
    let printed = gateway.get("/exec").send().await.text();
    assert!(!printed.contains("got it"), "{printed}");
}

#[tokio::test]
async fn an_engine_in_safe_mode_starts_no_flows() {
    let (directory, _) = place();
    let own = directory.path();
    let lines = CONFINED.to_owned() + &public(&["/a"]);
    fs::write(own.join("gateway.toml"), config_text(&lines)).unwrap();
    let gateway = start(&lines, own);
    let token = gateway.sign_in("admin").await;
    gateway
        .deploy(&token, &flow_set(&[page("a", "/a", "here")]))
        .await;
    gateway.signal("TERM");
    gateway.end();
    let command = not_as_root("--config gateway.toml run --safe", own);
    let gateway = Process::launch(command, own).unwrap();
    let token = gateway.sign_in("admin").await;
    let state = gateway.get("/flows/state").token(&token).send().await;
    assert_eq!(state.json()["state"], "safe");
    assert_eq!(gateway.get("/a").send().await.status, 404);
}

#[test]
fn an_engine_that_refuses_to_start_ends_the_gateway_with_its_message() {
    let (directory, _) = place();
    let own = directory.path();
    // An address of documentation (RFC 5737), which no machine has.
    let lines = UNCONFINED.to_owned() + "engine.operations = \"192.0.2.7:9091\"\n";
    fs::write(own.join("gateway.toml"), config_text(&lines)).unwrap();
    let (code, errors) = run_to_exit(own);
    assert_eq!(code, Some(1), "{errors}");
    assert!(
        errors.contains("isolation: cannot listen on 192.0.2.7:9091"),
        "{errors}"
    );
}

#[test]
fn root_cannot_confine_an_engine_and_is_told_what_to_do() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let own = directory.path();
    fs::write(own.join("gateway.toml"), config_text(CONFINED)).unwrap();
    for command in ["run", "check"] {
        let (code, errors) = run_command(program(own, &[command]));
        assert_eq!(code, Some(1), "{errors}");
        let told = errors.contains("it runs as root") && errors.contains("process-unconfined");
        assert!(told, "{errors}");
    }
    assert!(!own.join("data/engine").exists());
}
