//! Plays scenarios in headless Chromium: a script in `tests/` lists a user's actions and what the
//! page then shows.
//!
//! The screenshots are in `target/editor-screenshots`, or in the directory that
//! `EDITOR_SCREENSHOTS` names.

use crate::client::PASSWORD;
use crate::harness::KillOnDrop;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use tokio::sync::Semaphore;

/// Chromium keeps a core busy: more scenarios at a time would only run into time-outs.
static SCENARIOS: Semaphore = Semaphore::const_new(2);

/// One browser for all scenarios; it ends with us, because then its standard input does.
static BROWSER: LazyLock<Browser> = LazyLock::new(|| {
    let mut command = node("editor/browser.mjs");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = KillOnDrop(command.spawn().unwrap());
    let mut url = String::new();
    let stdout = child.0.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut url).unwrap();
    assert!(url.starts_with("ws://"), "Chromium does not start");
    Browser {
        url: url.trim().to_owned(),
        _child: child,
    }
});

struct Browser {
    url: String,
    _child: KillOnDrop,
}

/// Runs a script of `tests/`.
fn node(script: &str) -> Command {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut command = Command::new("node");
    command
        .arg(script)
        .current_dir(directory)
        .env_remove("NODE_OPTIONS");
    command
}

fn screenshots() -> PathBuf {
    std::env::var_os("EDITOR_SCREENSHOTS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("target/editor-screenshots"),
        PathBuf::from,
    )
}

/// Plays a script of `tests/` to its end, and does what its cues ask for. `gateway` is the URL of
/// the editor.
pub async fn play(script: &str, gateway: &str, mut cue: impl FnMut(&str) + Send + 'static) {
    let _permit = SCENARIOS.acquire().await.unwrap();
    let scenario = script
        .trim_end_matches(".mjs")
        .trim_start_matches("editor/");
    let scenario = scenario.replace('/', "-");
    let mut command = node(script);
    let (output, saying) = io::pipe().unwrap();
    command
        .env("SCENARIO", &scenario)
        .env("GATEWAY", gateway)
        .env("PASSWORD", PASSWORD)
        .env("SCREENSHOTS", screenshots())
        .stdin(Stdio::piped())
        .stdout(saying.try_clone().unwrap())
        .stderr(saying);
    let playing = move || {
        command.env("BROWSER", &BROWSER.url);
        let mut child = KillOnDrop(command.spawn().unwrap());
        // Its ends of the pipe are its own now: the last line is the last.
        drop(command);
        let mut stdin = child.0.stdin.take().unwrap();
        let mut all = String::new();
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if let Some(wanted) = line.strip_prefix("cue: ") {
                cue(wanted);
                stdin.write_all(b"done\n").unwrap();
            }
            all = all + &line + "\n";
        }
        (child.0.wait().unwrap().success(), all)
    };
    let (passed, all) = tokio::task::spawn_blocking(playing).await.unwrap();
    assert!(passed, "{scenario}: {all}");
}
