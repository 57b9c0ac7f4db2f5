//! Deploying through the gateway while others deploy past it, and while Node-RED ends and comes
//! back.

use super::NodeRed;
use crate::harness::{Gateway, flow_set, page, public, until};
use serde_json::json;

#[tokio::test]
async fn a_deployment_past_the_gateway_is_a_conflict_for_older_revisions() {
    let red = NodeRed::open();
    let gateway = Gateway::with(&(red.config() + &public(&["/hello"])));
    let token = gateway.sign_in("admin").await;
    let first = flow_set(&[page("a", "/hello", "first")]);
    let rev = gateway.deploy(&token, &first).await;
    assert_eq!(gateway.flows(&token).await["rev"], rev.as_str());

    let second = flow_set(&[page("a", "/hello", "second")]);
    let other = red.deploy(&second).await;
    let third = flow_set(&[page("a", "/hello", "third")]);
    let stale = gateway.deployment(&token, &third, Some(&rev)).send().await;
    assert_eq!(
        (stale.status, stale.code().as_str()),
        (409, "version_mismatch")
    );
    until("the second flow answers", async || {
        gateway.get("/hello").send().await.text() == "second"
    })
    .await;

    let fresh = gateway
        .deployment(&token, &third, Some(&other))
        .send()
        .await;
    assert_eq!(fresh.status, 200, "{}", fresh.text());
    until("the third flow answers", async || {
        gateway.get("/hello").send().await.text() == "third"
    })
    .await;
    let noticed = gateway
        .audit()
        .into_iter()
        .any(|line| line["event"] == "flows.outside_edit");
    assert!(noticed, "{:?}", gateway.audit());
}

#[tokio::test]
async fn while_node_red_is_unavailable_clients_get_errors_and_it_recovers_at_once() {
    let red = NodeRed::open();
    let gateway = Gateway::with(&(red.config_with("health = \"50ms\"") + &public(&["/hello"])));
    let token = gateway.sign_in("admin").await;
    let flows = flow_set(&[page("a", "/hello", "hello")]);
    let rev = gateway.deploy(&token, &flows).await;
    until("ready", async || {
        gateway.operations("/readyz").await.status == 200
    })
    .await;

    let start_again = red.stop();
    let gone = [
        gateway.get("/flows").token(&token),
        gateway.get("/hello"),
        gateway.get("/"),
        gateway.get("/settings").token(&token),
        gateway.deployment(&token, &flows, Some(&rev)),
        gateway.request("DELETE", "/flow/a").token(&token),
        gateway.post("/inject/x").token(&token),
    ];
    for request in gone {
        let answer = request.clone().send().await;
        let refusal = (answer.status, answer.code());
        assert!(
            matches!((refusal.0, refusal.1.as_str()), (502, code) if code.starts_with("upstream_")),
            "{refusal:?}"
        );
    }
    until("not ready", async || {
        gateway.operations("/readyz").await.status == 503
    })
    .await;
    // Who signs in needs no Node-RED for it.
    assert!(!gateway.sign_in("reader").await.is_empty());

    let red = start_again();
    assert_eq!(gateway.get("/theme").send().await.status, 200, "at once");
    until("its flows run", async || {
        gateway.get("/hello").send().await.text() == "hello"
    })
    .await;
    let again = gateway.deployment(&token, &flows, Some(&rev)).send().await;
    assert_eq!(again.status, 200, "{}", again.text());
    until("ready again", async || {
        gateway.operations("/readyz").await.status == 200
    })
    .await;
    assert!(!red.log().contains("ncaught"), "{}", red.log());
}

#[tokio::test]
async fn a_deployment_that_crashes_node_red_is_an_error_and_the_next_one_passes() {
    let red = NodeRed::open();
    let gateway = Gateway::with(&(red.config() + &public(&["/hello"])));
    let token = gateway.sign_in("admin").await;
    // Stopping this node takes for ever, and the answer comes after that.
    let slow = json!([
        { "id": "t", "type": "tab", "label": "slow" },
        { "id": "f", "type": "function", "z": "t", "x": 1, "y": 1, "wires": [[]], "func": "return msg",
          "initialize": "node.warn('it lives')",
          "finalize": "node.warn('it closes'); const end = Date.now() + 60000; while (Date.now() < end);" },
    ]);
    gateway.deploy(&token, &slow).await;
    until("it runs", async || red.log().contains("it lives")).await;
    let flows = flow_set(&[page("a", "/hello", "hello")]);
    let under_way = tokio::spawn(gateway.deployment(&token, &flows, None).send());
    until("the deployment has begun", async || {
        red.log().contains("it closes")
    })
    .await;
    let start_again = red.stop();
    let answer = under_way.await.unwrap();
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (502, "upstream_closed")
    );
    let _red = start_again();
    gateway.deploy(&token, &flows).await;
    until("the flow answers", async || {
        gateway.get("/hello").send().await.text() == "hello"
    })
    .await;
}

#[tokio::test]
async fn a_flow_set_of_exactly_the_limit_passes_and_one_byte_more_does_not() {
    let red = NodeRed::open();
    let gateway = Gateway::with(&red.config());
    let token = gateway.sign_in("admin").await;
    let flows = |size: usize| {
        let comment = |info: &str| {
            json!({ "flows": [
                { "id": "t", "type": "tab", "label": "much" },
                { "id": "c", "type": "comment", "z": "t", "x": 1, "y": 1, "info": info, "wires": [] },
            ]})
        };
        let rest = comment("").to_string().len();
        comment(&"x".repeat(size - rest))
    };
    // What Node-RED calls 5mb, and the gateway 5MiB.
    let limit = 5 << 20;
    let deploy = async |flows: &serde_json::Value| {
        let request = gateway.post("/flows").token(&token);
        let request = request.header("Node-RED-API-Version", "v2").json(flows);
        request.send().await
    };
    let most = flows(limit);
    assert_eq!(most.to_string().len(), limit);
    let answer = deploy(&most).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(gateway.flows(&token).await["flows"], most["flows"]);
    let (host, more) = (gateway.address, flows(limit + 1).to_string());
    let head = format!(
        "POST /flows HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n",
        more.len()
    );
    let answer = gateway.raw_exchange(&(head + &more)).await;
    assert!(
        answer.starts_with("HTTP/1.1 413 ") && answer.contains("body_too_large"),
        "{answer}"
    );
}
