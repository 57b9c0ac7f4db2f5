//! A WebSocket (RFC 6455) as both sides of the room use it: text comes and goes, and memory stays
//! small.
//!
//! Does not interpret the text.

use crate::websocket::{self, CLOSE_TIMEOUT};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

/// The number of bytes read at once. Our choice: an idle socket keeps the buffer, and most frames
/// are smaller.
const READ: usize = 2 * 1024;
/// Longer texts are sent as several frames (RFC 6455 §5.4), because a socket keeps as much memory
/// as its largest frame took. 16 KiB is one record of TLS.
const PIECE: usize = 16 * 1024;
/// The maximum write buffer of a socket: two pieces, pongs and the Close.
const WRITE: usize = 3 * PIECE;
/// A WebSocket after its handshake.
pub(super) struct Socket<S>(WebSocketStream<S>);

/// A received message.
pub(super) enum Received {
    /// A whole text.
    Text(Utf8Bytes),
    /// A ping, which has been answered, or a pong.
    Control,
}

/// Why nothing more comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// The other end has closed, or the connection is gone.
    Gone,
    /// The peer has violated the protocol, and is to be sent this close code (RFC 6455 §7.4.1).
    Broken(CloseCode),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    /// Takes texts of at most `longest` bytes.
    pub(super) async fn new(stream: S, role: Role, longest: usize) -> Self {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ)
            .write_buffer_size(0)
            .max_write_buffer_size(WRITE)
            .max_frame_size(Some(longest))
            .max_message_size(Some(longest));
        Self(WebSocketStream::from_raw_socket(stream, role, Some(config)).await)
    }

    /// The next that comes. Nothing is lost when the wait is given up.
    pub(super) async fn receive(&mut self) -> Result<Received, Lost> {
        match self.0.next().await {
            Some(Ok(Message::Text(text))) => Ok(Received::Text(text)),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {
                Ok(Received::Control)
            }
            Some(Ok(Message::Binary(_))) => Err(Lost::Broken(CloseCode::Unsupported)),
            Some(Err(error)) => Err(violation(&error).map_or(Lost::Gone, Lost::Broken)),
            Some(Ok(Message::Close(_))) | None => Err(Lost::Gone),
        }
    }

    /// Sends a text. When this is given up half-way, only [`Socket::close`] makes sense.
    pub(super) async fn say(&mut self, text: impl Into<Bytes>) -> Result<(), Lost> {
        let mut rest: Bytes = text.into();
        let mut kind = Data::Text;
        loop {
            let piece = rest.split_to(rest.len().min(PIECE));
            let last = rest.is_empty();
            let frame = Frame::message(piece, OpCode::Data(kind), last);
            let fed = self.0.feed(Message::Frame(frame)).await;
            fed.map_err(|_| Lost::Gone)?;
            if last {
                return self.0.flush().await.map_err(|_| Lost::Gone);
            }
            kind = Data::Continue;
        }
    }

    /// Asks whether the other end is there.
    pub(super) async fn ping(&mut self) -> Result<(), Lost> {
        let ping = Message::Ping(Bytes::new());
        self.0.send(ping).await.map_err(|_| Lost::Gone)
    }

    /// Sends a last text, if there is one, and closes, within one time-out.
    pub(super) async fn close(mut self, last: Option<&'static str>, code: Option<CloseCode>) {
        let closed = async move {
            if let Some(last) = last {
                let _ = self.say(last).await;
            }
            websocket::close(self.0, code).await;
        };
        let _ = timeout(CLOSE_TIMEOUT, closed).await;
    }
}

/// The close code for a peer that has violated the protocol.
fn violation(error: &Error) -> Option<CloseCode> {
    match error {
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => None,
        error => websocket::violation(error),
    }
}
