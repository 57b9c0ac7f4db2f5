//! `http request` in a running engine, against real servers. Expectations were observed
//! on Node-RED 4.1.15.

use crate::bench::Bench;
use crate::http_server::{Server, ok};
use crate::steps;
use crate::steps::merged;
use serde_json::{Value as Json, json};

pub(crate) fn node(url: &str, more: &Json) -> Json {
    merged(
        json!({ "type": "http request", "method": "GET", "ret": "txt", "url": url }),
        more,
    )
}

/// The next message of the debug node of this name.
pub(crate) async fn at(bench: &mut Bench, name: &str) -> Json {
    loop {
        let (from, message) = steps::next(bench).await;
        if from == name {
            return message;
        }
    }
}

/// Sends a message through a node; gives the message that came out.
pub(crate) async fn through(node: &Json, message: &Json) -> Json {
    let mut bench = steps::bench(node, 1).await;
    steps::send(&bench, message).await;
    at(&mut bench, "out0").await
}

#[tokio::test]
async fn the_payload_becomes_the_body() {
    let form = "application/x-www-form-urlencoded";
    let table = [
        (
            json!({ "payload": { "a": 1 } }),
            r#"{"a":1}"#,
            Some("application/json"),
        ),
        (json!({ "payload": "text" }), "text", None),
        (json!({ "payload": 5 }), "5", None),
        (json!({ "payload": null }), "null", Some("application/json")),
        (json!({}), "", None),
        (
            json!({ "payload": { "a": [1, 2], "b": "x y" }, "headers": { "Content-Type": form } }),
            "a=1&a=2&b=x%20y",
            Some(form),
        ),
    ];
    for (message, body, kind) in table {
        let server = Server::with(&[&ok("")]).await;
        through(
            &node(&server.url("/p"), &json!({ "method": "POST" })),
            &message,
        )
        .await;
        let seen = &server.requests()[0];
        assert_eq!(seen.line(), "POST /p HTTP/1.1");
        assert_eq!(
            (seen.body.as_str(), seen.field("Content-Type")),
            (body, kind),
            "{message}"
        );
    }
}

#[tokio::test]
async fn the_answer_is_text_a_buffer_or_an_object() {
    let table = [
        ("txt", r#"{"a":"é"}"#, json!(r#"{"a":"é"}"#)),
        (
            "bin",
            "ab",
            json!({ "type": "Buffer", "data": [97, 98], "__enc__": true, "length": 2 }),
        ),
        ("obj", r#"{"a":[1]}"#, json!({ "a": [1] })),
        ("obj", "{x", json!("{x")),
    ];
    for (form, body, payload) in table {
        let server = Server::with(&[&ok(body)]).await;
        let out = through(
            &node(&server.url("/"), &json!({ "ret": form })),
            &json!({ "topic": "t" }),
        )
        .await;
        assert_eq!(
            (&out["payload"], &out["statusCode"]),
            (&payload, &json!(200)),
            "{form}"
        );
        assert_eq!(
            (&out["topic"], &out["retry"], &out["redirectList"]),
            (&json!("t"), &json!(0), &json!([]))
        );
        assert_eq!(out["responseUrl"], server.url("/"));
    }
    let server = Server::with(&["HTTP/1.1 204 No Content\r\n\r\n"]).await;
    let out = through(
        &node(&server.url("/"), &json!({ "ret": "obj" })),
        &json!({}),
    )
    .await;
    assert_eq!(
        (&out["payload"], &out["statusCode"]),
        (&json!({}), &json!(204))
    );
}

#[tokio::test]
async fn the_url_is_the_nodes_or_the_messages_and_gets_what_it_lacks() {
    let server = Server::with(&[&ok("")]).await;
    let port = server.port;
    let table = [
        (
            server.url("/{{{payload}}}?x={{payload}}"),
            json!({ "payload": "a/b" }),
            "/a/b?x=a&#x2F;b",
        ),
        (
            String::new(),
            json!({ "url": format!("127.0.0.1:{port}/m?a=20%&b=%20 c") }),
            "/m?a=20%25&b=%20%20c",
        ),
        (
            server.url("/q?x=1"),
            json!({ "payload": { "a": "b c", "n": [1, "z"] }, "q": true }),
            "/q?x=1&a=b%20c&n=1&n=z",
        ),
    ];
    for (n, (url, message, path)) in table.iter().enumerate() {
        let mode = if message.get("q").is_some() {
            json!("query")
        } else {
            json!("ignore")
        };
        through(&node(url, &json!({ "paytoqs": mode })), message).await;
        let path = path.split('#').next().unwrap();
        assert_eq!(server.requests()[n].line(), format!("GET {path} HTTP/1.1"));
    }
    through(
        &node(&server.url("/b"), &json!({ "paytoqs": "body" })),
        &json!({ "payload": { "a": 1 } }),
    )
    .await;
    assert_eq!(server.requests()[3].body, r#"{"a":1}"#);
    through(
        &node(&server.url("/u"), &json!({ "method": "use" })),
        &json!({ "method": "patch", "payload": "x" }),
    )
    .await;
    assert_eq!(server.requests()[4].line(), "PATCH /u HTTP/1.1");
}

#[tokio::test]
async fn header_fields_are_sent_as_they_are_spelled() {
    let server = Server::with(&[&ok("")]).await;
    let rows = json!([
        { "keyType": "other", "keyValue": "X-FoO", "valueType": "other", "valueValue": "node" },
        { "keyType": "msg", "keyValue": "hk", "valueType": "msg", "valueValue": "hv" },
    ]);
    let message = json!({ "hk": "x-DYN", "hv": "dyn", "headers": { "x-foo": "msg", "SOAPAction": "s" }, "cookies": { "c": "v w", "gone": null } });
    through(
        &node(&server.url("/"), &json!({ "headers": rows })),
        &message,
    )
    .await;
    let seen = &server.requests()[0];
    let fields = [
        "X-FoO",
        "x-DYN",
        "SOAPAction",
        "Host",
        "Connection",
        "cookie",
    ]
    .map(|f| seen.field(f));
    let host = format!("127.0.0.1:{}", server.port);
    assert_eq!(
        fields,
        [
            Some("node"),
            Some("dyn"),
            Some("s"),
            Some(&*host),
            Some("keep-alive"),
            Some("c=v%20w")
        ]
    );
}

#[tokio::test]
async fn redirections_are_followed_with_their_cookies() {
    let first = "HTTP/1.1 302 Found\r\nLocation: /r2\r\nSet-Cookie: a=1; Path=/\r\nContent-Length: 0\r\n\r\n";
    let server = Server::with(&[first, &ok("there")]).await;
    let out = through(&node(&server.url("/r"), &json!({})), &json!({})).await;
    assert_eq!(
        (&out["payload"], &out["responseUrl"]),
        (&json!("there"), &json!(server.url("/r2")))
    );
    let cookies = json!({ "a": { "Path": "/", "value": "1" } });
    assert_eq!(
        out["redirectList"],
        json!([{ "location": "/r2", "cookies": cookies }])
    );
    let seen = server.requests();
    assert_eq!(seen[1].field("cookie"), Some("a=1"));
    assert_eq!(
        seen[0].connection, seen[1].connection,
        "the connection is used again"
    );

    let out = through(
        &node(&Server::with(&[first]).await.url("/r"), &json!({})),
        &json!({ "followRedirects": false }),
    )
    .await;
    assert_eq!(
        (&out["statusCode"], &out["responseCookies"]),
        (&json!(302), &cookies)
    );

    let mut bench =
        steps::bench(&node(&Server::with(&[first]).await.url("/"), &json!({})), 1).await;
    steps::send(&bench, &json!({})).await;
    assert_eq!(
        at(&mut bench, "catch").await,
        "MaxRedirectsError: Redirected 21 times. Aborting."
    );
}

#[tokio::test]
async fn a_post_stays_a_post_unless_the_server_says_see_other() {
    for (status, line) in [
        (301, "POST /to HTTP/1.1"),
        (307, "POST /to HTTP/1.1"),
        (303, "GET /to HTTP/1.1"),
    ] {
        let first = format!("HTTP/1.1 {status} x\r\nLocation: /to\r\nContent-Length: 0\r\n\r\n");
        let server = Server::with(&[&first, &ok("")]).await;
        through(
            &node(&server.url("/"), &json!({ "method": "POST" })),
            &json!({ "payload": "body" }),
        )
        .await;
        assert_eq!(server.requests()[1].line(), line, "{status}");
    }
}

#[tokio::test]
async fn credentials_are_sent_as_the_node_says() {
    let credentials = json!({ "user": "u", "password": "p" });
    for (kind, expected) in [
        ("basic", "Basic dTpw"),
        ("", "Basic dTpw"),
        ("bearer", "Bearer p"),
    ] {
        let server = Server::with(&[&ok("")]).await;
        through(
            &node(
                &server.url("/"),
                &json!({ "authType": kind, "credentials": credentials }),
            ),
            &json!({}),
        )
        .await;
        assert_eq!(server.requests()[0].field("Authorization"), Some(expected));
    }
    let challenge = "HTTP/1.1 401 x\r\nWWW-Authenticate: Digest realm=\"r\", nonce=\"n\", qop=\"auth\"\r\nContent-Length: 0\r\n\r\n";
    let server = Server::with(&[challenge, &ok("in")]).await;
    let out = through(
        &node(
            &server.url("/x?y"),
            &json!({ "authType": "digest", "credentials": credentials }),
        ),
        &json!({}),
    )
    .await;
    assert_eq!(out["payload"], "in");
    let answer = server.requests()[1]
        .field("Authorization")
        .unwrap()
        .to_owned();
    assert!(
        answer.starts_with(
            "Digest username=\"u\", realm=\"r\", nonce=\"n\", uri=\"/x?y\", qop=auth, response="
        ),
        "{answer}"
    );
    let server = Server::with(&[&ok("")]).await;
    through(
        &node(
            &format!("http://us:pw@127.0.0.1:{}/", server.port),
            &json!({}),
        ),
        &json!({}),
    )
    .await;
    assert_eq!(
        server.requests()[0].field("Authorization"),
        Some("Basic dXM6cHc=")
    );
}

#[tokio::test]
async fn a_failed_request_is_caught_shown_and_sent_on() {
    let silent = Server::with(&["silence"]).await.url("/");
    let gone = Server::with(&["hang up"]).await.url("/");
    let free = testing::ports::free();
    let refused = format!("http://127.0.0.1:{free}/");
    let table = [
        (
            silent.clone(),
            "no response from server".to_owned(),
            "common.notification.errors.no-response",
            format!("TimeoutError: Timeout awaiting 'request' for 50ms : {silent}"),
            "ETIMEDOUT",
        ),
        (
            gone.clone(),
            "RequestError: socket hang up".into(),
            "ECONNRESET",
            format!("RequestError: socket hang up : {gone}"),
            "ECONNRESET",
        ),
        (
            refused.clone(),
            format!("RequestError: connect ECONNREFUSED 127.0.0.1:{free}"),
            "ECONNREFUSED",
            format!("RequestError: connect ECONNREFUSED 127.0.0.1:{free} : {refused}"),
            "ECONNREFUSED",
        ),
    ];
    for (url, caught, status, payload, code) in table {
        let mut bench = steps::bench(&node(&url, &json!({})), 1).await;
        steps::send(
            &bench,
            &json!({ "requestTimeout": if url == silent { 50 } else { 10_000 } }),
        )
        .await;
        assert_eq!(bench.status().await.1["text"], "httpin.status.requesting");
        let (first, second) = (steps::next(&mut bench).await, steps::next(&mut bench).await);
        let (out, caught_error) = if first.0 == "out0" {
            (first, second)
        } else {
            (second, first)
        };
        assert_eq!(caught_error, ("catch".into(), json!(caught)));
        assert_eq!(
            (&*out.0, &out.1["payload"], &out.1["statusCode"]),
            ("out0", &json!(payload), &json!(code))
        );
        assert_eq!(steps::next(&mut bench).await.0, "complete");
        let mut bench = steps::bench(&node(&url, &json!({ "senderr": true })), 1).await;
        steps::send(
            &bench,
            &json!({ "requestTimeout": if url == silent { 50 } else { 10_000 } }),
        )
        .await;
        assert_eq!(bench.status().await.1["text"], "httpin.status.requesting");
        assert_eq!(
            bench.status().await.1,
            json!({ "fill": "red", "shape": "ring", "text": status })
        );
    }
}

#[tokio::test]
async fn an_invalid_request_is_an_error() {
    for (url, message, expected) in [
        ("", json!({}), "No url specified"),
        ("http://", json!({}), "TypeError: Invalid URL"),
        ("http://a", json!({ "payload": "text" }), "Invalid payload"),
    ] {
        let mut bench = steps::bench(&node(url, &json!({ "paytoqs": "query" })), 1).await;
        steps::send(&bench, &message).await;
        assert_eq!(
            steps::next(&mut bench).await,
            ("catch".into(), json!(expected))
        );
    }
    let mut bench = steps::bench(&node("ftp://x", &json!({})), 1).await;
    steps::send(&bench, &json!({})).await;
    assert_eq!(bench.error().await.1, "non-http transport requested");
}
