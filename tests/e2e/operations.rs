//! Monitoring: what can be counted has a series, and is counted.

use crate::harness::{Gateway, Process, flow_set, page, program, public};
use serde_json::json;
use std::fs;
use std::process::Stdio;

#[tokio::test]
async fn series_are_there_before_anything_has_happened_and_fewer_than_four_hundred() {
    let gateway = Gateway::start();
    let page = gateway.operations("/metrics").await;
    assert_eq!(page.status, 200);
    assert!(
        page.header("content-type")
            .starts_with("text/plain; version=0.0.4")
    );
    let page = page.text();
    for series in [
        "flowgate_build_info{version=",
        "flowgate_requests_in_flight{route=\"endpoint\"} 0",
        "flowgate_connections_total 0",
        "flowgate_connections_open 0",
        "flowgate_connections_refused_total{reason=\"total\"} 0",
        "flowgate_connections_refused_total{reason=\"address\"} 0",
        "flowgate_tls_handshakes_total{version=\"1.3\",alpn=\"h2\",result=\"full\"} 0",
        "flowgate_tls_certificate_not_after_seconds ",
        "flowgate_logins_total{result=\"success\"} 0",
        "flowgate_logins_total{result=\"throttled\"} 0",
        "flowgate_token_checks_total{result=\"invalid\"} 0",
        "flowgate_permission_checks_total{result=\"denied\"} 0",
        "flowgate_login_lockouts_total 0",
        "flowgate_login_guessing_episodes_total 0",
        "flowgate_sessions_active 0",
        "flowgate_revision_conflicts_total 0",
        "flowgate_nodes_running 0",
        "flowgate_flows_running 0",
    ] {
        assert!(
            page.lines().any(|line| line.starts_with(series)),
            "{series}\n{page}"
        );
    }
    let series = page
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    assert!(series.count() < 400, "{page}");
    let named = |prefix: &str, line: &str| {
        line.strip_prefix(prefix)
            .and_then(|rest| rest.split(' ').next().map(str::to_owned))
    };
    let helps: Vec<_> = page
        .lines()
        .filter_map(|line| named("# HELP ", line))
        .collect();
    for kind in page.lines().filter_map(|line| named("# TYPE ", line)) {
        assert!(
            kind.starts_with("flowgate_") && helps.contains(&kind),
            "{kind} has no help"
        );
    }
}

/// What the requests of the test below add up to.
const COUNTED: &[(&str, f64)] = &[
    ("flowgate_logins_total{result=\"success\"}", 2.0),
    ("flowgate_logins_total{result=\"bad_credentials\"}", 5.0),
    ("flowgate_logins_total{result=\"throttled\"}", 1.0),
    ("flowgate_logins_total{result=\"invalid_scope\"}", 1.0),
    ("flowgate_login_lockouts_total", 1.0),
    ("flowgate_sessions_active", 2.0),
    ("flowgate_token_checks_total{result=\"invalid\"}", 1.0),
    ("flowgate_token_checks_total{result=\"malformed\"}", 1.0),
    ("flowgate_token_checks_total{result=\"absent\"}", 1.0),
    ("flowgate_permission_checks_total{result=\"denied\"}", 1.0),
    (
        "flowgate_deployments_total{type=\"full\",api_version=\"v2\",result=\"success\",target=\"engine\"}",
        2.0,
    ),
    (
        "flowgate_deployments_total{type=\"full\",api_version=\"v2\",result=\"stale\",target=\"engine\"}",
        1.0,
    ),
    (
        "flowgate_deployments_total{type=\"full\",api_version=\"v1\",result=\"malformed\",target=\"engine\"}",
        1.0,
    ),
    (
        "flowgate_deployment_phase_duration_seconds_count{type=\"full\",phase=\"apply\"}",
        2.0,
    ),
    ("flowgate_revision_conflicts_total", 1.0),
    ("flowgate_flows_running", 1.0),
    ("flowgate_nodes_running", 3.0),
    ("flowgate_node_messages_total{type=\"template\"}", 2.0),
    (
        "flowgate_requests_total{route=\"endpoint\",method=\"GET\",status=\"2xx\"}",
        2.0,
    ),
    (
        "flowgate_requests_total{route=\"none\",method=\"GET\",status=\"4xx\"}",
        1.0,
    ),
    (
        "flowgate_request_duration_seconds_count{route=\"endpoint\",method=\"GET\"}",
        2.0,
    ),
    (
        "flowgate_response_body_bytes_total{route=\"endpoint\",method=\"GET\",status=\"2xx\"}",
        10.0,
    ),
    (
        "flowgate_tls_handshakes_total{version=\"1.3\",alpn=\"h2\",result=\"full\"}",
        1.0,
    ),
];

#[tokio::test]
async fn every_action_is_counted() {
    let gateway = Gateway::with(&public(&["/hello"]));
    let admin = gateway.sign_in("admin").await;
    let reader = gateway.sign_in("reader").await;
    let rev = gateway
        .deploy(&admin, &flow_set(&[page("a", "/hello", "hello")]))
        .await;
    let same = flow_set(&[page("a", "/hello", "hello")]);
    gateway
        .deployment(&admin, &same, Some(&rev))
        .send()
        .await
        .rev();
    assert_eq!(
        gateway
            .deployment(&admin, &same, Some(&rev))
            .send()
            .await
            .status,
        409
    );
    assert_eq!(
        gateway
            .post("/flows")
            .token(&admin)
            .json(&json!({}))
            .send()
            .await
            .status,
        400
    );
    gateway
        .post("/flows")
        .token(&reader)
        .json(&json!([]))
        .send()
        .await;
    gateway.get("/hello").send().await;
    gateway.get("/hello").http2().send().await;
    gateway.get("/flows").send().await;
    gateway.get("/flows").token("unknown").send().await;
    gateway
        .get("/flows")
        .header("Authorization", "Bearer")
        .send()
        .await;
    for _ in 0..6 {
        gateway.sign_in_request("nobody", "wrong", "").send().await;
    }
    gateway
        .sign_in_request("reader", crate::client::PASSWORD, "*")
        .send()
        .await;
    gateway.get("//").send().await;
    for (series, value) in COUNTED {
        crate::harness::until(&format!("{series} {value}"), async || {
            gateway.metric(series).await == Some(*value)
        })
        .await;
    }
    let ends = gateway
        .metric("flowgate_tls_certificate_not_after_seconds")
        .await
        .unwrap();
    assert!(ends > 1.7e9, "{ends}");
}

#[tokio::test]
async fn the_operations_listener_serves_probes_and_metrics_only() {
    let gateway = Gateway::start();
    let health = gateway.operations("/healthz").await;
    assert_eq!((health.status, health.text().as_str()), (200, "ok"));
    let ready = gateway.operations("/readyz").await;
    assert_eq!(
        (ready.status, ready.json()),
        (200, json!({ "status": "ready" }))
    );
    for path in ["/", "/flows", "/metrics/x"] {
        assert_eq!(gateway.operations(path).await.status, 404, "{path}");
    }
    let token = gateway.sign_in("admin").await;
    for path in ["/metrics", "/healthz", "/readyz"] {
        assert_eq!(
            gateway.get(path).token(&token).send().await.status,
            404,
            "{path}"
        );
    }
}

#[tokio::test]
async fn flowgate_health_ends_with_0_while_the_gateway_is_ready_and_with_1_otherwise() {
    let directory = tempfile::tempdir().unwrap();
    let port = testing::ports::free();
    let lines = format!("operations = \"127.0.0.1:{port}\"\n");
    let health = || {
        let mut command = program(directory.path(), &["health"]);
        let output = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = output.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    let gateway = Process::start(&lines, directory.path());
    assert_eq!(health(), (Some(0), "ready\n".to_owned(), String::new()));
    gateway.signal("KILL");
    gateway.end();
    let (code, printed, errors) = health();
    assert_eq!((code, &*printed), (Some(1), ""));
    let expected = format!("flowgate: http://127.0.0.1:{port}/readyz: ");
    assert!(
        errors.starts_with(&expected) && errors.lines().count() == 1,
        "{errors}"
    );
    fs::write(
        directory.path().join("gateway.toml"),
        "operations = \"off\"\n[auth]\n",
    )
    .unwrap();
    let (code, _, errors) = health();
    assert_eq!(code, Some(1));
    assert!(errors.contains("operations is \"off\""), "{errors}");
}
