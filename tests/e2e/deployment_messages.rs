//! `Flowgate-Message`: kept in the history and the audit log, and never sent on.

use crate::harness::{Gateway, flow_set, page};
use crate::mock_upstream::{Action, MockUpstream, ok};
use serde_json::{Value as Json, json};

const MESSAGE: &str = "gr%C3%B6%C3%9Fere Pumpe, 100% gepr%C3%BCft";
const DECODED: &str = "größere Pumpe, 100% geprüft";

/// The messages of the audited deployments.
fn audited(gateway: &Gateway) -> Vec<Json> {
    let log = gateway.audit().into_iter();
    let deployed = log.filter(|line| line["event"] == "flows.deploy");
    deployed.map(|line| line["message"].clone()).collect()
}

#[tokio::test]
async fn a_message_is_kept_with_every_kind_of_change() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    let flow = json!({ "id": "a", "label": "x", "nodes": [] });
    let requests = [
        gateway.deployment(&token, &flow_set(&[page("t", "/t", "1")]), None),
        gateway.post("/flow").token(&token).json(&flow),
    ];
    let mut id = String::new();
    for request in requests {
        let answer = request.header("Flowgate-Message", MESSAGE).send().await;
        assert!(answer.status < 300, "{}", answer.text());
        id = answer.json()["id"].as_str().unwrap_or_default().to_owned();
    }
    let path = format!("/flow/{id}");
    let replaced = gateway.request("PUT", &path).token(&token).json(&flow);
    let replaced = replaced
        .header("Flowgate-Message", "two words")
        .send()
        .await;
    assert_eq!(replaced.status, 200, "{}", replaced.text());
    let removed = gateway.request("DELETE", &path).token(&token).send().await;
    assert_eq!(removed.status, 204);

    let list = gateway
        .get("/gateway/deployments")
        .token(&token)
        .send()
        .await;
    let list = list.json();
    let entries = list["deployments"].as_array().unwrap().iter();
    let messages: Vec<_> = entries.map(|entry| entry["message"].clone()).collect();
    assert_eq!(messages, ["", "two words", DECODED, DECODED]);
    let expected = [
        json!(DECODED),
        json!(DECODED),
        json!("two words"),
        Json::Null,
    ];
    assert_eq!(audited(&gateway), expected);
}

#[tokio::test]
async fn a_malformed_message_changes_nothing() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    for (sent, reason) in [
        ("%00", "Flowgate-Message must have no control characters"),
        (
            "%C3",
            "Flowgate-Message must be UTF-8, plain or percent-encoded",
        ),
        (
            &"x".repeat(501),
            "Flowgate-Message must have at most 500 characters",
        ),
    ] {
        let request = gateway.deployment(&token, &json!([]), None);
        let answer = request.header("Flowgate-Message", sent).send().await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (400, "invalid_header")
        );
        assert_eq!(answer.json()["message"], reason);
    }
    assert_eq!(audited(&gateway), [Json::Null; 0]);
}

#[tokio::test]
async fn a_message_is_audited_in_front_of_an_upstream_and_not_sent_there() {
    let behind = MockUpstream::start(|_| {
        Action::Respond(ok("application/json", r#"{"flows":[],"rev":"1","id":"a"}"#))
    })
    .await;
    let gateway = Gateway::with(&behind.config());
    let token = gateway.sign_in("admin").await;
    let flow = json!({ "id": "a", "label": "x", "nodes": [] });
    for request in [
        gateway.deployment(&token, &json!([]), None),
        gateway.post("/flow").token(&token).json(&flow),
        gateway.request("DELETE", "/flow/a").token(&token),
        gateway.get("/settings").token(&token),
        gateway.get("/hello").token(&token),
    ] {
        let answer = request.header("Flowgate-Message", MESSAGE).send().await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    assert_eq!(audited(&gateway), [DECODED; 3].map(Json::from));
    for received in behind.received() {
        let bytes = received.bytes.to_ascii_lowercase();
        assert!(!bytes.contains("flowgate-message"), "{bytes}");
    }
}
