//! The engine shows what the stock runtime showed: every case of `tests/golden/*.json`, over the
//! admin API and comms.

use crate::client::Client;
use crate::harness::Gateway;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use tokio::signal::unix::{SignalKind, signal};

/// A test for each file of cases, with one thread for all flows.
macro_rules! files {
    ($($name:ident)*) => {
        const FILES: &[&str] = &[$(stringify!($name)),*];

        $(
            #[tokio::test]
            async fn $name() {
                check(stringify!($name), 1).await;
            }
        )*
    };
}

files! {
    batch
    catch
    change
    complete
    csv
    csv_legacy
    debug
    delay
    delivery
    encodings
    environment
    exec
    file
    file_in
    function
    function_context
    function_errors
    function_modules
    html
    http_in
    http_request
    http_request_way
    http_response
    inject
    join
    json
    link
    links
    mqtt
    mqtt_actions
    range
    rbe
    sort
    split
    status
    subflow
    switch
    tcp
    tcp_request
    template
    trigger
    udp
    watch
    websocket
    xml
    yaml
}

/// A test for each of these files, with several threads. A case that has one flow runs on one of
/// them.
macro_rules! on_several_threads {
    ($($name:ident)*) => {
        mod on_several_threads {
            $(
                #[tokio::test]
                async fn $name() {
                    for threads in [2, 4] {
                        super::check(stringify!($name), threads).await;
                    }
                }
            )*
        }
    };
}

// Those that are about more than what one node does with a message.
on_several_threads! {
    catch
    complete
    debug
    delivery
    environment
    function_context
    http_in
    http_response
    link
    links
    mqtt
    status
    subflow
    tcp
    tcp_request
    template
    udp
    websocket
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

async fn check(name: &str, threads: usize) {
    // As the program does: an exec node's process must not inherit that SIGINT is ignored, as it is
    // in background jobs.
    let _interrupts = signal(SignalKind::interrupt()).unwrap();
    // Node-RED answers with scripts.
    let gateway = Gateway::with(&format!("[engine]\njsonp = true\nthreads = {threads}\n"));
    let token = gateway.sign_in("admin").await;
    play(&gateway, token, &directory().join(format!("{name}.json"))).await;
}

/// Plays the cases of a file.
pub async fn play(gateway: &Client, token: String, cases: &Path) {
    let mut command = Command::new("node");
    command
        .args(["check.mjs", &format!("https://{}/", gateway.address)])
        .arg(cases)
        .args(std::env::var("CASE"))
        .current_dir(directory())
        .env_remove("NODE_OPTIONS")
        .env("NODE_NO_WARNINGS", "1")
        .env("NODE_TLS_REJECT_UNAUTHORIZED", "0")
        .env("TOKEN", token);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn every_file_of_cases_is_played() {
    let files: BTreeSet<String> = std::fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(files, FILES.iter().map(ToString::to_string).collect());
}
