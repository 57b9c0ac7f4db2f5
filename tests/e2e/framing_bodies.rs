//! Bodies that disagree with their head, end early or carry forbidden trailers are never completed
//! at the upstream; and a complete deployment is applied, whether or not its client stays
//! connected.

use crate::client::Client;
use crate::harness::{Gateway, TEST_TIMEOUT, public, until};
use crate::http2_frames::{self, DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM};
use crate::mock_upstream::{Action, MockUpstream};
use crate::recording_upstream::{RecordingUpstream, RespondWhen};
use serde_json::{Value as Json, json};
use std::net::Ipv4Addr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

async fn http2_stream(gateway: &Client) -> TlsStream<TcpStream> {
    let tls = Arc::new(gateway.tls(&["h2"]));
    let stream = gateway.connect_tls(tls, Ipv4Addr::LOCALHOST.into(), "localhost");
    stream.await.unwrap()
}

/// The fields of an HTTP/2 request.
fn fields(method: &str, path: &str, more: &[(&str, &str)]) -> Json {
    let mut fields = vec![
        json!([":method", method]),
        json!([":scheme", "https"]),
        json!([":path", path]),
        json!([":authority", "x"]),
    ];
    fields.extend(more.iter().map(|(name, value)| json!([name, value])));
    fields.into()
}

/// Begins a request over HTTP/2: its head and a piece of its body.
async fn begun(gateway: &Client, fields: &Json, data: &str) -> TlsStream<TcpStream> {
    let mut stream = http2_stream(gateway).await;
    let head = http2_frames::frame(HEADERS, END_HEADERS, 1, &http2_frames::block(fields));
    let data = http2_frames::frame(DATA, 0, 1, data.as_bytes());
    let bytes = [http2_frames::opening(), head, data].concat();
    stream.write_all(&bytes).await.unwrap();
    stream.flush().await.unwrap();
    stream
}

#[tokio::test]
async fn a_body_that_ends_early_is_not_completed_at_the_upstream() {
    let behind = RecordingUpstream::start(RespondWhen::Early).await;
    let lines = behind.config() + &public(&["/up", "/early", "/probe"]);
    let gateway = Gateway::with(&lines);
    let host = gateway.address;
    // `/early` is answered before its body has come: the client has its answer, and leaves then.
    for path in ["/up", "/early"] {
        let head = |framing| format!("POST {path} HTTP/1.1\r\nHost: {host}\r\n{framing}\r\n\r\n");
        for sent in [
            head("Content-Length: 40") + "first",
            head("Transfer-Encoding: chunked") + "5\r\nfirst\r\n",
            head("Transfer-Encoding: chunked") + "5\r\nfirst\r\n5\r\nsec",
        ] {
            let mut raw = gateway.raw().await;
            raw.send(&sent).await;
            if path == "/early" {
                assert!(raw.receive().await.starts_with("HTTP/1.1 200"));
            }
            drop(raw);
            never_completed(&gateway, &behind, &sent).await;
        }
        // NO_ERROR, CANCEL
        for reason in [0_u32, 8] {
            for length in [None, Some(("content-length", "40"))] {
                let fields = fields("POST", path, length.as_slice());
                let mut stream = begun(&gateway, &fields, "first").await;
                reached(&behind, "first").await;
                let reset = http2_frames::frame(RST_STREAM, 0, 1, &reason.to_be_bytes());
                stream.write_all(&reset).await.unwrap();
                stream.flush().await.unwrap();
                let shown = format!("{path}, {reason}, {length:?}");
                never_completed(&gateway, &behind, &shown).await;
            }
        }
    }
}

/// Waits until a request that is under way at the upstream has these bytes.
async fn reached(behind: &RecordingUpstream, bytes: &str) {
    until("it is under way", async || behind.begun().contains(bytes)).await;
}

/// The only request under way is cut off; the next one comes over another connection.
async fn never_completed(gateway: &Client, behind: &RecordingUpstream, shown: &str) {
    until(&format!("{shown} is cut off"), async || {
        let record = behind.record();
        assert!(record.requests.is_empty(), "{shown}: {record:?}");
        !record.cut.is_empty()
    })
    .await;
    assert_eq!(gateway.get("/probe").send().await.status, 200, "{shown}");
    let record = behind.take();
    assert_eq!(
        (record.requests.len(), record.cut.len()),
        (1, 1),
        "{shown}: {record:?}"
    );
    assert_ne!(record.requests[0].0, record.cut[0].0, "{shown}");
    assert!(record.violations.is_empty(), "{shown}: {record:?}");
}

/// Trailers that are refused, and some that stay behind.
const FORBIDDEN: [&str; 10] = [
    "authorization",
    "content-length",
    "transfer-encoding",
    "host",
    "cookie",
    "content-type",
    "x-forwarded-for",
    "x_forwarded_for",
    "x-http-method-override",
    "x-flowgate-user",
];

#[tokio::test]
async fn trailers_that_frame_route_or_authorize_are_refused_with_their_request() {
    let behind = RecordingUpstream::start(RespondWhen::Whole).await;
    // For the history the upstream would be asked for its flows too.
    let upstream = behind.config() + &public(&["/up"]) + "[storage]\nhistory = 0\n";
    for (lines, in_front) in [(String::new(), false), (upstream, true)] {
        let gateway = Gateway::with(&lines);
        let token = gateway.sign_in("admin").await;
        for path in ["/up", "/flow"] {
            if path == "/up" && !in_front {
                continue;
            }
            for name in FORBIDDEN {
                let status = trailer(&gateway, &token, path, name, false).await;
                assert_eq!(status, "400", "{path} {name}");
                // HTTP/2 has no such field: the library resets the stream.
                if name != "transfer-encoding" {
                    let status = trailer(&gateway, &token, path, name, true).await;
                    assert_eq!(status, "400", "{path} {name} over HTTP/2");
                }
            }
            assert!(behind.take().requests.is_empty(), "{path}");
            for http2 in [false, true] {
                let status = trailer(&gateway, &token, path, "x-checksum", http2).await;
                assert_eq!(status, "200", "{path}");
            }
            let record = behind.take();
            assert_eq!(record.requests.len(), if in_front { 2 } else { 0 });
            assert!(record.violations.is_empty(), "{record:?}");
        }
    }
}

/// The status of a request with a whole body and then this trailer.
async fn trailer(gateway: &Client, token: &str, path: &str, name: &str, http2: bool) -> String {
    let body = json!({ "id": "a", "label": "x", "nodes": [] }).to_string();
    let length = body.len();
    if http2 {
        let authorization = format!("Bearer {token}");
        let length = length.to_string();
        let more = [
            ("authorization", authorization.as_str()),
            ("content-type", "application/json"),
            ("content-length", &length),
        ];
        let row = json!({ "fields": fields("POST", path, &more), "data": body, "trailers": [[name, "1"]] });
        let other = json!({ "fields": fields("GET", "/auth/login", &[]) });
        let exchange = http2_frames::exchange(http2_stream(gateway).await, &row, &other);
        return timeout(TEST_TIMEOUT, exchange)
            .await
            .unwrap()
            .first
            .unwrap();
    }
    let host = gateway.address;
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n\
         {length:x}\r\n{body}\r\n0\r\n{name}: 1\r\n\r\n"
    );
    gateway.raw_exchange(&request).await[9..12].to_owned()
}

#[tokio::test]
async fn a_complete_deployment_is_applied_although_its_client_has_disconnected() {
    let behind = RecordingUpstream::start(RespondWhen::Whole).await;
    for (lines, in_front) in [(String::new(), false), (behind.config(), true)] {
        let gateway = Gateway::with(&lines);
        let token = gateway.sign_in("admin").await;
        let set = |label: &str| json!([{ "id": "a", "type": "tab", "label": label }]).to_string();
        let flow = |label: &str| json!({ "id": "a", "label": label, "nodes": [] }).to_string();
        for number in 0..5 {
            for http2 in [false, true] {
                for (method, path) in [("POST", "/flows"), ("PUT", "/flow/a")] {
                    let label = format!("{number} {http2} {path}");
                    let body = if path == "/flows" {
                        set(&label)
                    } else {
                        flow(&label)
                    };
                    send_and_leave(&gateway, &token, method, path, &body, http2).await;
                    until(
                        &format!("{label} is deployed, in front: {in_front}"),
                        async || {
                            if in_front {
                                let requests = behind.record().requests;
                                return requests.iter().any(|(_, one)| one.body == body.as_bytes());
                            }
                            gateway.flows(&token).await["flows"][0]["label"] == label.as_str()
                        },
                    )
                    .await;
                }
            }
        }
    }
}

/// Sends a whole request and closes the connection at once.
async fn send_and_leave(
    gateway: &Client,
    token: &str,
    method: &str,
    path: &str,
    body: &str,
    http2: bool,
) {
    let authorization = format!("Bearer {token}");
    let mut stream = if http2 {
        http2_stream(gateway).await
    } else {
        gateway.raw().await.0
    };
    let bytes = if http2 {
        let more = [
            ("authorization", authorization.as_str()),
            ("content-type", "application/json"),
        ];
        let block = http2_frames::block(&fields(method, path, &more));
        let head = http2_frames::frame(HEADERS, END_HEADERS, 1, &block);
        let data = http2_frames::frame(DATA, END_STREAM, 1, body.as_bytes());
        // Once the server has answered the preface, as on a connection that has served other
        // requests.
        stream.write_all(&http2_frames::opening()).await.unwrap();
        stream.read_exact(&mut [0; 9]).await.unwrap();
        [head, data].concat()
    } else {
        let (host, length) = (gateway.address, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: {authorization}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        );
        (head + body).into_bytes()
    };
    stream.write_all(&bytes).await.unwrap();
    // The last bytes and the end of the connection arrive together.
    stream.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_upstream_that_responds_early_and_stops_reading_blocks_no_other_request() {
    let behind = RecordingUpstream::start(RespondWhen::EarlyThenStopReading).await;
    let lines = behind.config() + &public(&["/early", "/probe"]);
    let gateway = Gateway::with(&(lines + "[limits]\nbody = \"32MiB\"\n"));
    let token = gateway.sign_in("admin").await;
    // Read whole by the gateway, and larger than the system's buffers.
    let large = json!({ "a": "x".repeat(20 << 20) });
    let saved = gateway
        .post("/library/local/flows/early")
        .token(&token)
        .json(&large)
        .send();
    let saved = timeout(TEST_TIMEOUT, saved).await.unwrap();
    assert_eq!(saved.status, 200, "{}", saved.text());
    let probe = timeout(TEST_TIMEOUT, gateway.get("/probe").send()).await;
    assert_eq!(probe.expect("an answer").status, 200);
    let record = behind.take();
    assert_eq!(record.requests.len(), 1, "{record:?}");
}

#[tokio::test]
async fn a_response_is_framed_by_the_body_that_comes_with_it() {
    let behind = MockUpstream::start(|request| {
        let target = request.split(' ').nth(1).unwrap();
        Action::Respond(match target {
            "/none" => "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n".to_owned(),
            "/same" => "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n".to_owned(),
            "/twice" => {
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello".to_owned()
            }
            "/both" => {
                "HTTP/1.1 200 OK\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n\
                        5\r\nhello\r\n0\r\n\r\n"
                    .to_owned()
            }
            _ => "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_owned(),
        })
    })
    .await;
    let paths = ["/none", "/same", "/twice", "/both", "/plain"];
    let gateway = Gateway::with(&(behind.config() + &public(&paths)));
    let host = gateway.address;
    for (path, lengths, ends) in [
        ("/none", &[][..], "\r\n\r\n"),
        ("/same", &[], "\r\n\r\n"),
        ("/twice", &["5"], "\r\n\r\nhello"),
        ("/both", &[], "\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
        ("/plain", &["5"], "\r\n\r\nhello"),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let answer = gateway.raw_exchange(&request).await;
        let fields = answer
            .lines()
            .filter_map(|line| line.strip_prefix("content-length: "));
        assert_eq!(fields.collect::<Vec<_>>(), lengths, "{answer}");
        assert!(answer.ends_with(ends), "{answer}");
    }
}

#[tokio::test]
async fn a_body_of_unknown_length_arrives_after_an_http_1_0_response() {
    let behind = MockUpstream::start(|_| {
        let answer = "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello";
        Action::Respond(answer.to_owned())
    })
    .await;
    let lines = behind.config() + &public(&["/up"]) + "[server]\nworkers = 1\n";
    let gateway = Gateway::with(&lines);
    let host = gateway.address;
    for _ in 0..2 {
        let answer = gateway
            .raw_exchange(&format!(
                "POST /up HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
                 Transfer-Encoding: chunked\r\n\r\n5\r\nworld\r\n0\r\n\r\n"
            ))
            .await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let received_here = behind.received();
    let whole = |bytes: &str| bytes.ends_with("5\r\nworld\r\n0\r\n\r\n");
    assert!(
        received_here.iter().all(|one| whole(&one.bytes)),
        "{received_here:?}"
    );
}
