//! Charges the bytes of an incomplete WebSocket message to the address of an unauthenticated
//! client: the library buffers all frames of a message before it returns one.
//!
//! Beyond a few KiB, memory is granted before bytes are read, and the rest of the message must
//! arrive at the pace of a body.

use super::fragments::Fragments;
use crate::upstream::{Pace, Pacer};
use limits::quota::{Grant, Quota};
use std::io::{self, ErrorKind, IoSlice};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes of a message that are not charged. Our choice: twice the read buffer.
const FREE: usize = 8 * 1024;
/// Bytes granted at a time.
const STEP: usize = 64 * 1024;
/// Bytes of a control frame beside its payload: two, and the mask (RFC 6455 §5.2).
const CONTROL: usize = 6;

/// A stream without large frames, metered if its client is unauthenticated.
#[derive(Debug)]
pub(super) struct Metered<S> {
    stream: S,
    fragments: Fragments,
    meter: Option<Meter>,
}

/// Charges the bytes of one client.
#[derive(Debug)]
pub(super) struct Meter {
    memory: Arc<Quota>,
    address: IpAddr,
    pace: Pace,
    /// Bytes of the message that is not whole.
    unfinished: usize,
    /// Its grant, once it exceeds [`FREE`].
    large: Option<(Grant, Pacer)>,
}

impl Meter {
    pub(super) fn new(memory: Arc<Quota>, address: IpAddr, pace: Pace) -> Self {
        Self {
            memory,
            address,
            pace,
            unfinished: 0,
            large: None,
        }
    }

    /// Grants memory for this many bytes more.
    fn allow(&mut self, more: usize) -> io::Result<()> {
        let needed = self.unfinished + more;
        if needed <= FREE {
            return Ok(());
        }
        let (grant, _) = self
            .large
            .get_or_insert_with(|| (self.memory.grant(self.address), Pacer::new(self.pace)));
        if needed > FREE + grant.units() {
            grant
                .try_grow(STEP.max(more))
                .map_err(|_| ErrorKind::OutOfMemory)?;
        }
        Ok(())
    }

    fn read(&mut self, bytes: usize) {
        self.unfinished += bytes;
        if let Some((_, pacer)) = &mut self.large {
            pacer.received(bytes);
        }
    }

    /// The client is silent: an error, once the rest of a large message is late.
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.large {
            Some((_, pacer)) => pacer
                .poll_late(cx)
                .map(|()| Err(ErrorKind::TimedOut.into())),
            None => Poll::Pending,
        }
    }
}

impl<S> Metered<S> {
    /// With messages of at most `longest` bytes.
    pub(super) fn new(stream: S, meter: Option<Meter>, longest: usize) -> Self {
        Self {
            stream,
            fragments: Fragments::new(longest),
            meter,
        }
    }

    /// The message is complete; returns its grant, empty if it was small. `None`: not metered.
    pub(super) fn whole(&mut self) -> Option<Grant> {
        let meter = self.meter.as_mut()?;
        meter.unfinished = 0;
        let large = meter.large.take();
        Some(large.map_or_else(|| meter.memory.grant(meter.address), |(grant, _)| grant))
    }

    /// A control frame was read, possibly between the frames of a message.
    pub(super) fn control(&mut self, payload: usize) {
        if let Some(meter) = &mut self.meter {
            meter.unfinished = meter.unfinished.saturating_sub(payload + CONTROL);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let Some(meter) = &mut this.meter else {
            return this.fragments.poll_read(&mut this.stream, cx, buf);
        };
        meter.allow(buf.remaining())?;
        let before = buf.filled().len();
        match this.fragments.poll_read(&mut this.stream, cx, buf) {
            Poll::Ready(read) => {
                meter.read(buf.filled().len() - before);
                Poll::Ready(read)
            }
            Poll::Pending => {
                let late = ready!(meter.poll_late(cx));
                Poll::Ready(late)
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn metered<S>(stream: S, quota: &Arc<Quota>, time: Duration) -> Metered<S> {
        let meter = Meter::new(Arc::clone(quota), HERE, Pace::within(time));
        Metered::new(stream, Some(meter), usize::MAX)
    }

    fn left(quota: &Arc<Quota>, units: usize) -> bool {
        quota.grant(HERE).try_grow(units).is_ok()
    }

    const LONG: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn a_large_message_is_charged_and_not_read_beyond_the_quota() {
        let quota = Quota::new(2 * STEP, 2 * STEP);
        let (mut client, far) = duplex(4 * STEP);
        let mut near = metered(far, &quota, LONG);
        client.write_all(&vec![0; 4 * STEP]).await.unwrap();
        let mut piece = [0; 4096];
        near.read_exact(&mut piece).await.unwrap();
        assert!(left(&quota, 2 * STEP), "a small one is not counted");
        let mut read = piece.len();
        let error = loop {
            match near.read(&mut piece).await {
                Ok(count) => read += count,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert_eq!(read, FREE + 2 * STEP);
        assert!(!left(&quota, 1));
        let grant = near.whole().unwrap();
        assert_eq!(grant.units(), 2 * STEP);
        drop(grant);
        assert!(left(&quota, 2 * STEP));
    }

    #[tokio::test]
    async fn control_frames_do_not_count_towards_the_message_size() {
        let quota = Quota::new(2 * STEP, 2 * STEP);
        let (mut client, far) = duplex(4 * STEP);
        let mut near = metered(far, &quota, LONG);
        let mut frame = [0; 125 + CONTROL];
        // A ping.
        (frame[0], frame[1]) = (0x89, 0xfd);
        for _ in 0..1000 {
            client.write_all(&frame).await.unwrap();
            near.read_exact(&mut frame).await.unwrap();
            near.control(125);
        }
        assert!(near.meter.unwrap().large.is_none());
    }

    #[tokio::test]
    async fn a_stalled_large_message_is_aborted_and_a_silent_client_is_not() {
        let quota = Quota::new(2 * STEP, 2 * STEP);
        let (mut client, far) = duplex(STEP);
        let mut near = metered(far, &quota, Duration::from_millis(1));
        let mut piece = [0; 4096];
        let silent = tokio::time::timeout(Duration::from_millis(20), near.read(&mut piece));
        assert!(silent.await.is_err());
        client.write_all(&[0; FREE]).await.unwrap();
        near.read_exact(&mut [0; FREE]).await.unwrap();
        let error = near.read(&mut piece).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
}
