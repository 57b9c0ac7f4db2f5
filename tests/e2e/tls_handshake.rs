//! Malformed and weak TLS handshakes on the TLS port. Versions, protocols, certificates and
//! time-outs: `listener.rs`; client certificates: `client_certificates.rs`.

use crate::client::{AcceptAnyCertificate, Client, Raw};
use crate::harness::{Gateway, until};
use rustls::version::{TLS12, TLS13};
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Sends bytes before any handshake; gives what comes back until the end.
async fn send(client: &Client, bytes: &[u8]) -> Vec<u8> {
    let mut tcp = client.tcp(HERE).await.unwrap();
    // An error: it was closed before all was sent.
    let _ = tcp.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = tcp.read_to_end(&mut answer).await;
    answer
}

/// The bytes of a good `ClientHello`.
fn hello(client: &Client, protocols: &[&str]) -> Vec<u8> {
    let tls = Arc::new(client.tls(protocols));
    let name = "localhost".try_into().unwrap();
    let mut connection = rustls::ClientConnection::new(tls, name).unwrap();
    let mut bytes = Vec::new();
    connection.write_tls(&mut bytes).unwrap();
    bytes
}

/// The `ClientHello` cut into records of so many bytes.
fn fragmented(hello: &[u8], size: usize) -> Vec<u8> {
    let records = hello[5..].chunks(size).map(|piece| {
        let length = u16::try_from(piece.len()).unwrap().to_be_bytes();
        [&hello[..3], &length, piece].concat()
    });
    records.collect::<Vec<_>>().concat()
}

/// A well-behaved client is served.
async fn serves(client: &Client) {
    assert_eq!(client.get("/auth/login").send().await.status, 200);
}

#[tokio::test]
async fn plain_http_on_the_tls_port_gets_an_explanation() {
    let gateway = Gateway::start();
    for request in [
        "GET /flows HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST /auth/token HTTP/1.1\r\nHost: x\r\nContent-Length: 20000\r\n\r\n",
        "DELETE https://x/flow/a HTTP/1.0\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /auth/login HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /b HTTP/1.1\r\nHost: x\r\nUpgrade: TLS/1.0\r\nConnection: upgrade\r\n\r\n",
    ] {
        let answer = String::from_utf8(send(&gateway, request.as_bytes()).await).unwrap();
        assert!(
            answer.contains(" 400 Bad Request\r\n"),
            "{request:?}: {answer}"
        );
        assert_eq!(answer.matches("HTTP/1.").count(), 1, "{answer}");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        for field in [
            "connection: close",
            "x-content-type-options: nosniff",
            "x-request-id: ",
        ] {
            assert!(head.contains(field), "{field} in {head}");
        }
        assert!(!head.contains("strict-transport-security"), "{head}");
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["code"], "tls_required");
    }
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--write-out", "%{http_code}"]);
    curl.arg(format!("http://{}/flows", gateway.address));
    let log = String::from_utf8(curl.output().unwrap().stdout).unwrap();
    assert!(
        log.contains("tls_required") && log.ends_with("400"),
        "{log}"
    );
    let counted = "flowgate_requests_total{route=\"none\",method=\"GET\",status=\"4xx\"}";
    assert_eq!(gateway.metric(counted).await, Some(4.0));
    serves(&gateway).await;
}

#[tokio::test]
async fn garbage_ends_in_an_alert_or_nothing() {
    let gateway = Gateway::with("[timeouts]\nhandshake = \"1s\"\n");
    let good = hello(&gateway, &["h2"]);
    let mut huge = vec![0x16, 3, 1, 0x48, 0x01];
    huge.resize(20_000, 0);
    let mut broken = good.clone();
    broken[60..].reverse();
    let mut endless = Vec::new();
    for _ in 0..5000 {
        // A hello that announces 16 MiB and comes in records of a byte.
        endless.extend([0x16, 3, 1, 0, 1, 0]);
    }
    endless[5] = 1;
    (endless[11], endless[17], endless[23]) = (0xff, 0xff, 0xff);
    for (what, bytes) in [
        ("nothing", Vec::new()),
        ("zeros", vec![0; 1000]),
        ("high bytes", vec![0xff; 1000]),
        ("SSH", b"SSH-2.0-x\r\n".to_vec()),
        ("a half hello", good[..good.len() / 2].to_vec()),
        ("a record over the limit", huge),
        ("a hello without end", endless),
        ("a broken hello", broken),
        ("an alert", vec![0x15, 3, 3, 0, 2, 2, 40]),
        ("data first", vec![0x17, 3, 3, 0, 2, 1, 1]),
        ("empty records", [0x16, 3, 1, 0, 0].repeat(1000)),
        (
            "SSL 2",
            vec![0x80, 0x2e, 1, 0, 2, 0, 0x15, 0, 0, 0, 0x10, 1, 0, 0x80],
        ),
    ] {
        let answer = send(&gateway, &bytes).await;
        // SSH begins with a letter, and so gets the response to HTTP without TLS.
        let letter = what == "SSH" && answer.starts_with(b"HTTP/1.1 400 ");
        let alert = answer.is_empty() || answer[0] == 0x15;
        assert!(letter || (alert && answer.len() < 50), "{what}: {answer:?}");
    }
    until("nothing is left of them", async || {
        gateway.metric("flowgate_connections_open").await == Some(0.0)
    })
    .await;
    serves(&gateway).await;
}

#[tokio::test]
async fn a_fragmented_client_hello_is_accepted() {
    let gateway = Gateway::start();
    let good = hello(&gateway, &["http/1.1"]);
    for size in [1, 7, 100] {
        let mut tcp = gateway.tcp(HERE).await.unwrap();
        tcp.write_all(&fragmented(&good, size)).await.unwrap();
        let mut first = [0; 6];
        tcp.read_exact(&mut first).await.unwrap();
        // A `ServerHello`.
        assert_eq!((first[0], first[5]), (0x16, 2), "{size}");
    }
    let mut drop_by_drop = gateway.tcp(HERE).await.unwrap();
    for byte in &good {
        drop_by_drop.write_all(&[*byte]).await.unwrap();
    }
    let mut first = [0; 6];
    drop_by_drop.read_exact(&mut first).await.unwrap();
    assert_eq!((first[0], first[5]), (0x16, 2));
}

#[tokio::test]
async fn a_client_without_a_common_alpn_protocol_gets_an_alert() {
    let gateway = Gateway::start();
    for protocols in [&["h3"][..], &["http/1.0", "spdy/3"], &["H2"]] {
        for version in [&TLS12, &TLS13] {
            let tls = Arc::new(gateway.tls_with_versions(&[version], protocols));
            let refused = gateway.connect_tls(tls, HERE, "localhost").await;
            let why = refused.unwrap_err().to_string();
            assert!(
                why.contains("NoApplicationProtocol"),
                "{protocols:?}: {why}"
            );
        }
    }
}

#[tokio::test]
async fn sni_selects_nothing_but_the_certificate() {
    let gateway = Gateway::start();
    let mut tls = gateway.tls(&["http/1.1"]);
    let provider = Arc::clone(tls.crypto_provider());
    tls.dangerous()
        .set_certificate_verifier(Arc::new(AcceptAnyCertificate(provider)));
    let tls = Arc::new(tls);
    for name in ["localhost", "elsewhere.example", "127.0.0.1"] {
        for (path, status) in [("/auth/login", " 200 "), ("/flows", " 401 ")] {
            let stream = gateway.connect_tls(Arc::clone(&tls), HERE, name).await;
            let mut raw = Raw(stream.unwrap());
            raw.send(&format!(
                "GET {path} HTTP/1.1\r\nHost: another.example\r\nConnection: close\r\n\r\n"
            ))
            .await;
            let answer = raw.rest().await;
            assert_eq!(answer.get(8..13), Some(status), "{name} {path}");
        }
    }
}

#[tokio::test]
async fn no_request_is_read_before_the_handshake_is_complete() {
    let gateway = Gateway::start();
    let mut tls = gateway.tls_with_versions(&[&TLS13], &["http/1.1"]);
    tls.enable_early_data = true;
    let tls = Arc::new(tls);
    let stream = gateway
        .connect_tls(Arc::clone(&tls), HERE, "localhost")
        .await;
    let mut raw = Raw(stream.unwrap());
    // The ticket comes with the first answer, and would say that data may come early the next time.
    raw.send("GET /auth/login HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .await;
    assert!(raw.rest().await.starts_with("HTTP/1.1 200 "));
    let name = "localhost".try_into().unwrap();
    let mut again = rustls::ClientConnection::new(tls, name).unwrap();
    assert!(again.early_data().is_none());
}

/// What OpenSSL's client says when it is fed some lines.
fn openssl(client: &Client, arguments: &[&str], lines: &str) -> Output {
    let mut openssl = Command::new("openssl");
    openssl.args(["s_client", "-connect", &client.address.to_string()]);
    openssl.args(arguments);
    openssl.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut openssl = openssl.stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = openssl.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, lines.as_bytes()).unwrap();
    drop(stdin);
    openssl.wait_with_output().unwrap()
}

#[tokio::test]
async fn openssl_negotiates_strong_ciphers_only_and_no_renegotiation() {
    let gateway = Gateway::start();
    for (arguments, good) in [
        (
            &["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"][..],
            true,
        ),
        (
            &["-tls1_2", "-cipher", "ECDHE-ECDSA-CHACHA20-POLY1305"],
            true,
        ),
        (
            &["-tls1_2", "-cipher", "AES128-GCM-SHA256:AES128-SHA"],
            false,
        ),
        (
            &[
                "-tls1_2",
                "-cipher",
                "ECDHE-ECDSA-AES128-SHA:ECDHE-ECDSA-AES128-SHA256",
            ],
            false,
        ),
        (&["-tls1_2", "-cipher", "aNULL:eNULL:@SECLEVEL=0"], false),
        (&["-tls1_2", "-cipher", "DHE:PSK:SRP:@SECLEVEL=0"], false),
        (&["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], false),
        (&["-tls1_3"], true),
    ] {
        let output = openssl(&gateway, arguments, "Q\n");
        let shaken = String::from_utf8_lossy(&output.stdout).contains("BEGIN CERTIFICATE");
        assert_eq!(shaken, good, "{arguments:?}");
    }
    // `R` at the beginning of a line asks for a new handshake on the same connection.
    let output = openssl(&gateway, &["-tls1_2"], "R\n");
    let output = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    let refused = [
        "no renegotiation",
        "no_renegotiation",
        "unexpected message",
        "unexpected_message",
        "closed",
        "errno",
    ];
    assert!(output.contains("RENEGOTIATING"), "{output}");
    assert!(refused.iter().any(|word| output.contains(word)), "{output}");
    serves(&gateway).await;
}

#[tokio::test]
async fn the_server_chooses_the_cipher() {
    let gateway = Gateway::start();
    for version in [&TLS12, &TLS13] {
        let mut chosen = Vec::new();
        for turned in [false, true] {
            let mut provider = rustls::crypto::aws_lc_rs::default_provider();
            if turned {
                provider.cipher_suites.reverse();
            }
            let builder = rustls::ClientConfig::builder_with_provider(Arc::new(provider));
            let tls = builder
                .with_protocol_versions(&[version])
                .unwrap()
                .with_root_certificates(Arc::clone(&gateway.roots))
                .with_no_client_auth();
            let stream = gateway
                .connect_tls(Arc::new(tls), HERE, "localhost")
                .await
                .unwrap();
            chosen.push(stream.get_ref().1.negotiated_cipher_suite());
        }
        assert_eq!(chosen[0], chosen[1]);
    }
}
