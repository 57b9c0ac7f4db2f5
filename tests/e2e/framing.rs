//! Exactly the authorized requests reach an upstream, each framed by the body that is sent with it:
//! every endpoint of the admin API with every form of a body, over both protocols.

use crate::client::Client;
use crate::harness::{Gateway, TEST_TIMEOUT, public};
use crate::http2_frames;
use crate::recording_upstream::{Record, RecordingUpstream, RespondWhen};
use crate::strict::{Framing, Request};
use serde_json::{Value as Json, json};
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::sync::Arc;
use tokio::time::timeout;

/// Endpoints of the admin API, one for each route and method; `{}` stands for the JSON that the
/// endpoint takes.
const ADMIN: &[(&str, &str)] = &[
    (
        "GET",
        "/ /favicon.ico /red/x.js /vendor/x.js /types/x /theme /locales/x /icons/a/b /debug/view/x /auth/login",
    ),
    (
        "GET",
        "/flows /flows/state /flow/a /settings /settings/user /nodes /nodes/messages /nodes/m /nodes/m/s",
    ),
    (
        "GET",
        "/icons /plugins /plugins/messages /library/local/flows/x /projects /projects/x /udp-ports/x",
    ),
    (
        "GET",
        "/context/global /context/global/x /context/node/a /diagnostics /credentials/t/i",
    ),
    (
        "HEAD",
        "/flows /flow/a /settings /nodes /context/global /diagnostics /projects",
    ),
    (
        "DELETE",
        "/flow/a /nodes/m /context/global/x /context/node/a/x /library/local/flows/x /projects/x /settings/user",
    ),
    (
        "POST",
        "/flows /flow /flows/state /settings/user /nodes /library/local/flows/x /projects /inject/a",
    ),
    (
        "POST",
        "/debug/enable /debug/disable /debug/a/enable /auth/token /auth/revoke",
    ),
    (
        "PUT",
        "/flow/a /nodes /nodes/m /nodes/m/s /projects/x /settings/user",
    ),
    ("PATCH", "/flow/a /nodes"),
    ("OPTIONS", "/flows /flow/a"),
];

/// Methods of the endpoint of a flow.
const METHODS: &str = "GET HEAD POST PUT PATCH DELETE OPTIONS";

/// A second request in the place of a body.
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";

/// A body as clients send it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Absent,
    LengthZero,
    EmptyChunks,
    Json,
    JsonInChunks,
    Urlencoded,
    Request,
    RequestInChunks,
    /// Announces more than it sends.
    Short,
}

const FORMS: [Form; 9] = [
    Form::Absent,
    Form::LengthZero,
    Form::EmptyChunks,
    Form::Json,
    Form::JsonInChunks,
    Form::Urlencoded,
    Form::Request,
    Form::RequestInChunks,
    Form::Short,
];

struct Case {
    method: &'static str,
    path: &'static str,
    form: Form,
}

impl Case {
    fn is_endpoint(&self) -> bool {
        self.path == "/endpoint"
    }

    /// The body and its media type.
    fn body(&self) -> (String, &'static str) {
        let json = || match (self.method, self.path) {
            ("POST", "/flows") => "[]".to_owned(),
            (_, "/flow" | "/flow/a") => r#"{"id":"a","label":"x","nodes":[]}"#.to_owned(),
            (_, "/flows/state") => r#"{"state":"start"}"#.to_owned(),
            _ => r#"{"a":[1,2,3]}"#.to_owned(),
        };
        match self.form {
            Form::Absent | Form::LengthZero | Form::EmptyChunks => {
                (String::new(), "application/json")
            }
            Form::Json | Form::JsonInChunks => (json(), "application/json"),
            // Longer than what it means.
            Form::Urlencoded => (
                "state=%73%74%61%72%74&other=1".to_owned(),
                "application/x-www-form-urlencoded",
            ),
            Form::Request | Form::RequestInChunks => {
                (SMUGGLED.to_owned(), "application/octet-stream")
            }
            Form::Short => ("[".to_owned(), "application/json"),
        }
    }

    /// What the upstream gets of it, if anything.
    fn expected(&self) -> String {
        let (body, _) = self.body();
        match (self.form, self.method, self.path) {
            (Form::Urlencoded, "POST", "/flows/state") => "state=start".to_owned(),
            _ => body,
        }
    }

    /// The method that the upstream gets: its settings are read to be changed, so that `HEAD` has
    /// the right length.
    fn method(&self) -> &'static str {
        match (self.method, self.path) {
            ("HEAD", "/settings") => "GET",
            (method, _) => method,
        }
    }

    /// Returns whether this is the request that was authorised, framed by its body.
    fn is_as_authorised(&self, request: &Request) -> bool {
        let framed = match (request.framing, request.body.len()) {
            // RFC 9110 §8.6
            (Framing::Absent, 0) => !matches!(self.method, "POST" | "PUT" | "PATCH"),
            (Framing::Length(length), body) => length == body,
            (Framing::Chunked, _) => true,
            (Framing::Absent, _) => false,
        };
        framed
            && !self.is_refused()
            && (request.method.as_str(), request.target.as_str()) == (self.method(), self.path)
            && request.body == self.expected().as_bytes()
    }

    /// Returns whether it must be refused before anything is sent.
    fn is_refused(&self) -> bool {
        let bodiless = matches!(self.method, "GET" | "HEAD" | "DELETE") && !self.is_endpoint();
        bodiless && !self.body().0.is_empty()
    }

    /// Sends it over HTTP/1.1 on a connection of its own; gives the status.
    async fn over_http1(&self, gateway: &Client, token: &str) -> Option<String> {
        let (body, kind) = self.body();
        let length = body.len();
        let (framing, body) = match self.form {
            Form::Absent => (String::new(), String::new()),
            Form::LengthZero | Form::Json | Form::Urlencoded | Form::Request => {
                (format!("Content-Length: {length}\r\n"), body)
            }
            Form::Short => ("Content-Length: 40\r\n".to_owned(), body),
            Form::EmptyChunks => (
                "Transfer-Encoding: chunked\r\n".to_owned(),
                "0\r\n\r\n".to_owned(),
            ),
            Form::JsonInChunks | Form::RequestInChunks => (
                "Transfer-Encoding: chunked\r\n".to_owned(),
                format!(
                    "1\r\n{}\r\n{:x}\r\n{}\r\n0\r\n\r\n",
                    &body[..1],
                    length - 1,
                    &body[1..]
                ),
            ),
        };
        let host = gateway.address;
        let (method, path) = (self.method, self.path);
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: {kind}\r\nConnection: close\r\n{framing}\r\n"
        );
        let mut raw = gateway.raw().await;
        raw.send(&(head + &body)).await;
        if self.form == Form::Short && !self.is_refused() {
            // The client leaves in the middle of its body.
            return None;
        }
        let answer = timeout(TEST_TIMEOUT, raw.rest()).await.expect("an answer");
        answer.get(9..12).map(str::to_owned)
    }

    async fn over_http2(&self, gateway: &Client, token: &str) -> Option<String> {
        let (body, kind) = self.body();
        let mut fields = vec![
            json!([":method", self.method]),
            json!([":scheme", "https"]),
            json!([":path", self.path]),
            json!([":authority", "x"]),
            json!(["authorization", format!("Bearer {token}")]),
            json!(["content-type", kind]),
        ];
        let length = match self.form {
            Form::LengthZero | Form::Json | Form::Urlencoded | Form::Request => Some(body.len()),
            Form::Short => Some(40),
            Form::Absent | Form::EmptyChunks | Form::JsonInChunks | Form::RequestInChunks => None,
        };
        fields.extend(length.map(|length| json!(["content-length", length.to_string()])));
        let mut row = json!({ "fields": fields });
        if !matches!(self.form, Form::Absent | Form::LengthZero) {
            row["data"] = body.into();
        }
        let login = json!({ "fields": [
            [":method", "GET"], [":scheme", "https"], [":path", "/auth/login"], [":authority", "x"],
        ] });
        let tls = Arc::new(gateway.tls(&["h2"]));
        let stream = gateway.connect_tls(tls, Ipv4Addr::LOCALHOST.into(), "localhost");
        let exchange = http2_frames::exchange(stream.await.unwrap(), &row, &login);
        timeout(TEST_TIMEOUT, exchange)
            .await
            .expect("an answer")
            .first
    }
}

fn cases() -> Vec<Case> {
    let admin = ADMIN
        .iter()
        .flat_map(|(method, paths)| paths.split(' ').map(move |path| (*method, path)));
    let endpoint = METHODS.split(' ').map(|method| (method, "/endpoint"));
    admin
        .chain(endpoint)
        .flat_map(|(method, path)| FORMS.map(|form| Case { method, path, form }))
        .collect()
}

/// What became of a case and of the probe after it.
#[derive(Debug)]
struct Outcome {
    /// Of the case; `None`: no answer was waited for.
    status: Option<String>,
    /// Of the probe.
    probe: (String, u16),
    record: Record,
}

impl Outcome {
    /// Returns whether it was answered as it should be, and what reached the upstream is this case
    /// and the probe, or the probe.
    fn is_right(&self, case: &Case, http2: bool) -> bool {
        let answered = match self.status.as_deref() {
            None => case.form == Form::Short,
            Some("reset") => http2 && case.form == Form::Short,
            Some(status) => !status.starts_with('5') && (!case.is_refused() || status == "400"),
        };
        let mut reached = self.record.requests.iter().map(|(_, request)| request);
        let (target, status) = &self.probe;
        let probed = reached.next_back().is_some_and(|last| {
            last.method == "GET" && last.target == *target && last.framing == Framing::Absent
        });
        let authorised = match (reached.next(), reached.next()) {
            (None, _) => !case.is_endpoint() || case.form == Form::Short,
            (Some(one), None) => case.is_as_authorised(one),
            (Some(_), Some(_)) => false,
        };
        let strict = self.record.violations.is_empty() && *status == 200;
        answered && probed && authorised && strict
    }
}

/// Sends every case and then a probe; whatever reached the upstream must be these and nothing else.
async fn only_what_was_authorised(http2: bool) {
    let behind = RecordingUpstream::start(RespondWhen::Whole).await;
    // The gateway's own reads are no part of this.
    let without_history = "[storage]\nhistory = 0\n";
    let lines = behind.config() + without_history + &public(&["/endpoint", "/probe"]);
    let gateway = Gateway::with(&lines);
    let mut connection = gateway.connect(false).await.unwrap();
    let mut wrong = String::new();
    let mut token = String::new();
    for (number, case) in cases().into_iter().enumerate() {
        if token.is_empty() || case.path.starts_with("/auth/") {
            token = gateway.sign_in("admin").await;
        }
        let status = if http2 {
            case.over_http2(&gateway, &token).await
        } else {
            case.over_http1(&gateway, &token).await
        };
        let probe = format!("/probe?{number}");
        let answer = connection.send(gateway.get(&probe)).await.unwrap();
        let outcome = Outcome {
            status,
            probe: (probe, answer.status),
            record: behind.take(),
        };
        if !outcome.is_right(&case, http2) {
            let Case { method, path, form } = case;
            writeln!(wrong, "{method} {path} {form:?}: {outcome:?}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[tokio::test]
async fn only_authorized_requests_reach_the_upstream_over_http_1() {
    only_what_was_authorised(false).await;
}

#[tokio::test]
async fn only_authorized_requests_reach_the_upstream_over_http_2() {
    only_what_was_authorised(true).await;
}

/// A runtime that answers before it reads the body, as Node-RED does, takes what follows on the
/// connection for the rest of a body that never comes.
#[tokio::test]
async fn no_request_is_read_as_the_body_of_the_previous_one() {
    let behind = RecordingUpstream::start(RespondWhen::Early).await;
    // For the history the upstream would be asked for its flows too.
    let lines = behind.config() + &public(&["/probe"]) + "[storage]\nhistory = 0\n";
    let gateway = Gateway::with(&lines);
    let token = gateway.sign_in("admin").await;
    let form = gateway.post("/flows/state?/early").token(&token);
    let delete = gateway.request("DELETE", "/flow/a?/early").token(&token);
    let hidden = "GET /diagnostics HTTP/1.1\r\nHost: x\r\n\r\n";
    let padding = "x".repeat(300);
    for request in [
        form.form(&[("state", "stop"), ("padding", &padding)]),
        delete.clone().json(&json!({ "padding": padding })),
        delete.clone().body(padding.clone()).http2(),
        delete,
    ] {
        let sent = request.send().await.status;
        let body = hidden.repeat(20);
        let probe = gateway.post("/probe").body(body.clone()).send().await;
        assert_eq!(probe.status, 200);
        let record = behind.take();
        assert!(
            record.violations.is_empty() && record.cut.is_empty(),
            "{record:?}"
        );
        let mut targets = record.requests.iter().map(|(_, one)| one.target.as_str());
        assert_eq!(targets.next_back(), Some("/probe"), "{record:?}");
        assert_eq!(targets.count(), usize::from(sent == 200), "{record:?}");
        let (_, last) = record.requests.last().unwrap();
        assert_eq!(last.body, body.as_bytes());
    }
}

#[tokio::test]
async fn an_unexpected_body_is_refused_by_engine_and_upstream_routes() {
    let behind = RecordingUpstream::start(RespondWhen::Whole).await;
    for lines in [String::new(), behind.config()] {
        let gateway = Gateway::with(&lines);
        let token = gateway.sign_in("admin").await;
        for (method, path) in [
            ("DELETE", "/flow/a"),
            ("GET", "/flows"),
            ("DELETE", "/context/global/x"),
        ] {
            for http2 in [false, true] {
                let request = gateway.request(method, path).token(&token).json(&json!({}));
                let request = if http2 { request.http2() } else { request };
                let answer = request.send().await;
                assert_eq!(
                    (answer.status, answer.code().as_str()),
                    (400, "unexpected_body")
                );
                assert_eq!(answer.json()["message"], "this endpoint takes no body");
            }
        }
        if !lines.is_empty() {
            assert!(behind.record().requests.is_empty());
        }
        // The deployment lock is free.
        let flows: Json = json!([]);
        gateway.deploy(&token, &flows).await;
    }
}
