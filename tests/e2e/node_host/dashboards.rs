//! The two dashboards of Node-RED, in headless Chromium: native nodes behind their widgets, two
//! browsers, and what is seen when the host or the gateway ends.

use super::{Hosted, user_directory};
use crate::editor::play_with;
use crate::harness::{Process, until};
use serde_json::Value as Json;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// Links installed packages into a user directory.
pub fn install(directory: &Path, packages: &[&str]) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/node_host/node_modules");
    for package in packages {
        let to = directory.join("node_modules").join(package);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        symlink(from.join(package), to).unwrap();
    }
}

/// The process id of a gateway's node host.
pub fn host_of(process: &Process) -> Option<String> {
    let children = format!("/proc/{0}/task", process.id());
    fs::read_dir(children).unwrap().find_map(|task| {
        let children = fs::read_to_string(task.ok()?.path().join("children")).ok()?;
        children.split_whitespace().next().map(str::to_owned)
    })
}

/// Ends a gateway's node host.
pub fn kill_host(process: &Process) {
    let host = host_of(process).unwrap();
    let mut kill = Command::new("kill");
    assert!(kill.args(["-9", &host]).status().unwrap().success());
}

/// A dashboard.
struct Dashboard {
    /// The scenario of `tests/editor` with its flows.
    scenario: &'static str,
    flows: &'static str,
    package: &'static str,
    path: &'static str,
    /// More of its route.
    access: &'static str,
}

impl Dashboard {
    /// Plays the scenario.
    async fn play(&self) {
        let directory = tempfile::tempdir().unwrap();
        let user = directory.path().join("user");
        user_directory(&user);
        install(&user, &[self.package]);
        // The same before and after the restart.
        let port = {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            free.local_addr().unwrap().port()
        };
        let lines = format!(
            "server = {{ listen = [\"127.0.0.1:{port}\"] }}\n[engine.node_host]\ndirectory = \"user\"\n\
             [[route]]\npath = \"{}\"\nprefix = true\n{}\n",
            self.path, self.access
        );
        let mut process = Process::start(&lines, directory.path());
        let token = process.sign_in("admin").await;
        let flows: Json = serde_json::from_str(self.flows).unwrap();
        process.deploy(&token, &flows).await;
        until("the dashboard is there", async || {
            let answer = process.get(self.path).token(&token).send().await;
            matches!(answer.status, 200 | 301 | 302)
        })
        .await;
        let client = (*process).clone();
        let cues = move |cue: &str| match cue {
            "kill the node host" => kill_host(&process),
            "restart the gateway" => {
                process.signal("TERM");
                process.rest_of_log();
                process = Process::start(&lines, directory.path());
            }
            other => panic!("unknown cue: {other}"),
        };
        play_with(self.scenario, &client, cues).await;
    }
}

#[tokio::test]
async fn the_dashboard_of_node_red_works_for_two_users_and_comes_back() {
    let dashboard = Dashboard {
        scenario: "dashboard_3",
        flows: include_str!("../../editor/dashboard_3.json"),
        package: "node-red-dashboard",
        path: "/ui",
        access: "public = true",
    };
    dashboard.play().await;
}

#[tokio::test]
async fn the_dashboard_of_flowfuse_works_for_users_who_sign_in_and_comes_back() {
    let dashboard = Dashboard {
        scenario: "dashboard_flowfuse",
        flows: include_str!("../../editor/dashboard_flowfuse.json"),
        package: "@flowfuse/node-red-dashboard",
        path: "/dashboard",
        access: "permission = \"http.read\"\nsign_in = \"page\"",
    };
    dashboard.play().await;
}

#[tokio::test]
async fn the_stock_editor_has_the_sidebar_and_the_edit_forms_of_a_package() {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/node_modules");
    let lines = format!("[editor]\nmodules = {modules:?}\n");
    let package = "@flowfuse/node-red-dashboard";
    let hosted = Hosted::prepared(&lines, |user| install(user, &[package])).await;
    let flows = include_str!("../../editor/dashboard_flowfuse.json");
    hosted.run(&serde_json::from_str(flows).unwrap()).await;
    play_with("packages", &hosted, |cue| panic!("unknown cue: {cue}")).await;
}
