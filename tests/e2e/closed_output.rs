//! Command-line programs whose output is a closed pipe, or a file on a full disk: none panics.

use crate::client::Client;
use crate::harness::{Process, program, until};
use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::tempdir;
use testing::ports;

/// Commands that print on standard output, in the directory of a running gateway.
const PRINTING: &[&[&str]] = &[
    &["check"],
    &["check-flows", "flows.json"],
    &["health"],
    &["history"],
    &["totp", "admin"],
    &["hash-password"],
    &["audit", "verify"],
    &["import", "settings.js"],
    &["token", "list"],
    &["session", "list"],
    &["passkey", "list"],
    &["freeze", "1m", "a reason"],
    &["unfreeze"],
    &["reload"],
    &["top", "--once", "--interval", "1s"],
    &["--help"],
];

/// The same that report failures on standard error.
const FAILING: &[&[&str]] = &[
    &["check-flows", "none.json"],
    &["history", "none"],
    &["audit", "verify", "none.log"],
    &["import", "none.js"],
    &["store", "migrate", "--from", "sqlite", "--to", "sqlite"],
    &["engine-process"],
    &["fly"],
    &["--config", "none.toml", "check"],
    &["--config", "none.toml", "run"],
];

fn full() -> Stdio {
    OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap()
        .into()
}

/// A pipe whose reader is gone.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = program(directory, arguments);
    let password = directory.join("password");
    command.stdin(fs::File::open(password).unwrap());
    command
}

#[tokio::test]
async fn no_command_panics_when_its_output_is_a_closed_pipe_or_a_full_disk() {
    let directory = tempdir().unwrap();
    let operations = format!("operations = \"127.0.0.1:{}\"", ports::free());
    let _gateway = Process::start(&operations, directory.path());
    fs::write(directory.path().join("flows.json"), "[]").unwrap();
    fs::write(directory.path().join("password"), "a password\n").unwrap();
    fs::write(
        directory.path().join("settings.js"),
        "module.exports = { uiPort: 1880 }",
    )
    .unwrap();
    for arguments in PRINTING {
        let printed = command(directory.path(), arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        assert!(!printed.stdout.is_empty(), "{arguments:?}: {printed:?}");
        for (is_full, output) in [(true, full()), (false, closed())] {
            let ended = command(directory.path(), arguments)
                .stdout(output)
                .stderr(Stdio::piped())
                .output()
                .unwrap();
            let errors = String::from_utf8(ended.stderr).unwrap();
            assert!(!errors.contains("panicked"), "{arguments:?}: {errors}");
            // The help is the argument parser's, which ignores this.
            if *arguments != ["--help"] {
                assert_eq!(ended.status.code(), Some(1), "{arguments:?}: {errors}");
                assert_eq!(
                    errors.contains("standard output: No space left"),
                    is_full,
                    "{arguments:?}: {errors}"
                );
            }
        }
    }
    for arguments in FAILING {
        for errors in [full(), closed()] {
            let ended = command(directory.path(), arguments).stderr(errors).status();
            let code = ended.unwrap().code();
            assert!(matches!(code, Some(1 | 2)), "{arguments:?}: {code:?}");
        }
    }
}

#[tokio::test]
async fn a_gateway_whose_log_cannot_be_written_serves() {
    let directory = tempdir().unwrap();
    let listen = format!("server.listen = [\"127.0.0.1:{}\"]", ports::free());
    let gateway = Process::start(&listen, directory.path());
    let (client, token) = (Client::clone(&gateway), gateway.sign_in("admin").await);
    drop(gateway);
    let mut run = program(directory.path(), &["run"]);
    let mut gateway = run.stderr(full()).spawn().unwrap();
    until("it serves", async || {
        let answer = client.get("/flows").token(&token).try_send().await;
        answer.is_ok_and(|answer| answer.status == 200)
    })
    .await;
    gateway.kill().unwrap();
    gateway.wait().unwrap();
}
