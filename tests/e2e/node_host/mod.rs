//! Nodes of npm packages: a real Node.js with Node-RED's own runtime runs them, beside the engine.

mod containers;
mod crossing;
pub mod dashboards;
mod deployments;
mod editor_messages;
mod failures;
mod functions;
mod hostile;
mod hostile_service;
pub mod http;
mod install_scripts;
mod installs;
mod left_out;
mod package_cases;
mod packaged_subflows;
mod packages;
mod palette_manager;
mod pressure;
mod registry;
mod service;
mod shared_config;
mod threads;
mod user_directory;
mod values;

use crate::client::Client;
use crate::harness::{Process, public, until};
use serde_json::{Value as Json, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A gateway with a node host, in a directory of its own.
pub struct Hosted {
    pub process: Process,
    pub token: String,
    lines: String,
    // Removed after the process has ended.
    directory: TempDir,
}

impl std::ops::Deref for Hosted {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.process
    }
}

impl Hosted {
    /// Waits until the host runs its first flow set: from then on a deployment ends when its nodes
    /// have started.
    pub async fn start() -> Self {
        Self::with("").await
    }

    /// With more lines of TOML.
    pub async fn with(lines: &str) -> Self {
        Self::prepared(lines, |_| {}).await
    }

    /// With more in its user directory.
    pub async fn prepared(lines: &str, prepare: impl Fn(&Path)) -> Self {
        let hosted = Self::in_directory(lines, prepare).await;
        hosted.process.wait_for_log("the node host is ready");
        hosted
    }

    /// The same, without waiting for the host.
    pub async fn prepared_without_waiting(lines: &str, prepare: impl Fn(&Path)) -> Self {
        Self::in_directory(lines, prepare).await
    }

    /// Does not wait for the host.
    pub async fn without_waiting(lines: &str) -> Self {
        Self::in_directory(lines, |_| {}).await
    }

    async fn in_directory(lines: &str, prepare: impl Fn(&Path)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let user = directory.path().join("user");
        user_directory(&user);
        prepare(&user);
        let own = "[engine.node_host]\ndirectory = \"user\"\n";
        let lines = format!("{}{own}{lines}", public(&["/do", "/show"]));
        let process = Process::start(&lines, directory.path());
        let token = process.sign_in("admin").await;
        Self {
            process,
            token,
            lines,
            directory,
        }
    }

    /// Kills the gateway, so that it ends whatever it does, and starts it again.
    pub async fn kill_and_start(&mut self) {
        self.process.signal("KILL");
        self.process.rest_of_log();
        self.process = Process::start(&self.lines, self.directory.path());
        self.token = self.process.sign_in("admin").await;
    }

    /// The user directory.
    pub fn user_directory(&self) -> PathBuf {
        self.directory.path().join("user")
    }

    /// A file in the data directory.
    pub fn data(&self, file: &str) -> PathBuf {
        self.directory.path().join("data").join(file)
    }

    /// Deploys a flow set as a whole.
    pub async fn run(&self, flows: &Json) {
        self.deploy(&self.token, flows).await;
    }

    /// Deploys a flow set, and restarts only what has changed.
    pub async fn run_more(&self, flows: &Json) {
        self.deploy_as("nodes", &self.token, flows).await;
    }

    /// `GET path`, whose response is JSON.
    pub async fn show(&self, path: &str) -> Json {
        let answer = self.get(path).send().await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.json()
    }

    /// Waits until `GET path` responds with this JSON.
    pub async fn until_shown(&self, path: &str, expected: &Json) {
        until(path, async || {
            let answer = self.get(path).send().await;
            // A flow that has no value yet responds with nothing.
            answer.status == 200
                && serde_json::from_str(&answer.text()).ok().as_ref() == Some(expected)
        })
        .await;
    }
}

/// A Node-RED user directory with the runtime and the tests' own nodes.
pub fn user_directory(directory: &Path) {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let modules = directory.join("node_modules");
    fs::create_dir_all(&modules).unwrap();
    symlink(
        tests.join("node_modules/@node-red"),
        modules.join("@node-red"),
    )
    .unwrap();
    symlink(tests.join("data/node_host"), directory.join("nodes")).unwrap();
}

/// A flow of `GET /do` → `first` → … → the response. The nodes are wired one after the other.
pub fn chain(nodes: Vec<Json>) -> Vec<Json> {
    let mut flow = vec![
        json!({ "id": "t", "type": "tab", "label": "t" }),
        json!({ "id": "in", "type": "http in", "z": "t", "method": "get", "url": "/do", "x": 1, "y": 1 }),
    ];
    flow.extend(nodes);
    flow.push(
        json!({ "id": "out", "type": "http response", "z": "t", "x": 9, "y": 1, "wires": [] }),
    );
    for at in 1..flow.len() - 1 {
        if flow[at]["wires"].is_null() {
            flow[at]["wires"] = json!([[flow[at + 1]["id"]]]);
        }
    }
    flow
}

/// A foreign node that runs this code for each message.
pub fn trial(id: &str, input: &str) -> Json {
    json!({ "id": id, "type": "trial", "z": "t", "x": 5, "y": 1, "input": input })
}

/// A native function node.
pub fn function(id: &str, code: &str) -> Json {
    json!({ "id": id, "type": "function", "z": "t", "func": code, "outputs": 1, "x": 5, "y": 1 })
}
