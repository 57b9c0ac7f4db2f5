//! The pieces in which a body in memory is handed to hyper, and the memory that they are charged
//! to.

use bytes::Bytes;
use limits::quota::Grant;
use std::sync::Arc;

/// The largest piece of an in-memory body that is handed to hyper at once: a stalled client keeps
/// no more than this when the rest has been dropped. Our choice: as much as a connection buffers
/// for sending.
pub(super) const PIECE: usize = 64 * 1024;

/// The next piece. A copy unless it is the last one: a slice would keep the whole body in memory.
pub(super) fn piece(bytes: &mut Bytes) -> Bytes {
    if bytes.len() <= PIECE {
        return std::mem::take(bytes);
    }
    Bytes::copy_from_slice(&bytes.split_to(PIECE))
}

/// Bytes with the grant that they are charged to. A library that sends them drops the body first,
/// and the bytes when the client has taken them.
struct Charged {
    bytes: Bytes,
    _grant: Arc<Grant>,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The same bytes, which keep this grant until they are dropped.
pub(super) fn charged(bytes: Bytes, grant: &Arc<Grant>) -> Bytes {
    Bytes::from_owner(Charged {
        bytes,
        _grant: Arc::clone(grant),
    })
}
