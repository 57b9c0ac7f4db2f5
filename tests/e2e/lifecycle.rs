//! The program from its first start to its last signal, as a process of its own.

use crate::harness::{
    Process, config_text, flow_set, page, public, restart_marker, run_to_exit, script, until,
};
use serde_json::json;
use std::fs;
use tempfile::tempdir;

#[tokio::test]
async fn the_first_start_creates_a_certificate_and_an_admin_and_shows_the_password_once() {
    let directory = tempdir().unwrap();
    let lines = "[auth]\nuser = []";
    let process = Process::start(lines, directory.path());
    process.wait_for_log("the user `admin` has been made");
    process.wait_for_log("");
    let password = process.wait_for_log("      ").trim().to_owned();
    let answer = process.sign_in_request("admin", &password, "").send().await;
    assert_eq!(answer.status, 200, "{password:?}");
    process.signal("TERM");
    assert_eq!(process.end().code(), Some(0));
    let certificate = fs::read(directory.path().join("certs/self-signed.crt")).unwrap();

    let process = Process::start(lines, directory.path());
    assert_eq!(
        process
            .sign_in_request("admin", &password, "")
            .send()
            .await
            .status,
        200
    );
    assert_eq!(
        fs::read(directory.path().join("certs/self-signed.crt")).unwrap(),
        certificate
    );
    process.signal("TERM");
    assert!(
        !process
            .rest_of_log()
            .iter()
            .any(|line| line.contains(&password)),
        "shown again"
    );
}

#[tokio::test]
async fn a_signal_drains_connections_and_accepts_no_new_ones() {
    for signal in ["TERM", "INT"] {
        let directory = tempdir().unwrap();
        let process = Process::start(&public(&["/slow", "/called"]), directory.path());
        let token = process.sign_in("admin").await;
        let slow = "global.set('called', 1); setTimeout(() => { msg.payload = 'done'; node.send(msg) }, 700)";
        let called = "msg.payload = String(global.get('called')); return msg";
        let flows = flow_set(&[
            script("a", "get", "/slow", slow),
            script("b", "get", "/called", called),
        ]);
        process.deploy(&token, &flows).await;
        let mut idle = process.connect(false).await.unwrap();
        idle.send(process.get("/auth/login")).await.unwrap();
        let request = tokio::spawn(process.get("/slow").send());
        until("the flow is called", async || {
            process.get("/called").send().await.text() == "1"
        })
        .await;
        process.signal(signal);
        process.wait_for_log("draining");
        until("nothing new is taken", async || {
            process.connect(false).await.is_err()
        })
        .await;
        assert!(
            idle.send(process.get("/auth/login")).await.is_err(),
            "an idle connection is closed"
        );
        let answer = request.await.unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (200, "done"));
        assert_eq!(process.end().code(), Some(0));
    }
}

#[tokio::test]
async fn a_deployment_in_progress_is_finished_and_active_after_the_next_start() {
    let directory = tempdir().unwrap();
    let process = Process::start("", directory.path());
    let token = process.sign_in("admin").await;
    let many: Vec<_> = (0..2000)
        .map(|n| page(&format!("t{n}"), &format!("/p{n}"), "x"))
        .collect();
    let flows = flow_set(&many);
    let deployment = tokio::spawn(process.deployment(&token, &flows, None).send());
    let series = "flowgate_requests_in_flight{route=\"flows\"}";
    until("it has begun", async || {
        process.metric(series).await == Some(1.0)
    })
    .await;
    process.signal("TERM");
    let rev = deployment.await.unwrap().rev();
    assert_eq!(process.end().code(), Some(0));
    let process = Process::start("", directory.path());
    let active = process.flows(&token).await;
    assert_eq!(active["rev"], *rev);
    assert_eq!(active["flows"], flows);
}

#[tokio::test]
async fn a_second_signal_ends_the_process_at_once() {
    let directory = tempdir().unwrap();
    let process = Process::start(&public(&["/silent", "/called"]), directory.path());
    let token = process.sign_in("admin").await;
    let silent = "global.set('called', 1); setTimeout(() => node.send(msg), 1e8)";
    let called = "msg.payload = String(global.get('called')); return msg";
    let flows = flow_set(&[
        script("a", "get", "/silent", silent),
        script("b", "get", "/called", called),
    ]);
    process.deploy(&token, &flows).await;
    let request = tokio::spawn(process.get("/silent").try_send());
    until("the flow is called", async || {
        process.get("/called").send().await.text() == "1"
    })
    .await;
    process.signal("TERM");
    process.wait_for_log("draining");
    until("it is no longer ready", async || {
        process.operations("/readyz").await.status == 503
    })
    .await;
    assert_eq!(process.operations("/healthz").await.status, 200);
    process.signal("INT");
    assert_eq!(process.end().code(), Some(130));
    assert!(request.await.unwrap().is_err());
}

#[tokio::test]
async fn sighup_reloads_users_and_routes_and_keeps_the_old_ones_when_the_file_is_invalid() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("gateway.toml");
    let process = Process::start(&public(&["/old"]), directory.path());
    let (admin, reader) = (
        process.sign_in("admin").await,
        process.sign_in("reader").await,
    );
    process
        .deploy(
            &admin,
            &flow_set(&[restart_marker("a", "/old"), restart_marker("b", "/new")]),
        )
        .await;
    let born = process.get("/old").send().await.text();

    fs::write(&file, "this is no TOML").unwrap();
    process.signal("HUP");
    process.wait_for_log("everything stays as it was");
    assert!(process.accepts_token(&reader).await);
    assert_eq!(process.get("/old").send().await.status, 200);

    let fewer = config_text(&public(&["/new"])).replace("name = \"reader\"", "name = \"ann\"");
    fs::write(&file, fewer).unwrap();
    process.signal("HUP");
    process.wait_for_log("reloaded users, routes, certificates");
    assert!(!process.accepts_token(&reader).await);
    process.sign_in("ann").await;
    assert_eq!(process.get("/old").send().await.status, 401);
    assert_eq!(process.get("/new").send().await.status, 200);
    let still = process.get("/old").token(&admin).send().await.text();
    assert_eq!(still, born, "no flow was restarted");
}

#[tokio::test]
async fn a_port_in_use_is_an_error_with_a_remedy() {
    let (directory, other) = (tempdir().unwrap(), tempdir().unwrap());
    let process = Process::start("", directory.path());
    for (key, lines) in [
        (
            "[server] listen",
            format!("[server]\nlisten = [\"{}\"]", process.address),
        ),
        (
            "operations",
            format!("operations = \"{}\"", process.operations),
        ),
    ] {
        fs::write(other.path().join("gateway.toml"), config_text(&lines)).unwrap();
        let (code, output) = run_to_exit(other.path());
        assert_eq!(code, Some(1), "{output}");
        assert!(
            output.contains(key) && output.contains("end the program that uses the port"),
            "{output}"
        );
    }
    process.sign_in("admin").await;
}

#[tokio::test]
async fn a_second_process_on_one_data_directory_is_refused() {
    let directory = tempdir().unwrap();
    let process = Process::start("", directory.path());
    let (code, output) = run_to_exit(directory.path());
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("storage.directory"), "{output}");
    let number = format!("(process {})", process.id());
    assert!(output.contains(&number), "{number}: {output}");
    let token = process.sign_in("admin").await;
    process.deploy(&token, &json!([])).await;
    process.signal("KILL");
    process.end();
    Process::start("", directory.path());
}

#[tokio::test]
async fn the_access_log_has_a_line_for_each_request_and_no_secret() {
    let directory = tempdir().unwrap();
    let process = Process::start("[log]\naccess = true\nformat = \"json\"", directory.path());
    let token = process.sign_in("reader").await;
    let id = process.get("/flows?secret=1").token(&token).send().await;
    let line = process.wait_for_log(id.header("x-request-id"));
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    let fields = line.get("fields").unwrap_or(&line);
    for (name, value) in [
        ("method", json!("GET")),
        ("path", json!("/flows")),
        ("status", json!(200)),
        ("user", json!("reader")),
        ("address", json!("127.0.0.1")),
    ] {
        assert_eq!(fields[name], value, "{line}");
    }
    process.signal("TERM");
    for line in process.rest_of_log() {
        for secret in [token.as_str(), crate::client::PASSWORD, "secret=1"] {
            assert!(!line.contains(secret), "{line}");
        }
    }
}
