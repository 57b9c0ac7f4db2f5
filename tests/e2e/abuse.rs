//! Slow, silent, numerous and malicious clients are disconnected; other clients are served
//! meanwhile, and nothing is left of them. The limits themselves: `listener.rs`; guessed passwords
//! and tokens: `throttle.rs`.

use crate::bystander::waits;
use crate::client::{PASSWORD, Raw};
use crate::harness::{Gateway, flow_set, page, public, script, until};
use crate::http2_frames::{self, Flood};
use crypto::Secret;
use rustix::process::{Resource, getrlimit, setrlimit};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Every limit of time short, so that who is too slow is soon cut off.
const IMPATIENT: &str = "[timeouts]\nhandshake = \"500ms\"\nheader = \"500ms\"\nbody_idle = \"500ms\"\nkeep_alive = \"500ms\"\n";

/// Waits until nothing but what asks for metrics is connected.
async fn nothing_is_left(gateway: &Gateway) {
    until("all connections are closed", async || {
        gateway.metric("flowgate_connections_open").await == Some(0.0)
    })
    .await;
}

#[tokio::test]
async fn slow_clients_are_disconnected_and_release_everything() {
    let gateway = Gateway::with(&(IMPATIENT.to_owned() + &public(&["/much"])));
    let token = gateway.sign_in("admin").await;
    let much = script(
        "a",
        "get",
        "/much",
        "msg.payload = 'x'.repeat(50000000); return msg",
    );
    gateway.deploy(&token, &flow_set(&[much])).await;
    let post = format!(
        "POST /flows HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
    );
    let mut open = Vec::new();
    for begun in [
        "",
        "GET /auth",
        "GET /auth/login HTTP/1.1\r\nHost: x\r\nX-",
        &format!("{post}Content-Length: 1000\r\n\r\n[1,"),
        &format!("{post}Transfer-Encoding: chunked\r\n\r\n3"),
        // The client does not read the response.
        "GET /much HTTP/1.1\r\nHost: x\r\n\r\n",
    ] {
        let mut raw = gateway.raw().await;
        raw.send(begun).await;
        open.push(raw);
    }
    let mut silent = gateway.tcp(HERE).await.unwrap();
    silent.write_all(b"\x16\x03\x01").await.unwrap();
    nothing_is_left(&gateway).await;
    drop((open, silent));
}

#[tokio::test]
async fn two_thousand_idle_connections_do_not_slow_other_clients() {
    const MANY: usize = 2000;
    // Both ends of each connection are ours.
    let mut limit = getrlimit(Resource::Nofile);
    let enough = 2 * MANY as u64 + 1000;
    limit.current = limit
        .current
        .map(|current| current.max(enough))
        .map(|wanted| limit.maximum.map_or(wanted, |most| most.min(wanted)));
    setrlimit(Resource::Nofile, limit).unwrap();
    // They are to be there for as long as a busy machine needs to connect all of them.
    let gateway = Gateway::with(
        "[limits]\nconnections_per_address = 3000\n[timeouts]\nheader = \"1h\"\nkeep_alive = \"1h\"",
    );
    let tls = Arc::new(gateway.tls(&["http/1.1"]));
    let connecting = async {
        let mut idle = Vec::new();
        for _ in 0..MANY {
            idle.push(
                gateway
                    .connect_tls(Arc::clone(&tls), HERE, "localhost")
                    .await
                    .unwrap(),
            );
        }
        idle
    };
    let mut idle = Vec::new();
    waits(&gateway, "/auth/login", async { idle = connecting.await })
        .await
        .assert_bearable("while they came");
    let open = gateway.metric("flowgate_connections_open").await;
    assert!(open >= Some(MANY as f64), "{open:?}");
    let a_while = tokio::time::sleep(Duration::from_millis(300));
    waits(&gateway, "/auth/login", a_while)
        .await
        .assert_bearable("while they were there");
    // Each of them is still good.
    for stream in idle.drain(..).step_by(500) {
        let mut raw = Raw(stream);
        raw.send("GET /auth/login HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .await;
        assert!(raw.rest().await.starts_with("HTTP/1.1 200 "));
    }
    nothing_is_left(&gateway).await;
}

#[tokio::test]
async fn a_storm_of_sign_ins_does_not_slow_other_requests() {
    // As costly as the passwords of real users.
    let hash = flowgate::auth::hash_password(&Secret::new(PASSWORD.to_owned())).unwrap();
    let user = format!(
        "[[auth.user]]\nname = \"ann\"\npassword_hash = \"{}\"\npermissions = [\"*\"]\n",
        hash.reveal()
    );
    let lines = user
        + "[auth.throttle]\nper_address = 1000\nper_user_and_address = 1000\n"
        + &public(&["/hello"]);
    let gateway = Gateway::with(&lines);
    let token = gateway.sign_in("ann").await;
    gateway
        .deploy(&token, &flow_set(&[page("a", "/hello", "hello")]))
        .await;
    let sign_in_request = async {
        let at_once = (0..50).map(|n| {
            let password = if n % 2 == 0 { PASSWORD } else { "wrong" };
            tokio::spawn(gateway.sign_in_request("ann", password, "").send())
        });
        let began = Instant::now();
        for (n, sign_in) in at_once.collect::<Vec<_>>().into_iter().enumerate() {
            let status = sign_in.await.unwrap().status;
            let expected = if n % 2 == 0 { 200 } else { 400 };
            // A busy machine hashes for longer than a sign-in waits for its turn.
            let waited = began.elapsed() >= Duration::from_secs(10);
            assert!(status == expected || (status == 429 && waited), "{status}");
        }
    };
    waits(&gateway, "/hello", sign_in_request)
        .await
        .assert_bearable("while others sign in");
}

#[tokio::test]
async fn an_http_2_flood_ends_its_connection_and_no_other() {
    let gateway = Gateway::start();
    let tls = Arc::new(gateway.tls(&["h2"]));
    for (what, flood, frames) in [
        ("resets", Flood::Resets, 10_000),
        ("continuations", Flood::Continuations, 10_000),
        ("bombs", Flood::Bomb, 1000),
        ("settings", Flood::Settings, 10_000),
        ("pings", Flood::Pings, 10_000),
        ("priorities", Flood::Priorities, 10_000),
        ("window updates", Flood::WindowUpdates, 10_000),
        ("data without bytes", Flood::EmptyData, 100_000),
        ("unknown frames", Flood::Unknown, 10_000),
    ] {
        let stream = gateway
            .connect_tls(Arc::clone(&tls), HERE, "localhost")
            .await
            .unwrap();
        let flooding = async {
            let closed = http2_frames::flood(stream, flood, frames).await;
            assert!(closed, "{what}");
        };
        let mut connection = gateway.connect(true).await.unwrap();
        let asking = async {
            for _ in 0..20 {
                let answer = connection.send(gateway.get("/auth/login")).await.unwrap();
                assert_eq!(answer.status, 200, "{what}");
            }
        };
        let both = Box::pin(async { tokio::join!(flooding, asking) });
        waits(&gateway, "/auth/login", both)
            .await
            .assert_bearable(what);
    }
    nothing_is_left(&gateway).await;
}

#[tokio::test]
async fn compressed_bodies_are_refused_before_they_are_read() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    for encoding in [
        "gzip",
        "deflate",
        "br",
        "zstd",
        "identity, gzip",
        "x-unknown",
    ] {
        for request in [
            gateway
                .post("/flows")
                .token(&token)
                .header("Content-Type", "application/json"),
            gateway.sign_in_request("admin", PASSWORD, ""),
        ] {
            let answer = request
                .header("Content-Encoding", encoding)
                .body("\u{1f}\u{8b}")
                .send()
                .await;
            assert_eq!(answer.status, 415, "{encoding}");
        }
    }
}

#[tokio::test]
async fn a_compressed_body_stays_as_it_is_in_an_endpoint_of_a_flow() {
    let gateway = Gateway::with(&public(&["/take"]));
    let token = gateway.sign_in("admin").await;
    let code = "msg.payload = String(msg.req.body.length); return msg";
    gateway
        .deploy(&token, &flow_set(&[script("a", "post", "/take", code)]))
        .await;
    let request = gateway
        .post("/take")
        .header("Content-Type", "application/octet-stream");
    let answer = request
        .header("Content-Encoding", "gzip")
        .body(vec![0x1f; 1000])
        .send()
        .await;
    assert_eq!((answer.status, answer.text().as_str()), (200, "1000"));
    // What would be read as JSON is not unpacked for that.
    let request = gateway
        .post("/take")
        .header("Content-Type", "application/json");
    let request = request.header("Content-Encoding", "gzip");
    assert_eq!(request.body(vec![0x1f; 1000]).send().await.status, 400);
}
