//! The life of one connection: introduction by a proxy, handshake, requests, and between them a
//! rest that costs little.
//!
//! hyper implements HTTP. It keeps its buffers as long as its connection lives, so a quiet HTTP/1.1
//! connection is taken from hyper (parked) until the peer sends again: that saves two thirds of its
//! memory.

use super::activity::{Activity, IdleAction};
use super::client::Client;
use super::client_certificate;
use super::conn_context::{ConnContext, refused};
use super::conn_io::{ConnIo, Counted, Stream};
use super::h2_unsent::{Found, Unfinished};
use super::proxy_protocol;
use super::read_ahead::ReadAhead;
use super::tls::Acceptor;
use super::tracked_body::answer;
use crate::http::{self, FramingError, Peer};
use crate::metrics::{Handshake, Refused};
use hyper::server::conn::http1::UpgradeableConnection;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::{HandshakeKind, ProtocolVersion};
use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::server::TlsStream;

/// A quiet HTTP/1.1 connection is parked after this time. Our choice: a new start in hyper costs
/// about 2 µs, which ten times a second is nothing, and when thousands connect at once few are in
/// hyper's hands at the same time.
const PARK_AFTER: Duration = Duration::from_millis(100);
/// The time-out for sending the TLS `close_notify`.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// A peer that still sends after its response, to a refused body for example, would lose the
/// response if the connection closed at once (RFC 9112 §9.6): its input is discarded for this time
/// (lingering close), as in nginx,
const LINGER: Duration = Duration::from_secs(30);
/// unless it is silent for this time. Our choice; nginx waits 5 s.
const SILENCE: Duration = Duration::from_secs(2);

/// The time that a drain waits for the first request of a connection: a client that has just
/// connected is about to send it, and would take a close for a failure. Our choice.
const FIRST_REQUEST: Duration = Duration::from_secs(1);

/// A connection just accepted.
pub(super) struct Accepted {
    pub(super) tcp: TcpStream,
    pub(super) peer: Peer,
    /// `None`: plain HTTP.
    pub(super) tls: Option<Acceptor>,
    pub(super) counted: Counted,
}

/// Serves a connection until it ends.
pub(super) async fn serve(context: Arc<ConnContext>, accepted: Accepted) {
    let accepted = if context.gateway.config.server.proxy_protocol {
        match Box::pin(introduced(&context, accepted)).await {
            Ok(accepted) => accepted,
            Err(reason) => return context.metrics.refused(reason),
        }
    } else {
        accepted
    };
    let Accepted {
        tcp,
        mut peer,
        tls,
        counted,
    } = accepted;
    // Only latency is lost when it fails.
    let _ = tcp.set_nodelay(true);
    let mut flaw = None;
    let (stream, h2) = match tls {
        None => (Stream::Plain(tcp), false),
        Some(tls) => match Box::pin(handshake(&context, tls, tcp)).await {
            Some(Negotiated::Plain(tcp)) => {
                peer.secure = false;
                flaw = Some(FramingError::Unencrypted);
                (Stream::Plain(tcp), false)
            }
            Some(Negotiated::Tls(tls)) => {
                let agreed = tls.get_ref().1;
                let h2 = agreed.alpn_protocol() == Some(b"h2");
                // A proxy's is not its clients'.
                let certificates = agreed.peer_certificates().filter(|_| !peer.trusted);
                let certificate = certificates.and_then(<[_]>::first);
                peer.certificate = certificate
                    .and_then(client_certificate::shown)
                    .map(Arc::new);
                (Stream::Tls(tls), h2)
            }
            None => return,
        },
    };
    let activity = Arc::new(Activity::new(context.clock.now()));
    if let Some(flaw) = flaw {
        // Its answer ends the connection.
        activity.flawed(1, flaw);
    }
    let wire = ConnIo::new(stream, Arc::clone(&activity), context.clock, counted);
    let client = Arc::new(Client {
        context,
        peer,
        activity,
        unfinished: h2.then(Unfinished::default),
    });
    if h2 {
        Box::pin(over_http2(client, wire)).await;
    } else {
        over_http1(client, wire).await;
    }
}

/// Serves a connection of the gateway in front of this engine until it ends. Each request names its
/// client.
pub(super) async fn serve_gateway(context: Arc<ConnContext>, unix: UnixStream, counted: Counted) {
    let peer = Peer {
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        secure: false,
        trusted: true,
        is_gateway: true,
        certificate: None,
    };
    let activity = Arc::new(Activity::new(context.clock.now()));
    let stream = Stream::Unix(unix);
    let wire = ConnIo::new(stream, Arc::clone(&activity), context.clock, counted);
    let client = Arc::new(Client {
        context,
        peer,
        activity,
        unfinished: None,
    });
    over_http1(client, wire).await;
}

/// Reads the client's address from the proxy's header, and counts the connection for it.
async fn introduced(context: &ConnContext, accepted: Accepted) -> Result<Accepted, Refused> {
    let Accepted {
        mut tcp,
        mut peer,
        tls,
        mut counted,
    } = accepted;
    let header = timeout(context.timeouts.handshake, proxy_protocol::read(&mut tcp));
    match header.await {
        Ok(Ok(Some(client))) => {
            peer.address = client;
            peer.trusted = context.trusts(client.ip());
            if !peer.trusted {
                let permit = counted.permit.of(client.ip());
                counted.permit = permit.map_err(refused)?;
            }
        }
        // The proxy names no client: forwarding headers on this connection are not believed.
        Ok(Ok(None)) => peer.trusted = false,
        Ok(Err(error)) => {
            tracing::debug!(%error, proxy = %peer.address, "not introduced");
            return Err(Refused::ProxyHeader);
        }
        Err(_) => return Err(Refused::ProxyHeader),
    }
    Ok(Accepted {
        tcp,
        peer,
        tls,
        counted,
    })
}

/// The protocol of a connection to a TLS port.
enum Negotiated {
    Tls(Box<TlsStream<ReadAhead>>),
    /// HTTP without TLS: it gets an error response.
    Plain(TcpStream),
}

async fn shake_hands(tls: Acceptor, tcp: TcpStream) -> io::Result<Negotiated> {
    let mut first = [0];
    // No record of TLS begins with a letter (RFC 8446 §5.1), every method of HTTP with a capital
    // one.
    if tcp.peek(&mut first).await? == 1 && first[0].is_ascii_uppercase() {
        return Ok(Negotiated::Plain(tcp));
    }
    tls.accept(tcp)
        .await
        .map(|tls| Negotiated::Tls(Box::new(tls)))
}

async fn handshake(context: &ConnContext, tls: Acceptor, tcp: TcpStream) -> Option<Negotiated> {
    let count = |result| context.metrics.handshake(result, false, None);
    match timeout(context.timeouts.handshake, shake_hands(tls, tcp)).await {
        Err(_) => count(Handshake::Timeout),
        Ok(Err(error)) => {
            tracing::debug!(%error, "TLS handshake failed");
            count(Handshake::Failed);
        }
        Ok(Ok(Negotiated::Plain(tcp))) => {
            count(Handshake::Failed);
            return Some(Negotiated::Plain(tcp));
        }
        Ok(Ok(Negotiated::Tls(stream))) => {
            let agreed = stream.get_ref().1;
            let result = match agreed.handshake_kind() {
                Some(HandshakeKind::Resumed) => Handshake::Resumed,
                _ => Handshake::Full,
            };
            let tls13 = agreed.protocol_version() == Some(ProtocolVersion::TLSv1_3);
            context
                .metrics
                .handshake(result, tls13, agreed.alpn_protocol());
            return Some(Negotiated::Tls(stream));
        }
    }
    None
}

async fn over_http1(client: Arc<Client>, mut wire: ConnIo) {
    // The first request may already be in the TLS buffers, so the first thing is never to wait for
    // the socket.
    while let Some(quiet) = Box::pin(exchange(&client, wire)).await {
        wire = quiet;
        if !next(&client, &wire).await {
            let _ = timeout(CLOSE_TIMEOUT, wire.shutdown()).await;
            return;
        }
    }
}

/// Parked: waits for the next request's first bytes. False: the connection has been kept long
/// enough.
async fn next(client: &Client, wire: &ConnIo) -> bool {
    let context = &client.context;
    let limit = client.activity.idle_timeout(&context.timeouts);
    let quiet = context.clock.since(client.activity.moved());
    tokio::select! {
        biased;
        readable = wire.readable() => readable.is_ok(),
        () = drained(client) => false,
        () = sleep(limit.saturating_sub(quiet)) => false,
    }
}

/// Waits for the drain, and then for the first request if none has come.
async fn drained(client: &Client) {
    client.context.drain.begun().await;
    if client.activity.is_fresh() {
        sleep(FIRST_REQUEST).await;
    }
}

/// Serves requests until the connection has ended (`None`) or has become quiet.
async fn exchange(client: &Arc<Client>, wire: ConnIo) -> Option<ConnIo> {
    let context = &client.context;
    let service = service_fn(|request| answer(Arc::clone(client), request));
    let mut connection = context
        .http1
        .serve_connection(TokioIo::new(wire), service)
        .with_upgrades();
    let verdict = |now| client.activity.http1(now, &context.timeouts, PARK_AFTER);
    let options = DriveOptions {
        tick: context.ticks.http1,
        verdict,
        leave: UpgradeableConnection::graceful_shutdown,
    };
    let end = drive(client, Pin::new(&mut connection), options).await;
    let parts = connection.into_parts()?;
    let mut wire = parts.io.into_inner();
    match end {
        End::Cut => None,
        End::Over => {
            linger(context, &wire).await;
            None
        }
        End::Quiet => {
            wire.unread(parts.read_buf);
            Some(wire)
        }
    }
}

/// Discards input after the gateway's half-close, until the peer closes its side too.
async fn linger(context: &ConnContext, wire: &ConnIo) {
    let discard = async { while let Ok(Ok(1..)) = timeout(SILENCE, wire.throw_away()).await {} };
    tokio::select! {
        biased;
        _ = timeout(LINGER, discard) => {}
        _ = context.drain.begun() => {}
    }
}

async fn over_http2(client: Arc<Client>, mut wire: ConnIo) {
    let context = &client.context;
    wire.watch_frames();
    // Boxed: hyper moves a request's future several times before it is polled.
    let service = service_fn(|request| Box::pin(answer(Arc::clone(&client), request)));
    let connection = pin!(context.http2.serve_connection(TokioIo::new(wire), service));
    let verdict = |now| {
        let limit = context.timeouts.body_idle;
        let unfinished = client.unfinished.as_ref();
        let stuck = unfinished.is_some_and(|u| u.drop_blocked(now, limit) == Found::Stuck);
        match client.activity.http2(now, &context.timeouts) {
            IdleAction::Wait if stuck => IdleAction::Finish,
            verdict => verdict,
        }
    };
    drive(
        &client,
        connection,
        DriveOptions {
            tick: context.ticks.http2,
            verdict,
            leave: http2::Connection::graceful_shutdown,
        },
    )
    .await;
}

/// The parameters of `drive`.
struct DriveOptions<C, V> {
    /// The interval between calls of `verdict`.
    tick: Duration,
    /// Returns the action for the connection, by its activity.
    verdict: V,
    /// Ends it after the requests in flight.
    leave: fn(Pin<&mut C>),
}

/// The outcome of driving a hyper connection.
enum End {
    /// It can be parked.
    Quiet,
    /// One of the two sides wanted no more of it.
    Over,
    /// It was too slow.
    Cut,
}

/// Drives a connection of hyper's.
async fn drive<C: Future<Output = hyper::Result<()>>, V: Fn(u64) -> IdleAction>(
    client: &Client,
    mut connection: Pin<&mut C>,
    options: DriveOptions<C, V>,
) -> End {
    let context = &client.context;
    let mut timer = pin!(sleep(options.tick));
    let mut drain = pin!(context.drain.begun());
    let mut listening = false;
    let (mut drained, mut leaving) = (None, None);
    poll_fn(|cx| {
        loop {
            // Polled once, the drain wakes us; to poll it every time would take a lock every time.
            if drained.is_none() && (!listening || context.drain.has_begun()) {
                listening = true;
                if drain.as_mut().poll(cx).is_ready() {
                    drained = Some(context.clock.now());
                }
            }
            if let (Some(since), None) = (drained, leaving)
                && (!client.activity.is_fresh() || context.clock.since(since) >= FIRST_REQUEST)
            {
                leaving = Some(context.clock.now());
                (options.leave)(connection.as_mut());
            }
            if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
                if let Err(error) = ended {
                    report(client, &error);
                }
                return Poll::Ready(End::Over);
            }
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            let now = context.clock.now();
            match ((options.verdict)(now), leaving) {
                (IdleAction::Wait, _) | (IdleAction::Park, Some(_)) => {}
                (IdleAction::Park, None) => return Poll::Ready(End::Quiet),
                (IdleAction::Finish, None) => {
                    leaving = Some(now);
                    (options.leave)(connection.as_mut());
                }
                (IdleAction::Finish, Some(since))
                    if context.clock.since(since) < context.timeouts.keep_alive => {}
                (IdleAction::Finish, Some(_)) | (IdleAction::Close, _) => {
                    return Poll::Ready(End::Cut);
                }
            }
            timer.as_mut().reset(Instant::now() + options.tick);
        }
    })
    .await
}

/// Reports an error that ended a hyper connection; hyper has answered unreadable input itself, if
/// at all.
fn report(client: &Client, error: &hyper::Error) {
    if error.is_parse() {
        let gateway = &client.context.gateway;
        gateway.metrics.malformed();
        http::unreadable(gateway, &client.peer, error.is_parse_too_large());
    }
    tracing::debug!(
        error = error as &dyn std::error::Error,
        "a connection has failed"
    );
}
