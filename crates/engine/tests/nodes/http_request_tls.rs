//! `http request` with `tls-config` and `http proxy`, against real servers. Expectations were
//! observed on Node-RED 4.1.15.

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
    let server = Server::secure(&[&ok("secret")], &pair.0, &pair.1).await;
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

/// Runs openssl in a directory, which must succeed.
fn openssl(directory: &std::path::Path, arguments: &str) {
    let output = std::process::Command::new("openssl")
        .args(arguments.split(' '))
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(output.status.success(), "openssl {arguments}: {output:?}");
}

/// A self-signed certificate of X.509 version 1, `old.pem`, and its key, `old-key.pem`.
fn make_version_1(directory: &std::path::Path, key: &str) {
    let request = format!("req {key} -nodes -keyout old-key.pem -subj /CN=localhost -out old.csr");
    openssl(directory, &request);
    let sign = "x509 -req -in old.csr -signkey old-key.pem -days 30 -out old.pem";
    openssl(directory, sign);
}

/// An `openssl s_server` that answers every request with a page about the connection.
struct OldServer {
    child: std::process::Child,
    port: u16,
}

impl OldServer {
    async fn start(directory: &std::path::Path, options: &str) -> Self {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let child = std::process::Command::new("openssl")
            .args([
                "s_server",
                "-www",
                "-cert",
                "old.pem",
                "-key",
                "old-key.pem",
            ])
            .args(["-accept", &port.to_string()])
            .args(options.split(' '))
            .current_dir(directory)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        for _ in 0..500 {
            if tokio::net::TcpStream::connect(("127.0.0.1", port))
                .await
                .is_ok()
            {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        Self { child, port }
    }
}

impl Drop for OldServer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn a_server_with_a_certificate_of_version_1_is_accepted_unless_it_is_checked() {
    let directory = tempfile::tempdir().unwrap();
    let keys = [
        "-newkey rsa:2048",
        "-newkey ec -pkeyopt ec_paramgen_curve:P-256",
    ];
    for (key, options) in keys.iter().flat_map(|key| {
        [
            "-tls1_3",
            "-tls1_2",
            "-tls1_2 -sigalgs RSA+SHA256:ECDSA+SHA256",
        ]
        .map(|o| (key, o))
    }) {
        make_version_1(directory.path(), key);
        let server = OldServer::start(directory.path(), options).await;
        let url = format!("https://localhost:{}/", server.port);
        let out = through(
            &node(&url, &json!({})),
            &json!({ "rejectUnauthorized": false }),
        )
        .await;
        assert_eq!(out["statusCode"], 200, "{key} {options}: {out}");
        let out = through(&node(&url, &json!({})), &json!({})).await;
        assert_eq!(
            out["statusCode"], "DEPTH_ZERO_SELF_SIGNED_CERT",
            "{key} {options}"
        );
    }
}

#[tokio::test]
async fn a_check_of_a_certificate_of_version_1_fails_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    make_version_1(directory.path(), "-newkey rsa:2048");
    let server = OldServer::start(directory.path(), "-tls1_3").await;
    let mut request = node(
        &format!("https://localhost:{}/", server.port),
        &json!({ "tls": "tls", "id": "node", "z": "t", "wires": [["out"]] }),
    );
    request["x"] = json!(1);
    let flow = json!([
        { "id": "t", "type": "tab", "label": "T" }, request, debug("out"),
        { "id": "tls", "type": "tls-config", "verifyservercert": true, "ca": directory.path().join("old.pem") },
        { "id": "in", "type": "inject", "z": "t", "x": 1, "y": 1, "props": [], "wires": [["node"]] },
    ]);
    let mut bench = Bench::with(&flow).await;
    bench.inject("in").await;
    let (_, error) = bench.error().await;
    assert!(
        error.contains("the certificate is of X.509 version 1; only version 3 can be verified"),
        "{error}"
    );
}

#[tokio::test]
async fn a_client_presents_its_own_certificate_of_version_1() {
    let directory = tempfile::tempdir().unwrap();
    make_version_1(directory.path(), "-newkey rsa:2048");
    let server = OldServer::start(directory.path(), "-tls1_3 -Verify 1").await;
    let mut request = node(
        &format!("https://localhost:{}/", server.port),
        &json!({ "tls": "tls", "id": "node", "z": "t", "wires": [["out"]] }),
    );
    request["x"] = json!(1);
    let file = |name: &str| directory.path().join(name);
    let flow = json!([
        { "id": "t", "type": "tab", "label": "T" }, request, debug("out"),
        { "id": "tls", "type": "tls-config", "verifyservercert": false, "cert": file("old.pem"), "key": file("old-key.pem") },
        { "id": "in", "type": "inject", "z": "t", "x": 1, "y": 1, "props": [], "wires": [["node"]] },
    ]);
    let mut bench = Bench::with(&flow).await;
    bench.inject("in").await;
    let out = bench.output().await;
    assert_eq!(out.1["statusCode"], 200, "{}", out.1);
}
