//! Rules for all requests: paths, methods, hosts, ids, errors.

use crate::client::Client;
use crate::harness::{Gateway, flow_set, page};

/// Sends a path just as it is; gives the status.
async fn status_of(client: &Client, token: &str, path: &str) -> u16 {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    );
    let answer = client.raw_exchange(&request).await;
    answer
        .get(9..12)
        .and_then(|status| status.parse().ok())
        .unwrap_or_default()
}

#[tokio::test]
async fn a_path_has_one_meaning_or_is_refused() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    gateway
        .deploy(&token, &flow_set(&[page("a", "/hello", "hello")]))
        .await;
    for (path, status) in [
        ("/flows", 200),
        ("/FLOWS", 200),
        ("/flows/", 200),
        ("/flows?x=//../", 200),
        ("/%66lows", 200),
        ("/fl%6Fws", 200),
        ("/fl%6fws/", 200),
        ("https://x/flows", 200),
        ("/flow/a", 200),
        ("/flow/%61", 200),
        ("/hello", 200),
        ("/flows;x=1", 404),
        ("/flows%20", 404),
        ("/flow/%C3%BC", 404),
        ("//flows", 400),
        ("/flows//", 400),
        ("/flow//a", 400),
        ("/./flows", 400),
        ("/red/../flows", 400),
        ("/red/%2e%2e/flows", 400),
        ("/red/.%2E/flows", 400),
        ("/..", 400),
        ("/flow%2fa", 400),
        ("/flow%2Fa", 400),
        ("/flow%5Ca", 400),
        ("/flow\\a", 400),
        ("/flow/%zz", 400),
        ("/flow/%", 400),
        ("/flow/%4", 400),
        ("/flow/%00", 400),
        ("/flow/%0d%0aX:%20y", 400),
        ("/flow/%7f", 400),
        ("/flow/%ff", 400),
        ("/flow/%c0%af", 400),
        ("/flow/%ed%a0%80", 400),
    ] {
        assert_eq!(status_of(&gateway, &token, path).await, status, "{path}");
    }
}

#[tokio::test]
async fn a_malformed_path_is_refused_before_authentication() {
    let gateway = Gateway::start();
    let answer = gateway.get("//flows").send().await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (400, "invalid_path")
    );
}

#[tokio::test]
async fn known_paths_list_their_methods() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    for (path, allow) in [
        ("/auth/login", "GET, HEAD, OPTIONS"),
        ("/auth/token", "POST, OPTIONS"),
        ("/auth/revoke", "POST, OPTIONS"),
        ("/flows", "GET, HEAD, POST, OPTIONS"),
        ("/flows/state", "GET, HEAD, POST, OPTIONS"),
        ("/flow", "POST, OPTIONS"),
        ("/flow/a", "GET, HEAD, PUT, DELETE, OPTIONS"),
        ("/settings", "GET, HEAD, OPTIONS"),
        ("/inject/a", "POST, OPTIONS"),
    ] {
        let options = gateway.request("OPTIONS", path).token(&token).send().await;
        assert_eq!(
            (options.status, options.header("allow")),
            (204, allow),
            "{path}"
        );
        for method in ["PATCH", "TRACE", "PROPFIND"] {
            let answer = gateway.request(method, path).token(&token).send().await;
            assert_eq!(
                (answer.status, answer.header("allow")),
                (405, allow),
                "{method} {path}"
            );
            assert_eq!(answer.code(), "method_not_allowed");
        }
    }
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    for path in [
        "/auth/login",
        "/flows",
        "/flows/state",
        "/settings",
        "/nodes",
        "/diagnostics",
        "/flow/none",
    ] {
        for http2 in [false, true] {
            let of = async |method: &str| {
                let request = gateway.request(method, path).token(&token);
                if http2 {
                    request.http2().send().await
                } else {
                    request.send().await
                }
            };
            let (get, head) = (of("GET").await, of("HEAD").await);
            assert_eq!((head.status, head.body.len()), (get.status, 0), "{path}");
            assert_eq!(
                head.header("content-length"),
                get.body.len().to_string(),
                "{path}"
            );
            assert_eq!(
                head.header("content-type"),
                get.header("content-type"),
                "{path}"
            );
        }
    }
}

#[tokio::test]
async fn every_response_has_a_unique_request_id_and_no_cors_headers() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    let mut ids = Vec::new();
    for request in [
        gateway.get("/flows").token(&token),
        gateway.get("/flows"),
        gateway.get("//"),
        gateway.get("/nothing").token(&token),
        gateway
            .request("OPTIONS", "/flows")
            .header("Access-Control-Request-Method", "POST"),
        gateway.get("/auth/login").http2(),
    ] {
        let request = request
            .header("Origin", "https://elsewhere.example")
            .header("X-Request-Id", "mine");
        let answer = request.send().await;
        ids.push(answer.header("x-request-id").to_owned());
        for name in answer.headers.keys() {
            assert!(!name.as_str().starts_with("access-control-"), "{name}");
        }
        assert_eq!(answer.header("server"), "");
    }
    assert!(
        ids.iter().all(|id| id.len() == 16 && id != "mine"),
        "{ids:?}"
    );
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 6);
}

#[tokio::test]
async fn errors_are_json_without_internal_details() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    for (request, status) in [
        (gateway.get("/nothing"), 404),
        (gateway.get("/flow/none"), 404),
        (gateway.get("/a//b"), 400),
        (gateway.request("DELETE", "/flows"), 405),
        (
            gateway.get("/flows").header("Service-API-Version", "v9"),
            400,
        ),
        (gateway.post("/flows").body("[]"), 415),
        (
            gateway
                .post("/flows/state")
                .body("x")
                .header("Content-Type", "application/json"),
            400,
        ),
        (gateway.get("/comms"), 426),
    ] {
        let answer = request.token(&token).send().await;
        assert_eq!(answer.status, status);
        assert_eq!(
            answer.header("content-type"),
            "application/json; charset=utf-8"
        );
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        let body = answer.json();
        let fields: Vec<_> = body.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["code", "message"]);
        assert!(
            !answer.text().contains("src/") && !answer.text().contains("/tmp"),
            "{}",
            answer.text()
        );
    }
}

#[tokio::test]
async fn a_request_names_one_host() {
    let gateway = Gateway::start();
    for (host, status) in [
        ("Host: x\r\n", " 200 "),
        ("", " 400 "),
        ("Host: x\r\nHost: y\r\n", " 400 "),
        ("Host: x_y:8443\r\n", " 200 "),
        ("Host: [::1]:8443\r\n", " 200 "),
        ("Host:\r\n", " 400 "),
        ("Host: x y\r\n", " 400 "),
        ("Host: x/y\r\n", " 400 "),
        ("Host: a@x\r\n", " 400 "),
    ] {
        let request = format!("GET /auth/login HTTP/1.1\r\n{host}Connection: close\r\n\r\n");
        let answer = gateway.raw_exchange(&request).await;
        assert_eq!(answer.get(8..13), Some(status), "{host:?}");
    }
    let old = gateway
        .raw_exchange("GET /auth/login HTTP/1.0\r\n\r\n")
        .await;
    assert!(
        old.starts_with("HTTP/1.0 200 ") || old.starts_with("HTTP/1.1 200 "),
        "{old}"
    );
}

#[tokio::test]
async fn ambiguous_requests_are_refused() {
    let gateway = Gateway::start();
    for (head, body) in [
        ("Content-Length: 5\r\nContent-Length: 6", "hello"),
        (
            "Content-Length: 5\r\nTransfer-Encoding: chunked",
            "0\r\n\r\n",
        ),
        ("Content-Length: +5", "hello"),
        ("Transfer-Encoding: chunked, identity", "0\r\n\r\n"),
        ("Transfer-Encoding : chunked", "0\r\n\r\n"),
        ("X: a\r\n b: c", ""),
        ("X\u{0}: a", ""),
    ] {
        let request = format!(
            "POST /auth/token HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{head}\r\n\r\n{body}"
        );
        let answer = gateway.raw_exchange(&request).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{head:?}: {answer}");
        assert!(
            !answer.contains("\r\n\r\nHTTP/"),
            "two answers to {head:?}: {answer}"
        );
    }
}
