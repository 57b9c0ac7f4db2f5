//! The program of the node host: its files, and the command that runs them.

use crate::child_environment::child_environment;
use serde_json::json;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Moves the sockets, which are standard input and output of this shell, to the descriptors 3 and
/// 4; what packages write to standard output then goes to standard error. Node.js takes the shell's
/// place.
const LAUNCH: &str = r#"exec "$0" "$@" 3<&0 4<&1 </dev/null >&2"#;

const SHELL: &str = "/bin/sh";

const BOOTSTRAP: &str = include_str!("host/bootstrap.js");

/// The program of the host, which it reads from its channel.
const SOURCES: [(&str, &str); 14] = [
    ("channel.js", include_str!("host/channel.js")),
    ("context.js", include_str!("host/context.js")),
    ("core_nodes.js", include_str!("host/core_nodes.js")),
    ("culprit.js", include_str!("host/culprit.js")),
    ("deployment.js", include_str!("host/deployment.js")),
    ("http.js", include_str!("host/http.js")),
    ("main.js", include_str!("host/main.js")),
    ("packaged.js", include_str!("host/packaged.js")),
    ("regular.js", include_str!("host/regular.js")),
    ("reports.js", include_str!("host/reports.js")),
    ("routing.js", include_str!("host/routing.js")),
    ("runtime.js", include_str!("host/runtime.js")),
    ("storage.js", include_str!("host/storage.js")),
    ("values.js", include_str!("host/values.js")),
];

/// The command that becomes the process of the node host, in a process group of its own. Its
/// standard input and output are the two sockets of the engine, which it has to be given.
/// `launcher`: the program that lets the system kill it when the caller's process ends
/// (`flowgate with-parent`). `memory`: the heap of Node.js, bytes.
pub fn command(launcher: Option<&Path>, node: &Path, memory: u64, directory: &Path) -> Command {
    let mut command = match launcher {
        None => Command::new(SHELL),
        Some(launcher) => {
            let mut command = Command::new(launcher);
            let caller = std::process::id().to_string();
            command.arg("with-parent").arg(caller).arg(SHELL);
            command
        }
    };
    command
        .args(["-c", LAUNCH])
        .arg(node)
        .arg(format!("--max-old-space-size={}", memory >> 20))
        .args(["--input-type=commonjs", "--eval", BOOTSTRAP])
        .current_dir(directory)
        .env_clear()
        .envs(child_environment())
        .env("HOME", directory)
        .process_group(0);
    command
}

/// The program as the bootstrap reads it: its length, and a JSON object of its files.
pub(super) fn sources() -> Vec<u8> {
    let files: serde_json::Map<_, _> = SOURCES
        .iter()
        .map(|(name, text)| ((*name).to_owned(), json!(text)))
        .collect();
    let text = serde_json::Value::Object(files).to_string();
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    [&length.to_le_bytes()[..], text.as_bytes()].concat()
}
