//! A WebSocket to a `websocket-listener` node: opened for who may, closed as soon as he may not any more.
//!
//! The frames pass here, on the thread that accepted the connection; the engine hears of each and says what it answers.

use super::call::Call;
use super::comms::first_protocol;
use super::content::Body;
use super::error::Error;
use super::holder::Holder;
use super::path::Path;
use super::upgrade::Opening;
use crate::engine::socket::{Event, Frame, Listening, WAITING};
use crate::engine::{self, Engine};
use crate::metrics::TunnelEnd;
use crate::upstream::Ended;
use futures_util::{SinkExt, StreamExt};
use hyper::Response;
use hyper::header::SEC_WEBSOCKET_PROTOCOL;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};

/// How much is read at once. Our choice: an idle socket keeps it, and most frames are smaller.
const READ: usize = 4 * 1024;
/// How long the client may take to hear a goodbye and to close. Our choice.
const GOODBYE: Duration = Duration::from_secs(2);

/// A client's WebSocket.
type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Shakes hands; the client then talks with the listener, on this thread, until either ends it.
pub(super) fn open(
    call: &mut Call<'_>,
    path: &Path<'_>,
    engine: &Engine,
    listening: &Listening,
) -> Result<Response<Body>, Error> {
    let opening = Opening::check(call)?;
    let tell = engine.join(listening);
    let holder = Holder::of(call, path);
    let longest = call.gateway.config.limits.body;
    let patience = call.gateway.config.timeouts.body_idle;
    let mut response = opening.accept(async move |client| {
        let opened = Instant::now();
        let config = WebSocketConfig::default()
            .read_buffer_size(READ)
            .max_frame_size(Some(longest))
            .max_message_size(Some(longest));
        let client = TokioIo::new(client);
        let socket = Socket::from_raw_socket(client, Role::Server, Some(config)).await;
        let ended = Talk::new(socket, tell, patience)
            .run(pin!(holder.over()))
            .await;
        holder.log(ended, opened.elapsed());
    });
    if let Some(protocol) = first_protocol(&call.head.headers) {
        // As the stock runtime answers it.
        response
            .headers_mut()
            .insert(SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    Ok(response)
}

/// A client and the listener's end of it.
struct Talk<T> {
    socket: Socket,
    tell: T,
    /// What the client says and the listener has not taken yet.
    room: Arc<Semaphore>,
    /// How long the client may take nothing of a frame.
    patience: Duration,
    ended: Ended,
}

impl<T: Fn(Event) -> Result<(), engine::Error>> Talk<T> {
    fn new(socket: Socket, tell: T, patience: Duration) -> Self {
        Self {
            socket,
            tell,
            room: Arc::new(Semaphore::new(WAITING)),
            patience,
            ended: Ended {
                cause: TunnelEnd::Client,
                up: 0,
                down: 0,
            },
        }
    }

    /// Carries frames both ways until the client, the listener or the gateway ends it.
    async fn run(mut self, cut: Pin<&mut impl Future<Output = TunnelEnd>>) -> Ended {
        let (sender, frames) = mpsc::channel(WAITING);
        // An error here and below: the engine has ended, and the frames with it.
        let _ = (self.tell)(Event::Open(sender));
        self.ended.cause = tokio::select! {
            biased;
            cause = cut => cause,
            cause = self.carry(frames) => cause,
        };
        let _ = (self.tell)(Event::Closed);
        let code = match self.ended.cause {
            TunnelEnd::Session | TunnelEnd::Permission => CloseCode::Policy,
            TunnelEnd::Drain | TunnelEnd::Client | TunnelEnd::Upstream | TunnelEnd::Slow => {
                CloseCode::Away
            }
        };
        // The client may have gone first.
        let _ = timeout(GOODBYE, goodbye(self.socket, code)).await;
        self.ended
    }

    async fn carry(&mut self, mut frames: mpsc::Receiver<Frame>) -> TunnelEnd {
        loop {
            let said = tokio::select! {
                said = hear(&mut self.socket, &self.room) => said,
                frame = frames.recv() => {
                    let Some(frame) = frame else {
                        return TunnelEnd::Upstream;
                    };
                    let message = match frame {
                        Frame::Text(text) => Message::text(text),
                        Frame::Binary(bytes) => Message::binary(bytes),
                    };
                    self.ended.down += message.len() as u64;
                    match timeout(self.patience, self.socket.send(message)).await {
                        Ok(Ok(())) => continue,
                        Ok(Err(_)) => return TunnelEnd::Client,
                        Err(_) => return TunnelEnd::Slow,
                    }
                }
            };
            let Some((frame, permit)) = said else {
                return TunnelEnd::Client;
            };
            self.ended.up += match &frame {
                Frame::Text(text) => text.len() as u64,
                Frame::Binary(bytes) => bytes.len() as u64,
            };
            let _ = (self.tell)(Event::Said(frame, permit));
        }
    }
}

/// The next that the client says, once there is room for it; nothing is lost when the wait is given up.
async fn hear(socket: &mut Socket, room: &Arc<Semaphore>) -> Option<(Frame, OwnedSemaphorePermit)> {
    let permit = Arc::clone(room).acquire_owned().await.ok()?;
    loop {
        match socket.next().await? {
            Ok(Message::Text(text)) => {
                return Some((Frame::Text(text.as_str().to_owned()), permit));
            }
            Ok(Message::Binary(bytes)) => return Some((Frame::Binary(bytes), permit)),
            Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
            Ok(Message::Close(_)) => return None,
            Err(error) => {
                if let Some(code) = broken(&error) {
                    // It has broken a rule, and is told so if it still listens.
                    let _ = timeout(GOODBYE, socket.close(Some(last_words(code)))).await;
                }
                return None;
            }
        }
    }
}

/// The code for a client that broke a rule (RFC 6455 §7.4.1).
fn broken(error: &tungstenite::Error) -> Option<CloseCode> {
    match error {
        tungstenite::Error::Capacity(_) => Some(CloseCode::Size),
        tungstenite::Error::Utf8(_) => Some(CloseCode::Invalid),
        tungstenite::Error::Protocol(_) => Some(CloseCode::Protocol),
        _ => None,
    }
}

fn last_words(code: CloseCode) -> CloseFrame {
    CloseFrame {
        code,
        reason: "".into(),
    }
}

/// Says goodbye and waits for the client's.
async fn goodbye(mut socket: Socket, code: CloseCode) {
    if socket.close(Some(last_words(code))).await.is_ok() {
        while let Some(Ok(_)) = socket.next().await {}
    }
}
