//! The watch after a deployment: flows that are not well are replaced by those before them, on
//! flowgate's own engine and in an upstream.

use crate::harness::{Gateway, flow_set, page, public, until};
use crate::mock_upstream::{Action, MockUpstream, ok, status};
use crate::policies::tab_with;
use crate::proposals::{events, read};
use serde_json::{Value as Json, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A flow whose node gets a message every 20 ms and runs this code.
fn ticking(code: &str) -> Json {
    ticking_on("t", code)
}

/// The same on a tab of this id.
fn ticking_on(tab: &str, code: &str) -> Json {
    let [from, to] = ["i", "f"].map(|id| format!("{tab}{id}"));
    json!([
        { "id": tab, "type": "tab", "label": tab },
        { "id": from, "type": "inject", "z": tab, "x": 1, "y": 1, "once": true, "onceDelay": 0.02, "props": [],
          "repeat": "0.02", "crontab": "", "wires": [[to]] },
        { "id": to, "type": "function", "z": tab, "x": 2, "y": 1, "func": code, "outputs": 1, "wires": [[]] },
    ])
}

/// An endpoint that answers with this status.
fn answering(code: u16) -> Json {
    let mut flows = page("a", "/health", "x");
    for node in &mut flows {
        if node["type"] == "http response" {
            node["statusCode"] = code.to_string().into();
        }
    }
    flow_set(&[flows])
}

async fn falls_back(gateway: &Gateway, token: &str, to: &Json) -> String {
    until("the flows are those before", async || {
        gateway.flows(token).await["flows"] == *to
    })
    .await;
    until("it is counted", async || {
        gateway.metric("flowgate_fallbacks_total").await == Some(1.0)
    })
    .await;
    let event = &events(gateway, "flows.fallback").await[0];
    assert_eq!(event["rev"], gateway.flows(token).await["rev"]);
    event["reason"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_endpoint_that_does_not_answer_well_after_a_deployment_brings_the_flows_before_back() {
    let gateway = Gateway::with(&public(&["/health"]));
    let token = gateway.sign_in("admin").await;
    gateway.deploy(&token, &answering(200)).await;
    let lines = "[policy.health]\nendpoint = \"/health\"\n".to_owned() + &public(&["/health"]);
    assert!(gateway.reload(&lines).await);
    let bad = gateway.deploy(&token, &answering(500)).await;
    let reason = falls_back(&gateway, &token, &answering(200)).await;
    assert_eq!(reason, "/health answered 500");
    assert_eq!(gateway.get("/health").send().await.status, 200);

    let list = read(&gateway, &token, "/gateway/deployments").await;
    assert_eq!(list["deployments"][0]["type"], "fallback");
    assert_eq!(list["deployments"][0]["user"], "");
    assert_eq!(
        (
            &list["deployments"][1]["type"],
            &list["deployments"][1]["rev"]
        ),
        (&json!("set-aside"), &json!(bad))
    );
    let ready = gateway.operations("/readyz").await.json();
    assert_eq!(
        (&ready["status"], &ready["set_aside"]),
        (&json!("degraded"), &json!(bad))
    );

    // The next deployment is watched like any other.
    gateway.deploy(&token, &json!([])).await;
    let without = "no http in node is on /health";
    until("it falls back again", async || {
        events(&gateway, "flows.fallback").await.len() == 2
    })
    .await;
    assert_eq!(
        events(&gateway, "flows.fallback").await[1]["reason"],
        without
    );
    assert_eq!(gateway.flows(&token).await["flows"], answering(200));
}

#[tokio::test]
async fn flows_whose_nodes_report_errors_or_whose_timers_are_late_are_replaced() {
    for (lines, code, words) in [
        (
            "max_error_rate = 0.2",
            "throw new Error('no')",
            "errors for",
        ),
        (
            "max_lateness = \"40ms\"",
            "const end = Date.now() + 200; while (Date.now() < end) {}",
            "late on average",
        ),
    ] {
        let gateway = Gateway::start();
        let token = gateway.sign_in("admin").await;
        let good = tab_with("a", "comment");
        gateway.deploy(&token, &good).await;
        let lines = format!("[policy.health]\n{lines}\n");
        assert!(gateway.reload(&lines).await);
        gateway.deploy(&token, &ticking(code)).await;
        let reason = falls_back(&gateway, &token, &good).await;
        assert!(reason.contains(words), "{reason}");
    }
}

fn together(parts: &[&Json]) -> Json {
    let elements = parts.iter().filter_map(|part| part.as_array());
    elements.flatten().cloned().collect()
}

#[tokio::test]
async fn a_flow_of_a_user_that_fails_takes_back_no_change_of_another_user() {
    let gateway = Gateway::start();
    let admin = gateway.sign_in("admin").await;
    let deployer = gateway.sign_in("deployer").await;
    let failing = "throw new Error('no')";
    // One flow fails all the time.
    let noisy = ticking_on("n", failing);
    gateway.deploy(&admin, &noisy).await;
    let lines = "[policy.health]\nmax_error_rate = 0.2\nseconds = 4\n";
    assert!(gateway.reload(lines).await);
    let good = together(&[&noisy, &tab_with("b", "comment")]);
    gateway.deploy(&admin, &good).await;
    // Another one fails from the deployment of its user on: that deployment is taken back, not the
    // one before.
    let bad = together(&[&good, &ticking_on("x", failing)]);
    gateway.deploy(&deployer, &bad).await;
    falls_back(&gateway, &admin, &good).await;
    // Then the watch of the other user's goes on, for its four seconds.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(gateway.flows(&admin).await["flows"], good);
}

/// A server whose `/health` fails while its flows have an exec node, or while the flag is set.
async fn ailing() -> (MockUpstream, Arc<Mutex<bool>>) {
    let ill = Arc::new(Mutex::new(false));
    let state = Mutex::new((json!([]), 0));
    let flag = Arc::clone(&ill);
    let server = MockUpstream::start(move |request| {
        let (flows, count) = &mut *state.lock().unwrap();
        if request.starts_with("POST /flows ") {
            let body = request.split_once("\r\n\r\n").unwrap().1;
            let sent: Json = serde_json::from_str(body).unwrap();
            *flows = sent.get("flows").unwrap_or(&sent).clone();
            *count += 1;
        }
        if request.starts_with("GET /health") {
            let is_ill = *flag.lock().unwrap() || flows.to_string().contains("exec");
            let line = if is_ill {
                "503 Service Unavailable"
            } else {
                "204 No Content"
            };
            return Action::Respond(status(line, "text/plain", ""));
        }
        let shown = json!({ "flows": flows, "rev": count.to_string() });
        Action::Respond(ok("application/json", &shown.to_string()))
    });
    (server.await, ill)
}

#[tokio::test]
async fn a_url_that_does_not_answer_well_brings_the_flows_before_back_in_an_upstream_and_on_the_engine()
 {
    let good = tab_with("a", "comment");
    let (server, ill) = ailing().await;
    let health = format!(
        "[policy.health]\nurl = \"http://{}/health\"\n",
        server.address
    );
    let gateway = Gateway::with(&server.config());
    let token = gateway.sign_in("deployer").await;
    gateway.deploy(&token, &good).await;
    assert!(gateway.reload(&(server.config() + &health)).await);
    // The first of these is not well either, so it is not what comes back.
    gateway.deploy(&token, &tab_with("b", "exec")).await;
    gateway.deploy(&token, &tab_with("c", "exec")).await;
    let reason = falls_back(&gateway, &token, &good).await;
    assert!(reason.ends_with("/health answered 503"), "{reason}");

    let gateway = Gateway::with(&health);
    let token = gateway.sign_in("deployer").await;
    gateway.deploy(&token, &good).await;
    *ill.lock().unwrap() = true;
    let reason = falls_back(&gateway, &token, &json!([])).await;
    assert!(reason.ends_with("/health answered 503"), "{reason}");
}

#[tokio::test]
async fn flows_that_were_watched_and_are_well_stay_and_are_what_comes_back_later() {
    let (server, ill) = ailing().await;
    let lines = format!(
        "[policy.health]\nurl = \"http://{}/health\"\nseconds = 1\n",
        server.address
    );
    let gateway = Gateway::with(&lines);
    let token = gateway.sign_in("deployer").await;
    let good = tab_with("a", "comment");
    gateway.deploy(&token, &good).await;
    let asked = || server.received().len();
    until("it was watched", async || asked() > 0).await;
    // The watch of one second has one check, and ends when it has the answer.
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let looks = asked();
    *ill.lock().unwrap() = true;
    assert_eq!(gateway.flows(&token).await["flows"], good);
    assert_eq!(asked(), looks);
    gateway.deploy(&token, &tab_with("b", "comment")).await;
    falls_back(&gateway, &token, &good).await;
}
