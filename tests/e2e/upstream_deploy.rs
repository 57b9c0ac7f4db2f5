//! Deployments to an upstream: validated first, one at a time, and the upstream's response decides.

use crate::harness::Gateway;
use crate::mock_upstream::{Action, MockUpstream, ok, status};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;

/// A runtime whose revision is the number of its deployments; each takes a moment.
async fn counting() -> (MockUpstream, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(1));
    let own = Arc::clone(&count);
    let behind = MockUpstream::start(move |request| {
        if request.starts_with("POST /flows ") {
            let rev = own.fetch_add(1, Ordering::SeqCst) + 1;
            return Action::Delay(
                20,
                ok(
                    "application/json",
                    &json!({ "rev": rev.to_string() }).to_string(),
                ),
            );
        }
        let rev = own.load(Ordering::SeqCst).to_string();
        Action::Respond(ok(
            "application/json",
            &json!({ "flows": [], "rev": rev }).to_string(),
        ))
    })
    .await;
    (behind, count)
}

fn posts(behind: &MockUpstream) -> Vec<String> {
    let received_here = behind
        .received()
        .into_iter()
        .map(|received_here| received_here.bytes);
    received_here
        .filter(|bytes| !bytes.starts_with("GET"))
        .collect()
}

#[tokio::test]
async fn a_deployment_is_sent_in_the_upstreams_spelling_with_the_bytes_that_were_checked() {
    let (behind, _) = counting().await;
    let gateway = Gateway::with(&behind.config());
    let token = gateway.sign_in("deployer").await;
    let body = r#"{"rev":"1", "flows":[{"id":"a","type":"tab"}]}"#;
    let answer = gateway
        .post("/flows")
        .token(&token)
        .header("Service-API-Version", "v2")
        .header("Service-Deployment-Type", "nodes")
        .header("Content-Type", "application/json; charset=UTF-8")
        .body(body)
        .send()
        .await;
    assert_eq!((answer.status, answer.rev().as_str()), (200, "2"));
    let [sent] = posts(&behind).try_into().unwrap();
    assert!(
        sent.starts_with("POST /flows HTTP/1.1\r\n") && sent.ends_with(&format!("\r\n\r\n{body}")),
        "{sent}"
    );
    for line in [
        "node-red-api-version: v2",
        "node-red-deployment-type: nodes",
        "content-type: application/json",
    ] {
        assert!(sent.contains(&format!("{line}\r\n")), "{line} in {sent}");
    }
    assert!(
        !sent.contains("service-") && !sent.contains("authorization"),
        "{sent}"
    );
}

#[tokio::test]
async fn a_stale_revision_is_refused_before_anything_is_sent() {
    let (behind, count) = counting().await;
    let gateway = Gateway::with(&behind.config());
    let token = gateway.sign_in("deployer").await;
    let deploy = |rev| gateway.deployment(&token, &json!([]), Some(rev)).send();
    let stale = deploy("0").await;
    assert_eq!(
        (stale.status, stale.code().as_str()),
        (409, "version_mismatch")
    );
    assert!(posts(&behind).is_empty());
    assert_eq!(deploy("1").await.status, 200);
    // Another client deploys at the upstream.
    count.fetch_add(1, Ordering::SeqCst);
    assert_eq!(deploy("2").await.status, 409);
    assert_eq!(deploy("3").await.status, 200);
    let edits = gateway
        .audit()
        .into_iter()
        .filter(|line| line["event"] == "flows.outside_edit");
    assert_eq!(edits.count(), 1, "{:?}", gateway.audit());
    assert_eq!(
        gateway.metric("flowgate_revision_conflicts_total").await,
        Some(2.0)
    );
}

#[tokio::test]
async fn flows_that_are_known_by_their_entity_tag_are_not_sent_again() {
    let count = Arc::new(AtomicUsize::new(1));
    let own = Arc::clone(&count);
    let shows_at =
        |rev: usize| json!({ "flows": [{ "id": "a", "type": "tab" }], "rev": rev.to_string() });
    let behind = MockUpstream::start(move |request| {
        let rev = own.load(Ordering::SeqCst);
        if request.starts_with("POST") {
            let rev = own.fetch_add(1, Ordering::SeqCst) + 1;
            let body = json!({ "rev": rev.to_string() }).to_string();
            return Action::Respond(ok("application/json", &body));
        }
        let tag = if rev < 10 {
            format!("\"{rev}\"")
        } else {
            format!("W/\"other-{rev}\"")
        };
        if request.contains(&format!("if-none-match: {tag}\r\n")) {
            return Action::Respond(format!("HTTP/1.1 304 Not Modified\r\netag: {tag}\r\n\r\n"));
        }
        let body = shows_at(rev).to_string();
        Action::Respond(ok("application/json", &body).replacen(
            "\r\n",
            &format!("\r\netag: {tag}\r\n"),
            1,
        ))
    })
    .await;
    let gateway = Gateway::with(&behind.config());
    let token = gateway.sign_in("deployer").await;
    let deploy = |rev: &str| gateway.deployment(&token, &json!([]), Some(rev)).send();
    let asked = || {
        let gets = behind
            .received()
            .into_iter()
            .filter(|request| request.bytes.starts_with("GET /flows "));
        let tags = gets.map(|request| {
            let line = request
                .bytes
                .lines()
                .find_map(|line| line.strip_prefix("if-none-match: "));
            line.unwrap_or_default().to_owned()
        });
        tags.collect::<Vec<_>>()
    };
    assert_eq!(deploy("1").await.status, 200);
    // A revision of flowgate's engine is the tag of its flows.
    assert_eq!(deploy("2").await.status, 200);
    assert_eq!(asked(), ["", "\"2\""]);
    // Flows of another tag are shown, and their revision counts.
    count.store(10, Ordering::SeqCst);
    assert_eq!(deploy("3").await.status, 409);
    assert_eq!(deploy("10").await.status, 200);
    assert_eq!(asked()[2..], ["\"3\"", "W/\"other-10\""]);
}

#[tokio::test]
async fn the_upstreams_own_conflict_is_passed_on() {
    let behind = MockUpstream::start(|request| {
        Action::Respond(if request.starts_with("POST") {
            status(
                "409 Conflict",
                "application/json",
                r#"{"code":"version_mismatch","message":"Error"}"#,
            )
        } else {
            ok("application/json", r#"{"flows":[],"rev":"1"}"#)
        })
    })
    .await;
    let gateway = Gateway::with(&behind.config());
    let token = gateway.sign_in("deployer").await;
    let answer = gateway
        .deployment(&token, &json!([]), Some("1"))
        .send()
        .await;
    assert_eq!(
        (answer.status, answer.text().as_str()),
        (409, r#"{"code":"version_mismatch","message":"Error"}"#)
    );
}

#[tokio::test]
async fn of_many_deployments_with_the_same_revision_one_wins() {
    let (behind, _) = counting().await;
    let gateway = Gateway::with(&behind.config());
    let token = gateway.sign_in("deployer").await;
    let attempts =
        (0..10).map(|_| tokio::spawn(gateway.deployment(&token, &json!([]), Some("1")).send()));
    let mut statuses = Vec::new();
    for attempt in attempts.collect::<Vec<_>>() {
        statuses.push(attempt.await.unwrap().status);
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [vec![200], vec![409; 9]].concat());
    assert_eq!(posts(&behind).len(), 1);
}

#[tokio::test]
async fn changes_of_every_kind_share_the_deploy_lock() {
    let arrivals = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&arrivals);
    let behind = MockUpstream::start(move |request| {
        if request.starts_with("GET") {
            return Action::Respond(ok("application/json", r#"{"flows":[],"rev":"1"}"#));
        }
        seen.lock().unwrap().push(Instant::now());
        Action::Delay(10, ok("application/json", r#"{"id":"a"}"#))
    })
    .await;
    let gateway = Gateway::with(&behind.config());
    let token = gateway.sign_in("admin").await;
    let flow = json!({ "id": "a", "label": "x", "nodes": [] });
    let requests = [
        gateway.post("/flow").token(&token).json(&flow),
        gateway.request("PUT", "/flow/a").token(&token).json(&flow),
        gateway.request("DELETE", "/flow/a").token(&token),
        gateway
            .post("/flows/state")
            .token(&token)
            // as the stock editor sends it
            .form(&[("state", "stop")]),
        gateway.deployment(&token, &json!([]), None),
    ];
    let sent: Vec<_> = requests.map(|request| tokio::spawn(request.send())).into();
    for answer in sent {
        assert_eq!(answer.await.unwrap().status, 200);
    }
    let arrivals = arrivals.lock().unwrap();
    assert_eq!((arrivals.len(), posts(&behind).len()), (5, 5));
    for next in arrivals.windows(2) {
        let apart = next[1] - next[0];
        assert!(
            apart >= Duration::from_millis(10),
            "one came {apart:?} after another, which was not answered"
        );
    }
}

#[tokio::test]
async fn malformed_submissions_and_unknown_types_are_never_forwarded() {
    let (behind, _) = counting().await;
    let gateway = Gateway::with(&behind.config_with("reload = false\nhealth = \"1h\""));
    let token = gateway.sign_in("deployer").await;
    let flows = || gateway.post("/flows").token(&token);
    for (request, wanted) in [
        (flows().json(&json!([{ "id": 1 }])), 400),
        (flows().json(&json!({ "flows": [] })), 400),
        (flows().body("[]"), 415),
        (
            flows().json(&json!([])).header("Service-API-Version", "v3"),
            400,
        ),
        (
            flows()
                .json(&json!([]))
                .header("Service-Deployment-Type", "some"),
            400,
        ),
        (
            flows()
                .json(&json!([]))
                .header("Service-Deployment-Type", "reload"),
            400,
        ),
        (gateway.post("/flow").token(&token).json(&json!([])), 400),
        (
            gateway
                .post("/flow")
                .token(&token)
                .header("Content-Type", "application/json")
                .body("{"),
            400,
        ),
    ] {
        let answer = request.send().await;
        assert_eq!(answer.status, wanted, "{}", answer.text());
    }
    assert!(behind.received().is_empty(), "{:?}", behind.received());
}

/// A runtime that answers the first deployment with an event stream that never ends, and all others
/// at once.
async fn never_ending(every: Option<Duration>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let first = Arc::new(AtomicBool::new(true));
    tokio::spawn(async move {
        loop {
            let (mut tcp, _) = listener.accept().await.unwrap();
            let first = Arc::clone(&first);
            tokio::spawn(async move {
                let mut request = vec![0; 4096];
                let count = tcp.read(&mut request).await.unwrap_or(0);
                if !request[..count].starts_with(b"POST") || !first.swap(false, Ordering::SeqCst) {
                    let answer = ok("application/json", r#"{"rev":"2"}"#);
                    let answer = answer.replacen("\r\n", "\r\nConnection: close\r\n", 1);
                    let _ = tcp.write_all(answer.as_bytes()).await;
                    return;
                }
                let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
                tcp.write_all(head.as_bytes()).await.unwrap();
                while let Some(every) = every {
                    tokio::time::sleep(every).await;
                    if tcp.write_all(b":\n").await.is_err() {
                        return;
                    }
                }
                let _ = tcp.read_to_end(&mut request).await;
            });
        }
    });
    address
}

#[tokio::test]
async fn an_endless_response_to_a_deployment_does_not_hold_the_deploy_lock() {
    for every in [None, Some(Duration::from_millis(20))] {
        let address = never_ending(every).await;
        let gateway = Gateway::with(&format!(
            "[upstream]\nurl = \"http://{address}\"\nhealth = \"1h\"\nidle = \"200ms\"\n"
        ));
        let token = gateway.sign_in("admin").await;
        let deploy = || gateway.deployment(&token, &json!([]), None).send();
        let first = timeout(Duration::from_secs(10), deploy()).await;
        let first = first.unwrap_or_else(|_| panic!("{every:?}: it is waited for without end"));
        assert!([502, 504].contains(&first.status), "{}", first.status);
        assert_eq!(deploy().await.status, 200);
    }
}
