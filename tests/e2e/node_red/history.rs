//! The history in front of a real Node-RED: promoting to it and from it, and rolling back whole and
//! one flow.

use super::NodeRed;
use crate::client::Client;
use crate::harness::{Gateway, flow_set, page, public, until};
use crate::promote::Two;
use serde_json::{Value as Json, json};

/// Two pages, and a broker on the first one's tab.
fn pages(a: &str, b: &str) -> Json {
    let mut flows = flow_set(&[page("a", "/a", a), page("b", "/b", b)]);
    flows.as_array_mut().unwrap().push(json!({
        "id": "broker", "type": "mqtt-broker", "z": "a", "name": "", "broker": "localhost", "port": "1",
        "autoConnect": false, "credentials": { "user": "u", "password": "hunter2" },
    }));
    flows
}

async fn shows(gateway: &Client, expected: [&str; 2]) {
    until(expected[0], async || {
        let (a, b) = (
            gateway.get("/a").send().await,
            gateway.get("/b").send().await,
        );
        [a.text(), b.text()] == expected
    })
    .await;
}

async fn newest(gateway: &Client, token: &str) -> Json {
    let list = gateway.get("/gateway/deployments").token(token);
    list.send().await.json()["deployments"][0].clone()
}

#[tokio::test]
async fn flows_are_promoted_from_the_engine_to_node_red_and_back() {
    let red = NodeRed::open();
    let paths = public(&["/a", "/b"]);
    let engine = Gateway::with(&paths);
    let front = Gateway::with(&(red.config() + &paths));
    let admin = engine.sign_in("admin").await;
    let rev = engine.deploy(&admin, &pages("one", "two")).await;
    let two = Two::of(engine, front).await;
    let (fine, said, error) = two.promote(&rev, &["--check"]).await;
    assert!(fine && said.contains("start"), "{said}{error}");
    let (fine, said, error) = two.promote(&rev, &["--message", "tested"]).await;
    assert!(fine, "{error}");
    assert!(said.ends_with("without credentials: broker\n"), "{said}");
    shows(&two.to, ["one", "two"]).await;
    let there = two.to.sign_in("admin").await;
    let entry = newest(&two.to, &there).await;
    assert_eq!(
        entry["message"],
        format!("tested (import of {rev} from engine)")
    );
    assert_eq!(
        entry["changes"]["added"],
        pages("", "").as_array().unwrap().len()
    );

    // Changed there, and taken back to the engine, which keeps the credentials that it has.
    let changed = two.to.deploy(&there, &pages("three", "two")).await;
    let back = Two::of(two.to, two.from).await;
    let (fine, said, error) = back.promote(&changed, &[]).await;
    assert!(fine, "{error}");
    assert!(
        said.starts_with(&format!("deployed {changed} as ")),
        "{said}"
    );
    shows(&back.to, ["three", "two"]).await;
    let kept = back.to.get("/credentials/mqtt-broker/broker").token(&admin);
    let kept = kept.send().await.json();
    assert_eq!(kept, json!({ "user": "u", "has_password": true }));
    let entry = newest(&back.to, &admin).await;
    let message = entry["message"].as_str().unwrap();
    assert!(
        message.starts_with(&format!("import of {changed} from ")),
        "{message}"
    );
}

#[tokio::test]
async fn flows_of_node_red_are_rolled_back_whole_and_one_by_one() {
    let red = NodeRed::open();
    let gateway = Gateway::with(&(red.config() + &public(&["/a", "/b"])));
    let token = gateway.sign_in("admin").await;
    let first = gateway.deploy(&token, &pages("one", "one")).await;
    let mut later = pages("two", "two");
    later.as_array_mut().unwrap().pop();
    let second = gateway.deploy(&token, &later).await;
    shows(&gateway, ["two", "two"]).await;
    let roll_back = async |path: &str, active: &str| {
        let path = format!("/gateway/deployments/{path}");
        let request = gateway
            .post(&path)
            .token(&token)
            .header("Flowgate-Message", "back");
        let answer = request.json(&json!({ "rev": active })).send().await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.json()
    };

    // One flow: the other stays, and the entry says what it was.
    let one = roll_back(&format!("{first}/rollback?flow=b"), &second).await;
    shows(&gateway, ["two", "one"]).await;
    let active = one["rev"].as_str().unwrap();
    assert_eq!(gateway.flows(&token).await["rev"], active);
    assert_eq!(one["without_credentials"], json!([]));
    let entry = newest(&gateway, &token).await;
    assert_eq!(
        (&entry["rev"], &entry["message"]),
        (&json!(active), &json!("back"))
    );
    assert_eq!(
        (&entry["changes"]["changed"], &entry["user"]),
        (&json!(1), &json!("admin"))
    );

    // The whole: the broker comes back, and Node-RED has forgotten its password.
    let whole = roll_back(&format!("{first}/rollback"), active).await;
    assert_eq!(
        (&whole["credentials"], &whole["without_credentials"]),
        (&json!("kept"), &json!(["broker"]))
    );
    shows(&gateway, ["one", "one"]).await;
    let shown = gateway.get("/credentials/mqtt-broker/broker").token(&token);
    assert_eq!(shown.send().await.json(), json!({}));
    assert_eq!(newest(&gateway, &token).await["rev"], whole["rev"]);
}
