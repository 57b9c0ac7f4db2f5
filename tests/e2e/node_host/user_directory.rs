//! A user directory of a real Node-RED runs here without a change, and under Node-RED again
//! afterwards.

use super::dashboards::install;
use super::{chain, function, trial, user_directory};
use crate::client::{Answer, Request};
use crate::harness::{Process, public, until};
use crate::node_red::{NodeRed, Release};
use serde_json::{Value as Json, json};
use std::fs;
use std::path::Path;

/// Contexts are in files, written at once; the key of the credentials is a generated one.
const SETTINGS: &str = r#"credentialSecret: undefined,
    contextStorage: { default: { module: "localfilesystem", config: { flushInterval: 1 } } },"#;
const LIBRARY: &str = "/library/local/functions/folder/twice.js";

/// One flow with native and foreign nodes: contexts of both, a password of both, and nodes of
/// packages.
fn flows() -> Json {
    let random = json!({ "id": "r", "type": "random", "low": "7", "high": "7", "inte": "true", "property": "payload",
        "z": "t", "x": 1, "y": 1 });
    let mut foreign = trial(
        "a",
        "const flow = node.context().flow, secret = RED.nodes.getNode('k').credentials.secret;
         flow.set('foreign', (flow.get('foreign') || 0) + 1);
         msg.payload = [msg.payload, flow.get('foreign'), flow.get('native'), secret]; send(msg); done()",
    );
    foreign["config"] = json!("k");
    let counting = "flow.set('native', (flow.get('native') || 0) + 1); return msg";
    let mut flows = chain(vec![random, function("f", counting), foreign]);
    flows.extend([
        json!({ "id": "k", "type": "trial-config", "label": "one", "credentials": { "secret": "of a package" } }),
        json!({ "id": "h", "type": "http request", "z": "t", "method": "GET", "url": "http://localhost/", "authType": "basic",
            "x": 1, "y": 2, "wires": [[]], "credentials": { "user": "ann", "password": "of a native node" } }),
    ]);
    json!(flows)
}

async fn body(request: Request) -> Json {
    let answer: Answer = request.send().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// Flows, names of credentials and the library, as the admin API shows them.
async fn shown(get: impl Fn(&str) -> Request) -> Json {
    json!([
        body(get("/flows").header("Node-RED-API-Version", "v1")).await,
        body(get("/credentials/http-request/h")).await,
        body(get("/credentials/trial-config/k")).await,
        get(LIBRARY).send().await.text(),
    ])
}

/// Waits until a file of the contexts has this text.
async fn written(directory: &Path, text: &str) {
    let file = directory.join("context/t/flow.json");
    until("the context is written", async || {
        let content = fs::read_to_string(&file).unwrap_or_default();
        content.replace([' ', '\n'], "").contains(text)
    })
    .await;
}

#[tokio::test]
async fn a_user_directory_of_node_red_runs_here_and_there_again() {
    let red = NodeRed::prepared_with(Release::Four, SETTINGS, |directory| {
        user_directory(directory);
        install(
            directory,
            &["node-red-node-random", "node-red-contrib-queue-gate"],
        );
        fs::write(
            directory.join("package.json"),
            r#"{"name":"project","dependencies":{"node-red-node-random":"0.4.1"}}"#,
        )
        .unwrap();
    });
    let directory = red.directory.path().to_owned();
    // It listens before it has loaded its flows, and would forget what is deployed before that.
    until("Node-RED has started its flows", async || red.starts() > 0).await;
    red.deploy(&flows()).await;
    let entry = json!({ "name": "twice", "text": "return [msg, msg]" });
    let saved = red.request("POST", LIBRARY).json(&entry).send().await;
    assert!(saved.status < 300, "{}", saved.text());
    // The settings of the editor's users are those of the gateway's users here: only Node-RED shows
    // its own again.
    let settings = json!({ "editor": { "view": { "view-grid-size": 30 } } });
    let saved = red
        .request("POST", "/settings/user")
        .json(&settings)
        .send()
        .await;
    assert!(saved.status < 300, "{}", saved.text());
    let asked = body(red.request("GET", "/do")).await;
    assert_eq!(asked, json!([7, 1, 1, "of a package"]));
    let before = shown(|path| red.request("GET", path)).await;
    written(&directory, r#""foreign":1"#).await;
    let red = red.stop();

    let lines = format!(
        "{}[storage]\ndirectory = {directory:?}\n[engine.node_host]\ndirectory = {directory:?}\n\
         [[engine.context]]\nname = \"default\"\nmodule = \"localfilesystem\"\nflush = \"1s\"\n",
        public(&["/do"])
    );
    let place = tempfile::tempdir().unwrap();
    let process = Process::start(&lines, place.path());
    process.wait_for_log("the node host is ready");
    let token = process.sign_in("admin").await;
    let asked = body(process.get("/do")).await;
    assert_eq!(asked, json!([7, 2, 2, "of a package"]));
    let here = shown(|path| process.get(path).token(&token)).await;
    assert_eq!(here, before);
    process.signal("TERM");
    process.rest_of_log();

    let red = red();
    until("Node-RED has started its flows", async || red.starts() > 0).await;
    assert_eq!(shown(|path| red.request("GET", path)).await, before);
    let asked = body(red.request("GET", "/do")).await;
    assert_eq!(asked, json!([7, 3, 3, "of a package"]));
    assert_eq!(body(red.request("GET", "/settings/user")).await, settings);
}
