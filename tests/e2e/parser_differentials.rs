//! Ambiguous requests, which programs read differently, and their outcomes:
//! `tests/data/parser-differentials.json`.
//!
//! Every row says what is sent (`sent`, each character a byte; over HTTP/2 `fields`, `data`,
//! `trailers`), what the gateway does with its own engine and with an upstream, and what nginx and
//! `HAProxy` do. An outcome is the status, or `none` without an answer, or `reset`; then whether
//! the connection is `kept` or `closed`; then how many requests have reached the upstream. Where
//! ours is not theirs, `why` says why.
//!
//! Ours are checked here. Theirs differ from version to version, so they were observed, with nginx
//! 1.22.1 and `HAProxy` 2.6.12 (Debian 12), by
//! `cargo test --test e2e parser_differentials::observe -- --ignored`, which writes all columns
//! anew.

use crate::client::Client;
use crate::harness::{Gateway, flow_set, page, public, script, until};
use crate::http2_frames;
use crate::mock_upstream::{Action, MockUpstream, ok};
use crate::reverse_proxies::{ReverseProxy, free_address};
use serde_json::{Value as Json, json};
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

const TABLE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/data/parser-differentials.json"
);

/// Short, so that who waits for the rest of a request is answered soon.
const LIMITS: &str = "[timeouts]\nheader = \"1s\"\nbody_idle = \"1s\"\n[server]\nworkers = 1\n";

/// Sent after each request: if it is answered, the connection was kept.
const PROBE: &str = "GET /probe HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
const PROBED: &str = "this is the probe's answer";

fn table() -> Vec<Json> {
    serde_json::from_str(&std::fs::read_to_string(TABLE).unwrap()).unwrap()
}

/// Where requests are sent.
enum ForwardedRequest<'a> {
    Tls(&'a Client),
    /// HTTP/1.1 and HTTP/2 without TLS.
    Plain(SocketAddr, SocketAddr),
}

impl ForwardedRequest<'_> {
    /// What becomes of a row, but for what reaches the upstream.
    async fn outcome(&self, row: &Json) -> String {
        let http2 = row["sent"].is_null();
        match self {
            Self::Tls(client) => {
                let tls = Arc::new(client.tls(&[if http2 { "h2" } else { "http/1.1" }]));
                let stream = client
                    .connect_tls(tls, Ipv4Addr::LOCALHOST.into(), "localhost")
                    .await;
                outcome(stream.unwrap(), row).await
            }
            Self::Plain(http1, second) => {
                let address = if http2 { second } else { http1 };
                outcome(TcpStream::connect(address).await.unwrap(), row).await
            }
        }
    }
}

async fn outcome(mut stream: impl AsyncRead + AsyncWrite + Unpin, row: &Json) -> String {
    let kept = |kept| if kept { "kept" } else { "closed" };
    let Some(sent) = row["sent"].as_str() else {
        let probe = json!({ "fields": [[":method", "GET"], [":scheme", "https"], [":path", "/probe"], [":authority", "x"]] });
        let fate = http2_frames::exchange(stream, row, &probe).await;
        return format!(
            "{} {}",
            fate.first.as_deref().unwrap_or("none"),
            kept(fate.second)
        );
    };
    let bytes: Vec<u8> = sent.chars().map(|c| c as u8).chain(PROBE.bytes()).collect();
    // An error: it was closed before all was sent.
    let _ = stream.write_all(&bytes).await;
    let _ = stream.flush().await;
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut piece).await {
        answer.extend_from_slice(&piece[..count]);
    }
    let answer = String::from_utf8_lossy(&answer);
    let mut statuses = answer
        .split("HTTP/1.")
        .skip(1)
        .filter_map(|rest| rest.get(2..5));
    let first = statuses.find(|status| *status != "100").unwrap_or("none");
    format!("{first} {}", kept(answer.contains(PROBED)))
}

/// A runtime that answers everything.
async fn behind() -> MockUpstream {
    MockUpstream::start(|request| {
        let body = if request.starts_with("GET /probe ") {
            PROBED
        } else {
            "hello"
        };
        Action::Respond(ok("text/plain", body))
    })
    .await
}

/// The outcomes of all rows, with what reaches the upstream.
async fn outcomes(front: &ForwardedRequest<'_>, behind: Option<&MockUpstream>) -> Vec<String> {
    let mut outcomes = Vec::new();
    for row in table() {
        let before = behind.map_or(0, |behind| behind.received().len());
        let mut outcome = front.outcome(&row).await;
        if let Some(behind) = behind {
            let received_here = behind.received().split_off(before);
            let reached = received_here
                .iter()
                .filter(|r| !r.bytes.starts_with("GET /probe "));
            write!(outcome, ", {} reached", reached.count()).unwrap();
            if received_here
                .iter()
                .any(|r| r.bytes.starts_with("GET /smuggled "))
            {
                outcome += ", smuggled";
            }
        }
        outcomes.push(outcome);
    }
    outcomes
}

async fn of_the_engine() -> Vec<String> {
    let gateway = Gateway::with(&(LIMITS.to_owned() + &public(&["/x", "/probe"])));
    let token = gateway.sign_in("admin").await;
    let flows = [
        page("get", "/x", "hello"),
        script("post", "post", "/x", "msg.payload = 'hello'; return msg"),
        page("probe", "/probe", PROBED),
    ];
    gateway.deploy(&token, &flow_set(&flows)).await;
    outcomes(&ForwardedRequest::Tls(&gateway), None).await
}

async fn before_an_upstream() -> Vec<String> {
    let behind = behind().await;
    let gateway = Gateway::with(&(behind.config() + LIMITS + &public(&["/x", "/probe"])));
    outcomes(&ForwardedRequest::Tls(&gateway), Some(&behind)).await
}

/// All rows where something is not as it is written.
fn wrong(column: &str, observed: &[String]) -> String {
    let rows = table();
    assert_eq!(rows.len(), observed.len());
    let wrong = rows
        .iter()
        .zip(observed)
        .filter(|(row, observed)| row[column] != **observed);
    let shown = wrong.map(|(row, observed)| {
        format!(
            "{} / {}: {observed}, not {}\n",
            row["group"], row["name"], row[column]
        )
    });
    shown.collect()
}

#[tokio::test]
async fn the_engine_receives_only_unambiguous_requests() {
    let wrong = wrong("engine", &of_the_engine().await);
    assert!(wrong.is_empty(), "{wrong}");
}

#[tokio::test]
async fn an_upstream_receives_only_unambiguous_requests() {
    let wrong = wrong("upstream", &before_an_upstream().await);
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_difference_to_nginx_and_haproxy_is_explained() {
    let refuses = |outcome: &Json| outcome.as_str().unwrap().ends_with(" 0 reached");
    for row in table() {
        let shown = format!("{} / {}", row["group"], row["name"]);
        assert!(
            !row["upstream"].as_str().unwrap().contains("smuggled"),
            "{shown}"
        );
        let ours = refuses(&row["upstream"]);
        let alike = ours == refuses(&row["nginx"]) && ours == refuses(&row["haproxy"]);
        assert_eq!(alike, row["why"] == "", "{shown}");
    }
}

#[tokio::test]
async fn an_ambiguous_request_is_refused_counted_and_the_last_of_its_connection() {
    let gateway = Gateway::start();
    let login = "GET /auth/login HTTP/1.1\r\nHost: x\r\n\r\n";
    let doubled = "POST /auth/token HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let answers = gateway
        .raw_exchange(&[login, login, doubled, login].concat())
        .await;
    let statuses: Vec<&str> = answers
        .split("HTTP/1.1 ")
        .skip(1)
        .map(|rest| &rest[..3])
        .collect();
    assert_eq!(statuses, ["200", "200", "400"]);
    let (_, refusal) = answers.rsplit_once("HTTP/1.1 ").unwrap();
    for part in [
        "connection: close\r\n",
        "x-request-id: ",
        "\"code\":\"malformed_request\"",
        "one length",
    ] {
        assert!(refusal.contains(part), "{part} in {refusal}");
    }
    let counted = "flowgate_requests_total{route=\"none\",method=\"POST\",status=\"4xx\"}";
    assert_eq!(gateway.metric(counted).await, Some(1.0));

    // What cannot be read at all the library answers, with a status only; it is counted like all
    // else.
    let long = format!(
        "GET / HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n",
        "v".repeat(20_000)
    );
    for (request, status) in [("\0\r\n\r\n", " 400 "), (&long, " 431 ")] {
        let answer = gateway.raw_exchange(request).await;
        assert_eq!(answer.get(8..13), Some(status), "{answer}");
    }
    until("they are counted", async || {
        let malformed = gateway.metric("flowgate_requests_malformed_total").await;
        let other = "flowgate_requests_total{route=\"none\",method=\"other\",status=\"4xx\"}";
        (malformed, gateway.metric(other).await) == (Some(2.0), Some(2.0))
    })
    .await;
}

#[tokio::test]
async fn outcomes_do_not_depend_on_packet_boundaries() {
    let gateway = Gateway::start();
    for (fields, status) in [
        ("Content-Length: 0\r\n", " 400 "),
        ("Content-Length: 0\r\nContent-Length: 0\r\n", " 400 "),
        ("X: y\n", " 400 "),
    ] {
        let request =
            format!("POST /auth/token HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}\r\n");
        let mut raw = gateway.raw().await;
        for byte in request.chars() {
            raw.send(&byte.to_string()).await;
        }
        let answer = raw.rest().await;
        assert_eq!(answer.get(8..13), Some(status), "{fields}");
        let two_readings = answer.contains("malformed_request");
        assert_eq!(two_readings, fields != "Content-Length: 0\r\n", "{answer}");
    }
}

/// Runs everything, nginx and `HAProxy` too, and writes what comes of it into the table.
#[tokio::test]
#[ignore = "it writes the table, and needs nginx and HAProxy"]
async fn observe() {
    let behind = behind().await;
    let upstream = behind.address;
    let (http1, http2) = (free_address(), free_address());
    let config = format!(
        "client_header_timeout 1s;\nclient_body_timeout 1s;\nupstream behind {{ server {upstream}; keepalive 4; }}\n\
         server {{ listen {http1};\nlisten {http2} http2;\nlocation / {{ proxy_pass http://behind;\n\
         proxy_http_version 1.1;\nproxy_set_header Connection \"\";\nproxy_set_header Host $host; }} }}"
    );
    let peer = ReverseProxy::nginx(&config, http1).await;
    let nginx = outcomes(&ForwardedRequest::Plain(http1, http2), Some(&behind)).await;
    drop(peer);

    let (http1, http2) = (free_address(), free_address());
    let config = format!(
        "defaults\nmode http\ntimeout connect 5s\ntimeout client 1s\ntimeout server 5s\ntimeout http-request 1s\n\
         listen front\nbind {http1}\nbind {http2} proto h2\nserver behind {upstream}\n"
    );
    let _peer = ReverseProxy::haproxy(&config, http1).await;
    let haproxy = outcomes(&ForwardedRequest::Plain(http1, http2), Some(&behind)).await;

    let mut rows = table();
    let columns = [
        ("engine", of_the_engine().await),
        ("upstream", before_an_upstream().await),
        ("nginx", nginx),
        ("haproxy", haproxy),
    ];
    for (column, outcomes) in columns {
        for (row, outcome) in rows.iter_mut().zip(outcomes) {
            row[column] = outcome.into();
        }
    }
    let lines: Vec<String> = rows.iter().map(Json::to_string).collect();
    std::fs::write(TABLE, format!("[\n{}\n]\n", lines.join(",\n"))).unwrap();
}
