//! Requests are forwarded to the upstream unchanged, if they are authorized, and nothing else is.

use crate::harness::{Gateway, public};
use crate::mock_upstream::{Action, MockUpstream, ok, status};

/// Answers everything with its request line.
async fn echo() -> MockUpstream {
    MockUpstream::start(|request| {
        Action::Respond(ok("text/plain", request.lines().next().unwrap()))
    })
    .await
}

#[tokio::test]
async fn requests_and_responses_are_forwarded_over_both_protocols() {
    let behind = echo().await;
    let gateway = Gateway::with(&behind.config());
    let token = gateway.sign_in("reader").await;
    let over_1 = gateway.get("/Hello/?a=%66").token(&token).send().await;
    let over_2 = gateway.get("/%68ello").token(&token).http2().send().await;
    assert_eq!(
        (over_1.status, over_1.text().as_str()),
        (200, "GET /Hello/?a=%66 HTTP/1.1")
    );
    assert_eq!(
        (over_2.status, over_2.text().as_str()),
        (200, "GET /hello HTTP/1.1")
    );
    assert_eq!(over_1.headers["content-type"], "text/plain");
}

#[tokio::test]
async fn the_upstream_receives_forwarded_headers_and_never_the_token() {
    let behind = echo().await;
    let gateway = Gateway::with(&behind.config());
    let token = gateway.sign_in("reader").await;
    let answer = gateway
        .get("/hello")
        .token(&token)
        .header("X-Forwarded-For", "203.0.113.9")
        .header("X_Forwarded_For", "203.0.113.9")
        .header("Forwarded", "for=203.0.113.9")
        .header("X-Remote-User", "root")
        .header("X-Request-Id", "mine")
        .header("TE", "trailers")
        .header("Accept", "text/plain")
        .from("127.0.0.2")
        .send()
        .await;
    let mut lines: Vec<String> = behind.only().lines().map(str::to_owned).collect();
    lines.sort();
    let host = gateway.address;
    let id = answer.headers["x-request-id"].to_str().unwrap();
    let mut wanted = vec![
        "GET /hello HTTP/1.1".to_owned(),
        String::new(),
        "accept: text/plain".to_owned(),
        format!("host: {host}"),
        "x-forwarded-for: 127.0.0.2".to_owned(),
        format!("x-forwarded-host: {host}"),
        "x-forwarded-proto: https".to_owned(),
        format!("x-request-id: {id}"),
    ];
    wanted.sort();
    assert_eq!(lines, wanted);
}

#[tokio::test]
async fn upgrades_and_hop_by_hop_headers_are_not_forwarded() {
    let behind = echo().await;
    let gateway = Gateway::with(&(behind.config() + &public(&["/x"])));
    let host = gateway.address;
    let answer = gateway
        .raw_exchange(&format!(
            "GET /x HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade, HTTP2-Settings, close, X-Hop, Host\r\n\
             Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nX-Hop: 1\r\nProxy-Connection: keep-alive\r\n\r\n"
        ))
        .await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let received = behind.only().to_ascii_lowercase();
    for word in [
        "upgrade",
        "h2c",
        "settings",
        "x-hop",
        "proxy-",
        "connection",
    ] {
        assert!(!received.contains(word), "{word} in {received}");
    }
    assert!(received.contains(&format!("host: {host}")));
}

#[tokio::test]
async fn bodies_of_both_framings_arrive_unchanged() {
    let chunked = "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n\
                   3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    let behind = MockUpstream::start(move |_| Action::Respond(chunked.to_owned())).await;
    let gateway = Gateway::with(&(behind.config() + &public(&["/up"])));
    let host = gateway.address;
    let known = gateway.post("/up").body("hello").send().await;
    assert_eq!((known.status, known.text().as_str()), (201, "abcde"));
    let answer = gateway
        .raw_exchange(&format!(
            "POST /up HTTP/1.1\r\nHost: {host}\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\
             Connection: close\r\n\r\n5\r\nworld\r\n0\r\n\r\n"
        ))
        .await;
    assert!(
        answer.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201"),
        "{answer}"
    );
    let received_here = behind.received();
    assert!(
        received_here[0].bytes.contains("content-length: 5")
            && received_here[0].bytes.ends_with("\r\n\r\nhello")
    );
    assert!(
        received_here[1].bytes.ends_with("5\r\nworld\r\n0\r\n\r\n"),
        "{received_here:?}"
    );
    assert!(!received_here[1].bytes.contains("xpect"));
    let metric = gateway
        .metric(&behind.series("requests_total", "status=\"2xx\""))
        .await;
    assert!(metric >= Some(2.0));
}

#[tokio::test]
async fn responses_without_a_body_keep_their_headers() {
    let behind = MockUpstream::start(|request| {
        Action::Respond(if request.starts_with("HEAD") {
            "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n".to_owned()
        } else if request.contains("if-none-match: \"1\"") {
            "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n".to_owned()
        } else {
            "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n".to_owned()
        })
    })
    .await;
    let gateway = Gateway::with(&(behind.config() + &public(&["/x"])));
    let mut connection = gateway.connect(false).await.unwrap();
    let head = connection
        .send(gateway.request("HEAD", "/x"))
        .await
        .unwrap();
    assert_eq!(
        (
            head.status,
            &head.headers["content-length"],
            head.body.len()
        ),
        (200, &"1000".parse().unwrap(), 0)
    );
    let same = gateway.get("/x").header("If-None-Match", "\"1\"");
    let same = connection.send(same).await.unwrap();
    assert_eq!(
        (same.status, &same.headers["etag"]),
        (304, &"\"1\"".parse().unwrap())
    );
    let none = connection.send(gateway.get("/x")).await.unwrap();
    assert_eq!(
        (none.status, &none.headers["x-a"]),
        (204, &"1".parse().unwrap())
    );
}

#[tokio::test]
async fn connections_are_reused_for_every_framing() {
    let behind = MockUpstream::start(|request| {
        Action::Respond(if request.contains("/chunked") {
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n".to_owned()
        } else {
            ok("text/plain", "a")
        })
    })
    .await;
    let lines = behind.config() + &public(&["/chunked", "/known"]) + "[server]\nworkers = 1\n";
    let gateway = Gateway::with(&lines);
    for _ in 0..5 {
        assert_eq!(gateway.get("/chunked").send().await.text(), "a");
        assert_eq!(gateway.get("/known").send().await.text(), "a");
    }
    let connections: Vec<usize> = behind
        .received()
        .iter()
        .map(|received_here| received_here.connection)
        .collect();
    assert!(
        connections.windows(2).all(|pair| pair[0] == pair[1]),
        "{connections:?}"
    );
}

#[tokio::test]
async fn a_broken_keep_alive_connection_retries_a_get_and_never_a_post() {
    let behind = MockUpstream::start(|request| match request {
        request if request.contains("/last") && request.contains("x-try: 1") => {
            Action::RespondAndClose(String::new())
        }
        _ => Action::Respond(ok("text/plain", "a")),
    })
    .await;
    let lines = behind.config() + &public(&["/last", "/first"]) + "[server]\nworkers = 1\n";
    let gateway = Gateway::with(&lines);
    // The upstream closes the kept connection instead of answering: another one is tried, and
    // refuses too.
    assert_eq!(gateway.get("/first").send().await.status, 200);
    let answer = gateway.get("/last").header("X-Try", "1").send().await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (502, "upstream_closed")
    );
    assert_eq!(behind.received().len(), 3, "once more, and only once");
    assert_eq!(gateway.get("/first").send().await.status, 200);
    let answer = gateway
        .post("/last")
        .header("X-Try", "1")
        .body("x")
        .send()
        .await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (502, "upstream_closed")
    );
    assert_eq!(behind.received().len(), 5, "a POST is sent once");
}

#[tokio::test]
async fn the_settings_show_the_gateways_user_and_not_the_upstreams() {
    let settings =
        r#"{"httpNodeRoot":"/","user":{"username":"root","permissions":"*"},"version":"4"}"#;
    let behind = MockUpstream::start(|_| Action::Respond(ok("application/json", settings))).await;
    let gateway = Gateway::with(&behind.config());
    let token = gateway.sign_in("reader").await;
    let request = gateway
        .get("/settings")
        .token(&token)
        .header("If-None-Match", "*");
    let answer = request.send().await.json();
    assert_eq!(answer["user"]["username"], "reader");
    assert_eq!(answer["user"]["permissions"], "read");
    assert_eq!(answer["version"], "4");
    assert!(!behind.only().contains("none-match"));
}

#[tokio::test]
async fn error_pages_of_the_admin_api_become_json_and_those_of_endpoints_stay() {
    let page = "<pre>Error at /usr/src/node-red/secret.js</pre>";
    let behind = MockUpstream::start(|_| {
        Action::Respond(status("404 Not Found", "text/html; charset=utf-8", page))
    })
    .await;
    let gateway = Gateway::with(&behind.config());
    let token = gateway.sign_in("admin").await;
    for path in ["/flows", "/settings", "/red/x.js", "/nodes/x"] {
        let answer = gateway.get(path).token(&token).send().await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (404, "not_found"),
            "{path}"
        );
        assert!(!answer.text().contains("secret"));
    }
    let connections: Vec<usize> = behind
        .received()
        .iter()
        .map(|received_here| received_here.connection)
        .collect();
    assert!(
        connections.iter().max() < Some(&4),
        "pages that nobody reads cost no connections: {connections:?}"
    );
    let endpoint = gateway.get("/nope").token(&token).send().await;
    assert_eq!((endpoint.status, endpoint.text().as_str()), (404, page));
}

#[tokio::test]
async fn permissions_are_required_except_for_what_the_editor_loads_before_the_sign_in() {
    let behind = echo().await;
    let gateway = Gateway::with(&behind.config());
    let reader = gateway.sign_in("reader").await;
    for (method, path) in [
        ("GET", "/flows"),
        ("POST", "/flows"),
        ("GET", "/x"),
        ("PUT", "/nodes/a"),
    ] {
        assert_eq!(
            gateway.request(method, path).send().await.status,
            401,
            "{method} {path}"
        );
    }
    for (method, path) in [
        ("POST", "/flows"),
        ("DELETE", "/flow/a"),
        ("POST", "/x"),
        ("POST", "/inject/a"),
    ] {
        let refused = gateway.request(method, path).token(&reader).send().await;
        assert_eq!(refused.status, 401, "{method} {path}");
    }
    assert_eq!(
        gateway
            .get("/auth/strategy")
            .token(&reader)
            .send()
            .await
            .status,
        404
    );
    assert!(behind.received().is_empty(), "nothing of this went up");
    for path in [
        "/",
        "/red/main.min.js",
        "/theme",
        "/locales/editor",
        "/icons/a/b.svg",
    ] {
        assert_eq!(gateway.get(path).send().await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn an_upstream_receives_the_gateways_token_and_its_401_is_not_passed_on() {
    let behind = MockUpstream::start(|request| {
        Action::Respond(
            if request.contains("authorization: Bearer static-token\r\n") {
                ok("application/json", "[]")
            } else {
                status("401 Unauthorized", "text/plain", "Unauthorized")
            },
        )
    })
    .await;
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("token"), "static-token\n").unwrap();
    let lines = behind.config_with("token_file = \"token\"\nhealth = \"1h\"");
    let gateway = Gateway::open(&lines, directory);
    let token = gateway.sign_in("reader").await;
    assert_eq!(
        gateway.get("/flows").token(&token).send().await.text(),
        "[]"
    );

    let gateway = Gateway::with(&behind.config());
    let token = gateway.sign_in("reader").await;
    let answer = gateway.get("/flows").token(&token).send().await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (502, "upstream_unauthorized")
    );
}

#[tokio::test]
async fn a_streamed_body_over_the_limit_is_cut_off() {
    let behind = echo().await;
    let lines = behind.config() + &public(&["/up"]) + "[limits]\nbody = \"1KiB\"\n";
    let gateway = Gateway::with(&lines);
    let host = gateway.address;
    let much = "x".repeat(2000);
    let answer = gateway
        .raw_exchange(&format!(
            "POST /up HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n{much}\r\n0\r\n\r\n"
        ))
        .await;
    assert!(
        answer.starts_with("HTTP/1.1 413") && answer.contains("body_too_large"),
        "{answer}"
    );
    assert!(
        behind.received().is_empty(),
        "the upstream saw no whole request"
    );
}
