//! Endpoints of flows: authorization, the request that a flow receives, and the response that it
//! sends.

use crate::harness::{Gateway, flow_set, page, public, script, until};
use serde_json::json;
use std::time::Instant;

#[tokio::test]
async fn a_deployed_flow_answers_where_a_route_makes_it_public() {
    let gateway = Gateway::with(&public(&["/hello"]));
    let token = gateway.sign_in("admin").await;
    gateway
        .deploy(&token, &flow_set(&[page("a", "/hello", "hello world")]))
        .await;
    for path in ["/hello", "/hello/", "/HELLO", "/hell%6F", "/hello?x=1"] {
        let answer = gateway.get(path).send().await;
        assert_eq!(
            (answer.status, answer.text().as_str()),
            (200, "hello world"),
            "{path}"
        );
    }
    assert_eq!(
        gateway.get("/hello").http2().send().await.text(),
        "hello world"
    );
    let head = gateway.request("HEAD", "/hello").send().await;
    assert_eq!(
        (head.status, head.header("content-length"), head.body.len()),
        (200, "11", 0)
    );
}

#[tokio::test]
async fn without_a_route_it_needs_a_permission_and_a_reload_can_open_it() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    gateway
        .deploy(&token, &flow_set(&[page("a", "/hello", "hello")]))
        .await;
    assert_eq!(gateway.get("/hello").send().await.status, 401);
    assert_eq!(gateway.get("/hello").token(&token).send().await.status, 200);
    assert!(gateway.reload(&public(&["/hello"])).await);
    assert_eq!(gateway.get("/hello").send().await.status, 200);
    assert!(gateway.reload("").await);
    assert_eq!(gateway.get("/hello").send().await.status, 401);
}

#[tokio::test]
async fn routes_open_single_methods_and_everything_below_a_path() {
    let routes = "[[route]]\npath = \"/form\"\nmethods = [\"GET\"]\npublic = true\n\
                  [[route]]\npath = \"/deep\"\nprefix = true\npublic = true\n\
                  [[route]]\npath = \"/deep/secret\"\npermission = \"secret.read\"\n";
    let gateway = Gateway::with(routes);
    let token = gateway.sign_in("admin").await;
    let flows = [
        page("a", "/form", "form"),
        script("b", "post", "/form", "msg.payload = 'taken'; return msg"),
        page("c", "/deep/down", "deep"),
        page("d", "/deep/secret", "secret"),
        page("e", "/deeper", "deeper"),
    ];
    gateway.deploy(&token, &flow_set(&flows)).await;
    for (method, path, status) in [
        ("GET", "/form", 200),
        ("HEAD", "/form", 200),
        ("POST", "/form", 401),
        ("GET", "/deep/down", 200),
        ("GET", "/deep/secret", 401),
        ("GET", "/deeper", 401),
    ] {
        assert_eq!(
            gateway.request(method, path).send().await.status,
            status,
            "{method} {path}"
        );
    }
}

#[tokio::test]
async fn a_permission_for_one_value_of_a_parameter_holds_in_every_spelling() {
    let routes = "[[route]]\npath = \"/app\"\nprefix = true\npublic = true\n\
                  [[route]]\npath = \"/app/files/a@b\"\npermission = \"office.read\"\n\
                  [[route]]\npath = \"/app/files/übersicht\"\npermission = \"office.read\"\n\
                  [[route]]\npath = \"/app/files/r&d\"\npermission = \"office.read\"\n";
    let gateway = Gateway::with(routes);
    let token = gateway.sign_in("admin").await;
    let code = "msg.payload = msg.req.params.name; return msg";
    let flows = [script("a", "get", "/app/files/:name", code)];
    gateway.deploy(&token, &flow_set(&flows)).await;
    for (path, name) in [
        ("/app/files/a@b", None),
        ("/app/files/a%40b", None),
        ("/APP/files/%61%40%42/", None),
        ("/app/files/%C3%BCbersicht", None),
        ("/app/files/%c3%9cbersicht", None),
        ("/app/files/r&d", None),
        ("/app/files/r%26d", None),
        ("/app/files/a%2540b", Some("a%40b")),
        ("/app/files/c%40d", Some("c@d")),
    ] {
        let answer = gateway.get(path).send().await;
        match name {
            None => assert_eq!(answer.status, 401, "{path}: {}", answer.text()),
            Some(name) => assert_eq!((answer.status, answer.text().as_str()), (200, name)),
        }
    }
}

#[tokio::test]
async fn a_flow_is_given_the_request_but_not_the_token() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    let code = "const r = msg.req; msg.payload = { body: msg.payload, query: r.query, params: r.params, \
                method: r.method, path: r.path, header: r.headers['x-mine'], \
                authorization: r.headers.authorization === undefined }; return msg";
    gateway
        .deploy(
            &token,
            &flow_set(&[script("a", "post", "/things/:id", code)]),
        )
        .await;
    let request = gateway
        .post("/things/a%20b?q=1")
        .token(&token)
        .header("X-Mine", "yes");
    let answer = request.json(&json!({ "n": [1, "ü"] })).send().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let seen = json!({
        "body": { "n": [1, "ü"] }, "query": { "q": "1" }, "params": { "id": "a b" },
        "method": "POST", "path": "/things/a b", "header": "yes", "authorization": true,
    });
    assert_eq!(answer.json(), seen);
    let form = gateway
        .post("/things/1")
        .token(&token)
        .form(&[("a", "1"), ("b", "x y")]);
    assert_eq!(
        form.send().await.json()["body"],
        json!({ "a": "1", "b": "x y" })
    );
}

#[tokio::test]
async fn a_flow_decides_status_and_headers_and_cannot_break_the_connection() {
    let gateway = Gateway::with(&public(&["/made", "/odd"]));
    let token = gateway.sign_in("admin").await;
    let made = "msg.statusCode = 201; msg.headers = { 'X-Made': 'yes', 'Content-Type': 'text/csv', \
                'Connection': 'close', 'Transfer-Encoding': 'chunked', 'Content-Length': '999' }; \
                msg.payload = '1,2'; return msg";
    let odd = "msg.statusCode = 1000; return msg";
    let flows = [
        script("a", "get", "/made", made),
        script("b", "get", "/odd", odd),
    ];
    gateway.deploy(&token, &flow_set(&flows)).await;
    let mut connection = gateway.connect(false).await.unwrap();
    for _ in 0..2 {
        let answer = connection.send(gateway.get("/made")).await.unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (201, "1,2"));
        assert_eq!(
            (answer.header("x-made"), answer.header("content-length")),
            ("yes", "3")
        );
    }
    let answer = connection.send(gateway.get("/odd")).await.unwrap();
    assert_eq!((answer.status, answer.text()), (500, String::new()));
}

#[tokio::test]
async fn another_method_gets_405_with_allow_and_another_path_404() {
    let gateway = Gateway::with(&public(&["/hello", "/nothing"]));
    let token = gateway.sign_in("admin").await;
    gateway
        .deploy(&token, &flow_set(&[page("a", "/hello", "hello")]))
        .await;
    let answer = gateway.post("/hello").send().await;
    assert_eq!(
        (answer.status, answer.header("allow")),
        (405, "GET, HEAD, OPTIONS")
    );
    let answer = gateway.get("/nothing").send().await;
    assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"));
}

/// A flow that tells when it was called, and never answers.
fn silent() -> serde_json::Value {
    let code = "global.set('called', (global.get('called') || 0) + 1); \
                setTimeout(() => node.send(msg), 1e8)";
    let asked = "msg.payload = String(global.get('called') || 0); return msg";
    flow_set(&[
        script("a", "get", "/silent", code),
        script("b", "get", "/called", asked),
    ])
}

#[tokio::test]
async fn a_flow_that_never_responds_times_out() {
    let lines = format!("[timeouts]\nendpoint = \"300ms\"\n{}", public(&["/silent"]));
    let gateway = Gateway::with(&lines);
    let token = gateway.sign_in("admin").await;
    gateway.deploy(&token, &silent()).await;
    let begun = Instant::now();
    let answer = gateway.get("/silent").send().await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (504, "endpoint_timeout")
    );
    assert!(begun.elapsed().as_millis() >= 300);
}

#[tokio::test]
async fn a_deployment_that_ends_the_flow_ends_the_waiting_too() {
    let gateway = Gateway::with(&public(&["/silent", "/called"]));
    let token = gateway.sign_in("admin").await;
    gateway.deploy(&token, &silent()).await;
    let waiting = tokio::spawn(gateway.get("/silent").send());
    until("the flow is called", async || {
        gateway.get("/called").send().await.text() == "1"
    })
    .await;
    gateway.deploy(&token, &json!([])).await;
    let answer = waiting.await.unwrap();
    assert_eq!((answer.status, answer.code().as_str()), (503, "no_answer"));
}

#[tokio::test]
async fn a_client_that_disconnects_ends_its_request() {
    let gateway = Gateway::with(&public(&["/silent", "/called"]));
    let token = gateway.sign_in("admin").await;
    gateway.deploy(&token, &silent()).await;
    let series = "flowgate_requests_in_flight{route=\"endpoint\"}";
    let mut clients = Vec::new();
    for _ in 0..5 {
        let mut raw = gateway.raw().await;
        raw.send("GET /silent HTTP/1.1\r\nHost: x\r\n\r\n").await;
        clients.push(raw);
    }
    until("all are called", async || {
        gateway.get("/called").send().await.text() == "5"
    })
    .await;
    assert_eq!(gateway.metric(series).await, Some(5.0));
    drop(clients);
    until("none is waited for", async || {
        gateway.metric(series).await == Some(0.0)
    })
    .await;
    assert_eq!(gateway.get("/called").send().await.text(), "5");
}

#[tokio::test]
async fn endpoints_begin_at_the_root_that_is_configured() {
    let gateway = Gateway::with("[engine]\nhttp_node_root = \"/api\"\n");
    let token = gateway.sign_in("admin").await;
    let code = "msg.payload = msg.req.path; return msg";
    let flows = [script("a", "get", "/where/:x", code)];
    gateway.deploy(&token, &flow_set(&flows)).await;
    let answer = gateway.get("/api/where/a").token(&token).send().await;
    assert_eq!((answer.status, answer.text().as_str()), (200, "/where/a"));
    assert_eq!(
        gateway.get("/where/a").token(&token).send().await.status,
        404
    );
}

#[tokio::test]
async fn forged_forwarded_headers_do_not_reach_a_flow() {
    let code = "msg.payload = msg.req.headers; return msg";
    for (more, trusted) in [
        ("", false),
        ("[server]\ntrusted_proxies = [\"127.0.0.1\"]\n", true),
    ] {
        let gateway = Gateway::with(&(more.to_owned() + &public(&["/who"])));
        let token = gateway.sign_in("admin").await;
        let who = script("a", "get", "/who", code);
        gateway.deploy(&token, &flow_set(&[who])).await;
        for http2 in [false, true] {
            let mut request = gateway.get("/who");
            if http2 {
                request = request.http2();
            }
            for (name, value) in [
                ("X-Forwarded-For", "203.0.113.9"),
                ("X_Forwarded_For", "203.0.113.9"),
                ("X-Forwarded-Proto", "http"),
                ("X-Forwarded-Host", "asked.example"),
                ("Forwarded", "for=203.0.113.9"),
                ("X-Real-IP", "203.0.113.9"),
                ("X-Remote-User", "root"),
                ("X-Flowgate-User", "root"),
                ("X-Request-Id", "mine"),
                ("X-HTTP-Method-Override", "DELETE"),
                ("X-Custom", "kept"),
                ("Authorization", "Basic dTpw"),
            ] {
                request = request.header(name, value);
            }
            let seen = request.send().await.json();
            let seen = seen.as_object().unwrap();
            let header_text = |name| seen.get(name).and_then(|value| value.as_str());
            assert_eq!(header_text("x-custom"), Some("kept"));
            assert_eq!(
                header_text("authorization"),
                Some("Basic dTpw"),
                "it is public"
            );
            let address = if trusted { "203.0.113.9" } else { "127.0.0.1" };
            assert_eq!(header_text("x-forwarded-for"), Some(address));
            let proto = if trusted { "http" } else { "https" };
            assert_eq!(header_text("x-forwarded-proto"), Some(proto));
            let host = gateway.address.to_string();
            assert_eq!(header_text("host"), Some(host.as_str()));
            let asked = if trusted { "asked.example" } else { &host };
            assert_eq!(header_text("x-forwarded-host"), Some(asked));
            assert_ne!(header_text("x-request-id"), Some("mine"));
            let text = serde_json::to_string(seen).unwrap();
            assert!(!text.contains("root") && !text.contains("DELETE"), "{text}");
            assert_eq!(
                text.matches("203.0.113.9").count(),
                usize::from(trusted),
                "{text}"
            );
        }
    }
}
