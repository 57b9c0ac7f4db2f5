//! Security headers: strict ones on own responses; flows and upstreams choose theirs. Other origins
//! read nothing unless configured.

use crate::client::{Answer, Client, PASSWORD};
use crate::harness::{Gateway, flow_set, public, script};
use crate::mock_upstream::{Action, MockUpstream};
use hyper::header::HeaderMap;

const STRICT: [(&str, &str); 7] = [
    ("strict-transport-security", "max-age=31536000"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("x-frame-options", "DENY"),
    (
        "content-security-policy",
        "default-src 'none'; frame-ancestors 'none'",
    ),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
];

/// All values of these headers.
fn output<'h>(headers: &'h HeaderMap, name: &str) -> Vec<&'h str> {
    let values = headers.get_all(name).iter();
    values.map(|value| value.to_str().unwrap()).collect()
}

/// A flow whose endpoint has some headers of its own.
async fn deploy_page(client: &Client, token: &str) {
    let code = "msg.headers = { 'X-Frame-Options': 'SAMEORIGIN', 'Content-Type': 'text/html' }; msg.payload = '<p>'; return msg";
    client
        .deploy(token, &flow_set(&[script("a", "get", "/page", code)]))
        .await;
}

#[tokio::test]
async fn every_own_response_has_strict_security_headers() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    for http2 in [false, true] {
        for request in [
            gateway.get("/auth/login"),
            gateway.sign_in_request("admin", PASSWORD, ""),
            gateway.sign_in_request("admin", "wrong", ""),
            gateway.get("/flows").token(&token),
            gateway.get("/flows"),
            gateway.get("/none").token(&token),
            gateway.get("//"),
            gateway.request("HEAD", "/auth/login"),
            gateway.request("OPTIONS", "/auth/login"),
            gateway.request("BREW", "/flows").token(&token),
            gateway.post("/flows").token(&token).body("x"),
            gateway.get("/comms"),
        ] {
            let request = if http2 { request.http2() } else { request };
            let answer = request.send().await;
            for (name, value) in STRICT {
                assert_eq!(output(&answer.headers, name), [value], "{}", answer.status);
            }
        }
    }
    let flawed = gateway
        .raw_exchange("GET /auth/login HTTP/1.1\nHost: x\r\n\r\n")
        .await;
    for (name, value) in STRICT {
        assert!(
            flawed.contains(&format!("\r\n{name}: {value}\r\n")),
            "{flawed}"
        );
    }
}

#[tokio::test]
async fn each_security_header_can_be_changed_or_left_out() {
    let lines = "[headers]\nhsts = \"180d\"\nframe_options = \"SAMEORIGIN\"\nreferrer_policy = \"off\"\n\
                 content_security_policy = \"off\"\nresource_policy = \"same-site\"\n";
    let gateway = Gateway::with(lines);
    let answer = gateway.get("/auth/login").send().await;
    for (name, values) in [
        ("strict-transport-security", &["max-age=15552000"][..]),
        ("x-frame-options", &["SAMEORIGIN"]),
        ("cross-origin-resource-policy", &["same-site"]),
        ("x-content-type-options", &["nosniff"]),
        ("referrer-policy", &[]),
        ("content-security-policy", &[]),
    ] {
        assert_eq!(output(&answer.headers, name), values, "{name}");
    }
    let without = Gateway::with("[headers]\nhsts = \"off\"\n");
    let answer = without.get("/auth/login").send().await;
    assert_eq!(answer.header("strict-transport-security"), "");
}

#[tokio::test]
async fn strict_transport_security_is_sent_over_tls_only() {
    let gateway =
        Gateway::with("[server]\nplain = \"127.0.0.1:0\"\ntrusted_proxies = [\"127.0.0.2\"]\n");
    let mut plain = (*gateway).clone();
    plain.address = gateway.running.addresses().plain.unwrap();
    let answer = plain.get("/auth/login").plain().send().await;
    assert_eq!(
        (answer.status, answer.header("strict-transport-security")),
        (200, "")
    );
    assert_eq!(answer.header("x-frame-options"), "DENY");
    let of_proxy = gateway.get("/auth/login").from("127.0.0.2");
    let unencrypted = of_proxy
        .clone()
        .header("X-Forwarded-Proto", "http")
        .send()
        .await;
    assert_eq!(unencrypted.header("strict-transport-security"), "");
    let encrypted = of_proxy.header("X-Forwarded-Proto", "https").send().await;
    assert_ne!(encrypted.header("strict-transport-security"), "");
}

/// What a flow's page has: what it says itself, and what is added.
fn is_as_its_maker_says(answer: &Answer, added: bool) {
    assert_eq!(output(&answer.headers, "x-frame-options"), ["SAMEORIGIN"]);
    for name in [
        "content-security-policy",
        "cross-origin-resource-policy",
        "cache-control",
    ] {
        assert_eq!(answer.header(name), "", "{name}");
    }
    for (name, value) in &STRICT[..3] {
        let expected = if added { *value } else { "" };
        assert_eq!(answer.header(name), expected, "{name}");
    }
}

#[tokio::test]
async fn responses_of_flows_and_upstreams_keep_their_own_security_headers_unless_configured() {
    let page = |_: &str| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX-Frame-Options: SAMEORIGIN\r\n";
        Action::Respond(format!("{head}Content-Length: 3\r\n\r\n<p>"))
    };
    for added in [false, true] {
        let lines = format!("[headers]\neverywhere = {added}\n{}", public(&["/page"]));
        let gateway = Gateway::with(&lines);
        let token = gateway.sign_in("admin").await;
        deploy_page(&gateway, &token).await;
        is_as_its_maker_says(&gateway.get("/page").send().await, added);
        let behind = MockUpstream::start(page).await;
        let gateway = Gateway::with(&(behind.config() + &lines));
        is_as_its_maker_says(&gateway.get("/page").send().await, added);
        let refused = gateway.get("/flows").send().await;
        assert_eq!(
            (refused.status, refused.header("x-frame-options")),
            (401, "DENY")
        );
    }
}

/// Nothing of it lets a page of another origin read.
fn is_closed(answer: &Answer, origin: &str) {
    for name in answer.headers.keys() {
        assert!(
            !name.as_str().starts_with("access-control-"),
            "{name} for {origin}"
        );
    }
}

#[tokio::test]
async fn other_origins_read_nothing() {
    let behind = MockUpstream::start(|request| {
        let origin = request.to_ascii_lowercase().contains("origin: ");
        assert!(
            origin,
            "the upstream decides for its own endpoints: {request}"
        );
        let cors = "Access-Control-Allow-Origin: *\r\nAccess-Control-Allow-Credentials: true\r\n";
        Action::Respond(format!(
            "HTTP/1.1 200 OK\r\n{cors}Content-Type: application/json\r\nContent-Length: 2\r\n\r\n[]"
        ))
    })
    .await;
    let other = "[headers]\ncors_origins = [\"https://dashboard.example\"]\n";
    for gateway in [
        Gateway::start(),
        Gateway::with(other),
        Gateway::with(&behind.config()),
    ] {
        let token = gateway.sign_in("admin").await;
        for origin in [
            "null",
            "https://elsewhere.example",
            "https://dashboard.example.elsewhere.example",
            "http://dashboard.example",
            "https://dashboard.example:8443",
            "https://dashboard.example https://elsewhere.example",
            "*",
            "",
        ] {
            for path in [
                "/flows",
                "/auth/login",
                "/auth/token",
                "/settings",
                "/none",
                "//",
            ] {
                let asked = gateway
                    .request("OPTIONS", path)
                    .header("Origin", origin)
                    .header("Access-Control-Request-Method", "POST")
                    .header("Access-Control-Request-Headers", "authorization");
                is_closed(&asked.send().await, origin);
            }
            let read = gateway.get("/flows").token(&token).header("Origin", origin);
            let read = read.send().await;
            assert_eq!(read.status, 200);
            is_closed(&read, origin);
        }
    }
}

#[tokio::test]
async fn a_configured_origin_reads_with_a_token() {
    let gateway = Gateway::with("[headers]\ncors_origins = [\"https://dashboard.example\"]\n");
    let origin = "https://dashboard.example";
    let token = gateway.sign_in("admin").await;
    for path in ["/flows", "/auth/token", "/page"] {
        let asked = gateway
            .request("OPTIONS", path)
            .header("Origin", origin)
            .header("Access-Control-Request-Method", "POST");
        let allowed = asked.send().await;
        assert_eq!(allowed.status, 204, "{path}");
        assert_eq!(allowed.header("access-control-allow-origin"), origin);
        assert!(
            allowed
                .header("access-control-allow-headers")
                .contains("Authorization")
        );
        assert!(
            allowed
                .header("access-control-allow-methods")
                .contains("POST")
        );
        assert_eq!(allowed.header("vary"), "Origin");
    }
    let read = gateway.get("/flows").token(&token).header("Origin", origin);
    for (request, status) in [
        (read.clone(), 200),
        (read.clone().http2(), 200),
        (gateway.get("/flows").header("Origin", origin), 401),
    ] {
        let answer = request.send().await;
        assert_eq!(answer.status, status);
        assert_eq!(answer.header("access-control-allow-origin"), origin);
        assert_eq!(answer.header("access-control-allow-credentials"), "");
    }
    let twice = read.header("Origin", origin).send().await;
    is_closed(&twice, "twice");
    // What asks for no permission of a page is as ever.
    let options = gateway
        .request("OPTIONS", "/flows")
        .token(&token)
        .send()
        .await;
    assert_eq!(
        (options.status, options.header("allow")),
        (204, "GET, HEAD, POST, OPTIONS")
    );
    is_closed(&options, "none");
}
