//! A real Node-RED with adminAuth, where the gateway has an account of its own.

use super::{NodeRed, Release};
use crate::harness::{Gateway, flow_set, hash, page, public, until};
use serde_json::json;

#[tokio::test]
async fn the_gateway_signs_in_with_its_account_and_again_when_its_session_is_lost() {
    let users = format!(
        r#"adminAuth: {{ type: "credentials", users: [{{
            username: "flowgate", password: "{}", permissions: "*" }}] }},"#,
        hash("pass & word")
    );
    let red = NodeRed::start(Release::Four, &users);
    let account = "user = \"flowgate\"\npassword = \"pass & word\"";
    let gateway = Gateway::with(
        &(red.config_with(account) + &public(&["/hello"]) + "[comms]\nupstream_away = \"1m\"\n"),
    );
    let token = gateway.sign_in("admin").await;
    let direct = red.request("GET", "/flows").token(&token).send().await;
    assert_eq!(
        direct.status, 401,
        "the callers' tokens are the gateway's only"
    );

    let mut editor = gateway.editor(&token).await;
    editor.subscribe("notification/#").await;
    let first = gateway
        .deploy(&token, &flow_set(&[page("a", "/hello", "first")]))
        .await;
    let revision = json!({ "revision": first });
    editor
        .find(|message| (message["data"] == revision).then_some(()))
        .await;

    let sessions = red.directory.path().join(".sessions.json");
    let start_again = red.stop();
    std::fs::remove_file(sessions).unwrap();
    let red = start_again();
    let second = flow_set(&[page("a", "/hello", "second")]);
    let answer = gateway
        .deployment(&token, &second, Some(&first))
        .send()
        .await;
    let revision = json!({ "revision": answer.rev() });
    until("the second flow answers", async || {
        gateway.get("/hello").send().await.text() == "second"
    })
    .await;
    editor
        .find(|message| (message["data"] == revision).then_some(()))
        .await;
    // Callers sign in at the gateway, which refuses a wrong password.
    assert_eq!(
        gateway
            .sign_in_request("admin", "wrong", "")
            .send()
            .await
            .status,
        400
    );
    assert!(!red.log().contains("ncaught"), "{}", red.log());
}
