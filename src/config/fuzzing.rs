//! Invariants checked for every `gateway.toml`.

#![allow(clippy::missing_panics_doc, reason = "a check: it may panic")]

use super::{Config, Error};
use std::path::Path;

/// A text is read the same each time, and a mistake in it is reported with the file.
pub fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    // Secrets come from files and the environment, which are none of the input.
    if text.contains('/') || text.contains('$') || text.contains('_') && text.contains("file") {
        return;
    }
    let read = || Config::parse(text, "fuzzed.toml", Path::new("/nonexistent"));
    match (read(), read()) {
        (Ok(one), Ok(other)) => {
            assert_eq!(one.sha256, other.sha256);
            assert!(one.server.workers > 0 && one.limits.body > 0);
            assert!(one.upstreams.iter().all(|up| up.mount.path != "/"));
        }
        (Err(one), Err(other)) => {
            let message = one.to_string();
            assert_eq!(message, other.to_string());
            if matches!(one, Error::Diagnostic(_)) {
                assert!(message.contains("fuzzed.toml"), "{message}");
            }
        }
        (one, other) => panic!("{one:?} and {other:?}"),
    }
}
