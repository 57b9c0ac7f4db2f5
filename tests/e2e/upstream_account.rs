//! The account of the gateway at a protected upstream: it signs in seldom, and clients' credentials
//! stay at the gateway.

use crate::authenticated_upstream::{AuthenticatedUpstream, field};
use crate::client::Client;
use crate::harness::{Gateway, Process, public, until};
use crate::mock_upstream::{Action, MockUpstream, ok, status};
use serde_json::json;
use std::time::Duration;
use tokio::task::JoinSet;

const ACCOUNT: &str = "user = \"flowgate\"\npassword = \"pass & word\"\nhealth = \"1h\"";
/// How many of the requests that it has heard begin so.
fn count(behind: &MockUpstream, words: &str) -> usize {
    let received_here = behind.received();
    let such = received_here
        .iter()
        .filter(|received_here| received_here.bytes.starts_with(words));
    such.count()
}

fn sign_ins(behind: &MockUpstream) -> usize {
    count(behind, "POST /auth/token ")
}

async fn ready(gateway: &Client) {
    until("it is ready", async || {
        gateway.operations("/readyz").await.status == 200
    })
    .await;
}

/// A runtime, and a gateway in front of it that has signed in.
pub async fn signed_in(lines: &str) -> (AuthenticatedUpstream, MockUpstream, Gateway) {
    let runtime = AuthenticatedUpstream::default();
    let behind = runtime.start().await;
    let gateway = Gateway::with(&(behind.config_with(ACCOUNT) + lines));
    ready(&gateway).await;
    (runtime, behind, gateway)
}

#[tokio::test]
async fn twenty_concurrent_requests_sign_in_once_and_none_carries_the_clients_token() {
    let (runtime, behind, gateway) = signed_in("").await;
    assert_eq!(
        sign_ins(&behind),
        1,
        "the gateway does not wait for a request"
    );
    let token = gateway.sign_in("reader").await;
    runtime.forget();
    let mut requests = JoinSet::new();
    for n in 0..20 {
        let request = gateway.get(["/flows", "/nodes/x"][n % 2]).token(&token);
        requests.spawn(request.send());
    }
    let answers = requests.join_all().await;
    assert!(answers.iter().all(|answer| answer.status == 200));
    assert_eq!(sign_ins(&behind), 2);
    for received_here in behind.received() {
        assert!(!received_here.bytes.contains(&token), "{received_here:?}");
    }
    let series = "flowgate_upstream_sign_ins_total{result=\"success\"}";
    assert_eq!(gateway.metric(series).await, Some(2.0));
}

#[tokio::test]
async fn a_deployment_is_retried_once_after_a_refused_token_and_never_otherwise() {
    // Without a history the deployment is the first request that the upstream refuses.
    let (runtime, behind, gateway) = signed_in("[storage]\nhistory = 0\n").await;
    let admin = gateway.sign_in("admin").await;
    let deploy = || gateway.post("/flows").token(&admin).json(&json!([]));
    assert_eq!(deploy().send().await.status, 204);
    assert_eq!(count(&behind, "POST /flows "), 1);

    runtime.forget();
    assert_eq!(deploy().send().await.status, 204);
    let received_here = behind.received();
    let sent: Vec<&str> = received_here
        .iter()
        .map(|received_here| received_here.bytes.as_str())
        .filter(|bytes| bytes.starts_with("POST /flows "))
        .collect();
    let shown = |request| field(request, "authorization: Bearer ").unwrap();
    assert_eq!(sent.len(), 3);
    assert_eq!(
        (shown(sent[1]), shown(sent[2])),
        ("theirs+1/==", "theirs+2/==")
    );
    assert!(sent.iter().all(|request| request.ends_with("\r\n\r\n[]")));

    // Our account lacks a permission: another token would not help.
    let forbidden = gateway
        .post("/flow")
        .token(&admin)
        .header("X-Forbidden", "1");
    let answer = forbidden.json(&json!({ "nodes": [] })).send().await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (502, "upstream_unauthorized")
    );
    assert_eq!((count(&behind, "POST /flow "), sign_ins(&behind)), (1, 2));
}

#[tokio::test]
async fn refused_new_tokens_do_not_cause_repeated_sign_ins() {
    let (runtime, behind, gateway) = signed_in("").await;
    let admin = gateway.sign_in("admin").await;
    runtime.change(|state| state.useless = true);
    runtime.forget();
    for _ in 0..20 {
        let answer = gateway
            .post("/flows")
            .token(&admin)
            .json(&json!([]))
            .send()
            .await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (502, "upstream_unauthorized")
        );
    }
    assert!(sign_ins(&behind) <= 4, "{}", sign_ins(&behind));
    assert!(count(&behind, "POST /flows ") <= 20 + 4);
    let answer = gateway.operations("/readyz").await;
    assert_eq!(answer.json()["status"], "upstream unauthorized");
}

#[tokio::test]
async fn a_streamed_body_is_not_sent_twice_and_the_next_request_works() {
    let lent = "[[route]]\npath = \"/upload\"\npermission = \"http.write\"\naccount = true\n";
    let (runtime, behind, gateway) = signed_in(lent).await;
    let admin = gateway.sign_in("admin").await;
    runtime.forget();
    let upload = || gateway.post("/upload").token(&admin).body("a body").send();
    let answer = upload().await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (502, "upstream_unauthorized")
    );
    assert_eq!(count(&behind, "POST /upload "), 1);
    assert_eq!(upload().await.status, 200);
}

#[tokio::test]
async fn a_wrong_password_is_tried_once_until_a_reload() {
    let runtime = AuthenticatedUpstream::default();
    let refusal = status(
        "403 Forbidden",
        "application/json",
        r#"{"error":"invalid_grant"}"#,
    );
    runtime.change(|state| state.refusal = Some(refusal));
    let behind = runtime.start().await;
    let lines = behind.config_with(&ACCOUNT.replace("1h", "20ms"));
    let gateway = Gateway::with(&lines);
    let token = gateway.sign_in("reader").await;
    for _ in 0..30 {
        let answer = gateway.get("/flows").token(&token).send().await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (502, "upstream_unauthorized")
        );
    }
    assert_eq!(
        sign_ins(&behind),
        1,
        "no request and no health check tries again"
    );
    assert_eq!(
        behind.received().len(),
        1,
        "nothing is asked for without a token"
    );
    let answer = gateway.operations("/readyz").await;
    let word = answer.json()["status"].clone();
    assert_eq!((answer.status, word), (503, "upstream unauthorized".into()));
    for (series, value) in [
        ("flowgate_upstream_sign_ins_total{result=\"refused\"}", 1.0),
        ("flowgate_upstream_authorized", 0.0),
        ("flowgate_upstream_healthy", 1.0),
    ] {
        assert_eq!(gateway.metric(series).await, Some(value), "{series}");
    }

    runtime.change(|state| state.refusal = None);
    assert!(gateway.reload(&lines).await);
    assert_eq!(gateway.get("/flows").token(&token).send().await.status, 200);
    ready(&gateway).await;
    assert_eq!(
        gateway.metric("flowgate_upstream_authorized").await,
        Some(1.0)
    );
}

#[tokio::test]
async fn an_upstream_that_rate_limits_sign_ins_gets_fewer() {
    let runtime = AuthenticatedUpstream::default();
    let wait = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
    runtime.change(|state| state.refusal = Some(wait.to_owned()));
    let behind = runtime.start().await;
    let gateway = Gateway::with(&behind.config_with(ACCOUNT));
    let token = gateway.sign_in("reader").await;
    let get = async || gateway.get("/flows").token(&token).send().await;
    assert_eq!(get().await.code(), "upstream_unauthorized");
    assert_eq!(get().await.code(), "upstream_unauthorized");
    runtime.change(|state| state.refusal = None);
    until("it is let in again", async || get().await.status == 200).await;
    assert_eq!(sign_ins(&behind), 2);
    let series = "flowgate_upstream_sign_ins_total{result=\"throttled\"}";
    assert_eq!(gateway.metric(series).await, Some(1.0));
}

#[tokio::test]
async fn a_token_is_refreshed_before_it_expires() {
    let runtime = AuthenticatedUpstream::default();
    runtime.change(|state| state.life = Some(2));
    let behind = runtime.start().await;
    let gateway = Gateway::with(&behind.config_with(ACCOUNT));
    let token = gateway.sign_in("reader").await;
    until("a second token is shown", async || {
        let answer = gateway.get("/flows").token(&token).send().await;
        assert_eq!(answer.status, 200);
        let received_here = behind.received();
        received_here
            .iter()
            .any(|received_here| received_here.bytes.contains("Bearer theirs+2/=="))
    })
    .await;
    assert_eq!((sign_ins(&behind), runtime.refused()), (2, 0));
}

#[tokio::test]
async fn an_unavailable_upstream_delays_no_request_and_is_signed_in_to_when_it_recovers() {
    let address = MockUpstream::start(|_| Action::Respond(String::new()))
        .await
        .stop()
        .await;
    let url = format!("[upstream]\nurl = \"http://{address}\"\n{ACCOUNT}\n");
    let gateway = Gateway::with(&url);
    let token = gateway.sign_in("reader").await;
    for _ in 0..3 {
        let answer = gateway.get("/flows").token(&token).send().await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (502, "upstream_unreachable")
        );
    }
    let runtime = AuthenticatedUpstream::default();
    let here = runtime.clone();
    let _behind = MockUpstream::at(address, move |request| here.answer(request)).await;
    assert_eq!(gateway.get("/flows").token(&token).send().await.status, 200);
}

#[tokio::test]
async fn a_token_in_a_file_may_be_replaced_at_any_time() {
    let runtime = AuthenticatedUpstream::default();
    runtime.change(|state| state.good.push("first".to_owned()));
    let behind = runtime.start().await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    std::fs::write(&file, "first\n").unwrap();
    let lines = behind.config_with("token_file = \"token\"\nhealth = \"1h\"");
    let gateway = Gateway::open(&lines, directory);
    ready(&gateway).await;
    let token = gateway.sign_in("reader").await;
    let get = async || gateway.get("/flows").token(&token).send().await.status;
    assert_eq!(get().await, 200);
    std::fs::write(&file, "second\n").unwrap();
    runtime.change(|state| state.good = vec!["second".to_owned()]);
    assert_eq!(get().await, 200, "the file was read again");
    std::fs::write(&file, "third\n").unwrap();
    assert!(gateway.reload(&lines).await);
    assert_eq!(get().await, 502);
    runtime.change(|state| state.good = vec!["third".to_owned()]);
    assert_eq!(get().await, 200, "the reload has read it too");
    assert_eq!(sign_ins(&behind), 0);
}

#[tokio::test]
async fn an_upstream_that_treats_invalid_tokens_as_anonymous_is_signed_in_to_again() {
    let (runtime, behind, gateway) = signed_in("").await;
    runtime.change(|state| state.anonymous = true);
    let admin = gateway.sign_in("admin").await;
    runtime.forget();
    let deploy = gateway.post("/flows").token(&admin).json(&json!([]));
    assert_eq!(deploy.send().await.status, 204);
    assert_eq!((count(&behind, "POST /flows "), sign_ins(&behind)), (2, 2));
}

#[tokio::test]
async fn a_401_of_an_endpoint_causes_no_sign_in() {
    let lent = "[[route]]\npath = \"/strict\"\npermission = \"http.read\"\naccount = true\n";
    let (_runtime, behind, gateway) = signed_in(lent).await;
    let token = gateway.sign_in("reader").await;
    for _ in 0..5 {
        let answer = gateway.get("/strict").token(&token).send().await;
        assert_eq!(answer.status, 401);
        assert!(answer.header("www-authenticate").contains("theirs"));
    }
    assert_eq!((count(&behind, "GET /strict "), sign_ins(&behind)), (5, 1));
    assert_eq!(gateway.operations("/readyz").await.status, 200);
}

#[tokio::test]
async fn the_session_at_the_upstream_is_revoked_at_shutdown() {
    let (_runtime, behind, gateway) = signed_in("").await;
    gateway.running.drain().await;
    let last = behind.received().pop().unwrap().bytes;
    assert!(last.starts_with("POST /auth/revoke "), "{last}");
    assert!(last.contains("\r\nauthorization: Bearer theirs+1/==\r\n"));
    assert!(last.ends_with("\r\n\r\ntoken=theirs%2B1%2F%3D%3D"));
}

#[tokio::test]
async fn neither_password_nor_token_is_in_logs_metrics_or_responses() {
    let runtime = AuthenticatedUpstream::default();
    let behind = runtime.start().await;
    let directory = tempfile::tempdir().unwrap();
    let lines = behind.config_with(ACCOUNT) + "[log]\nlevel = \"trace\"\n";
    let process = Process::start(&lines, directory.path());
    ready(&process).await;
    let token = process.sign_in("reader").await;
    runtime.forget();
    let mut seen = process.get("/flows").token(&token).send().await.text();
    let refusal = status(
        "403 Forbidden",
        "application/json",
        "{\"error\":\"theirs+1\"}",
    );
    runtime.change(|state| state.refusal = Some(refusal));
    runtime.forget();
    for _ in 0..3 {
        let refused = process.get("/flows").token(&token).send().await;
        assert_eq!(refused.status, 502);
        seen += &refused.text();
    }
    seen += &process.operations("/metrics").await.text();
    process.signal("TERM");
    let output = tokio::task::spawn_blocking(move || process.rest_of_log())
        .await
        .unwrap();
    let warnings = output
        .iter()
        .filter(|line| line.contains("does not accept the gateway's account"));
    assert_eq!(warnings.count(), 1, "{output:#?}");
    let errors = output.iter().filter(|line| line.contains("ERROR"));
    assert_eq!(errors.count(), 1, "not for each request: {output:#?}");
    seen += &output.concat();
    for secret in [
        "pass & word",
        "pass+%26+word",
        "theirs+",
        "theirs%2B",
        &token,
    ] {
        assert!(!seen.contains(secret), "{secret} in {seen}");
    }
}

#[tokio::test]
async fn a_reload_that_closes_a_route_does_not_wait_for_an_upstream_that_hangs() {
    let behind = MockUpstream::start(|request| {
        if request.starts_with("POST /auth/token ") {
            Action::Hang(String::new())
        } else {
            Action::Respond(ok("text/plain", "{}"))
        }
    })
    .await;
    let lines = behind.config_with(ACCOUNT);
    let gateway = Gateway::with(&(lines.clone() + &public(&["/open"])));
    assert_eq!(gateway.get("/open").send().await.status, 200);
    until("the gateway signs in", async || sign_ins(&behind) > 0).await;
    let closed = until("the route is closed", async || {
        gateway.get("/open").send().await.status == 401
    });
    let reloading = async {
        gateway.reload(&lines).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = closed => {}
        () = reloading => {}
        () = tokio::time::sleep(Duration::from_secs(5)) => panic!("the route is still open"),
    }
}

#[tokio::test]
async fn an_upstream_with_admin_auth_and_no_account_is_not_ready_and_says_what_to_set() {
    let login =
        r#"{"type":"credentials","prompts":[{"id":"username","type":"text","label":"Username"}]}"#;
    let behind = MockUpstream::start(move |request| {
        Action::Respond(if request.starts_with("GET /auth/login ") {
            ok("application/json", login)
        } else {
            crate::authenticated_upstream::refusal("Bearer realm=\"Users\"")
        })
    })
    .await;
    let gateway = Gateway::with(&behind.config());
    until("it is not ready", async || {
        gateway.operations("/readyz").await.json()["status"] == "upstream unauthorized"
    })
    .await;
    let answer = gateway.operations("/readyz").await;
    assert!(
        answer.status == 503 && answer.text().contains("set user and password_file"),
        "{}",
        answer.text()
    );
    let admin = gateway.sign_in("admin").await;
    let flows = gateway.get("/flows").token(&admin).send().await;
    assert_eq!(flows.code(), "upstream_unauthorized");
}

#[tokio::test]
async fn an_upstream_that_lets_everyone_read_needs_no_account() {
    let behind = MockUpstream::start(|request| {
        Action::Respond(if request.starts_with("GET /auth/login ") {
            ok("application/json", r#"{"type":"credentials"}"#)
        } else {
            ok("application/json", "{}")
        })
    })
    .await;
    let gateway = Gateway::with(&behind.config());
    ready(&gateway).await;
    until("it was asked", async || {
        count(&behind, "GET /settings ") > 0
    })
    .await;
    assert_eq!(gateway.operations("/readyz").await.status, 200);
}
