//! Checks the invariants of the first bytes of every connection.

#![allow(clippy::missing_panics_doc, reason = "a check: it may panic")]

use super::http1_framing::Heads;
use super::proxy_protocol::{source_in, source_of};
use std::net::SocketAddr;

/// However the bytes come, the same of them may pass, for the same reason.
pub fn heads(data: &[u8]) {
    let Some((size, stream)) = data.split_first() else {
        return;
    };
    let mut whole = Heads::default();
    let at_once = whole.received(stream);
    let mut pieces = Heads::default();
    let mut passed = 0;
    let mut stopped = Ok(());
    for piece in stream.chunks(usize::from(*size).max(1)) {
        if let Err((count, stop)) = pieces.received(piece) {
            stopped = Err((passed + count, stop));
            break;
        }
        passed += piece.len();
    }
    assert_eq!(stopped, at_once);
    if let Err((count, _)) = at_once {
        assert!(count <= stream.len());
    }
}

/// The address in a header of either version is the one that version 1 writes.
pub fn proxy_protocol(data: &[u8]) {
    let Some((family, rest)) = data.split_first() else {
        return;
    };
    for read in [source_in(data), source_of(*family, rest)] {
        let Ok(Some(source)) = read else { continue };
        let (version, other) = match source {
            SocketAddr::V4(_) => (4, "127.0.0.1"),
            SocketAddr::V6(_) => (6, "::1"),
        };
        let (address, port) = (source.ip(), source.port());
        let line = format!("PROXY TCP{version} {address} {other} {port} 443\r\n");
        assert_eq!(source_in(line.as_bytes()).ok(), Some(Some(source)));
    }
}
