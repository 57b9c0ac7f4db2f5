//! A WebSocket to a `websocket-listener` node: opened for authorized callers, closed when the
//! authorization lapses.
//!
//! The frames pass here, on the thread that accepted the connection; the engine receives each and
//! returns its own.

use super::error::Error;
use super::meter::{Meter, Metered};
use super::path::Path;
use super::request_context::RequestContext;
use super::response_body::Body;
use super::upgrade::{Opening, with_first_protocol};
use super::ws_session::OpenSocket;
use crate::auth::Caller;
use crate::metrics::TunnelEnd;
use crate::upstream::{Ended, Pace};
use crate::websocket::{self, CLOSE_TIMEOUT};
use engine::Engine;
use engine::ws_endpoints::{
    Event, Frame, InboundPermit, Listening, Memory, Queued, WAITING, outbox,
};
use futures_util::{SinkExt, StreamExt};
use hyper::Response;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use limits::conn_limit::{LimitReached, Permit};
use limits::quota::Grant;
use std::io::ErrorKind;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};

/// The number of bytes read at once. Our choice: an idle socket keeps the buffer, and most frames
/// are smaller.
const READ: usize = 4 * 1024;
/// A client's WebSocket.
type Socket = WebSocketStream<Metered<TokioIo<Upgraded>>>;

/// Shakes hands; the client then talks with the listener, on this thread, until either ends it.
pub(super) fn open(
    ctx: &mut RequestContext<'_>,
    path: &Path<'_>,
    engine: &Engine,
    listening: &Listening,
) -> Result<Response<Body>, Error> {
    let opening = Opening::check(ctx)?;
    let permit = permit(ctx).map_err(|_| Error::TooManySockets)?;
    let tell = engine.join(listening);
    let listening = listening.clone();
    let mut open = OpenSocket::of(ctx, path);
    let longest = ctx.gateway.config.limits.body;
    let stall_timeout = ctx.gateway.config.timeouts.body_idle;
    let memory = memory(ctx);
    let meter = meter(ctx, memory.clone());
    let response = opening.accept(async move |client| {
        let opened = Instant::now();
        let config = WebSocketConfig::default()
            .read_buffer_size(READ)
            // Of the frames that come, `Metered` makes fragments, so that the buffer stays small.
            .max_frame_size(Some(longest))
            .max_message_size(Some(longest));
        let client = Metered::new(TokioIo::new(client), meter, longest);
        let socket = Socket::from_raw_socket(client, Role::Server, Some(config)).await;
        let inbound = Inbound::new(longest, listening);
        let ended = Session::new(socket, tell, stall_timeout, inbound)
            .run(memory, pin!(open.over()))
            .await;
        open.log(ended, opened.elapsed());
        drop(permit);
    });
    Ok(with_first_protocol(&ctx.head.headers, response))
}

/// A permit for one more socket. It counts for the client's address; a proxy that does not name its
/// client has none.
fn permit(ctx: &RequestContext<'_>) -> Result<Permit, LimitReached> {
    let permit = ctx.gateway.shares.sockets.admit()?;
    let address = ctx.peer.address.ip();
    if ctx.gateway.config.server.trusted_proxies.contains(address) {
        return Ok(permit);
    }
    permit.of(address)
}

/// A client and the listener's end of it.
struct Session<T> {
    socket: Socket,
    tell: T,
    inbound: Inbound,
    /// The time-out for a client that takes nothing of a frame.
    stall_timeout: Duration,
    ended: Ended,
}

/// The inbound queue of a connection, up to the flow.
struct Inbound {
    listening: Listening,
    /// Its bytes; a frame takes a [`WAITING`]th of them at least.
    room: Arc<Semaphore>,
    size: usize,
    /// The next frame, until there is room for it.
    next: Option<(Frame, Option<Grant>)>,
}

/// The quota that the frames of an unauthenticated client are charged to.
fn memory(ctx: &RequestContext<'_>) -> Option<Memory> {
    let known = ctx.caller.as_ref().is_some_and(Caller::is_known);
    let memory = &ctx.gateway.shares.unauthenticated;
    (!known).then(|| (Arc::clone(memory), ctx.peer.address.ip()))
}

/// Meters the messages of an unauthenticated client.
fn meter(ctx: &RequestContext<'_>, memory: Option<Memory>) -> Option<Meter> {
    let config = &ctx.gateway.config;
    let pace = Pace::new(&config.timeouts, &config.limits);
    memory.map(|(quota, address)| Meter::new(quota, address, pace))
}

impl<T: Fn(Event) -> Result<(), engine::Error>> Session<T> {
    fn new(socket: Socket, tell: T, stall_timeout: Duration, inbound: Inbound) -> Self {
        Self {
            socket,
            tell,
            inbound,
            stall_timeout,
            ended: Ended {
                cause: TunnelEnd::Client,
                up: 0,
                down: 0,
            },
        }
    }

    /// Carries frames both ways until the client, the listener or the gateway ends it.
    async fn run(
        mut self,
        memory: Option<Memory>,
        cut: Pin<&mut impl Future<Output = TunnelEnd>>,
    ) -> Ended {
        let (outbox, frames) = outbox();
        let outbox = outbox.charged_to(memory);
        // An error here and below: the engine has ended, and the frames with it.
        let _ = (self.tell)(Event::Open(outbox));
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
        websocket::close(self.socket, Some(code)).await;
        self.ended
    }

    async fn carry(&mut self, mut frames: mpsc::Receiver<Queued>) -> TunnelEnd {
        loop {
            let said = tokio::select! {
                said = self.inbound.next(&mut self.socket) => said,
                queued = frames.recv() => {
                    let Some(queued) = queued else {
                        return TunnelEnd::Upstream;
                    };
                    let message = match queued.frame {
                        Frame::Text(text) => Message::Text(text),
                        Frame::Binary(bytes) => Message::binary(bytes),
                    };
                    self.ended.down += message.len() as u64;
                    match timeout(self.stall_timeout, self.socket.send(message)).await {
                        Ok(Ok(())) => continue,
                        Ok(Err(_)) => return TunnelEnd::Client,
                        Err(_) => return TunnelEnd::Slow,
                    }
                }
            };
            let Some((frame, permit)) = said else {
                return TunnelEnd::Client;
            };
            self.ended.up += frame.size() as u64;
            let _ = (self.tell)(Event::Frame(frame, permit));
        }
    }
}

impl Inbound {
    /// For messages of at most `longest` bytes.
    fn new(longest: usize, listening: Listening) -> Self {
        let size = longest.max(WAITING);
        Self {
            listening,
            room: Arc::new(Semaphore::new(size)),
            size,
            next: None,
        }
    }

    /// The next message, once there is room for it. Cancel-safe.
    async fn next(&mut self, socket: &mut Socket) -> Option<(Frame, InboundPermit)> {
        if self.next.is_none() {
            self.listening.room().await;
            self.next = Some(message(socket).await?);
        }
        // The flows may have become full while the client sent nothing.
        self.listening.room().await;
        let (frame, memory) = self.next.as_mut()?;
        let weight = frame.size().clamp(self.size / WAITING, self.size);
        let weight = u32::try_from(weight).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(weight).await;
        let room = room.ok()?;
        if let Some(memory) = memory.as_mut().filter(|memory| memory.units() == 0) {
            memory.grow(frame.size()).await;
        }
        // Last: all sources of the engine share it, so nothing that holds it may wait for a share
        // of one client.
        let in_flight = self.listening.claim(frame.size()).await;
        let (frame, memory) = self.next.take()?;
        Some((frame, InboundPermit::new(room, in_flight, memory)))
    }
}

/// The next message of the client, with its grant if the client is metered.
async fn message(socket: &mut Socket) -> Option<(Frame, Option<Grant>)> {
    loop {
        let frame = match socket.next().await? {
            // A copy: a slice would keep the read buffer in memory.
            Ok(Message::Text(text)) => Frame::Text(text.as_str().into()),
            Ok(Message::Binary(bytes)) => Frame::Binary(bytes),
            Ok(Message::Ping(payload) | Message::Pong(payload)) => {
                socket.get_mut().control(payload.len());
                continue;
            }
            Ok(Message::Frame(_)) => continue,
            Ok(Message::Close(_)) => return None,
            Err(error) => {
                if let Some(code) = violation(&error) {
                    // The client is sent the close code, if it still reads.
                    let close = socket.close(Some(websocket::close_frame(code)));
                    let _ = timeout(CLOSE_TIMEOUT, close).await;
                }
                return None;
            }
        };
        return Some((frame, socket.get_mut().whole()));
    }
}

/// The close code for a client that violated the protocol, or has sent more, or slower, than it
/// may.
fn violation(error: &tungstenite::Error) -> Option<CloseCode> {
    match error {
        tungstenite::Error::Io(error) => match error.kind() {
            ErrorKind::OutOfMemory => Some(CloseCode::Again),
            ErrorKind::TimedOut => Some(CloseCode::Policy),
            _ => None,
        },
        error => websocket::violation(error),
    }
}
