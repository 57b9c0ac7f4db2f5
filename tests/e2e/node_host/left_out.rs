//! A package that ends the node host again and again is left out, until a full deployment takes it
//! back.

use super::{Hosted, chain, trial};
use crate::harness::program;
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

const PACKAGE: &str = "node-red-contrib-deadly";

/// Writes a package with one node, `deadly`, whose program ends like this.
fn write(directory: &Path, harm: &str) {
    let package = directory.join("node_modules").join(PACKAGE);
    fs::create_dir_all(&package).unwrap();
    let facts = json!({
        "name": PACKAGE, "version": "1.0.0", "node-red": { "nodes": { "deadly": "deadly.js" } }
    });
    fs::write(package.join("package.json"), facts.to_string()).unwrap();
    let program = format!(
        "module.exports = (RED) => {{
            RED.nodes.registerType('deadly', function (config) {{
                RED.nodes.createNode(this, config);
                this.on('input', (msg, send, done) => {{ msg.payload = 'alive'; send(msg); done(); }});
            }});
            {harm}
        }};"
    );
    fs::write(package.join("deadly.js"), program).unwrap();
    let html = "<script type='text/html' data-template-name='deadly'></script>";
    fs::write(package.join("deadly.html"), html).unwrap();
}

/// `/do` passes through the package, `/show` through another foreign node; a catch node answers
/// errors.
fn flows() -> serde_json::Value {
    let mut deadly = trial("d", "");
    deadly["type"] = "deadly".into();
    let mut flow = chain(vec![deadly]);
    let mut other = trial("a", "msg.payload = 'runs on'; send(msg); done()");
    other["wires"] = json!([["out"]]);
    flow.extend([
        other,
        json!({ "id": "in2", "type": "http in", "z": "t", "method": "get", "url": "/show", "x": 1, "y": 1, "wires": [["a"]] }),
        json!({ "id": "c", "type": "catch", "z": "t", "scope": null, "x": 1, "y": 1, "wires": [["h"]] }),
        json!({ "id": "h", "type": "function", "z": "t", "x": 1, "y": 1, "wires": [["out"]],
            "func": "msg.payload = msg.error.message; return msg" }),
    ]);
    json!(flow)
}

async fn is_left_out_and_comes_back(harm: &str) {
    let hosted = Hosted::prepared_without_waiting("", |user| write(user, harm)).await;
    hosted.run(&flows()).await;
    let line = hosted.process.wait_for_log("it is left out");
    assert!(line.contains(PACKAGE), "{line}");
    let text = async |path: &str| hosted.get(path).send().await.text();
    crate::harness::until("the others run", async || text("/show").await == "runs on").await;
    assert_eq!(text("/do").await, "the node does not run in the node host");

    // A change of something else does not stop native or foreign flows, and does not take it back.
    let mut changed = flows();
    changed[0]["info"] = "changed".into();
    hosted.deploy_as("nodes", &hosted.token, &changed).await;
    assert_eq!(text("/show").await, "runs on");

    write(&hosted.user_directory(), "");
    hosted.run(&flows()).await;
    crate::harness::until("it is back", async || text("/do").await == "alive").await;
}

#[tokio::test]
async fn a_package_whose_exceptions_end_the_host_is_left_out_until_a_full_deployment() {
    is_left_out_and_comes_back("setTimeout(() => { throw new Error('deadly'); }, 200);").await;
}

#[tokio::test]
async fn a_package_that_ends_the_host_while_it_is_loaded_is_left_out_until_a_full_deployment() {
    is_left_out_and_comes_back("process.abort();").await;
}

#[tokio::test]
async fn the_palette_says_which_package_is_left_out() {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/node_modules");
    let lines = format!("[editor]\nmodules = {modules:?}\n");
    let hosted =
        Hosted::prepared_without_waiting(&lines, |user| write(user, "process.exit(3);")).await;
    hosted.process.wait_for_log("it is left out");
    let path = format!("/nodes/{PACKAGE}/deadly");
    let request = hosted.get(&path).token(&hosted.token);
    let set = request
        .header("Accept", "application/json")
        .send()
        .await
        .json();
    assert_eq!(set["enabled"], false);
    assert!(set["err"].as_str().unwrap().contains("left out"), "{set}");
}

#[tokio::test]
async fn a_package_whose_description_is_no_file_keeps_nothing_waiting() {
    let hosted = Hosted::prepared("", |user| {
        write(user, "");
        for name in ["a-fifo", "b-endless"] {
            let package = user.join("node_modules").join(name);
            fs::create_dir_all(&package).unwrap();
            let description = package.join("package.json");
            if name == "a-fifo" {
                let made = Command::new("mkfifo").arg(description).status();
                assert!(made.unwrap().success());
            } else {
                symlink("/dev/zero", description).unwrap();
            }
        }
    })
    .await;
    hosted.run(&flows()).await;
    crate::harness::until("the package runs", async || {
        hosted.get("/do").send().await.text() == "alive"
    })
    .await;
    let log = hosted.process.log_so_far();
    // The runtime follows links before it reads.
    for names in [["a-fifo", "a-fifo"], ["b-endless", "/dev/zero"]] {
        let is_named = |line: &&String| {
            line.contains("is no regular file") && names.iter().any(|name| line.contains(name))
        };
        assert_eq!(log.iter().filter(is_named).count(), 1, "{log:#?}");
    }
    let mut check = program(hosted.directory.path(), &["check"]);
    let output = check.stdout(Stdio::piped()).output().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    assert!(output.contains(PACKAGE), "{output}");
}
