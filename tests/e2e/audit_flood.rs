//! Requests cannot empty the audit log or fill it, and rotation reports what it has removed.

use crate::client::{Client, PASSWORD};
use crate::harness::{Gateway, Process, TEST_TIMEOUT, flow_set, hash, page, program, until};
use serde_json::{Value as Json, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

/// The files of the log, the oldest first.
fn files(directory: &Path) -> Vec<PathBuf> {
    let data = directory.join("data");
    let mut files: Vec<PathBuf> = fs::read_dir(&data)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_str().unwrap().contains("audit.log."))
        .collect();
    files.sort();
    files.push(data.join("audit.log"));
    files
}

/// All records that are still there.
fn records(directory: &Path) -> Vec<Json> {
    let texts = files(directory)
        .into_iter()
        .map(|file| fs::read_to_string(file).unwrap());
    let text: String = texts.collect();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// How many records an event has, and how many events they stand for.
fn count(records: &[Json], event: &str) -> (usize, u64) {
    let found = records.iter().filter(|record| record["event"] == event);
    let times = found
        .clone()
        .map(|record| record["times"].as_u64().unwrap_or(1));
    (found.count(), times.sum())
}

/// Exit code and output of `flowgate audit verify`.
fn verify(directory: &Path) -> (Option<i32>, String) {
    let mut command = program(directory, &["audit", "verify"]);
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = output.output().unwrap();
    let log = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(log).unwrap())
}

/// Sends a request `times` times over one connection of HTTP/2.
async fn flood(client: &Client, times: usize, request: impl Fn(usize) -> crate::client::Request) {
    let mut connection = client.connect(true).await.unwrap();
    for n in 0..times {
        connection.send(request(n)).await.unwrap();
    }
}

#[tokio::test]
async fn refused_requests_do_not_push_a_deployment_out_of_the_log() {
    let gateway = Gateway::with("[audit]\nrotate_size = \"4KiB\"\nkeep = 2");
    let admin = gateway.sign_in("admin").await;
    let reader = gateway.sign_in("reader").await;
    let rev = gateway
        .deploy(&admin, &flow_set(&[page("a", "/a", "x")]))
        .await;
    flood(&gateway, 300, |n| {
        let unknown = format!("unknown-token-{n}");
        gateway
            .post("/auth/revoke")
            .token(&reader)
            .form(&[("token", &unknown)])
    })
    .await;
    flood(&gateway, 300, |n| {
        gateway
            .request("DELETE", &format!("/flow/{n}"))
            .token(&reader)
    })
    .await;
    flood(&gateway, 100, |n| {
        gateway.deployment(&admin, &json!([]), Some(&format!("stale-{n}")))
    })
    .await;
    flood(&gateway, 100, |n| {
        gateway.sign_in_request(&format!("stranger{n}"), PASSWORD, "")
    })
    .await;
    let directory = gateway.stop().await;
    let (code, output) = verify(directory.path());
    assert_eq!(code, Some(0), "{output}");
    let records = records(directory.path());
    let deployed = |record: &&Json| record["event"] == "flows.deploy" && record["rev"] == *rev;
    assert_eq!(records.iter().filter(deployed).count(), 1);
    for (event, events) in [
        ("auth.revoke.fail", 300),
        ("permission.denied", 300),
        ("flows.deploy.fail", 100),
    ] {
        let (lines, times) = count(&records, event);
        assert_eq!(times, events, "{event}");
        assert!(lines <= 10, "{event} has {lines} records");
    }
    let (_, wrong) = count(&records, "auth.login.fail.credentials");
    let (_, throttled) = count(&records, "auth.login.fail.throttled");
    assert_eq!(wrong + throttled, 100);
    assert!(records.len() < 60, "{} records", records.len());
}

#[tokio::test]
async fn verify_reports_from_when_to_when_rotation_removed_records() {
    let limits = "[audit]\nrotate_size = \"1KiB\"\nkeep = 1\nkeep_for = \"1s\"";
    let gateway = Gateway::with(limits);
    let first = gateway.audit()[0].clone();
    let token = gateway.sign_in("admin").await;
    let since = Instant::now();
    while files(gateway.directory.path()).len() < 3 || gateway.audit()[0]["removed_to"].is_null() {
        assert!(since.elapsed() < TEST_TIMEOUT, "nothing is removed");
        gateway.deploy(&token, &json!([])).await;
    }
    let directory = gateway.stop().await;
    let left = records(directory.path());
    let removed = left[0]["seq"].as_u64().unwrap() - 1;
    let (code, output) = verify(directory.path());
    assert_eq!(code, Some(0), "{output}");
    let from = first["time"].as_str().unwrap();
    let expected = format!(
        "rotation removed {removed} lines before them: numbers 1 to {removed}, from {from} to "
    );
    assert!(output.contains(&expected), "{output}");

    // A file that rotation did not remove is missing.
    fs::remove_file(&files(directory.path())[0]).unwrap();
    let (code, output) = verify(directory.path());
    assert_eq!(code, Some(1));
    assert!(output.contains("before this line are missing"), "{output}");
}

#[tokio::test]
async fn a_full_log_refuses_deployments_and_sign_ins_and_keeps_every_record() {
    let directory = tempfile::tempdir().unwrap();
    let limits = "[audit]\nrotate_size = \"4KiB\"\nkeep = 1\nmax_size = \"16KiB\"";
    let process = Process::start(limits, directory.path());
    let token = process.sign_in("admin").await;
    let reader = process.sign_in("reader").await;
    let first = records(directory.path());
    let since = Instant::now();
    loop {
        assert!(since.elapsed() < TEST_TIMEOUT, "it is never full");
        let answer = process.deployment(&token, &json!([]), None).send().await;
        if answer.status == 503 {
            break;
        }
        assert_eq!(answer.status, 200);
    }
    process.wait_for_log("the audit log is full");
    let sign_in = process.sign_in_request("admin", PASSWORD, "").send().await;
    assert_eq!(sign_in.status, 503);
    let deploy = process.deployment(&token, &json!([]), None).send().await;
    assert_eq!(
        (deploy.status, deploy.code().as_str()),
        (503, "audit_unavailable")
    );
    let save = process
        .post("/settings/user")
        .token(&token)
        .json(&json!({ "a": 1 }));
    let save = save.send().await;
    assert_eq!(
        (save.status, save.code().as_str()),
        (503, "audit_unavailable")
    );
    let kept = process.get("/settings/user").token(&token).send().await;
    assert_eq!((kept.status, kept.text().as_str()), (200, "{}"));
    flood(&process, 100, |n| {
        process
            .request("DELETE", &format!("/flow/{n}"))
            .token(&reader)
    })
    .await;
    let ready = process.operations("/readyz").await;
    assert_eq!(
        (ready.status, &ready.json()["status"]),
        (200, &json!("degraded"))
    );
    let output = ready.json()["audit"].as_str().unwrap().to_owned();
    assert!(output.starts_with("full"), "{output}");
    let bytes = process.metric("flowgate_audit_log_bytes").await.unwrap();
    let most = process
        .metric("flowgate_audit_log_max_bytes")
        .await
        .unwrap();
    assert!(
        most > 16_383.0 && bytes > most * 0.9 && bytes < most * 1.1,
        "{bytes} of {most}"
    );

    // It starts again, reads on, and has lost nothing.
    process.signal("TERM");
    process.end();
    let process = Process::start(limits, directory.path());
    assert!(process.accepts_token(&token).await);
    let deploy = process.deployment(&token, &json!([]), None).send().await;
    assert_eq!(deploy.status, 503);
    process.signal("TERM");
    process.end();
    let all = records(directory.path());
    assert_eq!(all[..first.len()], first[..]);
    assert!(all.iter().any(|record| record["event"] == "audit.full"));
    let (code, output) = verify(directory.path());
    assert_eq!(code, Some(0), "{output}");
    let size: u64 = files(directory.path())
        .iter()
        .map(|file| fs::metadata(file).unwrap().len())
        .sum();
    assert!(size < 20 << 10, "{size}");

    // More room, and everything goes on.
    let process = Process::start("[audit]\nmax_size = \"64MiB\"", directory.path());
    process.deploy(&token, &json!([])).await;
    process.sign_in("admin").await;
    assert_eq!(
        process.operations("/readyz").await.json()["status"],
        "ready"
    );
}

#[tokio::test]
async fn writes_of_one_user_to_distinct_keys_stop_neither_sign_ins_nor_deployments() {
    let user = |name: &str, permissions: &str| {
        let hash = hash(PASSWORD);
        format!(
            "[[auth.user]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\npermissions = {permissions}\n"
        )
    };
    let lines = [
        "[audit]\nrotate_size = \"64KiB\"\nmax_size = \"1MiB\"\n",
        &user("admin", r#"["*"]"#),
        &user("deployer", r#"["flows.read", "flows.write"]"#),
        &user("mallory", r#"["context.write"]"#),
    ]
    .concat();
    let directory = tempfile::tempdir().unwrap();
    let mut process = Process::start(&lines, directory.path());
    let mallory = process.sign_in("mallory").await;
    let key = "k".repeat(200);
    flood(&process, 4000, |n| {
        process
            .request("DELETE", &format!("/context/global/{n}{key}"))
            .token(&mallory)
    })
    .await;
    for _ in 0..2 {
        let deployer = process.sign_in("deployer").await;
        process.deploy(&deployer, &json!([])).await;
        let admin = process.sign_in("admin").await;
        process.deploy(&admin, &json!([])).await;
        let ready = process.operations("/readyz").await.json();
        assert_eq!(ready["status"], "ready", "{ready}");
        process.signal("TERM");
        process.end();
        process = Process::start(&lines, directory.path());
    }
    process.signal("TERM");
    process.end();
    let records = records(directory.path());
    let (written, times) = count(&records, "admin.write");
    assert_eq!(times, 4000);
    assert!(written < 100, "{written}");
    assert_eq!(count(&records, "flows.deploy"), (4, 4));
    assert_eq!(count(&records, "auth.login"), (5, 5));
    let (code, output) = verify(directory.path());
    assert_eq!(code, Some(0), "{output}");
}

#[tokio::test]
async fn an_unknown_user_name_is_not_in_the_log() {
    let secret = "correct-horse-battery";
    let directory = tempfile::tempdir().unwrap();
    let limits =
        "[log]\nlevel = \"trace\"\naccess = true\n[auth.throttle]\nper_user_and_address = 2";
    let process = Process::start(limits, directory.path());
    for name in [secret, secret, secret, "another-battery", "reader"] {
        let answer = process.sign_in_request(name, "wrong", "").send().await;
        assert!(matches!(answer.status, 400 | 429));
    }
    process.sign_in("reader").await;
    process.signal("TERM");
    let log = process.whole_log().join("\n");
    let records = records(directory.path());
    let text = Json::from(records.clone()).to_string();
    assert!(!text.contains("battery"), "{text}");
    assert!(!log.contains("battery"), "{log}");
    let users: Vec<&str> = records
        .iter()
        .filter(|record| record["event"].as_str().unwrap().starts_with("auth."))
        .map(|record| record["user"].as_str().unwrap())
        .collect();
    let [first, second, lockout, third, other, known, signed_in] = users[..] else {
        panic!("{users:?}");
    };
    assert_eq!((known, signed_in), ("reader", "reader"));
    assert!([second, lockout, third].iter().all(|name| *name == first));
    assert_ne!(first, other);
    for name in [first, other] {
        let digits = name.strip_prefix("unknown:").unwrap();
        assert!(digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_hexdigit()));
    }
}

#[tokio::test]
async fn an_anonymous_channel_that_opens_again_and_again_is_counted() {
    let gateway = Gateway::with("[auth]\nanonymous = [\"status.read\"]");
    for _ in 0..60 {
        let mut channel = gateway.comms().await;
        channel.subscribe("#").await;
    }
    until("the channels are closed", async || {
        let closed = "flowgate_comms_closed_total{cause=\"client\"}";
        gateway.metric(closed).await == Some(60.0)
    })
    .await;
    let directory = gateway.stop().await;
    let records = records(directory.path());
    for event in ["comms.open", "comms.close"] {
        let (lines, times) = count(&records, event);
        assert_eq!(times, 60, "{event}");
        assert!(lines <= 31, "{event} has {lines} records");
    }
}

#[tokio::test]
async fn reads_of_credentials_by_anonymous_and_read_only_clients_do_not_fill_the_log() {
    let gateway = Gateway::with("[auth]\nanonymous = [\"read\"]");
    let token = gateway.sign_in("admin").await;
    let broker = |n: u32| json!({ "id": format!("m{n}"), "type": "mqtt-broker", "credentials": { "user": "ann" } });
    let brokers: Vec<Json> = (0..100).map(broker).collect();
    gateway.deploy(&token, &json!(brokers)).await;
    // Nothing is shown, so there is no record.
    flood(&gateway, 1000, |n| {
        gateway.get(&format!("/credentials/x/none{n}"))
    })
    .await;
    flood(&gateway, 1000, |n| {
        gateway.get(&format!("/credentials/mqtt-broker/m{}", n % 100))
    })
    .await;
    let reader = gateway.sign_in("reader").await;
    let one = gateway.get("/credentials/mqtt-broker/m7").token(&reader);
    assert_eq!(
        one.send().await.json(),
        json!({ "user": "ann", "has_password": false })
    );
    let directory = gateway.stop().await;
    let records = records(directory.path());
    let (lines, times) = count(&records, "secret.read");
    assert_eq!((lines, times), (30 + 1 + 1, 1001), "whatever the path");
    let of = |user: &str| -> Vec<&Json> {
        let all = records.iter().filter(|line| line["event"] == "secret.read");
        all.filter(|line| line["user"] == user).collect()
    };
    assert_eq!(of("reader").len(), 1, "each user has a budget");
    let summary = of("").into_iter().find(|line| line["times"] == 970);
    let summary = summary.unwrap();
    assert!(summary["since"].is_string() && summary["until"].is_string());
}

#[tokio::test]
async fn sign_ins_and_sign_outs_of_one_user_do_not_fill_the_log() {
    let gateway = Gateway::start();
    for _ in 0..40 {
        let token = gateway.sign_in("reader").await;
        let revoke = gateway.post("/auth/revoke").token(&token);
        let revoked = revoke.form(&[("token", &token)]).send().await;
        assert_eq!(revoked.status, 200);
    }
    gateway.sign_in("admin").await;
    let directory = gateway.stop().await;
    let records = records(directory.path());
    assert_eq!(count(&records, "auth.login"), (30 + 1 + 1, 41));
    assert_eq!(count(&records, "auth.revoke"), (30 + 1, 40));
}
