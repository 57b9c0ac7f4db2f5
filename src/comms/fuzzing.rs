//! Checks the invariants of every frame of an editor.

#![allow(clippy::missing_panics_doc, reason = "a check: it may panic")]

use super::frame::{Frame, TOPIC};

/// Checks that a forwarded frame parses to the same frame, and contains nothing harmful to an
/// upstream.
pub fn frame(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(Frame::Publish { topic, text }) = Frame::parse(text) else {
        return;
    };
    assert!((1..=TOPIC).contains(&topic.len()));
    for name in ["\"__proto__\":", "\"toString\":", "\"constructor\":"] {
        let quoted = text.contains(&format!("\\{name}"));
        assert!(quoted || !text.contains(name), "{text}");
    }
    match Frame::parse(&text) {
        Ok(Frame::Publish {
            topic: again,
            text: once,
        }) => {
            assert_eq!((again, once), (topic, text));
        }
        other => panic!("{text}: {other:?}"),
    }
}
