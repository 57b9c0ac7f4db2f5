//! Invalid frames of editors are refused, and none reaches an upstream.

use crate::comms_client::{Channel, ServerMessage};
use crate::comms_upstream::Runtime;
use futures_util::SinkExt;
use serde_json::{Value as Json, json};
use tokio_tungstenite::tungstenite::Message;

/// Texts that are no frames, each derived from one that is by some wild edits.
fn wild(seed: &mut u64) -> String {
    const GOOD: [&str; 6] = [
        r#"{"subscribe":"status/#"}"#,
        r#"{"topic":"multiplayer/location","data":{"workspace":"a","cursor":{"x":1,"y":2}}}"#,
        r#"{"topic":"multiplayer/connect","data":{"session":"s1"}}"#,
        r#"[{"auth":"x"},{"subscribe":"a"}]"#,
        r#"{"auth":{"toString":1},"subscribe":["a{2,1}"]}"#,
        r#"{"data":{"__proto__":{"x":null}},"topic":"constructor"}"#,
    ];
    const BITS: [&str; 14] = [
        "null",
        "{",
        "}",
        "[",
        "]",
        "\"",
        ",",
        ":",
        "1e999",
        "+",
        "a{2,1}",
        "\\ud800",
        "\"toString\":1",
        "\"topic\":",
    ];
    let mut next = |below: usize| {
        *seed = flowgate_step(*seed);
        usize::try_from(*seed >> 33).unwrap() % below
    };
    let mut text = GOOD[next(GOOD.len())].to_owned();
    for _ in 0..next(4) {
        let at = next(text.len() + 1);
        match next(3) {
            0 => text.insert_str(at, BITS[next(BITS.len())]),
            1 if at < text.len() => drop(text.remove(at)),
            _ => text.truncate(at),
        }
    }
    text
}

/// Knuth's MMIX.
fn flowgate_step(state: u64) -> u64 {
    state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407)
}

/// What the upstream may hear: strictly one of two shapes, with nothing in it that it could choke
/// on.
fn is_harmless(text: &str) -> bool {
    let Ok(Json::Object(frame)) = serde_json::from_str(text) else {
        return false;
    };
    let names: Vec<&str> = frame.keys().map(String::as_str).collect();
    match names[..] {
        ["subscribe"] => frame["subscribe"]
            .as_str()
            .is_some_and(|t| !t.contains(['{', '}'])),
        ["topic", "data"] => {
            let inherited = ["toString", "__proto__", "constructor", "valueOf"];
            frame["topic"].is_string()
                && !frame["data"].is_null()
                && !inherited
                    .iter()
                    .any(|name| text.contains(&format!("\"{name}\":")))
        }
        _ => false,
    }
}

/// Reads batches until the channel is closed: with code 1008, or after a text that happened to be
/// an unknown token.
async fn is_closed(editor: &mut Channel) {
    let mut code = Some(1008);
    loop {
        match editor.receive().await {
            ServerMessage::Batch(_) => {}
            ServerMessage::Auth(close_code) => {
                assert_eq!(close_code, "fail");
                code = None;
            }
            ServerMessage::Closed(close_code) => return assert_eq!(close_code, code),
        }
    }
}

#[tokio::test]
async fn no_malformed_frame_reaches_the_upstream() {
    let upstream = Runtime::start("").await;
    let gateway = upstream.gateway("[comms]\nframes = 100000");
    let token = gateway.sign_in("reader").await;
    // Of what it makes, one text is a token. Others are tried by the fuzz target for frames.
    let mut seed = 12_288_272_542_468_933_858;
    let (mut editor, mut closed) = (gateway.editor(&token).await, 0);
    for number in 0..2_000 {
        let text = wild(&mut seed);
        let marker = json!({ "topic": "marker", "data": number });
        let sent = editor.socket.send(Message::text(text.as_str())).await;
        let sent = match sent {
            Ok(()) => editor.socket.send(Message::text(marker.to_string())).await,
            Err(error) => Err(error),
        };
        let gone = sent.is_err()
            || tokio::select! {
                biased;
                () = is_closed(&mut editor) => true,
                () = upstream.receives(&marker) => false,
            };
        if gone {
            closed += 1;
            editor = gateway.editor(&token).await;
        }
    }
    let frames = upstream.received();
    for text in &frames {
        assert!(is_harmless(text), "{text}");
    }
    assert!(
        closed > 100 && frames.len() > 500,
        "{closed} {}",
        frames.len()
    );
}
