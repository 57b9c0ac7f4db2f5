//! Client addresses from the PROXY protocol and `X-Forwarded-*`: from a real `HAProxy`, and
//! malformed ones.

use crate::client::{Client, PASSWORD};
use crate::harness::{Gateway, public, until};
use crate::mock_upstream::{Action, MockUpstream, ok};
use crate::reverse_proxies::{ReverseProxy, free_address};
use rustls::pki_types::ServerName;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;

/// Whose headers are believed here; other clients call from other loopback addresses.
const PROXY: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9));

const TRUSTED: &str = "[server]\ntrusted_proxies = [\"127.0.0.1\"]\n";
const INTRODUCED: &str = "[server]\ntrusted_proxies = [\"127.0.0.1\"]\nproxy_protocol = true\n";

/// A `HAProxy` in front of a gateway.
struct Haproxy {
    client: Client,
    _process: ReverseProxy,
}

impl Haproxy {
    /// With these words behind `bind` and `server`, and other lines.
    async fn before(gateway: &Gateway, bind: &str, server: &str, lines: &str) -> Self {
        let address = free_address();
        let behind = gateway.address;
        let config = format!(
            "defaults\n timeout connect 9s\n timeout client 90s\n timeout server 90s\n\
             listen front\n {lines}\n bind {address} {bind}\n server gateway {behind} {server}\n"
        );
        let mut client = (**gateway).clone();
        client.address = address;
        Self {
            client,
            _process: ReverseProxy::haproxy(&config, address).await,
        }
    }
}

/// Whether the throttle and the audit log know the clients behind this door apart.
async fn knows_clients_apart(gateway: &Gateway, client: &Client) {
    for _ in 0..5 {
        let wrong = client
            .sign_in_request("admin", "wrong", "")
            .from("127.0.0.2");
        assert_eq!(wrong.send().await.status, 400);
    }
    let right = async |from: &str| {
        let right = client.sign_in_request("admin", PASSWORD, "").from(from);
        right.send().await.status
    };
    assert_eq!(right("127.0.0.2").await, 429);
    assert_eq!(right("127.0.0.3").await, 200);
    until("the audit log has the clients' addresses", async || {
        let lines = gateway.audit();
        let of = |event: &str, address: &str| {
            let same = lines
                .iter()
                .filter(|l| l["event"] == event && l["address"] == address);
            same.count()
        };
        of("auth.login.fail.credentials", "127.0.0.2") == 5 && of("auth.login", "127.0.0.3") == 1
    })
    .await;
}

#[tokio::test]
async fn haproxy_passes_the_client_address_in_both_versions_of_the_proxy_protocol() {
    for server in [
        "send-proxy",
        "send-proxy-v2",
        "send-proxy-v2 proxy-v2-options crc32c,unique-id",
    ] {
        let gateway = Gateway::with(INTRODUCED);
        let lines = "mode tcp\n unique-id-format %[uuid()]";
        let haproxy = Haproxy::before(&gateway, "", server, lines).await;
        knows_clients_apart(&gateway, &haproxy.client).await;
    }
}

#[tokio::test]
async fn haproxy_passes_the_client_address_in_x_forwarded_for() {
    let gateway = Gateway::with(TRUSTED);
    let certs = gateway.directory.path().join("certs");
    let both = certs.join("both.pem");
    let text =
        ["crt", "key"].map(|end| std::fs::read(certs.join(format!("self-signed.{end}"))).unwrap());
    std::fs::write(&both, text.concat()).unwrap();
    let bind = format!("ssl crt {}", both.display());
    let haproxy = Haproxy::before(
        &gateway,
        &bind,
        "ssl verify none",
        "mode http\n option forwardfor",
    )
    .await;
    knows_clients_apart(&gateway, &haproxy.client).await;
}

#[tokio::test]
async fn connections_count_for_the_client_address_of_the_proxy_header() {
    let lines = format!("{INTRODUCED}[limits]\nconnections_per_address = 2");
    let gateway = Gateway::with(&lines);
    let haproxy = Haproxy::before(&gateway, "", "send-proxy-v2", "mode tcp").await;
    let (one, other) = ("127.0.0.2".parse().unwrap(), "127.0.0.3".parse().unwrap());
    let _first = haproxy.client.connect_from(one, false).await.unwrap();
    let second = haproxy.client.connect_from(one, false).await.unwrap();
    assert!(haproxy.client.connect_from(one, false).await.is_err());
    assert!(haproxy.client.connect_from(other, false).await.is_ok());
    drop(second);
    until("there is room again", async || {
        haproxy.client.connect_from(one, false).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn a_trusted_proxys_connections_count_for_no_address() {
    let lines = format!("{TRUSTED}[limits]\nconnections_per_address = 2");
    let gateway = Gateway::with(&lines);
    let mut open = Vec::new();
    for _ in 0..5 {
        open.push(gateway.connect_from(PROXY, false).await.unwrap());
    }
    let _first = gateway.connect_from(STRANGER, false).await.unwrap();
    let _second = gateway.connect_from(STRANGER, false).await.unwrap();
    assert!(gateway.connect_from(STRANGER, false).await.is_err());
}

#[tokio::test]
async fn forwarded_headers_are_set_for_each_request_and_untrusted_ones_are_removed() {
    let behind = MockUpstream::start(|_| Action::Respond(ok("text/plain", ""))).await;
    let gateway = Gateway::with(&(behind.config() + TRUSTED + &public(&["/x"])));
    let forwarded = |at: usize| {
        let received_here = behind.received()[at].bytes.clone();
        ["for", "proto", "host"].map(|name| {
            let name = format!("x-forwarded-{name}: ");
            let forwarded: Vec<_> = received_here
                .lines()
                .filter_map(|line| line.strip_prefix(&name))
                .collect();
            forwarded.join("|")
        })
    };
    let own = gateway.address.to_string();
    // Two clients on one connection of the proxy; the second one comes without TLS, and for a name
    // of its own.
    let mut kept = gateway.connect_from(PROXY, false).await.unwrap();
    let asking = || gateway.get("/x").header("Forwarded", "for=203.0.113.9");
    kept.send(asking().header("X-Forwarded-For", "203.0.113.9, 192.0.2.1, 127.0.0.1"))
        .await
        .unwrap();
    assert_eq!(forwarded(0), ["192.0.2.1", "https", &own]);
    let second = asking()
        .header("X-Forwarded-For", "203.0.113.9")
        .header("X-Forwarded-For", "2001:db8::7")
        .header("X-Forwarded-Proto", "http")
        .header("X-Forwarded-Host", "flows.example");
    kept.send(second).await.unwrap();
    assert_eq!(forwarded(1), ["2001:db8::7", "http", "flows.example"]);
    kept.send(asking()).await.unwrap();
    assert_eq!(
        forwarded(2),
        ["127.0.0.1", "https", &own],
        "the proxy itself"
    );
    kept.send(
        asking()
            .header("X-Forwarded-For", "192.0.2.1, nonsense")
            .header("X-Forwarded-Host", "a b"),
    )
    .await
    .unwrap();
    assert_eq!(
        forwarded(3),
        ["127.0.0.1", "https", &own],
        "nothing that can be read"
    );
    let liar = asking()
        .header("X-Forwarded-For", "192.0.2.1")
        .header("X-Forwarded-Proto", "http")
        .header("X-Forwarded-Host", "flows.example");
    assert_eq!(liar.from("127.0.0.9").send().await.status, 200);
    assert_eq!(forwarded(4), ["127.0.0.9", "https", &own], "a stranger");
    assert!(
        behind
            .received()
            .iter()
            .all(|received_here| !received_here.bytes.contains("203.0.113.9"))
    );
}

/// Asks on a connection that begins with these bytes; gives the answer's status line, or why there
/// is none.
async fn ask_after(
    gateway: &Gateway,
    from: IpAddr,
    header: &[u8],
    more: &str,
) -> io::Result<String> {
    let mut tcp = gateway.tcp(from).await?;
    tcp.write_all(header).await?;
    let tls = TlsConnector::from(Arc::new(gateway.tls(&["http/1.1"])));
    let name = ServerName::try_from("localhost").unwrap();
    let mut tls = tls.connect(name, tcp).await?;
    let request = format!("GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{more}\r\n");
    tls.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    tls.read_to_string(&mut answer).await?;
    Ok(answer.lines().next().unwrap_or_default().to_owned())
}

fn version_2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
    [
        b"\r\n\r\n\0\r\nQUIT\n",
        &[command, family][..],
        &length,
        rest,
    ]
    .concat()
}

#[tokio::test]
async fn valid_proxy_protocol_headers_set_the_client_address() {
    let behind = MockUpstream::start(|_| Action::Respond(ok("text/plain", ""))).await;
    let gateway = Gateway::with(&(behind.config() + INTRODUCED + &public(&["/x"])));
    let ends = [192, 0, 2, 1, 192, 0, 2, 2, 0x12, 0x34, 0x01, 0xbb];
    // An authority (0x02) and a TLV of an unknown type (0xee).
    let tlvs = [
        &ends[..],
        &[0x02, 0, 3],
        b"a.b",
        &[0xee, 0x0f, 0],
        &[7; 0xf00],
    ]
    .concat();
    for (header, more, client) in [
        (
            b"PROXY TCP4 192.0.2.1 192.0.2.2 1 443\r\n".to_vec(),
            "",
            "192.0.2.1",
        ),
        (version_2(0x21, 0x11, &ends), "", "192.0.2.1"),
        (version_2(0x21, 0x11, &tlvs), "", "192.0.2.1"),
        // Who is behind the proxy is no proxy, and believed nothing.
        (
            version_2(0x21, 0x11, &ends),
            "X-Forwarded-For: 203.0.113.9\r\n",
            "192.0.2.1",
        ),
        (
            version_2(0x20, 0, &[]),
            "X-Forwarded-For: 203.0.113.9\r\n",
            "127.0.0.1",
        ),
        (
            b"PROXY UNKNOWN\r\n".to_vec(),
            "X-Forwarded-For: 203.0.113.9\r\n",
            "127.0.0.1",
        ),
        // Unless it is one, too.
        (
            b"PROXY TCP4 127.0.0.1 127.0.0.1 1 443\r\n".to_vec(),
            "X-Forwarded-For: 203.0.113.9\r\n",
            "203.0.113.9",
        ),
    ] {
        let shown = String::from_utf8_lossy(&header).into_owned();
        let before = behind.received().len();
        let answer = ask_after(&gateway, PROXY, &header, more).await.unwrap();
        assert_eq!(answer, "HTTP/1.1 200 OK", "{shown:?}");
        let forwarded = format!("x-forwarded-for: {client}\r\n");
        assert!(
            behind.received()[before].bytes.contains(&forwarded),
            "{shown:?}"
        );
    }
}

#[tokio::test]
async fn a_connection_without_a_valid_proxy_protocol_header_is_closed_before_tls() {
    let gateway = Gateway::with(&format!("{INTRODUCED}[timeouts]\nhandshake = \"300ms\""));
    let right = b"PROXY TCP4 192.0.2.1 192.0.2.2 1 443\r\n";
    let wrong: [(&str, Vec<u8>); 7] = [
        ("no header", Vec::new()),
        ("garbage", b"\x16\x03\x01 what is this?\r\n".to_vec()),
        (
            "a header that lies about its family",
            b"PROXY TCP6 192.0.2.1 192.0.2.2 1 443\r\n".to_vec(),
        ),
        (
            "a line too long",
            format!("PROXY UNKNOWN {}\r\n", "x".repeat(200)).into_bytes(),
        ),
        ("a block too long", version_2(0x21, 0, &vec![0; 60_000])),
        (
            "a block too short for its family",
            version_2(0x21, 0x11, &[192, 0, 2, 1]),
        ),
        ("two headers", [&right[..], right].concat()),
    ];
    for (what, header) in &wrong {
        assert!(
            ask_after(&gateway, PROXY, header, "").await.is_err(),
            "{what}"
        );
    }
    let counted = async |reason: &str, times: f64| {
        let series = format!("flowgate_connections_refused_total{{reason=\"{reason}\"}}");
        until("all are counted", async || {
            gateway.metric(&series).await == Some(times)
        })
        .await;
    };
    // The second of two headers is a failed handshake.
    counted("proxy_header", 6.0).await;

    // Half a header, and then nothing: the connection ends in time.
    let mut slow = gateway.tcp(PROXY).await.unwrap();
    slow.write_all(b"PROXY TCP4 192.0").await.unwrap();
    assert_eq!(slow.read(&mut [0]).await.unwrap_or(0), 0);
    counted("proxy_header", 7.0).await;

    // An untrusted client may write anything.
    assert!(ask_after(&gateway, STRANGER, right, "").await.is_err());
    assert!(ask_after(&gateway, STRANGER, b"", "").await.is_err());
    counted("untrusted", 2.0).await;

    // Operations need no header, and who has one is let in.
    assert_eq!(gateway.operations("/healthz").await.status, 200);
    assert_eq!(
        ask_after(&gateway, PROXY, right, "").await.unwrap(),
        "HTTP/1.1 401 Unauthorized"
    );
}

#[tokio::test]
async fn the_plain_listener_requires_the_header_too() {
    let plain = free_address();
    let gateway = Gateway::with(&format!("{INTRODUCED}plain = \"{plain}\""));
    let mut client = (*gateway).clone();
    client.address = plain;
    let request = "GET /auth/login HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    for (header, begins) in [
        ("PROXY TCP4 192.0.2.1 192.0.2.2 1 80\r\n", "HTTP/1.1 200 OK"),
        ("", ""),
    ] {
        let mut tcp = client.tcp(PROXY).await.unwrap();
        tcp.write_all((header.to_owned() + request).as_bytes())
            .await
            .unwrap();
        let mut answer = Vec::new();
        let _ = tcp.read_to_end(&mut answer).await;
        let answer = String::from_utf8(answer).unwrap();
        assert_eq!(answer.lines().next().unwrap_or_default(), begins);
    }
}
