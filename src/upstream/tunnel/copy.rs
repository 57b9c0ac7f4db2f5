//! Copies bytes between two streams in both directions, as fast as the slower one takes them.
//!
//! Bytes pass through one piece of memory that all tunnels of a thread share; a tunnel holds only
//! what the slower end has not taken yet, and then reads no more. Knows of a WebSocket where a
//! frame ends, and how to write a Close.

use super::frames::{Frames, GOING_AWAY, POLICY};
use crate::metrics::{TunnelEnd, Upstream as Metrics};
use bytes::{Buf, Bytes};
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Sleep, sleep, timeout};

/// The number of bytes read at once, and the maximum that a tunnel holds in each direction. Our
/// choice: four TLS records.
const PIECE: usize = 64 * 1024;
/// Pieces passed on before the task yields to others of the thread. Our choice.
const YIELD_AFTER: usize = 16;
/// The time-out for an end to read the Close and to close too. As for any other connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; PIECE].into());
}

/// Client and upstream, joined.
pub(super) struct BidirectionalCopy<'m, C, U> {
    client: C,
    upstream: U,
    up: Direction,
    down: Direction,
    /// The time-out for an end that takes no bytes.
    stall_timeout: Duration,
    metrics: &'m Metrics,
}

/// One direction.
#[derive(Default)]
struct Direction {
    /// The bytes that the writer has not taken yet.
    kept: Bytes,
    /// Bytes passed on.
    bytes: u64,
    /// Bytes that the writer has taken, and how many these were when it was last asked.
    taken: u64,
    before: u64,
    /// Runs while the writer takes nothing of what there is for it.
    stalled: Option<Pin<Box<Sleep>>>,
    frames: Frames,
    stage: Stage,
    /// The close code for the writer if the reader leaves without a Close.
    close_code: Option<u16>,
    /// True if the writer takes nothing any more.
    refused: bool,
}

/// The progress of a direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Nothing is in flight.
    #[default]
    Quiet,
    /// Something may still be in the writer's own buffers.
    Unflushed,
    /// The end has been read.
    Ended,
    /// It has been passed on.
    Shut,
}

impl<'m, C, U> BidirectionalCopy<'m, C, U>
where
    C: AsyncRead + AsyncWrite + Unpin,
    U: AsyncRead + AsyncWrite + Unpin,
{
    pub(super) fn new(
        client: C,
        upstream: U,
        stall_timeout: Duration,
        metrics: &'m Metrics,
    ) -> Self {
        Self {
            client,
            upstream,
            up: Direction::default(),
            down: Direction {
                close_code: Some(GOING_AWAY),
                ..Direction::default()
            },
            stall_timeout,
            metrics,
        }
    }

    /// Passes on until both ends have closed, or the second took too long for it. Tells who began.
    pub(super) async fn run(&mut self) -> TunnelEnd {
        let mut first = None;
        let one = poll_fn(|cx| match self.poll(cx, &mut first) {
            // The last words of the first who leaves are passed on before the time runs.
            Poll::Pending if self.up.stage.max(self.down.stage) == Stage::Shut => {
                Poll::Ready(false)
            }
            both => both.map(|()| true),
        });
        if !one.await {
            let _ = timeout(CLOSE_TIMEOUT, poll_fn(|cx| self.poll(cx, &mut first))).await;
        }
        first.unwrap_or(TunnelEnd::Client)
    }

    /// Sends the client a Close with the reason, if one fits between the frames, and shuts both
    /// ends down.
    pub(super) async fn close(&mut self, cause: TunnelEnd) {
        let code = match cause {
            TunnelEnd::Session | TunnelEnd::Permission => POLICY,
            TunnelEnd::Drain | TunnelEnd::Client | TunnelEnd::Upstream | TunnelEnd::Slow => {
                GOING_AWAY
            }
        };
        let close_client = async {
            self.client.write_all(&self.down.kept).await?;
            if let Some(close) = self.down.frames.close(code) {
                self.client.write_all(&close).await?;
            }
            self.client.shutdown().await?;
            // Closing a socket with unread input would discard the Close (RFC 1122 §4.2.2.13).
            let mut discarded = [0; 512];
            while self.client.read(&mut discarded).await? > 0 {}
            io::Result::Ok(())
        };
        let both = async { tokio::join!(close_client, self.upstream.shutdown()) };
        // An end that does not read is closed all the same.
        let _ = timeout(CLOSE_TIMEOUT, both).await;
    }

    /// Bytes from the client, and to it.
    pub(super) fn bytes(&self) -> (u64, u64) {
        (self.up.bytes, self.down.bytes)
    }

    /// Both directions; `first` becomes the side that closed, announced its close, or failed first.
    fn poll(&mut self, cx: &mut Context<'_>, first: &mut Option<TunnelEnd>) -> Poll<()> {
        let (client, upstream) = (&mut self.client, &mut self.upstream);
        let (up, down) = (self.up.bytes, self.down.bytes);
        let upward = self.up.poll(cx, client, upstream);
        let downward = self.down.poll(cx, upstream, client);
        self.metrics
            .tunnelled(self.up.bytes - up, self.down.bytes - down);
        if self.up.is_over() || self.down.refused {
            first.get_or_insert(TunnelEnd::Client);
        }
        if self.down.is_over() || self.up.refused {
            first.get_or_insert(TunnelEnd::Upstream);
        }
        if upward.is_ready() && downward.is_ready() {
            return Poll::Ready(());
        }
        let up = self.up.is_stalled(cx, self.stall_timeout);
        let down = self.down.is_stalled(cx, self.stall_timeout);
        if up || down {
            first.get_or_insert(TunnelEnd::Slow);
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

impl Direction {
    /// Passes on what there is; ready when there will be nothing more.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<()> {
        if ready!(self.pass(cx, Pin::new(from), Pin::new(to))).is_err() {
            (self.refused, self.stage, self.kept) = (true, Stage::Shut, Bytes::new());
        }
        Poll::Ready(())
    }

    /// An error is the writer's; a reader that fails has left.
    fn pass(
        &mut self,
        cx: &mut Context<'_>,
        mut from: Pin<&mut impl AsyncRead>,
        mut to: Pin<&mut impl AsyncWrite>,
    ) -> Poll<io::Result<()>> {
        for _ in 0..YIELD_AFTER {
            ready!(write(cx, to.as_mut(), &mut self.kept, &mut self.taken))?;
            // Its memory goes too.
            self.kept = Bytes::new();
            match self.stage {
                Stage::Quiet | Stage::Unflushed => {
                    if self.piece(cx, from.as_mut(), to.as_mut())?.is_ready() {
                        continue;
                    }
                    if self.stage == Stage::Unflushed {
                        ready!(to.as_mut().poll_flush(cx))?;
                        self.stage = Stage::Quiet;
                    }
                    return Poll::Pending;
                }
                Stage::Ended => {
                    ready!(to.as_mut().poll_shutdown(cx))?;
                    self.stage = Stage::Shut;
                }
                Stage::Shut => return Poll::Ready(Ok(())),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Reads one piece and writes as much of it as is taken.
    fn piece(
        &mut self,
        cx: &mut Context<'_>,
        from: Pin<&mut impl AsyncRead>,
        to: Pin<&mut impl AsyncWrite>,
    ) -> Poll<io::Result<()>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(scratch);
            let read = ready!(from.poll_read(cx, &mut buffer));
            let mut piece = buffer.filled();
            if read.is_err() || piece.is_empty() {
                self.stage = Stage::Ended;
                self.kept = self.close_frame().unwrap_or_default();
                return Poll::Ready(Ok(()));
            }
            self.stage = Stage::Unflushed;
            self.bytes += piece.len() as u64;
            self.frames.pass(piece);
            if let Poll::Ready(written) = write(cx, to, &mut piece, &mut self.taken) {
                return Poll::Ready(written);
            }
            self.kept = Bytes::copy_from_slice(piece);
            Poll::Ready(Ok(()))
        })
    }

    /// Returns whether the writer has taken nothing for too long. Nothing is timed while there is
    /// nothing to take.
    fn is_stalled(&mut self, cx: &mut Context<'_>, stall_timeout: Duration) -> bool {
        let waiting = self.kept.has_remaining() || self.stage == Stage::Unflushed;
        let moves = std::mem::replace(&mut self.before, self.taken) != self.taken;
        if moves || !waiting {
            self.stalled = None;
        }
        waiting && {
            let timer = || Box::pin(sleep(stall_timeout));
            let stalled = self.stalled.get_or_insert_with(timer);
            stalled.as_mut().poll(cx).is_ready()
        }
    }

    fn close_frame(&self) -> Option<Bytes> {
        self.close_code.and_then(|code| self.frames.close(code))
    }

    /// Returns whether its reader has closed, or announced a close.
    fn is_over(&self) -> bool {
        self.frames.closing() || (self.stage >= Stage::Ended && !self.refused)
    }
}

/// Writes until nothing is left, and counts.
fn write<S: AsyncWrite>(
    cx: &mut Context<'_>,
    mut to: Pin<&mut S>,
    bytes: &mut impl Buf,
    taken: &mut u64,
) -> Poll<io::Result<()>> {
    while bytes.has_remaining() {
        match ready!(to.as_mut().poll_write(cx, bytes.chunk()))? {
            0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            count => {
                bytes.advance(count);
                *taken += count as u64;
            }
        }
    }
    Poll::Ready(Ok(()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use tokio::io::{DuplexStream, duplex};

    /// The far ends of two pipes, and how it ends.
    type Joined = (
        DuplexStream,
        DuplexStream,
        tokio::task::JoinHandle<TunnelEnd>,
    );

    /// Joins two pipes that hold `room` bytes.
    fn joined(room: usize) -> Joined {
        joined_for(Duration::from_mins(1), room)
    }

    fn joined_for(stall_timeout: Duration, room: usize) -> Joined {
        let (client, near) = duplex(room);
        let (upstream, far) = duplex(room);
        let task = tokio::spawn(async move {
            let metrics = crate::metrics::Metrics::new().upstream("test");
            BidirectionalCopy::new(near, far, stall_timeout, &metrics)
                .run()
                .await
        });
        (client, upstream, task)
    }

    /// A binary frame of a server.
    fn frame(length: u16) -> Vec<u8> {
        let mut frame = vec![0x82, 126];
        frame.extend(length.to_be_bytes());
        frame.extend((0..length).map(|n| n.to_le_bytes()[0]));
        frame
    }

    #[tokio::test]
    async fn both_directions_pass_with_very_small_buffers() {
        let (client, upstream, task) = joined(8);
        let (mut client_in, mut client_out) = tokio::io::split(client);
        let (mut upstream_in, mut upstream_out) = tokio::io::split(upstream);
        let frame = frame(50_000);
        let (mut down, mut up) = (Vec::new(), Vec::new());
        let send = async |out: &mut tokio::io::WriteHalf<DuplexStream>, bytes: &[u8]| {
            out.write_all(bytes).await.unwrap();
            out.shutdown().await.unwrap();
        };
        tokio::join!(
            send(&mut client_out, &frame),
            send(&mut upstream_out, &frame),
            async { client_in.read_to_end(&mut down).await.unwrap() },
            async { upstream_in.read_to_end(&mut up).await.unwrap() },
        );
        assert_eq!(up, frame);
        assert_eq!(down[..frame.len()], frame);
        assert_eq!(down[frame.len()..], [0x88, 2, 0x03, 0xe9]);
        task.await.unwrap();
    }

    #[tokio::test]
    async fn no_close_frame_is_sent_after_an_incomplete_frame() {
        let (mut client, mut upstream, task) = joined(1 << 20);
        let half = frame(1000).split_off(500);
        upstream.write_all(&frame(1000)).await.unwrap();
        upstream.write_all(&[0x82, 10, 1]).await.unwrap();
        drop(upstream);
        let mut heard = Vec::new();
        client.read_to_end(&mut heard).await.unwrap();
        assert!(heard.ends_with(&[&half[..], &[0x82, 10, 1]].concat()));
        drop(client);
        assert_eq!(task.await.unwrap(), TunnelEnd::Upstream);
    }

    #[tokio::test]
    async fn the_tunnel_end_names_the_side_that_sent_close_first() {
        let (mut client, mut upstream, task) = joined(1 << 10);
        client.write_all(&[0x88, 0x80, 0, 0, 0, 0]).await.unwrap();
        let mut heard = [0; 6];
        upstream.read_exact(&mut heard).await.unwrap();
        upstream.write_all(&[0x88, 0]).await.unwrap();
        drop(upstream);
        let mut heard = Vec::new();
        client.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, [0x88, 0], "nothing is said after a Close");
        drop(client);
        assert_eq!(task.await.unwrap(), TunnelEnd::Client);
    }

    #[tokio::test]
    async fn a_half_closed_tunnel_does_not_stay_open_for_long() {
        let (_client, upstream, task) = joined(1 << 10);
        drop(upstream);
        assert_eq!(task.await.unwrap(), TunnelEnd::Upstream);
    }

    #[tokio::test]
    async fn a_stalled_reader_ends_the_tunnel_even_if_it_sends() {
        let (mut client, mut upstream, task) = joined_for(Duration::from_millis(200), 8);
        upstream.write_all(&[0x82; 16]).await.unwrap();
        let mut heard = [0; 6];
        while client.write_all(&[0x81, 0x80, 0, 0, 0, 0]).await.is_ok()
            && upstream.read_exact(&mut heard).await.is_ok()
        {
            sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(task.await.unwrap(), TunnelEnd::Slow);
    }

    #[tokio::test]
    async fn a_silent_side_without_pending_data_stays_connected() {
        let (mut client, mut upstream, task) = joined_for(Duration::from_millis(5), 64);
        sleep(Duration::from_millis(50)).await;
        upstream.write_all(&[0x81, 1, b'x']).await.unwrap();
        let mut heard = [0; 3];
        client.read_exact(&mut heard).await.unwrap();
        assert!(!task.is_finished());
    }

    #[tokio::test]
    async fn a_stalled_reader_limits_reads_from_the_sender_to_one_piece() {
        let (_client, mut upstream, task) = joined(8);
        let endless = async {
            let mut sent = 0;
            while upstream.write_all(&[0; 1024]).await.is_ok() {
                sent += 1024;
                assert!(sent <= PIECE);
            }
        };
        let still = timeout(Duration::from_millis(50), endless).await;
        assert!(still.is_err(), "it waits");
        task.abort();
    }
}
