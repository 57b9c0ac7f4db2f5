//! The buffer of a thread for the next read of any of its connections: one that waits for its
//! response holds none, and what is read goes where the processor's caches have what was read
//! before.

use bytes::BytesMut;
use std::cell::Cell;

thread_local! {
    static SPARE: Cell<Option<BytesMut>> = const { Cell::new(None) };
}

/// Takes the buffer, or a new one without room: it is empty.
pub(super) fn take() -> BytesMut {
    SPARE.take().unwrap_or_default()
}

/// Gives an empty buffer back, for the next one who takes. One that was read full has no room left,
/// and is dropped.
pub(super) fn put(buffer: BytesMut) {
    if buffer.capacity() > 0 {
        SPARE.set(Some(buffer));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::Connection;
    use super::*;
    use std::future::poll_fn;
    use tokio::io::{AsyncWriteExt as _, duplex};

    #[tokio::test]
    async fn a_connection_that_waits_holds_no_buffer_and_another_one_reads_into_it() {
        let [(mut waiting, _open), (mut reading, mut upstream)] = [(); 2].map(|()| {
            let (ours, theirs) = duplex(64);
            (Connection::new(ours, None), theirs)
        });
        assert!(waiting.is_idle());
        assert_eq!(waiting.received.capacity(), 0);
        let buffer = take();
        let start = buffer.as_ptr().addr();
        let room = start..start + buffer.capacity();
        put(buffer);
        upstream.write_all(b"x").await.unwrap();
        let read = poll_fn(|cx| reading.poll_read(cx)).await;
        assert_eq!(read.unwrap(), 1);
        assert!(room.contains(&reading.received.as_ptr().addr()));
        reading.received.clear();
        reading.shrink();
        assert_eq!(reading.received.capacity(), 0);
    }
}
