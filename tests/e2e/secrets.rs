//! No secret leaks through logs, metrics, the audit log, errors, files that others may read, or a
//! crash.

use crate::client::{Answer, PASSWORD};
use crate::harness::{Process, config_text, flow_set, page, program, until};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// What the flows' credentials are encrypted with.
const KEY: &str = "the-key-of-the-credentials";
/// A credential of a node.
const CREDENTIAL: &str = "the-credential-of-a-node";
/// A password that is wrong, perhaps by one letter only.
const WRONG: &str = "the-password-with-a-slip";

fn token(directory: &Path) -> String {
    let arguments = "token create --name ci --permission flows.read";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let output = program(directory, &arguments)
        .stdout(Stdio::piped())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Does everything in which a secret takes part; gives the secrets and all that was answered.
async fn busy(process: &Process, directory: &Path) -> (Vec<String>, Vec<String>) {
    let mut outputs = Vec::new();
    let mut keep = |answer: Answer| outputs.push(format!("{:?} {}", answer.headers, answer.text()));
    let admin = process.sign_in("admin").await;
    let reader = process.sign_in("reader").await;
    let machine = token(directory);
    keep(process.sign_in_request("admin", WRONG, "").send().await);
    keep(process.sign_in_request("nobody", WRONG, "").send().await);
    keep(
        process
            .sign_in_request("reader", PASSWORD, "flows.write")
            .send()
            .await,
    );
    let mut flows = flow_set(&[page("a", "/a", "x")]);
    flows.as_array_mut().unwrap().push(json!({
        "id": "secret", "type": "unheard of", "credentials": { "password": CREDENTIAL },
    }));
    keep(process.deployment(&admin, &flows, None).send().await);
    keep(
        process
            .deployment(&admin, &flows, Some("stale"))
            .send()
            .await,
    );
    keep(process.deployment(&admin, &json!([{}]), None).send().await);
    keep(process.deployment(&reader, &flows, None).send().await);
    keep(process.get("/flows").token(&machine).send().await);
    keep(
        process
            .get("/flows")
            .token(&format!("{admin}x"))
            .send()
            .await,
    );
    keep(
        process
            .get(&format!("/flows?access_token={admin}"))
            .send()
            .await,
    );
    keep(
        process
            .get("/flows")
            .header("Authorization", &admin)
            .send()
            .await,
    );
    keep(process.get("/settings").token(&admin).send().await);
    keep(process.get("/settings").token(&admin).http2().send().await);
    keep(
        process
            .get("/credentials/x/secret")
            .token(&admin)
            .send()
            .await,
    );
    keep(process.get("/diagnostics").token(&admin).send().await);
    let mut channel = process.editor(&admin).await;
    channel.subscribe("#").await;
    let mut refused = process.comms().await;
    refused.send(&json!({ "auth": format!("{admin}y") })).await;
    refused.is_rejected().await;
    keep(
        process
            .post("/auth/revoke")
            .token(&admin)
            .form(&[("token", &reader)])
            .send()
            .await,
    );
    process.signal("HUP");
    process.wait_for_log("reloaded");
    keep(process.operations("/metrics").await);
    keep(process.operations("/readyz").await);
    let secrets = [PASSWORD, WRONG, KEY, CREDENTIAL].map(str::to_owned);
    (
        secrets
            .into_iter()
            .chain([admin, reader, machine])
            .collect(),
        outputs,
    )
}

#[tokio::test]
async fn no_secret_is_in_logs_metrics_audit_log_or_errors() {
    let directory = tempfile::tempdir().unwrap();
    let lines = format!(
        "log = {{ level = \"trace\", access = true }}\nstorage = {{ credential_secret = \"{KEY}\" }}"
    );
    let (process, mut stdout) = Process::start_with_stdout(&lines, directory.path());
    let (mut secrets, mut outputs) = busy(&process, directory.path()).await;
    let config: toml::Table = config_text("").parse().unwrap();
    let users = config["auth"]["user"].as_array().unwrap();
    secrets.extend(
        users
            .iter()
            .map(|user| user["password_hash"].as_str().unwrap().to_owned()),
    );
    process.signal("TERM");
    outputs.extend(process.whole_log());
    process.end();
    let mut out = String::new();
    stdout.read_to_string(&mut out).unwrap();
    outputs.push(out);
    for file in files(&directory.path().join("data")) {
        outputs.push(String::from_utf8_lossy(&fs::read(file).unwrap()).into_owned());
    }
    for part in [
        "TRACE",
        "path=\"/auth/token\"",
        "flowgate_logins_total",
        "\"auth.login\"",
        "invalid_grant",
    ] {
        assert!(outputs.iter().any(|text| text.contains(part)), "no {part}");
    }
    for secret in &secrets {
        for text in &outputs {
            assert!(!text.contains(secret.as_str()), "{secret} is in: {text}");
        }
    }
}

#[tokio::test]
async fn files_are_readable_by_their_owner_only_and_memory_is_not_dumped() {
    let directory = tempfile::tempdir().unwrap();
    let process = Process::start("", directory.path());
    let token = process.sign_in("admin").await;
    process
        .deploy(&token, &flow_set(&[page("a", "/a", "x")]))
        .await;
    for file in files(&directory.path().join("data")) {
        let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", file.display());
    }
    let proc = format!("/proc/{}", process.id());
    let status = fs::read_to_string(format!("{proc}/status")).unwrap();
    assert!(status.contains("Umask:\t0077"), "{status}");
    let limits = fs::read_to_string(format!("{proc}/limits")).unwrap();
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"))
        .unwrap();
    assert_eq!(
        core.split_whitespace().filter(|word| *word == "0").count(),
        2,
        "{core}"
    );
}

#[tokio::test]
async fn the_generated_admins_hash_is_strengthened_by_the_first_sign_in() {
    let directory = tempfile::tempdir().unwrap();
    let text = "operations = \"127.0.0.1:0\"\nserver = { listen = [\"127.0.0.1:0\"] }\n[auth]\n";
    let config =
        || flowgate::config::Config::parse(text, "gateway.toml", directory.path()).unwrap();
    let running = flowgate::server::start(config()).unwrap();
    let password = running.admin_password().unwrap().reveal().to_owned();
    let kept = async || {
        let gateway = running.gateway();
        let hash = gateway.store.generated_admin().await.unwrap().unwrap();
        hash.reveal().to_owned()
    };
    assert!(kept().await.contains("$m=8,t=1,p=1$"));
    let client = crate::harness::client(&running, directory.path());
    for _ in 0..2 {
        assert_eq!(
            client
                .sign_in_request("admin", &password, "")
                .send()
                .await
                .status,
            200
        );
        until("it is stronger", async || {
            kept().await.contains("$m=19456,t=2,p=1$")
        })
        .await;
    }
    assert_eq!(
        client
            .sign_in_request("admin", "wrong", "")
            .send()
            .await
            .status,
        400
    );
    running.stop().await;
    let running = flowgate::server::start(config()).unwrap();
    let client = crate::harness::client(&running, directory.path());
    assert_eq!(
        client
            .sign_in_request("admin", &password, "")
            .send()
            .await
            .status,
        200
    );
    running.stop().await;
}

#[tokio::test]
async fn a_weak_hash_in_the_configuration_is_logged_once() {
    let directory = tempfile::tempdir().unwrap();
    let process = Process::start("", directory.path());
    for _ in 0..3 {
        process.sign_in("admin").await;
    }
    process.signal("TERM");
    let output = process.rest_of_log();
    let hints = output
        .iter()
        .filter(|line| line.contains("easier to guess"));
    assert_eq!(hints.count(), 1);
}

fn files(directory: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    files.map(|entry| entry.path()).collect()
}
