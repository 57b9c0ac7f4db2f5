//! A response that begins before its request has ended. A task reads the one and sends the other,
//! so that neither waits for a client that is slow with the other: some clients read nothing before
//! they have sent everything.

use super::Inner;
use super::http1::{self, Connection};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use limits::conn_limit::Permit;
use std::future::{pending, poll_fn};
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// The time-out for the rest of a request whose response has ended. The same as for the rest of a
/// client's connection.
const LINGER: Duration = Duration::from_secs(30);

/// A frame of the response; `None`: its end.
type Piece = Option<Result<Frame<Bytes>, http1::Error>>;

/// The response, as the task reads it.
pub(super) struct EarlyResponse {
    pieces: mpsc::Receiver<Piece>,
    /// The length of the rest, if it is known.
    left: Option<u64>,
}

impl EarlyResponse {
    /// Starts the task, which holds the place in flight. It ends with the request and the response,
    /// or when this is dropped before the response has ended.
    pub(super) fn start(
        connection: Box<Connection>,
        inner: Arc<Inner>,
        permit: Option<Permit>,
    ) -> Self {
        let (sender, pieces) = mpsc::channel(1);
        let left = connection.size_hint().exact();
        tokio::spawn(async move {
            drive(connection, sender, inner).await;
            drop(permit);
        });
        Self { pieces, left }
    }

    /// The next frame; `None`: the response has ended.
    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Piece> {
        let Some(piece) = ready!(self.pieces.poll_recv(cx)) else {
            let broken = io::ErrorKind::UnexpectedEof.into();
            return Poll::Ready(Some(Err(http1::Error::Closed(broken))));
        };
        if let (Some(left), Some(Ok(frame))) = (&mut self.left, &piece) {
            *left -= frame.data_ref().map_or(0, |data| data.len() as u64);
        }
        Poll::Ready(piece)
    }

    pub(super) fn is_ended(&self) -> bool {
        self.left == Some(0)
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        self.left
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

async fn drive(mut connection: Box<Connection>, pieces: mpsc::Sender<Piece>, inner: Arc<Inner>) {
    loop {
        let piece = tokio::select! {
            piece = poll_fn(|cx| poll_both(&mut connection, cx)) => piece,
            () = pieces.closed() => return,
        };
        let more = matches!(piece, Some(Ok(_)));
        let ended = piece.is_none();
        let given = tokio::select! {
            given = pieces.send(piece) => given.is_ok(),
            // The rest of the request goes on while the client reads.
            () = refused(&mut connection) => false,
        };
        if ended {
            break;
        }
        if !given || !more {
            return;
        }
    }
    let rest = timeout(LINGER, poll_fn(|cx| connection.poll_send(cx)));
    if matches!(rest.await, Ok(Ok(()))) {
        inner.keep(connection);
    }
}

/// The next piece of the response; what can be sent of the request is sent meanwhile.
fn poll_both(connection: &mut Connection, cx: &mut Context<'_>) -> Poll<Piece> {
    match connection.poll_send(cx) {
        Poll::Ready(Err(refusal)) => Poll::Ready(Some(Err(refusal.into()))),
        Poll::Ready(Ok(())) | Poll::Pending => connection.poll_frame(cx),
    }
}

/// Sends the rest of the request; ends only if that is refused.
async fn refused(connection: &mut Connection) {
    if poll_fn(|cx| connection.poll_send(cx)).await.is_ok() {
        pending::<()>().await;
    }
}
