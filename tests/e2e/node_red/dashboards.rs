//! Dashboards of a real Node-RED behind the sign-in page, in headless Chromium: two users, a
//! Node-RED that restarts, and a session that ends in the middle.

use super::{NodeRed, Release};
use crate::editor::play_with;
use crate::harness::{Gateway, until};
use crate::node_host::dashboards::install;
use serde_json::Value as Json;
use tokio::runtime::Handle;

/// A dashboard at a path, with the scenario of `tests/editor` and its flows.
async fn play(scenario: &str, package: &str, path: &str, flows: &str) {
    let red = NodeRed::prepared(Release::Four, |directory| install(directory, &[package]));
    let route = format!(
        "[[route]]\npath = \"{path}\"\nprefix = true\npermission = \"http.read\"\nsign_in = \"page\"\n"
    );
    let gateway = Gateway::with(&(red.config() + &route));
    let token = gateway.sign_in("admin").await;
    let flows: Json = serde_json::from_str(flows).unwrap();
    gateway.deploy(&token, &flows).await;
    until("the dashboard is there", async || {
        let answer = gateway.get(path).token(&token).send().await;
        matches!(answer.status, 200 | 301 | 302)
    })
    .await;
    let client = (*gateway).clone();
    let (mut red, ending, test) = (Some(red), client.clone(), Handle::current());
    let cues = move |cue: &str| match cue {
        "restart Node-RED" => red = red.take().map(|red| red.stop()()),
        "end the reader's sessions" => {
            let request = ending.request("DELETE", "/gateway/sessions?user=reader");
            let ended = test.block_on(request.token(&token).send());
            assert_eq!(ended.status, 200, "{}", ended.text());
        }
        other => panic!("unknown cue: {other}"),
    };
    play_with(scenario, &client, cues).await;
}

#[tokio::test]
async fn users_of_node_reds_dashboard_sign_in_and_again_when_their_session_has_ended() {
    play(
        "dashboard_3_session",
        "node-red-dashboard",
        "/ui",
        include_str!("../../editor/dashboard_3.json"),
    )
    .await;
}

#[tokio::test]
async fn users_of_flowfuses_dashboard_sign_in_and_again_when_their_session_has_ended() {
    play(
        "dashboard_flowfuse_session",
        "@flowfuse/node-red-dashboard",
        "/dashboard",
        include_str!("../../editor/dashboard_flowfuse.json"),
    )
    .await;
}
