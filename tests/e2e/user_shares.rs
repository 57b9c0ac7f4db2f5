//! Shares of users who have signed in: one who floods the gateway with work, or does not read what
//! was asked for, holds up no one else.

use crate::bystander::waits;
use crate::client::{PASSWORD, Request};
use crate::fail_over::cluster;
use crate::harness::{Gateway, flow_set, page, public, until};
use crate::isolation::children;
use crate::stopwatch::Stopwatch;
use hyper::body::Incoming;
use hyper::{Response, StatusCode};
use serde_json::{Value as Json, json};
use std::cell::Cell;
use std::time::Duration;
use tokio::task::JoinSet;

/// A flow set of this many bytes, about.
fn large(bytes: usize) -> Json {
    let mut flows = page("hello", "/hello", "hello");
    let name = "n".repeat(120);
    flows.extend((0..bytes / 200).map(|n| {
        json!({ "id": format!("x{n:07}"), "type": "comment", "z": "hello", "name": name, "x": 1, "y": 1, "wires": [] })
    }));
    flow_set(&[flows])
}

/// Sends requests of a user over and over, several at a time, until the other work has ended; all
/// are answered, or refused for a moment.
async fn beside_a_flood<T>(flood: impl AsyncFn() -> u16, work: impl Future<Output = T>) -> T {
    let is_over = Cell::new(false);
    let floods = (0..16).map(|_| async {
        while !is_over.get() {
            let status = flood().await;
            assert!([200, 503].contains(&status), "{status}");
        }
    });
    let flooding = futures_util::future::join_all(floods);
    let working = async {
        let done = work.await;
        is_over.set(true);
        done
    };
    tokio::join!(flooding, working).1
}

/// What the other users and the operator want meanwhile.
async fn assert_others_are_served_in_time(gateway: &Gateway) {
    for _ in 0..5 {
        let stopwatch = Stopwatch::start();
        assert_eq!(gateway.operations("/readyz").await.status, 200);
        stopwatch.assert_within(Duration::from_millis(500));
        let stopwatch = Stopwatch::start();
        let sign_in = gateway.sign_in_request("admin", PASSWORD, "").send().await;
        assert_eq!(sign_in.status, 200);
        stopwatch.assert_within(Duration::from_millis(1500));
    }
}

/// A gateway with an endpoint, and a check of a large flow set by one of its users.
async fn with_large_checks() -> (Gateway, Request) {
    let gateway = Gateway::with(&public(&["/hello"]));
    let token = gateway.sign_in("admin").await;
    gateway
        .deploy(&token, &flow_set(&[page("hello", "/hello", "hello")]))
        .await;
    let reader = gateway.sign_in("reader").await;
    let body = json!({ "flows": large(4 << 20) });
    let check = gateway.post("/gateway/check").token(&reader);
    let check = check.header("Service-API-Version", "v2").json(&body);
    (gateway, check)
}

#[tokio::test]
async fn a_flood_of_checks_of_one_user_lets_others_sign_in_within_a_second() {
    let (gateway, check) = with_large_checks().await;
    let flood = async || check.clone().send().await.status;
    let meanwhile = async {
        assert_others_are_served_in_time(&gateway).await;
        let token = gateway.sign_in("admin").await;
        let deployed = gateway.deployment(&token, &json!([]), None).send().await;
        assert_eq!(deployed.status, 200, "another user deploys meanwhile");
    };
    beside_a_flood(flood, Box::pin(meanwhile)).await;
}

#[tokio::test]
async fn a_flood_of_checks_of_one_user_costs_the_leader_of_a_cluster_no_lease() {
    let (_postgres, one, other) = cluster().await;
    let token = one.sign_in("admin").await;
    let flows = flow_set(&[page("a", "/a", "runs")]);
    one.deploy(&token, &flows).await;
    let engine = children(one.process().id());
    let reader = one.sign_in("reader").await;
    let body = json!({ "flows": large(4 << 20) });
    let check = one.post("/gateway/check").token(&reader);
    let check = check.header("Service-API-Version", "v2").json(&body);
    let flood = async || check.clone().send().await.status;
    let meanwhile = async {
        // Three times as long as a lease of `grace = "3s"` lasts without a renewal.
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert!(one.leads().await && !other.leads().await);
            let answer = one.get("/a").send().await;
            assert_eq!((answer.status, answer.text().as_str()), (200, "runs"));
        }
    };
    beside_a_flood(flood, Box::pin(meanwhile)).await;
    assert_eq!(
        children(one.process().id()),
        engine,
        "the engine has not ended"
    );
}

#[tokio::test]
async fn a_flood_of_differences_of_one_user_lets_others_sign_in_within_a_second() {
    let gateway = Gateway::with(&public(&["/hello"]));
    let token = gateway.sign_in("admin").await;
    let first = gateway.deploy(&token, &large(2 << 20)).await;
    let second = gateway
        .deploy(&token, &flow_set(&[page("hello", "/hello", "other")]))
        .await;
    let reader = gateway.sign_in("reader").await;
    let path = format!("/gateway/diff?from={first}&to={second}");
    let flood = async || gateway.get(&path).token(&reader).send().await.status;
    let meanwhile = Box::pin(assert_others_are_served_in_time(&gateway));
    beside_a_flood(flood, meanwhile).await;
}

/// Requests of which the client reads nothing; the heads of their responses.
async fn unread(gateway: &Gateway, token: &str, count: usize) -> (Vec<Response<Incoming>>, usize) {
    let mut asked = JoinSet::new();
    for _ in 0..count {
        let mut connection = gateway.connect(false).await.unwrap();
        let request = gateway.get("/flows").token(token);
        asked.spawn(async move { (connection.begin(request).await.unwrap(), connection) });
    }
    let answered = asked.join_all().await;
    let (held, refused): (Vec<_>, Vec<_>) = answered
        .into_iter()
        .partition(|(response, _)| response.status() == StatusCode::OK);
    (
        held.into_iter().map(|(response, _)| response).collect(),
        refused.len(),
    )
}

#[tokio::test]
async fn responses_that_a_user_does_not_read_are_bounded_and_others_get_theirs() {
    // More than the kernel keeps for a connection.
    let lines = "[limits]\nbody = \"16MiB\"\nuser_bytes = \"96MiB\"\nbytes_per_user = \"48MiB\"\n\
                 [timeouts]\nbody_idle = \"1h\"";
    let gateway = Gateway::with(lines);
    let admin = gateway.sign_in("admin").await;
    gateway.deploy(&admin, &large(14 << 20)).await;
    let reader = gateway.sign_in("reader").await;
    let (held, refused) = unread(&gateway, &reader, 10).await;
    assert!((1..=4).contains(&held.len()), "{} are held", held.len());
    assert_eq!(held.len() + refused, 10);
    let refusal = gateway.get("/flows").token(&reader).send().await;
    assert_eq!(
        (refusal.status, refusal.code().as_str()),
        (503, "memory_busy")
    );
    assert_eq!(gateway.get("/flows").token(&admin).send().await.status, 200);
    drop(held);
    until("the memory is free again", async || {
        gateway.get("/flows").token(&reader).send().await.status == 200
    })
    .await;
}

#[tokio::test]
async fn bodies_that_a_user_does_not_finish_are_bounded_and_others_deploy() {
    let lines = "[limits]\nbody = \"1MiB\"\nuser_bytes = \"6MiB\"\nbytes_per_user = \"3MiB\"\n[timeouts]\nbody_idle = \"1h\"\nbody_grace = \"1h\"";
    let gateway = Gateway::with(lines);
    let admin = gateway.sign_in("admin").await;
    let reader = gateway.sign_in("reader").await;
    let head = format!(
        "POST /gateway/check HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {reader}\r\n\
         Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
    );
    let asked = (0..6).map(|_| async {
        let mut raw = gateway.raw().await;
        raw.send(&(head.clone() + "[")).await;
        // What is refused is answered at once, all else not before its end.
        let answer = tokio::time::timeout(Duration::from_secs(5), raw.receive()).await;
        answer.map_err(|_| raw)
    });
    let answers = futures_util::future::join_all(asked).await;
    let (refused, unfinished): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    for answer in refused.iter().flatten() {
        assert!(answer.contains("memory_busy"), "{answer}");
    }
    assert_eq!((unfinished.len(), refused.len()), (3, 3));
    let flows = flow_set(&[page("a", "/a", "a")]);
    gateway.deploy(&admin, &flows).await;
}

#[tokio::test]
async fn endpoints_answer_within_bounds_while_a_user_floods_the_gateway_with_checks() {
    let (gateway, check) = with_large_checks().await;
    let flood = (0..16).map(|_| check.clone().send());
    let flood = async { drop(futures_util::future::join_all(flood).await) };
    waits(&gateway, "/hello", flood)
        .await
        .assert_bearable("while a user floods the gateway");
}
