//! Traces: a request, its call of an upstream and its deployment are spans of one trace, at a
//! collector that nothing waits for, and clients cannot have themselves recorded.

use crate::engine_process::Separated;
use crate::harness::{Gateway, flow_set, page, public, until};
use crate::mock_upstream::{Action, MockUpstream, ok, status};
use crate::tunnel::open_as;
use crate::websocket_upstream::WebSocketUpstream;
use serde_json::{Value as Json, json};
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

fn traceparent(flags: &str) -> String {
    format!("00-{TRACE}-{SPAN}-{flags}")
}

/// A collector that takes everything.
async fn collector() -> MockUpstream {
    MockUpstream::start(|_| Action::Respond(ok("application/json", "{}"))).await
}

/// A gateway's lines; it records every request unless others say more.
fn traced(collector: &MockUpstream, more: &str) -> String {
    let url = format!("http://{}/v1/traces", collector.address);
    let ratio = if more.contains("ratio") {
        ""
    } else {
        "ratio = 1.0"
    };
    format!("[traces]\nurl = \"{url}\"\ninterval = \"10ms\"\n{ratio}\n{more}\n")
}

/// The spans that the collector has, and nothing else.
fn spans(collector: &MockUpstream) -> Vec<Json> {
    let mut spans = Vec::new();
    for request in collector.received() {
        let (head, body) = request.bytes.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
        let body: Json = serde_json::from_str(body).unwrap();
        let resource = &body["resourceSpans"][0];
        let service = &resource["resource"]["attributes"][0]["value"]["stringValue"];
        assert_eq!(service, "flowgate");
        let listed = resource["scopeSpans"][0]["spans"].as_array().unwrap();
        spans.extend(listed.iter().cloned());
    }
    for span in &spans {
        let nanos = |field: &str| span[field].as_str().unwrap().parse::<u64>().unwrap();
        assert!(
            nanos("startTimeUnixNano") <= nanos("endTimeUnixNano"),
            "{span}"
        );
        assert_eq!(span["traceId"].as_str().unwrap().len(), 32);
        assert_eq!(span["spanId"].as_str().unwrap().len(), 16);
    }
    spans
}

fn attribute<'s>(span: &'s Json, key: &str) -> &'s str {
    let attributes = span["attributes"].as_array().unwrap();
    let found = attributes.iter().find(|attribute| attribute["key"] == key);
    let value = found.map(|found| &found["value"]);
    value.map_or("", |value| {
        let text = value["stringValue"].as_str();
        text.or_else(|| value["intValue"].as_str()).unwrap()
    })
}

/// The only span of this name and status.
fn only<'s>(spans: &'s [Json], name: &str, status: &str) -> &'s Json {
    let fits = |span: &&Json| {
        span["name"] == name && attribute(span, "http.response.status_code") == status
    };
    let found: Vec<_> = spans.iter().filter(fits).collect();
    assert_eq!(found.len(), 1, "{name} {status}: {spans:#?}");
    found[0]
}

/// The value of a header field in a request.
fn field<'r>(request: &'r str, name: &str) -> Vec<&'r str> {
    let (head, _) = request.split_once("\r\n\r\n").unwrap();
    let fields = head.lines().filter_map(|line| line.split_once(": "));
    let named = fields.filter(|(found, _)| found.eq_ignore_ascii_case(name));
    named.map(|(_, value)| value).collect()
}

#[tokio::test]
async fn requests_and_deployments_of_the_engine_are_spans_without_secrets() {
    let collector = collector().await;
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("collector.token"), "abc.def\n").unwrap();
    let more = "token_file = \"collector.token\"";
    let lines = traced(&collector, more) + &public(&["/hook/hidden-path"]);
    let gateway = Gateway::open(&lines, directory);
    let token = gateway.sign_in("admin").await;
    gateway
        .deploy(&token, &flow_set(&[page("a", "/hook/hidden-path", "hi")]))
        .await;
    let hook = "/hook/hidden-path?key=hidden-query";
    assert_eq!(gateway.get(hook).send().await.status, 200);
    assert_eq!(gateway.get(hook).http2().send().await.status, 200);
    let refused = gateway.get("/flows").token("hidden-token").send().await;
    assert_eq!(refused.status, 401);
    assert_eq!(gateway.request("BREW", "/flows").send().await.status, 401);
    drop(gateway.stop().await);

    let received = collector.received();
    for request in &received {
        assert_eq!(field(&request.bytes, "authorization"), ["Bearer abc.def"]);
        for secret in [token.as_str(), "hidden", "admin", "127.0.0.1\""] {
            assert!(
                !request.bytes.contains(secret),
                "{secret} in {}",
                request.bytes
            );
        }
    }
    let spans = spans(&collector);
    let of_http = |version: &str| {
        let fits = |span: &&Json| {
            span["name"] == "GET endpoint" && attribute(span, "network.protocol.version") == version
        };
        spans.iter().filter(fits).count()
    };
    assert_eq!((of_http("1.1"), of_http("2")), (1, 1));
    let refused = only(&spans, "GET flows", "401");
    assert_eq!(attribute(refused, "flowgate.user_kind"), "");
    assert_eq!(
        refused.get("status"),
        None,
        "the client's error is none of the gateway"
    );
    only(&spans, "other flows", "401");

    let request = spans
        .iter()
        .find(|span| span["name"] == "POST flows")
        .unwrap();
    assert_eq!(request["kind"], 2);
    assert_eq!(attribute(request, "flowgate.user_kind"), "token");
    let part = |name: &str, of: &Json| {
        let is_part = |span: &&Json| span["name"] == name && span["parentSpanId"] == of["spanId"];
        let found: Vec<_> = spans.iter().filter(is_part).collect();
        assert_eq!(found.len(), 1, "{name}: {spans:#?}");
        assert_eq!(found[0]["traceId"], request["traceId"]);
        found[0]
    };
    part("parse", request);
    let deployment = part("deploy full", request);
    for phase in ["wait", "plan", "store", "apply"] {
        part(phase, deployment);
    }
}

const FLOWS: &str = r#"{"flows":[],"rev":"1"}"#;

async fn upstream() -> MockUpstream {
    MockUpstream::start(|_| Action::Respond(ok("application/json", FLOWS))).await
}

#[tokio::test]
async fn an_upstream_gets_the_span_of_the_call_as_its_parent() {
    let (collector, upstream) = (collector().await, upstream().await);
    let lines = traced(&collector, "users = true") + &upstream.config();
    let gateway = Gateway::with(&lines);
    let token = gateway.sign_in("admin").await;
    assert_eq!(gateway.get("/page").token(&token).send().await.status, 200);
    let deployed = gateway.deployment(&token, &json!([]), None).send().await;
    assert_eq!(deployed.status, 200, "{}", deployed.text());
    drop(gateway.stop().await);

    let spans = spans(&collector);
    let request = only(&spans, "GET endpoint", "200");
    assert_eq!(attribute(request, "user.name"), "admin");
    let call = only(&spans, "GET", "200");
    assert_eq!(
        (&call["kind"], &call["parentSpanId"]),
        (&json!(3), &request["spanId"])
    );
    assert_eq!(
        attribute(call, "flowgate.upstream"),
        upstream.address.to_string()
    );
    let received = upstream.received();
    let sent = |begin: &str| {
        let found = received
            .iter()
            .find(|request| request.bytes.starts_with(begin));
        field(&found.unwrap().bytes, "traceparent").join(" ")
    };
    let parent = |span: &Json| {
        let id = |field: &str| span[field].as_str().unwrap();
        format!("00-{}-{}-01", id("traceId"), id("spanId"))
    };
    assert_eq!(sent("GET /page "), parent(call));
    let apply = spans.iter().find(|span| span["name"] == "apply").unwrap();
    assert_eq!(sent("POST /flows "), parent(apply));
}

#[tokio::test]
async fn a_client_can_neither_have_itself_recorded_nor_join_a_trace() {
    let (collector, upstream) = (collector().await, upstream().await);
    let lines = traced(&collector, "ratio = 0.0") + &upstream.config();
    let gateway = Gateway::with(&lines);
    let token = gateway.sign_in("admin").await;
    let request = gateway.get("/page").token(&token);
    let request = request.header("traceparent", &traceparent("01"));
    let response = request.header("tracestate", "a=1").send().await;
    assert_eq!(response.status, 200);
    drop(gateway.stop().await);

    let sent = upstream.only();
    let [parent] = field(&sent, "traceparent")[..] else {
        panic!("{sent}");
    };
    assert!(
        !parent.contains(TRACE) && parent.ends_with("-00"),
        "{parent}"
    );
    assert!(field(&sent, "tracestate").is_empty(), "{sent}");
    assert!(collector.received().is_empty());
}

#[tokio::test]
async fn a_recorded_request_links_to_the_span_that_its_client_names() {
    let collector = collector().await;
    let gateway = Gateway::with(&traced(&collector, ""));
    let request = gateway.get("/auth/login");
    let request = request.header("traceparent", &traceparent("00"));
    assert_eq!(request.send().await.status, 200);
    drop(gateway.stop().await);
    let spans = spans(&collector);
    let request = only(&spans, "GET auth", "200");
    assert_eq!(
        request["links"],
        json!([{ "traceId": TRACE, "spanId": SPAN }])
    );
    assert_ne!(request["traceId"], TRACE);
    assert_eq!(request.get("parentSpanId"), None);
}

#[tokio::test]
async fn a_trusted_proxy_decides_and_its_trace_goes_on() {
    let (collector, upstream) = (collector().await, upstream().await);
    let trusted = "[server]\ntrusted_proxies = [\"127.0.0.1\"]\n";
    let lines = traced(&collector, "ratio = 0.0") + &upstream.config() + trusted;
    let gateway = Gateway::with(&lines);
    let token = gateway.sign_in("admin").await;
    for flags in ["01", "00"] {
        let request = gateway.get(&format!("/page{flags}")).token(&token);
        let request = request.header("traceparent", &traceparent(flags));
        let response = request.header("tracestate", "a=1, b@c=2").send().await;
        assert_eq!(response.status, 200);
    }
    drop(gateway.stop().await);

    let spans = spans(&collector);
    assert_eq!(spans.len(), 2, "{spans:#?}");
    let request = only(&spans, "GET endpoint", "200");
    assert_eq!(
        (&request["traceId"], &request["parentSpanId"]),
        (&json!(TRACE), &json!(SPAN))
    );
    let received = upstream.received();
    for (request, flags) in received.iter().zip(["01", "00"]) {
        let parent = field(&request.bytes, "traceparent").join(" ");
        assert!(parent.starts_with(&format!("00-{TRACE}-")), "{parent}");
        assert!(parent.ends_with(&format!("-{flags}")), "{parent}");
        assert_eq!(field(&request.bytes, "tracestate"), ["a=1,b@c=2"]);
    }
}

#[tokio::test]
async fn a_malformed_traceparent_begins_a_new_trace() {
    let (collector, upstream) = (collector().await, upstream().await);
    let trusted = "[server]\ntrusted_proxies = [\"127.0.0.1\"]\n";
    let lines = traced(&collector, "") + &upstream.config() + trusted;
    let gateway = Gateway::with(&lines);
    let token = gateway.sign_in("admin").await;
    for wrong in [
        traceparent("01").to_uppercase(),
        traceparent("0"),
        "x".repeat(55),
    ] {
        let request = gateway.get("/page").token(&token);
        let request = request.header("traceparent", &wrong);
        assert_eq!(request.header("tracestate", "a=1").send().await.status, 200);
    }
    for request in upstream.take() {
        let parent = field(&request.bytes, "traceparent").join(" ");
        assert!(parent.len() == 55 && !parent.contains(TRACE), "{parent}");
        assert!(field(&request.bytes, "tracestate").is_empty());
    }
    drop(gateway.stop().await);
}

#[tokio::test]
async fn a_websocket_of_an_upstream_is_a_call_that_changes_the_protocol() {
    let (collector, upstream) = (collector().await, WebSocketUpstream::echo().await);
    let gateway = Gateway::with(&(upstream.config("") + &traced(&collector, "")));
    let token = gateway.sign_in("admin").await;
    drop(open_as(&gateway, &token).await.unwrap());
    drop(gateway.stop().await);
    let spans = spans(&collector);
    let (request, call) = (
        only(&spans, "GET endpoint", "101"),
        only(&spans, "GET", "101"),
    );
    assert_eq!(call["parentSpanId"], request["spanId"]);
    let span = call["spanId"].as_str().unwrap();
    assert!(upstream.heads().concat().contains(span));
}

#[tokio::test]
async fn no_more_requests_are_recorded_in_a_second_than_the_limit() {
    let collector = collector().await;
    let gateway = Gateway::with(&traced(&collector, "max_per_second = 1"));
    until("a request is beyond the limit", async || {
        assert_eq!(gateway.get("/auth/login").send().await.status, 200);
        gateway.metric("flowgate_traces_limited_total").await >= Some(1.0)
    })
    .await;
    drop(gateway.stop().await);
    assert!(!collector.received().is_empty());
}

fn ended(result: &str) -> String {
    format!("flowgate_trace_spans_total{{result=\"{result}\"}}")
}

#[tokio::test]
async fn nothing_waits_for_a_collector_that_hangs_or_is_gone() {
    let hanging = MockUpstream::start(|_| Action::Hang(String::new())).await;
    let gone = collector().await;
    let lines = traced(&gone, "");
    gone.stop().await;
    for lines in [traced(&hanging, ""), lines] {
        let gateway = Gateway::with(&lines);
        let token = gateway.sign_in("admin").await;
        gateway
            .deploy(&token, &flow_set(&[page("a", "/a", "hi")]))
            .await;
        assert_eq!(gateway.get("/a").token(&token).send().await.status, 200);
        drop(gateway.stop().await);
    }
}

#[tokio::test]
async fn spans_that_a_collector_refuses_or_rejects_are_counted_and_not_sent_again() {
    let rejecting = r#"{"partialSuccess":{"rejectedSpans":"1","errorMessage":"too old"}}"#;
    for (response, result) in [
        (status("400 Bad Request", "text/plain", "no"), "undelivered"),
        (ok("application/json", rejecting), "rejected"),
    ] {
        let collector = MockUpstream::start(move |_| Action::Respond(response.clone())).await;
        let gateway = Gateway::with(&traced(&collector, ""));
        assert_eq!(gateway.get("/auth/login").send().await.status, 200);
        until("the span is counted", async || {
            gateway.metric(&ended(result)).await == Some(1.0)
        })
        .await;
        drop(gateway.stop().await);
        assert_eq!(collector.received().len(), 1);
    }
}

#[tokio::test]
async fn a_collector_that_is_away_for_a_moment_gets_the_spans() {
    let asked = AtomicUsize::new(0);
    let away = status("503 Service Unavailable", "text/plain", "soon");
    let collector = MockUpstream::start(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => Action::Respond(away.clone()),
        _ => Action::Respond(ok("application/json", "{}")),
    })
    .await;
    let gateway = Gateway::with(&traced(&collector, ""));
    assert_eq!(gateway.get("/auth/login").send().await.status, 200);
    until("the span is exported", async || {
        gateway.metric(&ended("exported")).await == Some(1.0)
    })
    .await;
    let received = collector.received();
    assert_eq!(received.len(), 2);
    assert_eq!(received[0].bytes, received[1].bytes);
}

#[tokio::test]
async fn an_engine_apart_goes_on_with_the_trace_of_its_gateway() {
    let collector = collector().await;
    let engine = traced(&collector, "ratio = 0.0");
    let mut separated = Separated::with(&(traced(&collector, "") + &public(&["/a"])), &engine);
    let token = separated.sign_in("admin").await;
    separated
        .deploy(&token, &flow_set(&[page("a", "/a", "hi")]))
        .await;
    assert_eq!(separated.get("/a").send().await.text(), "hi");
    let ended = separated.engine.take().unwrap().terminate();
    assert_eq!(ended.code(), Some(0));
    drop(separated.gateway.stop().await);

    let spans = spans(&collector);
    let endpoint = |span: &&Json| span["name"] == "GET endpoint";
    let requests: Vec<&Json> = spans.iter().filter(endpoint).collect();
    let [one, other] = requests[..] else {
        panic!("{spans:#?}");
    };
    assert_eq!(one["traceId"], other["traceId"]);
    let call = only(&spans, "GET", "200");
    let [at_gateway, at_engine] = match one.get("parentSpanId") {
        None => [one, other],
        Some(_) => [other, one],
    };
    assert_eq!(call["parentSpanId"], at_gateway["spanId"]);
    assert_eq!(at_engine["parentSpanId"], call["spanId"]);
    assert!(
        spans.iter().any(|span| span["name"] == "store"),
        "the engine's phases are there"
    );
}
