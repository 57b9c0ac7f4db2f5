//! Reads further than TLS asks for while a client sends much: rustls has room for 4 KiB when it
//! begins a record of up to 16, so that a body of 64 KiB would take nine system calls.
//!
//! Nothing changes for small requests, and a connection that waits for its client has no buffer.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Bytes that are read at once. Our choice: two TLS records.
const ROOM: usize = 2 * (16 * 1024 + 256);

thread_local! {
    /// A buffer that no connection of this worker uses.
    static SPARE: Cell<Box<[u8]>> = Cell::default();
}

/// A TCP stream below TLS.
pub(super) struct ReadAhead {
    tcp: TcpStream,
    /// Bytes read too far are at `from..to`; empty: there are none.
    buffer: Box<[u8]>,
    from: usize,
    to: usize,
    /// True if the last read filled all of its room, so that there is probably more.
    is_full: bool,
}

impl ReadAhead {
    pub(super) fn new(tcp: TcpStream) -> Self {
        Self {
            tcp,
            buffer: Box::default(),
            from: 0,
            to: 0,
            is_full: false,
        }
    }

    /// The stream itself.
    pub(super) fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// Returns whether bytes are here that TLS has not taken.
    pub(super) fn has_more(&self) -> bool {
        self.from < self.to
    }

    /// Gives out bytes that were read too far; the buffer is given back with the last ones.
    fn take(&mut self, buf: &mut ReadBuf<'_>) {
        let ahead = self.buffer.get(self.from..self.to).unwrap_or_default();
        let count = ahead.len().min(buf.remaining());
        buf.put_slice(ahead.get(..count).unwrap_or_default());
        self.from += count;
        if !self.has_more() {
            SPARE.set(std::mem::take(&mut self.buffer));
        }
    }
}

impl AsyncRead for ReadAhead {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.has_more() {
            this.take(buf);
            return Poll::Ready(Ok(()));
        }
        if !this.is_full {
            ready!(Pin::new(&mut this.tcp).poll_read(cx, buf))?;
            this.is_full = buf.remaining() == 0;
            return Poll::Ready(Ok(()));
        }
        let mut buffer = SPARE.take();
        if buffer.is_empty() {
            buffer = vec![0; ROOM].into();
        }
        let mut room = ReadBuf::new(&mut buffer);
        let read = Pin::new(&mut this.tcp).poll_read(cx, &mut room);
        let count = room.filled().len();
        let Poll::Ready(Ok(())) = read else {
            SPARE.set(buffer);
            return read;
        };
        this.is_full = count == buffer.len();
        (this.from, this.to, this.buffer) = (0, count, buffer);
        this.take(buf);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ReadAhead {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn bytes_read_too_far_come_in_their_order_and_then_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let mut stream = ReadAhead::new(listener.accept().await.unwrap().0);
        let sent: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
        let expected = sent.clone();
        let sending = tokio::spawn(async move {
            client.write_all(&sent).await.unwrap();
        });
        let (mut received, mut went_too_far) = (Vec::new(), false);
        let mut piece = [0; 4096];
        loop {
            let count = stream.read(&mut piece).await.unwrap();
            if count == 0 {
                break;
            }
            received.extend_from_slice(&piece[..count]);
            went_too_far |= stream.has_more();
        }
        sending.await.unwrap();
        assert!(went_too_far, "more was there than one read has room for");
        assert_eq!(received, expected);
        assert!(stream.buffer.is_empty(), "the buffer was given back");
    }
}
