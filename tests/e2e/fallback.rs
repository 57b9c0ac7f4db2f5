//! Flows that crash the process when they start: after three starts the previous ones run, and the
//! log, the audit log, `/readyz` and the metrics report it.

use crate::harness::{KillOnDrop, Process, flow_set, page, program, public, until};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value as Json, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use tempfile::tempdir;

/// A page, and a flow that kills the process as long as there is a file `armed` in its directory:
/// at once when it starts, or when the page says so.
fn deadly(text: &str) -> Json {
    let command = "[ -e armed ] && kill -9 $PPID";
    flow_set(&[
        page("a", "/a", text),
        vec![
            json!({ "id": "k", "type": "tab", "label": "k" }),
            json!({ "id": "ki", "type": "inject", "z": "k", "x": 1, "y": 1, "once": true, "onceDelay": 0.1,
                    "props": [], "repeat": "", "crontab": "", "wires": [["ke"]] }),
            json!({ "id": "ke", "type": "exec", "z": "k", "x": 2, "y": 1, "command": command, "addpay": "",
                    "append": "", "useSpawn": "false", "timer": "", "wires": [[], [], []] }),
        ],
    ])
}

fn harmless(text: &str) -> Json {
    flow_set(&[page("a", "/a", text)])
}

fn start(directory: &Path) -> Process {
    Process::start(&public(&["/a"]), directory)
}

fn arm(directory: &Path, armed: bool) {
    let file = directory.join("armed");
    if armed {
        fs::write(file, "").unwrap();
    } else {
        fs::remove_file(file).unwrap();
    }
}

/// Starts it as often; it crashes each time, perhaps before it listens.
fn crash(directory: &Path, times: usize) {
    for _ in 0..times {
        let mut command = program(directory, &["run"]);
        let child = command.stderr(Stdio::null()).spawn().unwrap();
        let status = KillOnDrop(child).ended();
        assert_eq!(status.code(), None, "it was not killed");
    }
}

/// The one value that a query of the database has.
fn ask(directory: &Path, sql: &str) -> String {
    let file = directory.join("data/flowgate.db");
    let database = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    database.query_row(sql, [], |row| row.get(0)).unwrap()
}

async fn ready(process: &Process) -> Json {
    let answer = process.operations("/readyz").await;
    assert_eq!(answer.status, 200);
    answer.json()
}

async fn state(process: &Process, token: &str) -> String {
    let answer = process.get("/flows/state").token(token).send().await;
    answer.json()["state"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn flows_that_crash_three_starts_are_set_aside_and_the_previous_ones_run() {
    let place = tempdir().unwrap();
    let process = start(place.path());
    let token = process.sign_in("admin").await;
    let good = process.deploy(&token, &harmless("good")).await;
    let bad = process.deploy(&token, &deadly("bad")).await;
    arm(place.path(), true);
    process.signal("KILL");
    process.end();

    crash(place.path(), 3);
    let process = start(place.path());
    assert_eq!(process.get("/a").send().await.text(), "good");
    let active = process.flows(&token).await;
    assert_eq!(active["flows"], harmless("good"));
    let rev = active["rev"].as_str().unwrap().to_owned();
    assert!(rev != good && rev != bad, "a revision of its own");

    let readiness = ready(&process).await;
    assert_eq!(readiness["status"], "degraded");
    assert_eq!(readiness["set_aside"], *bad);
    let state = process.get("/flows/state").token(&token).send().await;
    assert_eq!(state.json()["set_aside"], *bad);
    assert_eq!(process.metric("flowgate_fallbacks_total").await, Some(1.0));
    assert_eq!(process.metric("flowgate_fallen_back").await, Some(1.0));
    let mut line = Json::Null;
    until("the audit log tells of it", async || {
        let audit = fs::read_to_string(place.path().join("data/audit.log")).unwrap();
        let found = audit.lines().find(|l| l.contains("flows.fallback"));
        line = found.map_or(Json::Null, |l| serde_json::from_str(l).unwrap());
        !line.is_null()
    })
    .await;
    assert_eq!(
        (&line["set_aside"], &line["rev"]),
        (&json!(bad), &json!(rev))
    );
    let copy = place
        .path()
        .join(format!("data/flows.set-aside-{bad}.json"));
    let copy: Json = serde_json::from_str(&fs::read_to_string(copy).unwrap()).unwrap();
    assert_eq!(copy, deadly("bad"));
    let mut history = program(place.path(), &["history", &bad]);
    let kept = history.stdout(Stdio::piped()).output().unwrap().stdout;
    let kept: Json = serde_json::from_slice(&kept).unwrap();
    assert_eq!(kept, deadly("bad"), "and in the history");

    process.signal("KILL");
    process.end();
    let process = start(place.path());
    assert_eq!(ready(&process).await["set_aside"], *bad, "still");
    assert_eq!(process.metric("flowgate_fallbacks_total").await, Some(0.0));
    process.deploy(&token, &harmless("mended")).await;
    assert_eq!(ready(&process).await, json!({ "status": "ready" }));
    assert_eq!(process.metric("flowgate_fallen_back").await, Some(0.0));
}

#[tokio::test]
async fn a_fallback_is_logged_as_an_error() {
    let place = tempdir().unwrap();
    let process = start(place.path());
    let token = process.sign_in("admin").await;
    process.deploy(&token, &harmless("good")).await;
    let bad = process.deploy(&token, &deadly("bad")).await;
    arm(place.path(), true);
    process.signal("KILL");
    process.end();
    crash(place.path(), 3);
    let mut command = program(place.path(), &["run"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut output = output.map_while(Result::ok);
    let line = output.find(|line| line.contains("FALLEN BACK")).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        line.contains("ERROR") && line.contains(&format!("flows.set-aside-{bad}.json")),
        "{line}"
    );
}

/// Waits until so many starts were counted.
async fn counted(directory: &Path, starts: u32) {
    let sql = "SELECT value FROM fact WHERE name = 'starts'";
    let begin = format!("{starts} ");
    until("the start is counted", async || {
        ask(directory, sql).starts_with(&begin)
    })
    .await;
}

#[tokio::test]
async fn flows_that_hang_in_three_starts_are_set_aside() {
    let endless = [
        // Never ready: SIGTERM, as of systemd when TimeoutStartSec is over, ends it at once.
        json!({ "initialize": "while (true) {}", "func": "return msg" }),
        // Ready, but the flows do not close any more.
        json!({ "func": "while (true) {}" }),
    ];
    let lines =
        "[server]\ndrain = \"1s\"\n[engine]\nscript_timeout = \"1h\"\nclose_timeout = \"10ms\"\n";
    let lines = format!("{}{lines}", public(&["/a"]));
    for mut function in endless {
        let place = tempdir().unwrap();
        let process = Process::start(&lines, place.path());
        let token = process.sign_in("admin").await;
        process.deploy(&token, &harmless("good")).await;
        let mut bad = deadly("bad");
        (function["id"], function["z"], function["type"]) =
            ("ke".into(), "k".into(), "function".into());
        (function["outputs"], function["wires"]) = (1.into(), json!([[]]));
        (function["x"], function["y"]) = (1.into(), 1.into());
        *bad.as_array_mut().unwrap().last_mut().unwrap() = function;
        let request = process.deployment(&token, &bad, None);
        let deployment = tokio::spawn(request.try_send());
        let stored = "SELECT CAST(count(*) AS TEXT) FROM deployments";
        until("it is stored", async || ask(place.path(), stored) == "2").await;
        process.signal("KILL");
        process.end();
        let _ = deployment.await;

        for start in 1..=3 {
            let mut child = program(place.path(), &["run"])
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            counted(place.path(), start).await;
            let mut ended = false;
            until("it has ended", async || {
                // Again and again, because the flow hangs only when the message has come.
                ended = ended || child.try_wait().unwrap().is_some();
                if !ended && !busy(child.id()) {
                    return false;
                }
                let _ = rustix::process::kill_process(
                    rustix::process::Pid::from_child(&child),
                    rustix::process::Signal::TERM,
                );
                child.wait().is_ok()
            })
            .await;
        }
        let process = Process::start(&lines, place.path());
        assert_eq!(process.get("/a").send().await.text(), "good");
    }
}

/// Returns whether the engine of a process takes a whole core: it has had a second of processor
/// time.
fn busy(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    // proc(5): utime is field 14, in hundredths of a second; the first after the name is field 3.
    let ticks: u64 = fields.split(' ').nth(11).unwrap().parse().unwrap();
    ticks > 100
}

#[tokio::test]
async fn starts_that_end_well_do_not_count_and_neither_do_those_of_flows_that_have_settled() {
    let place = tempdir().unwrap();
    let process = start(place.path());
    let token = process.sign_in("admin").await;
    process.deploy(&token, &harmless("before")).await;
    let rev = process.deploy(&token, &harmless("now")).await;
    process.signal("KILL");
    process.end();
    for _ in 0..4 {
        let process = start(place.path());
        process.signal("TERM");
        assert_eq!(process.end().code(), Some(0));
    }
    for _ in 0..2 {
        let process = start(place.path());
        process.signal("KILL");
        process.end();
    }
    let settled = format!("{}[engine]\nsettle = \"50ms\"\n", public(&["/a"]));
    for _ in 0..4 {
        let process = Process::start(&settled, place.path());
        let starts = "SELECT value FROM fact WHERE name = 'starts'";
        until("it has settled", async || {
            ask(place.path(), starts).starts_with("0 ")
        })
        .await;
        process.signal("KILL");
        process.end();
    }
    assert_eq!(start(place.path()).flows(&token).await["rev"], *rev);
}

#[tokio::test]
async fn without_a_previous_flow_set_the_flows_are_loaded_and_not_started() {
    let place = tempdir().unwrap();
    let process = start(place.path());
    let token = process.sign_in("admin").await;
    process.deploy(&token, &deadly("first")).await;
    process.deploy(&token, &deadly("second")).await;
    process.signal("KILL");
    process.end();
    arm(place.path(), true);
    // Three times the second, three times the first in its stead.
    crash(place.path(), 6);
    for _ in 0..2 {
        let process = start(place.path());
        assert_eq!(state(&process, &token).await, "safe");
        assert_eq!(process.get("/a").send().await.status, 404);
        let readiness = ready(&process).await;
        assert_eq!(readiness["status"], "degraded");
        assert_eq!(process.flows(&token).await["flows"], deadly("first"));
        process.signal("TERM");
        process.end();
    }
    let process = start(place.path());
    process.deploy(&token, &harmless("mended")).await;
    assert_eq!(state(&process, &token).await, "start");
    assert_eq!(process.get("/a").send().await.text(), "mended");
}

#[tokio::test]
async fn run_safe_loads_the_flows_and_the_next_deployment_of_any_type_starts_them() {
    for kind in ["full", "nodes", "flows", "reload", ""] {
        let place = tempdir().unwrap();
        let process = start(place.path());
        let token = process.sign_in("admin").await;
        let rev = process.deploy(&token, &harmless("page")).await;
        process.signal("TERM");
        process.end();

        let command = program(place.path(), &["run", "--safe"]);
        let process = Process::launch(command, place.path()).unwrap();
        assert_eq!(state(&process, &token).await, "safe");
        assert_eq!(process.get("/a").send().await.status, 404);
        assert_eq!(process.flows(&token).await["rev"], *rev);
        if kind.is_empty() {
            let request = process.post("/flows/state").token(&token);
            let answer = request.json(&json!({ "state": "start" })).send().await;
            assert_eq!(answer.status, 200);
        } else {
            process.deploy_as(kind, &token, &harmless("page")).await;
        }
        assert_eq!(state(&process, &token).await, "start", "{kind}");
        assert_eq!(process.get("/a").send().await.text(), "page", "{kind}");
    }
}

/// The step of a start at which the flow files are parsed: the one after the readings are counted.
fn dies_while_reading(directory: &Path) -> u32 {
    let sql = "SELECT value FROM fact WHERE name = 'readings'";
    for step in 1.. {
        let mut command = program(directory, &["run"]);
        command.env("FLOWGATE_KILL_AT_STEP", step.to_string());
        assert!(
            Process::launch(command, directory).is_err(),
            "it never reads them"
        );
        let file = directory.join("data/flowgate.db");
        let database = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let counted = database.query_row(sql, [], |row| row.get::<_, String>(0));
        if counted.is_ok_and(|counted| counted.starts_with("1 ")) {
            return step;
        }
    }
    unreachable!()
}

fn die_again(directory: &Path, step: u32) {
    let mut command = program(directory, &["run"]);
    command.env("FLOWGATE_KILL_AT_STEP", step.to_string());
    assert!(Process::launch(command, directory).is_err());
}

#[tokio::test]
async fn flows_that_end_the_process_while_they_are_read_are_set_aside_too() {
    let place = tempdir().unwrap();
    let process = start(place.path());
    let token = process.sign_in("admin").await;
    process.deploy(&token, &harmless("good")).await;
    let bad = process.deploy(&token, &harmless("bad")).await;
    process.signal("KILL");
    process.end();
    let step = dies_while_reading(place.path());
    for _ in 0..2 {
        die_again(place.path(), step);
    }
    let process = start(place.path());
    assert_eq!(process.get("/a").send().await.text(), "good");
    assert_eq!(ready(&process).await["set_aside"], *bad);
    // What is read well is not counted any more.
    process.deploy(&token, &harmless("mended")).await;
    process.signal("TERM");
    process.end();
    let process = start(place.path());
    assert_eq!(process.get("/a").send().await.text(), "mended");
}

#[tokio::test]
async fn an_edit_that_ends_the_process_while_it_is_read_stays_and_nothing_runs() {
    let place = tempdir().unwrap();
    let process = start(place.path());
    let token = process.sign_in("admin").await;
    process.deploy(&token, &harmless("good")).await;
    process.signal("TERM");
    process.end();
    let file = place.path().join("data/flows.json");
    let edit = harmless("edited").to_string();
    fs::write(&file, &edit).unwrap();
    let step = dies_while_reading(place.path());
    for _ in 0..2 {
        die_again(place.path(), step);
    }
    let process = start(place.path());
    assert_eq!(process.get("/a").send().await.status, 404);
    assert_eq!(fs::read_to_string(&file).unwrap(), edit, "it is as it was");
    // Put right, it is taken up.
    fs::write(&file, harmless("right").to_string()).unwrap();
    process.deploy_as("reload", &token, &json!([])).await;
    assert_eq!(process.get("/a").send().await.text(), "right");
}
