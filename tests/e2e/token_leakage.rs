//! Tokens of the gateway end at the gateway: no flow and no upstream receives one.

use crate::confused_deputy::agreeable;
use crate::harness::{Gateway, flow_set, public, script, until};
use crate::mock_upstream::MockUpstream;

const LINES: &str = "[[route]]\npath = \"/open\"\npublic = true\npass_authorization = true\n";

/// Every way in which clients show a token, by mistake or because a page or a proxy adds it.
fn ways(token: &str) -> Vec<(&'static str, String)> {
    use base64::Engine as _;
    let basic = base64::engine::general_purpose::STANDARD.encode(format!("user:{token}"));
    vec![
        ("Authorization", format!("Bearer {token}")),
        ("Authorization", format!("bearer  {token}")),
        ("Authorization", format!("Token {token}")),
        ("Authorization", format!("Basic {basic}")),
        ("Cookie", format!("a=1; token={token}; b=2")),
        ("X-Access-Token", token.to_owned()),
        ("X-Api-Key", format!("\"{token}\"")),
        (
            "Referer",
            format!("https://example.org/?access_token={token}"),
        ),
        ("Cookie", format!("a=1; auth=Bearer%20{token}; b=2")),
        ("X-Api-Key", format!("%22{token}%22")),
        (
            "Referer",
            format!("https://example.org/login?next=%2Fa%3Ftoken%3D{token}"),
        ),
        (
            "Referer",
            format!("https://example.org/?a=%2Fb%3Fc%3D%252Fd%253Ftoken%253D{token}"),
        ),
    ]
}

/// Queries that hold it, in every spelling that a parser undoes.
fn queries(token: &str) -> Vec<String> {
    let first = format!("%{:02X}{}", token.as_bytes()[0], &token[1..]);
    vec![
        format!("access_token={token}"),
        format!("a=1&access_token={token}&b=2"),
        format!("a=1&key={first}&b=2"),
        format!("a=1&next=%252Fa%253Ftoken%253D{token}&b=2"),
    ]
}

/// A good token, one that has been revoked, and a service token.
async fn tokens(gateway: &Gateway) -> Vec<String> {
    let good = gateway.sign_in("admin").await;
    let gone = gateway.sign_in("reader").await;
    let revoke = gateway.post("/auth/revoke").token(&good);
    let answer = revoke.form(&[("token", &gone)]).send().await;
    assert_eq!(answer.status, 200);
    vec![good, gone]
}

#[tokio::test]
async fn no_upstream_receives_a_token_of_the_gateway() {
    let behind = agreeable().await;
    let gateway = Gateway::with(&(behind.config() + LINES));
    for token in tokens(&gateway).await {
        for (name, value) in ways(&token) {
            for http2 in [false, true] {
                let request = gateway.get("/open?a=1").header(name, &value);
                let request = if http2 { request.http2() } else { request };
                assert_eq!(request.send().await.status, 200);
                unread(&last(&behind), &token);
            }
            if name == "Cookie" {
                assert!(last(&behind).contains("\r\ncookie: a=1; b=2\r\n"));
            }
        }
        for query in queries(&token) {
            let request = gateway.get(&format!("/open?{query}"));
            assert_eq!(request.send().await.status, 200);
            let received = last(&behind);
            unread(&received, &token);
            let kept = if query.contains("a=1") {
                "/open?a=1&b=2 "
            } else {
                "/open "
            };
            assert!(received.contains(kept), "{received}");
        }
    }
    // What is none of ours is the flow's business.
    for (name, value) in [
        (
            "Authorization",
            "Bearer 0123456789012345678901234567890123456789012",
        ),
        ("Authorization", "Basic dXNlcjpwYXNz"),
        (
            "Cookie",
            "token=0123456789012345678901234567890123456789012",
        ),
    ] {
        let query = "/open?access_token=0123456789012345678901234567890123456789012";
        assert_eq!(
            gateway.get(query).header(name, value).send().await.status,
            200
        );
        let received = last(&behind);
        let line = format!("{}: {value}\r\n", name.to_ascii_lowercase());
        assert!(
            received.contains(&line) && received.contains(query),
            "{received}"
        );
    }
}

#[tokio::test]
async fn no_websocket_handshake_carries_a_token_of_the_gateway() {
    let behind = agreeable().await;
    let gateway = Gateway::with(&(behind.config() + LINES));
    for token in tokens(&gateway).await {
        let before = behind.received().len();
        let mut raw = gateway.raw().await;
        let host = gateway.address;
        raw.send(&format!(
            "GET /open?access_token={token} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\
             Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: chat, {token}\r\n\r\n"
        ))
        .await;
        until("the handshake is heard", async || {
            behind.received().len() > before
        })
        .await;
        let received_here = last(&behind);
        unread(&received_here, &token);
        assert!(
            received_here.contains("sec-websocket-protocol: chat\r\n"),
            "{received_here}"
        );
    }
}

#[tokio::test]
async fn no_flow_of_the_engine_receives_a_token_of_the_gateway() {
    let gateway = Gateway::with(&public(&["/open"]));
    let tokens = tokens(&gateway).await;
    let code = "msg.payload = { headers: msg.req.headers, url: msg.req.url, query: msg.req.query, \
                cookies: msg.req.cookies }; return msg";
    let flow = script("a", "get", "/open", code);
    gateway.deploy(&tokens[0], &flow_set(&[flow])).await;
    for token in &tokens {
        for (name, value) in ways(token) {
            let answer = gateway.get("/open?a=1").header(name, &value).send().await;
            assert_eq!(answer.status, 200);
            unread(&answer.text(), token);
        }
        for query in queries(token) {
            let answer = gateway.get(&format!("/open?{query}")).send().await;
            unread(&answer.text(), token);
        }
    }
    let answer = gateway.get("/open").header("Authorization", "Basic dTpw");
    let seen = answer.send().await.json();
    assert_eq!(seen["headers"]["authorization"], "Basic dTpw");
}

fn last(behind: &MockUpstream) -> String {
    behind.received().pop().unwrap().bytes
}

/// Neither as it is nor as a part of Basic's text.
fn unread(received: &str, token: &str) {
    assert!(!received.contains(&token[1..]), "{received}");
    assert!(
        !received.to_ascii_lowercase().contains("basic"),
        "{received}"
    );
}
