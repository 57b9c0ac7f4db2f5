//! Using the stock command-line client against a real Node-RED, through the gateway and its
//! self-signed certificate.
//!
//! Its `search` asks a catalogue on the internet, not the target, and is not tried here.

use super::{NodeRed, PROTECTED, Release, TOKEN};
use crate::admin_cli::{Machine, stderr, stdout};
use crate::client::PASSWORD;
use crate::harness::{Gateway, until};
use serde_json::json;

#[tokio::test]
async fn the_stock_client_lists_and_switches_the_nodes_of_a_protected_node_red() {
    let red = NodeRed::start(Release::Four, PROTECTED);
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("token"), TOKEN).unwrap();
    let gateway = Gateway::open(&red.config_with("token_file = \"token\""), directory);
    let machine = Machine::that_trusts(&gateway);
    let url = format!("https://{}", gateway.address);
    machine.run(&["target", &url]).await;
    let anonymous = stderr(&machine.run(&["list"]).await);
    assert_eq!(anonymous, "Not logged in. Use 'login' to log in.\n");

    let signed_in = stdout(&machine.log_in(&gateway, "admin", PASSWORD).await);
    assert!(signed_in.contains("Logged in"), "{signed_in}");
    let list = stdout(&machine.run(&["list"]).await);
    assert!(list.contains("node-red/mqtt"), "{list}");
    let module = stdout(&machine.run(&["info", "node-red"]).await);
    assert!(module.contains("4.1"), "{module}");

    let state = async |nodes: &str| {
        let shown = machine.run(&["info", nodes, "--json"]).await;
        serde_json::from_slice::<serde_json::Value>(&shown.stdout).unwrap()["enabled"].clone()
    };
    assert_eq!(state("node-red/rbe").await, true);
    let disabled = stdout(&machine.run(&["disable", "node-red/rbe"]).await);
    assert!(disabled.contains("disabled"), "{disabled}");
    assert_eq!(state("node-red/rbe").await, false);
    machine.run(&["enable", "node-red/rbe"]).await;
    assert_eq!(state("node-red/rbe").await, true);

    for (arguments, wanted) in [
        (["info", "nope"], "404: "),
        (["enable", "node-red/nope"], "400: "),
        (["remove", "nope"], "404: "),
    ] {
        let error = stderr(&machine.run(&arguments).await);
        assert!(error.starts_with(wanted), "{arguments:?}: {error}");
    }
    let off = stderr(&machine.run(&["projects"]).await);
    assert!(off.starts_with("404"), "projects are off: {off}");
}

#[tokio::test]
async fn the_stock_client_lists_the_projects_that_were_made_through_the_gateway() {
    let projects = "editorTheme: { projects: { enabled: true } },";
    let red = NodeRed::start(Release::Four, projects);
    let gateway = Gateway::with(&red.config());
    let token = gateway.sign_in("admin").await;
    // Making the first one and its commit is git's work.
    let who = json!({ "git": { "user": { "name": "a", "email": "a@example.org" } } });
    let settings = gateway.post("/settings/user").token(&token).json(&who);
    assert_eq!(settings.send().await.status, 204);
    let project = json!({
        "name": "first", "summary": "", "files": { "flow": "flows.json" },
        "credentialSecret": "secret", "git": { "remotes": {} },
    });
    let made = gateway.post("/projects").token(&token).json(&project);
    let made = made.send().await;
    assert_eq!(made.status, 200, "{}", made.text());

    let machine = Machine::that_trusts(&gateway);
    machine.log_in(&gateway, "admin", PASSWORD).await;
    until("the project is listed", async || {
        stdout(&machine.run(&["projects"]).await).contains("first")
    })
    .await;
    for part in ["", "/status", "/files", "/branches", "/commits", "/remotes"] {
        let path = format!("/projects/first{part}");
        let reader = gateway.sign_in("reader").await;
        assert_eq!(
            gateway.get(&path).token(&reader).send().await.status,
            200,
            "{path}"
        );
        assert_eq!(gateway.get(&path).send().await.status, 401, "{path}");
    }
    let branch = json!({ "name": "other", "create": true });
    let branch = || gateway.post("/projects/first/branches").json(&branch);
    let reader = gateway.sign_in("reader").await;
    assert_eq!(branch().token(&reader).send().await.status, 401);
    let made = branch().token(&token).send().await;
    assert!(made.status < 300, "{}", made.text());
}
