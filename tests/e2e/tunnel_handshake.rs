//! The handshake of a WebSocket through the gateway, and requests that are none.

use crate::harness::{Gateway, public};
use crate::tunnel::{handshake, none_in_flight, receive_until};
use crate::websocket_upstream::{Plan, WebSocketUpstream, agree};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn the_handshake_is_forwarded_without_the_token_and_its_agreement_comes_back() {
    let more = "Sec-WebSocket-Protocol: log\r\nSet-Cookie: a=1\r\nKeep-Alive: timeout=5\r\nContent-Length: 0\r\n";
    let far = WebSocketUpstream::start(move |head| Plan::Bytes(agree(head, more))).await;
    let gateway = Gateway::with(&far.config(""));
    let token = gateway.sign_in("reader").await;
    let mut raw = gateway.raw().await;
    let more = format!(
        "Authorization: Bearer {token}\r\nSec-WebSocket-Protocol: chat, log\r\nX-Remote-User: root\r\n\
         Sec-WebSocket-Extensions: permessage-deflate\r\nOrigin: https://example.org\r\n"
    );
    let request = handshake(&gateway, "/Ws?a=1", &more);
    raw.send(&request.replace("Upgrade: websocket", "Upgrade: h2c, websocket"))
        .await;
    let answer = receive_until(&mut raw, "\r\n\r\n")
        .await
        .to_ascii_lowercase();
    assert!(answer.starts_with("http/1.1 101 "), "{answer}");
    for line in [
        "connection: upgrade",
        "upgrade: websocket",
        "sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=",
        "sec-websocket-protocol: log",
        "set-cookie: a=1",
        "x-request-id: ",
    ] {
        assert_eq!(answer.matches(line).count(), 1, "{line} in {answer}");
    }
    assert!(
        !answer.contains("keep-alive") && !answer.contains("length"),
        "{answer}"
    );

    let head = far.heads().remove(0);
    assert!(head.starts_with("GET /Ws?a=1 HTTP/1.1\r\n"), "{head}");
    for line in [
        "connection: Upgrade\r\n",
        "upgrade: websocket\r\n",
        "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
        "sec-websocket-version: 13\r\n",
        "sec-websocket-protocol: chat, log\r\n",
        "sec-websocket-extensions: permessage-deflate\r\n",
        "origin: https://example.org\r\n",
        "x-forwarded-for: 127.0.0.1\r\n",
    ] {
        assert_eq!(head.matches(line).count(), 1, "{line} in {head}");
    }
    for word in ["uthorization", &token, "h2c", "remote-user"] {
        assert!(!head.contains(word), "{word} in {head}");
    }
}

#[tokio::test]
async fn bytes_pass_unchanged_and_early_ones_are_not_lost() {
    // Compressed frames, reserved bits, what is no WebSocket at all: it is between the two ends.
    let early = "\u{1}early\r\n\r\n";
    let glued = "\u{2}glued";
    let far = WebSocketUpstream::start(move |head| {
        let deflate = "Sec-WebSocket-Extensions: permessage-deflate\r\n";
        Plan::Bytes(agree(head, deflate) + glued)
    })
    .await;
    let gateway = Gateway::with(&far.config(""));
    let mut raw = gateway.raw().await;
    let deflate = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n";
    raw.send(&(handshake(&gateway, "/open", deflate) + early))
        .await;
    let received = receive_until(&mut raw, early).await;
    assert!(received.contains("permessage-deflate\r\n"), "{received}");
    let (_, bytes) = received.split_once("\r\n\r\n").unwrap();
    assert_eq!(bytes, format!("{glued}{early}"));
    let noise: Vec<u8> = (0..300_000u32)
        .map(|n| (n % 251 * n % 241).to_le_bytes()[0])
        .collect();
    let (mut read, mut write) = tokio::io::split(raw.0);
    let mut back = vec![0; noise.len()];
    let (sent, received) = tokio::join!(write.write_all(&noise), read.read_exact(&mut back));
    sent.unwrap();
    received.unwrap();
    assert!(back == noise);
}

#[tokio::test]
async fn an_upstream_that_refuses_the_handshake_is_reported_as_an_upstream_error() {
    let far = WebSocketUpstream::start(|head| {
        let plain = "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\nX-A: 1\r\n\r\nnope";
        let agreed = |more| agree(head, more);
        match head.split(['/', ' ']).nth(2).unwrap() {
            "missing" => Plan::Hang(plain.to_owned()),
            "gone" => Plan::Respond(String::new()),
            "silent" => Plan::Hang(String::new()),
            "key" => Plan::Hang(agreed("").replace("Accept: ", "Accept: x")),
            "protocol" => Plan::Hang(agreed("Sec-WebSocket-Protocol: mine\r\n")),
            "extension" => Plan::Hang(agreed("Sec-WebSocket-Extensions: mine\r\n")),
            _ => Plan::Hang(agreed("").replace("websocket", "h2c")),
        }
    })
    .await;
    let paths = [
        "/missing",
        "/gone",
        "/silent",
        "/key",
        "/protocol",
        "/extension",
        "/other",
    ];
    let gateway = Gateway::with(&(far.config("first_byte = \"200ms\"") + &public(&paths)));
    for (path, status, code) in [
        ("/missing", "404", "nope"),
        ("/gone", "502", "upstream_closed"),
        ("/silent", "504", "upstream_timeout"),
        ("/key", "502", "upstream_invalid_answer"),
        ("/protocol", "502", "upstream_invalid_answer"),
        ("/extension", "502", "upstream_invalid_answer"),
        ("/other", "502", "upstream_invalid_answer"),
    ] {
        let mut raw = gateway.raw().await;
        raw.send(&handshake(&gateway, path, "")).await;
        let answer = receive_until(&mut raw, code).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
    }
    let tunnels = "flowgate_upstream_tunnels_total";
    assert_eq!(gateway.metric(tunnels).await, Some(0.0));
    assert_eq!(far.heads().len(), paths.len(), "each was asked for once");
    none_in_flight(&gateway).await;
}

#[tokio::test]
async fn only_a_handshake_opens_a_tunnel() {
    let plain = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplain";
    let far = WebSocketUpstream::start(|_| Plan::Respond(plain.to_owned())).await;
    let gateway = Gateway::with(&far.config(""));
    let good = handshake(&gateway, "/open", "");
    for (bad, status) in [
        (good.replace("Version: 13", "Version: 8"), "426"),
        (
            good.replace("Connection: Upgrade", "Connection: close"),
            "426",
        ),
        (good.replace("dGhlIHNhbXBsZSBub25jZQ==", "short"), "400"),
        (
            good.replace("\r\n\r\n", "\r\nContent-Length: 1\r\n\r\nx"),
            "400",
        ),
    ] {
        let mut raw = gateway.raw().await;
        raw.send(&bad).await;
        let answer = receive_until(&mut raw, "\r\n\r\n").await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
    }
    assert!(far.heads().is_empty(), "nothing of this went up");

    // Paths that are public for the editor's sake, other methods and HTTP/2 have no tunnels.
    let close = "Connection: close, Upgrade";
    let asked = |text: String| text.replace("Connection: Upgrade", close);
    for request in [
        asked(handshake(&gateway, "/red/x", "")),
        asked(handshake(&gateway, "/", "")),
        asked(
            good.replace("GET", "POST")
                .replace("\r\n\r\n", "\r\nContent-Length: 0\r\n\r\n"),
        ),
        asked(good.replace("Upgrade: websocket", "Upgrade: h2c")),
    ] {
        let answer = gateway.raw_exchange(&request).await;
        assert!(answer.ends_with("\r\n\r\nplain"), "{answer}");
    }
    let over_2 = gateway.get("/open").http2();
    let over_2 = over_2.header("Sec-WebSocket-Version", "13").send().await;
    assert_eq!(over_2.text(), "plain");
    for head in far.heads() {
        assert!(!head.to_ascii_lowercase().contains("upgrade"), "{head}");
    }
}
