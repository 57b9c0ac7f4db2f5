//! A WebSocket (RFC 6455) as both sides of the room use it: text comes and goes, and memory stays small.
//!
//! Knows nothing of what the text says.

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, sink};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

/// How much is read at once. Our choice: an idle socket keeps it, and most frames are smaller.
const READ: usize = 2 * 1024;
/// Longer texts are sent as several frames (RFC 6455 §5.4), because a socket keeps as much memory as its largest frame
/// took. 16 KiB is one record of TLS.
const PIECE: usize = 16 * 1024;
/// What may wait in a socket: two pieces, pongs and the last goodbye.
const WRITE: usize = 3 * PIECE;
/// How long the other end may take to hear a goodbye and to close. Our choice.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A WebSocket after its handshake.
pub(super) struct Socket<S>(WebSocketStream<S>);

/// What came.
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
    pub(super) async fn hear(&mut self) -> Result<Received, Lost> {
        match self.0.next().await {
            Some(Ok(Message::Text(text))) => Ok(Received::Text(text)),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {
                Ok(Received::Control)
            }
            Some(Ok(Message::Binary(_))) => Err(Lost::Broken(CloseCode::Unsupported)),
            Some(Err(Error::Capacity(_))) => Err(Lost::Broken(CloseCode::Size)),
            Some(Err(Error::Utf8(_))) => Err(Lost::Broken(CloseCode::Invalid)),
            Some(Err(Error::Protocol(error))) => {
                use tokio_tungstenite::tungstenite::error::ProtocolError as P;
                Err(match error {
                    P::ResetWithoutClosingHandshake => Lost::Gone,
                    _ => Lost::Broken(CloseCode::Protocol),
                })
            }
            Some(Ok(Message::Close(_)) | Err(_)) | None => Err(Lost::Gone),
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

    /// Says a last thing, if there is one, and closes. The other end is given a moment to hear it: what it still sends
    /// is read and thrown away, else the system would tell it of a reset instead.
    pub(super) async fn close(mut self, last: Option<&'static str>, code: Option<CloseCode>) {
        let goodbye = async move {
            if let Some(last) = last {
                let _ = self.say(last).await;
            }
            let reason = Utf8Bytes::default();
            let frame = code.map(|code| CloseFrame { code, reason });
            let _ = self.0.close(frame).await;
            let _ = self.0.flush().await;
            let mut stream = self.0.into_inner();
            if stream.shutdown().await.is_ok() {
                let _ = copy(&mut stream, &mut sink()).await;
            }
        };
        let _ = timeout(CLOSE_TIMEOUT, goodbye).await;
    }
}
