//! `http in` and `http response` in a running engine.

use crate::bench::Bench;
use bytes::Bytes;
use engine::Error;
use engine::http::{Reply, Request};
use hyper::{HeaderMap, Method};
use serde_json::json;
use std::future::poll_fn;
use std::task::Poll;

async fn call(bench: &Bench, content_type: &str, body: &'static str) -> Reply {
    let endpoint = bench.engine.endpoint(&Method::POST, "/e/7").unwrap();
    let mut headers = HeaderMap::new();
    headers.insert("content-type", content_type.parse().unwrap());
    let request = Request {
        method: Method::POST,
        path: "/e/7".to_owned(),
        url: "/e/7?q=1".to_owned(),
        query: "q=1".to_owned(),
        params: endpoint.params.clone(),
        headers,
        body: Bytes::from_static(body.as_bytes()),
        address: std::net::Ipv4Addr::LOCALHOST.into(),
        secure: true,
        user: None,
    };
    bench
        .engine
        .call(endpoint, request, None)
        .await
        .unwrap()
        .unwrap()
        .0
}

async fn bench() -> Bench {
    let answer = "{\"id\": req.params.id, \"q\": req.query.q, \"body\": payload}";
    let flow = json!([
        { "id": "t", "type": "tab", "label": "T" },
        { "id": "in", "type": "http in", "z": "t", "x": 1, "y": 1, "url": "/e/:id", "method": "post", "upload": true, "wires": [["set"]] },
        { "id": "set", "type": "change", "z": "t", "x": 1, "y": 1, "wires": [["out"]],
          "rules": [{ "t": "set", "p": "payload", "pt": "msg", "to": answer, "tot": "jsonata" }] },
        { "id": "out", "type": "http response", "z": "t", "x": 1, "y": 1, "statusCode": "201", "headers": {}, "wires": [] },
    ]);
    Bench::with(&flow).await
}

#[tokio::test]
async fn a_request_goes_through_the_flow_and_is_answered() {
    let bench = bench().await;
    let table = [
        ("application/json", r#"{"a":[1]}"#, r#"{"a":[1]}"#),
        (
            "application/x-www-form-urlencoded",
            "a=1&b[]=2",
            r#"{"a":"1","b":["2"]}"#,
        ),
        // Where uploads are accepted, other bodies are not read (observed).
        ("text/plain", "hi", "{}"),
        (
            "multipart/form-data; boundary=X",
            "--X\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--X--\r\n",
            r#"{"a":"1"}"#,
        ),
    ];
    for (content_type, body, seen) in table {
        let reply = call(&bench, content_type, body).await;
        assert_eq!(reply.status, 201);
        assert_eq!(
            reply.headers["content-type"],
            "application/json; charset=utf-8"
        );
        assert_eq!(
            reply.body,
            format!(r#"{{"id":"7","q":"1","body":{seen}}}"#),
            "{content_type}"
        );
    }
}

#[tokio::test]
async fn a_broken_body_is_refused_before_the_flow() {
    assert_eq!(
        call(&bench().await, "application/json", "{").await.status,
        400
    );
}

#[tokio::test]
async fn requests_that_wait_are_limited_for_an_address_and_those_of_clients_that_are_gone_are_not_answered()
 {
    let code = "const end = Date.now() + 1500; while (Date.now() < end) {} return msg";
    let flow = json!([
        { "id": "t", "type": "tab", "label": "T" },
        { "id": "in", "type": "http in", "z": "t", "x": 1, "y": 1, "url": "/busy", "method": "get", "wires": [["busy"]] },
        { "id": "busy", "type": "function", "z": "t", "x": 1, "y": 1, "outputs": 1, "func": code, "wires": [["out"]] },
        { "id": "out", "type": "http response", "z": "t", "x": 1, "y": 1, "wires": [] },
    ]);
    let bench = Bench::with(&flow).await;
    let begin = async |last: u8| {
        let endpoint = bench.engine.endpoint(&Method::GET, "/busy").unwrap();
        let request = Request {
            method: Method::GET,
            path: "/busy".to_owned(),
            url: "/busy".to_owned(),
            query: String::new(),
            params: Vec::new(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            address: std::net::Ipv4Addr::new(10, 0, 0, last).into(),
            secure: true,
            user: None,
        };
        let mut call = Box::pin(bench.engine.call(endpoint, request, None));
        let poll = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await;
        (call, poll)
    };
    let (first, _) = begin(1).await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    // The engine is busy. These clients leave at once.
    for _ in 0..5000 {
        assert!(begin(1).await.1.is_pending());
    }
    let refused = begin(1).await.1;
    assert!(
        matches!(refused, Poll::Ready(Err(Error::Busy))),
        "{refused:?}"
    );
    let (other, poll) = begin(2).await;
    assert!(poll.is_pending());
    assert_eq!(first.await.unwrap().unwrap().0.status, 200);
    // Five thousand requests would take two hours.
    assert_eq!(other.await.unwrap().unwrap().0.status, 200);
}
