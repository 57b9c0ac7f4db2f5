//! `http request` with `tls-config` and `http proxy`, against real servers. Expectations were observed on
//! Node-RED 4.1.15.

use crate::bench::{Bench, debug};
use crate::http_request::{node, through};
use crate::http_server::{Server, certificate, ok};
use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A flow with a tls-config node beside the node.
async fn secure(server: &Server, tls: Json) -> (String, Json) {
    let mut tls = tls;
    for (key, value) in [("id", "tls"), ("type", "tls-config")] {
        tls[key] = json!(value);
    }
    let url = format!("https://localhost:{}/", server.port);
    let mut request = node(
        &url,
        &json!({ "tls": "tls", "id": "node", "z": "t", "wires": [["out"]] }),
    );
    request["x"] = json!(1);
    let flow = json!([
        { "id": "t", "type": "tab", "label": "T" }, tls, request, debug("out"),
        { "id": "in", "type": "inject", "z": "t", "x": 1, "y": 1, "props": [], "wires": [["node"]] },
    ]);
    let mut bench = Bench::with(&flow).await;
    bench.inject("in").await;
    bench.output().await
}

#[tokio::test]
async fn a_tls_config_sets_the_trusted_authorities() {
    let pair = certificate();
    let server = Server::secure(&[&ok("secret")], &pair).await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ca.pem");
    std::fs::write(&file, &pair.0).unwrap();
    let table = [
        (
            json!({ "verifyservercert": true }),
            json!("DEPTH_ZERO_SELF_SIGNED_CERT"),
        ),
        (json!({ "verifyservercert": false }), json!(200)),
        (json!({ "verifyservercert": true, "ca": file }), json!(200)),
        (
            json!({ "verifyservercert": true, "credentials": { "cadata": pair.0 } }),
            json!(200),
        ),
        (
            json!({ "verifyservercert": true, "ca": file, "servername": "other" }),
            json!("ERR_TLS_CERT_ALTNAME_INVALID"),
        ),
    ];
    for (tls, status) in table {
        let out = secure(&server, tls.clone()).await;
        assert_eq!(out.1["statusCode"], status, "{tls}");
    }
    let url = format!("https://localhost:{}/", server.port);
    let out = through(
        &node(&url, &json!({})),
        &json!({ "rejectUnauthorized": false }),
    )
    .await;
    assert_eq!(out["payload"], "secret");
}

#[tokio::test]
async fn a_tls_config_without_its_key_is_an_error() {
    let flow = json!([{ "id": "tls", "type": "tls-config", "cert": "/x", "key": "", "ca": "" }]);
    let mut bench = Bench::with(&json!([])).await;
    bench.deploy(&flow, flows::DeploymentType::Full).await;
    let error = bench.error().await;
    assert_eq!(
        error,
        ("tls".into(), "No certificate/key file provided".into())
    );
}

#[tokio::test]
async fn a_proxy_is_asked_to_connect() {
    let server = Server::with(&[&ok("through")]).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(client.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        let target = head.split(' ').nth(1).unwrap().to_owned();
        let mut upstream = tokio::net::TcpStream::connect(target).await.unwrap();
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        tokio::spawn(
            async move { tokio::io::copy_bidirectional(&mut client, &mut upstream).await },
        );
        head
    });
    let mut request = node(
        &server.url("/"),
        &json!({ "proxy": "p", "id": "node", "z": "t", "wires": [["out"]] }),
    );
    request["x"] = json!(1);
    let flow = json!([
        { "id": "t", "type": "tab", "label": "T" }, request, debug("out"),
        { "id": "p", "type": "http proxy", "url": format!("http://127.0.0.1:{port}"), "noproxy": [],
          "credentials": { "username": "u", "password": "p" } },
        { "id": "in", "type": "inject", "z": "t", "x": 1, "y": 1, "props": [], "wires": [["node"]] },
    ]);
    let mut bench = Bench::with(&flow).await;
    bench.inject("in").await;
    assert_eq!(bench.output().await.1["payload"], "through");
    let head = asked.await.unwrap();
    assert!(
        head.starts_with(&format!("CONNECT 127.0.0.1:{} HTTP/1.1\r\n", server.port)),
        "{head}"
    );
    assert!(
        head.contains("Proxy-Authorization: Basic dTpw\r\n"),
        "{head}"
    );
}

#[tokio::test]
async fn a_head_that_bends_the_rules_needs_the_lenient_parser() {
    let bent = "HTTP/1.0 200\nContent-Type: text/plain\n\nHelloWorld";
    let server = Server::with(&[bent]).await;
    let out = through(
        &node(&server.url("/"), &json!({ "insecureHTTPParser": true })),
        &json!({}),
    )
    .await;
    assert_eq!(out["payload"], "HelloWorld");
    let out = through(&node(&server.url("/"), &json!({})), &json!({})).await;
    assert_eq!(
        out["payload"],
        format!(
            "RequestError: Parse Error: Invalid response status : {}",
            server.url("/")
        )
    );
}
