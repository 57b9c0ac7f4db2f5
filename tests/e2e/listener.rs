//! The listening sockets: versions of TLS, certificates, time-outs, and limits of connections and
//! heads.

use crate::client::Client;
use crate::harness::{Gateway, TEST_TIMEOUT, flow_set, page, public, until};
use rustls::HandshakeKind;
use rustls::pki_types::CertificateDer;
use rustls::version::{TLS12, TLS13};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A `ClientHello` that offers nothing newer than this version (RFC 8446 §4.1.2, RFC 2246
/// §7.4.1.2).
fn hello(minor: u8) -> Vec<u8> {
    let mut body = vec![3, minor];
    body.extend([7; 32]);
    // no session, two cipher suites (ECDHE-ECDSA and RSA with AES-128-CBC-SHA), no compression, no
    // extensions
    body.extend([0, 0, 4, 0xc0, 0x09, 0x00, 0x2f, 1, 0]);
    let length = u8::try_from(body.len()).unwrap();
    let mut record = vec![22, 3, 1, 0, length + 4, 1, 0, 0, length];
    record.extend(body);
    record
}

#[tokio::test]
async fn tls_1_2_and_1_3_are_accepted_and_nothing_older() {
    let gateway = Gateway::start();
    for version in [&TLS12, &TLS13] {
        let tls = Arc::new(gateway.tls_with_versions(&[version], &[]));
        let stream = gateway.connect_tls(tls, HERE, "localhost").await.unwrap();
        assert_eq!(stream.get_ref().1.protocol_version(), Some(version.version));
    }
    for minor in [1, 2] {
        let mut tcp = TcpStream::connect(gateway.address).await.unwrap();
        tcp.write_all(&hello(minor)).await.unwrap();
        let mut answer = Vec::new();
        tcp.read_to_end(&mut answer).await.unwrap();
        // A fatal alert (RFC 5246 §7.2).
        assert_eq!(
            (answer.first(), answer.get(5)),
            (Some(&21), Some(&2)),
            "{answer:?}"
        );
    }
    let series = "flowgate_tls_handshakes_total";
    until("both are counted as failed", async || {
        let page = gateway.operations("/metrics").await.text();
        let mut failed = page
            .lines()
            .filter(|line| line.contains("result=\"failed\""));
        failed.any(|line| line.starts_with(series) && line.ends_with(" 2"))
    })
    .await;
}

#[tokio::test]
async fn tls_1_2_can_be_switched_off() {
    let gateway = Gateway::with("[tls]\ntls12 = false");
    let old = Arc::new(gateway.tls_with_versions(&[&TLS12], &[]));
    assert!(gateway.connect_tls(old, HERE, "localhost").await.is_err());
    let new = Arc::new(gateway.tls_with_versions(&[&TLS13], &[]));
    assert!(gateway.connect_tls(new, HERE, "localhost").await.is_ok());
}

#[tokio::test]
async fn alpn_selects_http_2_or_http_1_1() {
    let gateway = Gateway::start();
    for (offered, agreed) in [
        (&["h2", "http/1.1"][..], Some("h2")),
        (&["http/1.1"], Some("http/1.1")),
        (&["http/1.1", "h2"], Some("h2")),
        (&[], None),
    ] {
        let tls = Arc::new(gateway.tls(offered));
        let stream = gateway.connect_tls(tls, HERE, "localhost").await.unwrap();
        let alpn = stream
            .get_ref()
            .1
            .alpn_protocol()
            .map(String::from_utf8_lossy);
        assert_eq!(alpn.as_deref(), agreed, "{offered:?}");
    }
    let anonymous = Arc::new(gateway.tls(&["spdy/3"]));
    assert!(
        gateway
            .connect_tls(anonymous, HERE, "localhost")
            .await
            .is_err()
    );
}

#[tokio::test]
async fn a_tls_session_is_resumed_on_any_worker() {
    let gateway = Gateway::with("[server]\nworkers = 4");
    for version in [&TLS12, &TLS13] {
        let tls = Arc::new(gateway.tls_with_versions(&[version], &["http/1.1"]));
        for round in 0..12 {
            let mut stream = gateway
                .connect_tls(Arc::clone(&tls), HERE, "localhost")
                .await
                .unwrap();
            let kind = stream.get_ref().1.handshake_kind();
            let expected = if round == 0 {
                HandshakeKind::Full
            } else {
                HandshakeKind::Resumed
            };
            assert_eq!(kind, Some(expected), "{version:?}, connection {round}");
            // The ticket comes with the first answer.
            let request = "GET /auth/login HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.unwrap();
        }
    }
}

/// Writes a self-signed certificate for a name; gives the lines of TOML that name it.
fn certificate(directory: &Path, file: &str, name: &str) -> String {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let path = |ending: &str| directory.join(format!("{file}.{ending}"));
    std::fs::write(path("pem"), made.cert.pem()).unwrap();
    std::fs::write(path("key"), made.signing_key.serialize_pem()).unwrap();
    format!("[[tls.certificate]]\ncert = \"{file}.pem\"\nkey = \"{file}.key\"\n")
}

/// The certificate shown to who asks for a name.
pub async fn shown(gateway: &Client, name: &str) -> CertificateDer<'static> {
    let mut tls = gateway.tls(&[]);
    let provider = Arc::clone(tls.crypto_provider());
    tls.dangerous()
        .set_certificate_verifier(Arc::new(crate::client::AcceptAnyCertificate(provider)));
    let stream = gateway
        .connect_tls(Arc::new(tls), HERE, name)
        .await
        .unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0]
        .clone()
        .into_owned()
}

fn from_file(directory: &Path, file: &str) -> CertificateDer<'static> {
    use rustls::pki_types::pem::PemObject;
    CertificateDer::from_pem_file(directory.join(file)).unwrap()
}

#[tokio::test]
async fn sni_selects_the_certificate_and_a_reload_replaces_certificates() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().to_owned();
    let first = certificate(&place, "one", "one.example");
    let lines = first.clone() + &certificate(&place, "two", "*.two.example");
    let gateway = Gateway::open(&lines, directory);
    for (name, file) in [
        ("one.example", "one.pem"),
        ("ONE.example", "one.pem"),
        ("www.two.example", "two.pem"),
        ("a.b.two.example", "one.pem"),
        ("elsewhere.example", "one.pem"),
        ("127.0.0.1", "one.pem"),
    ] {
        assert_eq!(
            shown(&gateway, name).await,
            from_file(&place, file),
            "{name}"
        );
    }
    let before = from_file(&place, "one.pem");
    std::fs::write(place.join("two.key"), "broken").unwrap();
    certificate(&place, "one", "one.example");
    assert!(
        !gateway.reload(&lines).await,
        "an invalid one fails the reload"
    );
    assert_eq!(
        shown(&gateway, "one.example").await,
        before,
        "and all old ones stay"
    );
    assert!(gateway.reload(&first).await);
    assert_eq!(
        shown(&gateway, "one.example").await,
        from_file(&place, "one.pem")
    );
}

#[tokio::test]
async fn connections_over_the_limits_are_closed_until_others_end() {
    let gateway = Gateway::with("[limits]\nconnections = 3\nconnections_per_address = 2");
    let elsewhere = "127.0.0.2".parse().unwrap();
    let first = gateway.connect(false).await.unwrap();
    let _second = gateway.connect(false).await.unwrap();
    assert!(gateway.connect(false).await.is_err(), "two for one address");
    let _third = gateway.connect_from(elsewhere, false).await.unwrap();
    assert!(
        gateway.connect_from(elsewhere, false).await.is_err(),
        "three in all"
    );
    let refused = |reason| format!("flowgate_connections_refused_total{{reason=\"{reason}\"}}");
    assert_eq!(gateway.metric(&refused("address")).await, Some(1.0));
    assert_eq!(gateway.metric(&refused("total")).await, Some(1.0));
    drop(first);
    until("there is room again", async || {
        gateway.connect(false).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn an_oversized_head_is_refused_on_http_1_and_2() {
    let gateway = Gateway::with("[limits]\nheader_bytes = \"8KiB\"\nheaders = 20");
    for http2 in [false, true] {
        let ask = async |count: usize, size: usize| {
            let mut request = gateway.get("/auth/login");
            for n in 0..count {
                request = request.header(&format!("x-{n}"), &"v".repeat(size));
            }
            let request = if http2 { request.http2() } else { request };
            request.try_send().await.map_or(0, |answer| answer.status)
        };
        assert_eq!(ask(10, 100).await, 200, "http2: {http2}");
        assert_eq!(ask(1, 9000).await, 431, "http2: {http2}");
        assert_eq!(ask(30, 10).await, 431, "http2: {http2}");
    }
}

#[tokio::test]
async fn a_flood_of_http_2_frames_ends_its_connection_and_no_other() {
    // Idle time-outs do not close it.
    let gateway = Gateway::with("[timeouts]\nheader = \"1h\"\nkeep_alive = \"1h\"");
    let tls = Arc::new(gateway.tls(&["h2"]));
    let ping = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8].repeat(10_000);
    let mut stream = gateway.connect_tls(tls, HERE, "localhost").await.unwrap();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    stream.write_all(preface).await.unwrap();
    let closed = async {
        // Either fails: the gateway has closed the connection.
        let _ = stream.write_all(&ping).await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    };
    timeout(TEST_TIMEOUT, closed).await.expect("it is closed");
    assert_eq!(gateway.get("/auth/login").http2().send().await.status, 200);
}

#[tokio::test]
async fn slow_handshakes_heads_and_idle_connections_time_out() {
    let gateway = Gateway::with(
        "[timeouts]\nhandshake = \"200ms\"\nheader = \"200ms\"\nbody_idle = \"200ms\"\nkeep_alive = \"400ms\"",
    );
    let token = gateway.sign_in("admin").await;

    // no handshake
    let mut tcp = TcpStream::connect(gateway.address).await.unwrap();
    assert_eq!(tcp.read(&mut [0; 8]).await.unwrap_or(0), 0);
    // a head byte by byte: each byte in time, the whole head not
    let mut raw = gateway.raw().await;
    let dripping = async {
        for byte in "GET /auth/login HTTP/1.1\r\nHost: x\r\n"
            .repeat(1000)
            .chars()
        {
            if raw.0.write_all(&[byte as u8]).await.is_err() || raw.0.flush().await.is_err() {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let ended = timeout(TEST_TIMEOUT, dripping).await;
    ended.expect("the gateway does not listen to it for ever");
    // nothing after the handshake
    assert_eq!(gateway.raw().await.rest().await, "");
    // an unfinished body
    let head = format!(
        "POST /flows HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\n\r\n[1,"
    );
    let answer = gateway.raw_exchange(&head).await;
    assert!(
        answer.starts_with("HTTP/1.1 408 ") && answer.contains("body_timeout"),
        "{answer}"
    );
    // an unused keep-alive connection
    let answer = gateway
        .raw_exchange("GET /auth/login HTTP/1.1\r\nHost: x\r\n\r\n")
        .await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test]
async fn many_requests_go_over_one_connection() {
    let gateway = Gateway::with(&public(&["/hello"]));
    let token = gateway.sign_in("admin").await;
    gateway
        .deploy(&token, &flow_set(&[page("a", "/hello", "hello")]))
        .await;
    for http2 in [false, true] {
        let mut connection = gateway.connect(http2).await.unwrap();
        for _ in 0..50 {
            let answer = connection.send(gateway.get("/hello")).await.unwrap();
            assert_eq!((answer.status, answer.text().as_str()), (200, "hello"));
        }
    }
    let pipelined = "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n".repeat(3);
    let last = "GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let answers = gateway.raw_exchange(&(pipelined + last)).await;
    assert_eq!(answers.matches("HTTP/1.1 200 ").count(), 4, "{answers}");
}

/// curl over HTTP/2, which prints the version and the status after the body.
fn curl_http2() -> std::process::Command {
    let mut curl = std::process::Command::new("curl");
    curl.args(["--insecure", "--silent", "--show-error", "--http2"]);
    curl.args(["--write-out", "%{http_version} %{http_code}"]);
    curl
}

#[tokio::test]
async fn curl_that_is_still_uploading_over_http_2_receives_the_refusal() {
    let gateway = Gateway::start();
    let body = gateway.directory.path().join("body.json");
    std::fs::write(&body, "x".repeat(1 << 20)).unwrap();
    for _ in 0..5 {
        let mut curl = curl_http2();
        curl.args(["--header", "Content-Type: application/json"]);
        curl.arg("--data-binary")
            .arg(format!("@{}", body.display()));
        curl.arg(format!("https://{}/flows", gateway.address));
        let log = curl.output().unwrap();
        assert_eq!(String::from_utf8_lossy(&log.stdout), "2 401", "{log:?}");
    }
}

#[tokio::test]
async fn curl_that_sends_an_unexpected_body_over_http_2_receives_the_refusal() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    for _ in 0..10 {
        let mut curl = curl_http2();
        curl.args(["--request", "DELETE", "--data", "{}", "--output", "-"]);
        curl.arg("--header")
            .arg(format!("Authorization: Bearer {token}"));
        curl.arg(format!("https://{}/flow/a", gateway.address));
        let log = curl.output().unwrap();
        let text = String::from_utf8_lossy(&log.stdout);
        assert!(
            text.contains("unexpected_body") && text.ends_with("2 400"),
            "{log:?}"
        );
    }
}

#[tokio::test]
async fn curl_that_uploads_over_http_2_to_an_unavailable_upstream_receives_the_error() {
    let config = "[upstream]\nurl = \"http://127.0.0.1:1\"\n".to_owned();
    let gateway = Gateway::with(&(config + &public(&["/x"])));
    let body = gateway.directory.path().join("body");
    std::fs::write(&body, "x".repeat(3 << 20)).unwrap();
    for _ in 0..5 {
        let mut curl = curl_http2();
        curl.arg("--data-binary")
            .arg(format!("@{}", body.display()));
        curl.args(["--output", "/dev/null"]);
        curl.arg(format!("https://{}/x", gateway.address));
        let log = curl.output().unwrap();
        assert_eq!(String::from_utf8_lossy(&log.stdout), "2 502", "{log:?}");
    }
}

#[tokio::test]
async fn a_client_that_is_still_uploading_receives_the_refusal() {
    let gateway = Gateway::with("[limits]\nbody = \"4MiB\"");
    for (size, status) in [(4 << 20, "401"), (8 << 20, "413")] {
        let head = format!(
            "POST /flows HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
        );
        // A client that sends all before it listens.
        let answer = gateway.raw_exchange(&(head + &"x".repeat(size))).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
    }
}
