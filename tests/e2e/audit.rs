//! The audit log: its records, detection of changes to it, and operation while it cannot be
//! written.

use crate::client::PASSWORD;
use crate::harness::{Gateway, Process, config_text, flow_set, page, program, until};
use crate::mock_upstream::{Action, MockUpstream, ok};
use serde_json::{Value as Json, json};
use std::fs;
use std::path::Path;
use std::process::Output;

fn events(lines: &[Json]) -> Vec<&str> {
    lines
        .iter()
        .map(|line| line["event"].as_str().unwrap())
        .collect()
}

fn find<'l>(lines: &'l [Json], event: &str) -> &'l Json {
    let found = lines.iter().find(|line| line["event"] == event);
    found.unwrap_or_else(|| panic!("no {event} in {:?}", events(lines)))
}

/// Runs `flowgate audit verify` in a directory.
fn verify(directory: &Path, files: &[&str]) -> (i32, String) {
    let arguments = [&["audit", "verify"], files].concat();
    let mut command = program(directory, &arguments);
    let Output {
        status,
        stdout,
        stderr,
    } = command
        .stdout(std::process::Stdio::piped())
        .output()
        .unwrap();
    let log = [stdout, stderr].concat();
    (status.code().unwrap(), String::from_utf8(log).unwrap())
}

fn read(directory: &Path) -> Vec<Json> {
    let text = fs::read_to_string(directory.join("data/audit.log")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test]
async fn the_log_records_every_action_with_its_user_in_order() {
    let gateway = Gateway::with("[auth.throttle]\nper_user_and_address = 2");
    let token = gateway.sign_in("admin").await;
    let reader = gateway.sign_in("reader").await;
    for _ in 0..3 {
        gateway
            .sign_in_request("deployer", "wrong", "")
            .send()
            .await;
    }
    gateway
        .sign_in_request("reader", PASSWORD, "flows.write")
        .send()
        .await;
    gateway
        .post("/auth/token")
        .form(&[("client_id", "x")])
        .send()
        .await;
    let first = flow_set(&[page("a", "/a", "one"), page("b", "/b", "two")]);
    let rev = gateway.deploy(&token, &first).await;
    let second = flow_set(&[page("a", "/a", "other"), page("c", "/c", "three")]);
    gateway.deploy_as("nodes", &token, &second).await;
    for (token, flows, rev) in [
        (&token, json!([]), Some(rev.as_str())),
        (&token, json!([{}]), None),
        (&reader, json!([]), None),
    ] {
        gateway.deployment(token, &flows, rev).send().await;
    }
    for state in ["stop", "start"] {
        let body = json!({ "state": state });
        gateway
            .post("/flows/state")
            .token(&token)
            .json(&body)
            .send()
            .await;
    }
    assert!(gateway.reload("[auth]\nlifetime = \"1h\"").await);
    let revoke = gateway.post("/auth/revoke").token(&token);
    assert_eq!(revoke.form(&[("token", &reader)]).send().await.status, 200);

    let directory = gateway.stop().await;
    let lines = read(directory.path());
    assert_eq!(
        events(&lines),
        [
            "process.start",
            "auth.login",
            "auth.login",
            "auth.login.fail.credentials",
            "auth.login.fail.credentials",
            "auth.lockout",
            "auth.login.fail.throttled",
            "auth.login.fail.scope",
            "auth.login.fail.invalid",
            "flows.deploy",
            "flows.deploy",
            "flows.deploy.fail",
            "flows.deploy.fail",
            "permission.denied",
            "flows.state",
            "flows.state",
            "config.change",
            "reload",
            "auth.revoke",
            "process.end",
        ]
    );
    for (number, line) in lines.iter().enumerate() {
        assert_eq!(line["seq"], number + 1);
    }
    assert_eq!(lines[5]["user"], "deployer");
    assert_eq!(lines[9]["rev"], rev.as_str());
    let counts = ["nodes", "added", "changed", "removed"];
    assert_eq!(
        counts.map(|count| lines[9][count].as_u64()),
        [8, 8, 0, 0].map(Some)
    );
    assert_eq!(
        counts.map(|count| lines[10][count].as_u64()),
        [8, 4, 1, 4].map(Some)
    );
    assert_eq!(lines[10]["before"], rev.as_str());
    assert_eq!(
        (&lines[10]["type"], &lines[10]["user"]),
        (&json!("nodes"), &json!("admin"))
    );
    assert_eq!(lines[10]["address"], "127.0.0.1");
    assert_eq!(
        (&lines[11]["reason"], &lines[12]["reason"]),
        (&json!("stale"), &json!("malformed"))
    );
    assert_eq!(lines[13]["needs"], "flows.write");
    assert_eq!(lines[18]["of"], "reader");
    let hash = |at: usize| lines[at]["sha256"].as_str().unwrap().len();
    assert_eq!((hash(0), hash(16)), (64, 64));
    assert_eq!(
        verify(directory.path(), &[]),
        (0, "20 lines, chain intact\n".into())
    );
}

#[tokio::test]
async fn verify_finds_a_line_that_was_changed_after_the_program_ended() {
    let gateway = Gateway::start();
    for _ in 0..3 {
        gateway.sign_in("admin").await;
    }
    let directory = gateway.stop().await;
    let file = directory.path().join("data/audit.log");
    let whole = fs::read_to_string(&file).unwrap();
    fs::write(
        &file,
        whole.replacen("\"user\":\"admin\"", "\"user\":\"bobby\"", 1),
    )
    .unwrap();
    let (code, output) = verify(directory.path(), &[]);
    assert_eq!(
        (code, output.trim_end()),
        (1, "flowgate: data/audit.log:2: this line was changed")
    );
    let (code, output) = verify(directory.path(), &["data/audit.log"]);
    assert_eq!(code, 1, "{output}");

    let without: String = whole
        .lines()
        .filter(|l| !l.contains("\"seq\":3,"))
        .flat_map(|l| [l, "\n"])
        .collect();
    fs::write(&file, without).unwrap();
    let (code, output) = verify(directory.path(), &[]);
    assert!(
        code == 1
            && output.contains("data/audit.log:3: before this line are missing: numbers 3 to 3"),
        "{output}"
    );
}

#[tokio::test]
async fn a_log_that_was_rewritten_whole_while_the_gateway_was_stopped_is_found_with_the_public_key()
{
    let directory = tempfile::tempdir().unwrap();
    let lines = "[audit]\nsigning_key = \"keys/audit.key\"";
    fs::write(directory.path().join("gateway.toml"), config_text(lines)).unwrap();
    let key = || {
        let output = program(directory.path(), &["audit", "key"]);
        let output = { output }
            .stdout(std::process::Stdio::piped())
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let public = key();
    assert_eq!(
        (public.len(), key()),
        (51, public.clone()),
        "it is made once"
    );
    let run = async || {
        let process = Process::start(lines, directory.path());
        process.sign_in("admin").await;
        process.signal("TERM");
        process.end();
    };
    run().await;
    run().await;
    let (code, output) = verify(directory.path(), &["--key", &public]);
    assert_eq!(code, 0, "{output}");
    assert!(
        output.starts_with("8 lines, chain intact\n2 checkpoints, the last at line 8 of "),
        "{output}"
    );

    // As if the second run had never been: an attacker invents another one, and the gateway
    // continues.
    let log = directory.path().join("data/audit.log");
    let whole = fs::read_to_string(&log).unwrap();
    let kept: Vec<&str> = whole.lines().take(5).collect();
    let data = directory.path().join("data");
    let cut = || {
        fs::write(&log, kept.join("\n") + "\n").unwrap();
        fs::remove_file(data.join("audit.head")).unwrap();
    };
    cut();
    run().await;
    for key in [&[] as &[&str], &["--key", &public]] {
        let (code, output) = verify(directory.path(), key);
        assert!(
            code == 1
                && output.contains("audit.log:6: before this line are missing: numbers 6 to 8"),
            "the database shows it: {output}"
        );
    }

    // The same without the database.
    cut();
    for file in ["flowgate.db", "flowgate.db-wal", "flowgate.db-shm"] {
        let _ = fs::remove_file(data.join(file));
    }
    run().await;
    let (code, output) = verify(directory.path(), &[]);
    assert_eq!(code, 0, "the chain alone does not show it: {output}");
    let (code, output) = verify(directory.path(), &["--key", &public]);
    assert!(
        code == 1 && output.contains("audit.log:5: the numbers 5 to 5 are not signed"),
        "{output}"
    );

    fs::write(directory.path().join("received"), &whole).unwrap();
    let seen = ["--key", &public, "--seen", "received"];
    let (code, output) = verify(directory.path(), &seen);
    assert!(
        code == 1
            && output.contains(
                "audit.log:6: this line is not as it was received elsewhere, see received:6"
            ),
        "{output}"
    );
}

#[tokio::test]
async fn a_log_that_was_deleted_does_not_begin_again_unseen() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let lines = "[[audit.sink]]\ntype = \"webhook\"\nurl = \"http://127.0.0.1:9/\"\nsecret = \"a secret of the webhook\"\n";
    let run = async |is_damaged: bool| {
        let process = Process::start(lines, directory.path());
        process.sign_in("admin").await;
        let ready = process.operations("/readyz").await.json();
        let problem = ready["audit"].as_str().unwrap_or_default().to_owned();
        assert_eq!(problem.starts_with("damaged: "), is_damaged, "{ready}");
        process.signal("TERM");
        process.end();
        fs::read_to_string(data.join("audit.log")).unwrap()
    };
    let first = run(false).await;
    let last = first.lines().count();
    let id = fs::read_to_string(data.join("audit.id")).unwrap();
    assert!(first.lines().next().unwrap().contains(id.trim()), "{first}");

    // All that belongs to the log; verified before and after the gateway has gone on.
    for entry in fs::read_dir(&data).unwrap() {
        let path = entry.unwrap().path();
        if path
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("audit.")
        {
            fs::remove_file(path).unwrap();
        }
    }
    let (code, output) = verify(directory.path(), &[]);
    assert!(
        code == 1 && output.contains(&format!("are missing: numbers 1 to {last}")),
        "{output}"
    );
    let second = run(true).await;
    let records: Vec<Json> = second
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let reasons = ["audit.head is missing or damaged", "lines are missing"];
    for (record, reason) in records.iter().zip(reasons) {
        assert_eq!(
            (&record["event"], &record["reason"]),
            (&json!("audit.repaired"), &json!(reason))
        );
    }
    assert_eq!(records[0]["seq"], last + 1, "no number comes twice");
    let (code, output) = verify(directory.path(), &[]);
    assert!(
        code == 1 && output.contains(&format!("are missing: numbers 1 to {last}")),
        "{output}"
    );
    assert_eq!(fs::read_to_string(data.join("audit.id")).unwrap(), id);

    // The next start finds the log as the gateway has left it.
    run(false).await;

    // Without the database it is another log, for which no position of a sink counts.
    for entry in fs::read_dir(&data).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name.starts_with("flowgate.db")
            || ["audit.log", "audit.head", "audit.id"].contains(&name.as_str())
        {
            fs::remove_file(path).unwrap();
        }
    }
    run(false).await;
    assert_ne!(fs::read_to_string(data.join("audit.id")).unwrap(), id);
}

#[tokio::test]
async fn a_chain_survives_kill_9_and_a_torn_last_line() {
    let directory = tempfile::tempdir().unwrap();
    let process = Process::start("", directory.path());
    let token = process.sign_in("admin").await;
    process
        .deploy(&token, &flow_set(&[page("a", "/a", "x")]))
        .await;
    process.signal("KILL");
    process.end();
    assert_eq!(
        verify(directory.path(), &[]),
        (0, "3 lines, chain intact\n".into())
    );

    let file = directory.path().join("data/audit.log");
    let torn = fs::read_to_string(&file).unwrap() + "{\"seq\":4,\"time\":\"20";
    fs::write(&file, torn).unwrap();
    let (code, output) = verify(directory.path(), &[]);
    assert!(
        code == 1 && output.contains("audit.log:4: this line is truncated"),
        "{output}"
    );

    let process = Process::start("", directory.path());
    process.signal("TERM");
    process.end();
    let lines = read(directory.path());
    let repaired = find(&lines, "audit.repaired");
    assert_eq!(repaired["bytes"], 19);
    let (code, output) = verify(directory.path(), &[]);
    assert_eq!(code, 0, "{output}");
    assert!(
        output.starts_with("6 lines, chain intact\n") && output.contains("audit.log:4"),
        "{output}"
    );
}

#[tokio::test]
async fn deployments_to_an_upstream_are_written_before_and_after_with_what_they_change() {
    let behind = MockUpstream::start(|request| {
        let rev = if request.starts_with("POST") {
            "2"
        } else {
            "1"
        };
        let flows = json!([{ "id": "a", "type": "tab" }, { "id": "b", "type": "x" }]);
        let body = json!({ "flows": flows, "rev": rev });
        Action::Respond(ok("application/json", &body.to_string()))
    })
    .await;
    let gateway = Gateway::with(&behind.config());
    let token = gateway.sign_in("deployer").await;
    let flows = json!([{ "id": "a", "type": "tab" }, { "id": "c", "type": "x" }]);
    for rev in ["1", "0"] {
        gateway.deployment(&token, &flows, Some(rev)).send().await;
    }
    let body = json!({ "state": "stop" });
    gateway
        .post("/flows/state")
        .token(&token)
        .json(&body)
        .send()
        .await;
    let directory = gateway.stop().await;
    let lines = read(directory.path());
    let expected = [
        "process.start",
        "auth.login",
        "flows.deploy.begin",
        "flows.deploy",
        "flows.outside_edit",
        "flows.deploy.fail",
        "flows.state.begin",
        "flows.state",
        "process.end",
    ];
    assert_eq!(events(&lines), expected);
    for line in &lines[2..4] {
        let counts = ["nodes", "added", "changed", "removed"];
        assert_eq!(
            counts.map(|count| line[count].as_u64()),
            [2, 1, 0, 1].map(Some)
        );
        assert_eq!(
            (&line["before"], &line["user"]),
            (&json!("1"), &json!("deployer"))
        );
        assert!(line["upstream"].is_string());
    }
    assert_eq!(lines[3]["rev"], "2");
    assert_eq!(lines[5]["reason"], "stale");
    assert_eq!(lines[7]["state"], "stop");
}

/// A gateway whose audit log goes to a pipe whose reader is gone.
async fn with_a_broken_pipe(lines: &str, directory: &Path) -> (Process, String) {
    let lines = format!("[audit]\nto = \"stdout\"\n{lines}");
    let (process, mut stdout) = Process::start_with_stdout(&lines, directory);
    let token = process.sign_in("admin").await;
    let mut output = String::new();
    while !output.contains("auth.login") {
        std::io::BufRead::read_line(&mut stdout, &mut output).unwrap();
    }
    fs::write(directory.join("kept"), &output).unwrap();
    process.break_stdout(stdout).await;
    (process, token)
}

#[tokio::test]
async fn while_the_log_cannot_be_written_deployments_and_sign_ins_are_refused_and_reads_are_not() {
    let directory = tempfile::tempdir().unwrap();
    let (process, token) = with_a_broken_pipe("", directory.path()).await;
    assert_eq!(
        verify(directory.path(), &["kept"]),
        (0, "2 lines, chain intact\n".into())
    );

    let before = process.get("/flows").token(&token).send().await;
    let deploy = process.deployment(&token, &json!([]), None).send().await;
    assert_eq!(
        (deploy.status, deploy.code()),
        (503, "audit_unavailable".into())
    );
    let body = json!({ "state": "stop" });
    let state = process
        .post("/flows/state")
        .token(&token)
        .json(&body)
        .send()
        .await;
    assert_eq!(
        (state.status, state.code()),
        (503, "audit_unavailable".into())
    );
    let sign_in = process.sign_in_request("admin", PASSWORD, "").send().await;
    assert_eq!(sign_in.status, 503);
    assert_eq!(sign_in.json()["error"], "temporarily_unavailable");
    assert_eq!(process.metric("flowgate_sessions_active").await, Some(1.0));
    let after = process.get("/flows").token(&token).send().await;
    assert_eq!((after.status, after.text()), (200, before.text()));
    until("failures are counted", async || {
        process.metric("flowgate_audit_failures_total").await >= Some(3.0)
    })
    .await;
    process.wait_for_log("the audit log cannot be written");
}

#[tokio::test]
async fn with_on_failure_continue_a_failing_log_refuses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (process, token) = with_a_broken_pipe("on_failure = \"continue\"", directory.path()).await;
    assert_eq!(
        process
            .deployment(&token, &json!([]), None)
            .send()
            .await
            .status,
        200
    );
    process.sign_in("admin").await;
    until("both are counted", async || {
        process.metric("flowgate_audit_failures_total").await >= Some(2.0)
    })
    .await;
}

#[test]
fn a_gateway_that_cannot_write_its_audit_log_does_not_start() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(
        directory.path().join("gateway.toml"),
        config_text("[audit]\nto = \"stdout\""),
    )
    .unwrap();
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = program(directory.path(), &["run"])
        .stdout(full)
        .output()
        .unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(log.contains("see [audit] in gateway.toml"), "{log}");
}
