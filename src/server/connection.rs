//! The life of one connection: handshake, requests, and between them a rest that costs little.
//!
//! hyper speaks HTTP. It keeps its buffers as long as its connection lives, so a quiet HTTP/1.1 connection is taken
//! out of hyper's hands (parked) until the peer sends again: that saves two thirds of its memory.

use super::answer::answer;
use super::pulse::{Pulse, Verdict};
use super::wire::{Counted, Stream, Wire};
use super::worker::Worker;
use crate::http::Peer;
use crate::metrics::Handshake;
use hyper::server::conn::http1::UpgradeableConnection;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::{HandshakeKind, ProtocolVersion};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// A quiet HTTP/1.1 connection is parked after this time. Our choice: a new start in hyper costs about 2 µs, which
/// ten times a second is nothing, and when thousands connect at once few are in hyper's hands at the same time.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long the peer may take to let us say goodbye (TLS `close_notify`).
const GOODBYE: Duration = Duration::from_secs(1);

/// How long a drain waits for the first request of a connection: whoever has just connected is about to send it, and
/// would take the end of the connection for a failure. Our choice.
const FIRST_REQUEST: Duration = Duration::from_secs(1);

/// Who is at the other end, and how it behaves.
pub(super) struct Client {
    pub(super) worker: Arc<Worker>,
    pub(super) peer: Peer,
    pub(super) pulse: Arc<Pulse>,
}

/// A connection just accepted.
pub(super) struct Accepted {
    pub(super) tcp: TcpStream,
    pub(super) address: SocketAddr,
    /// `None`: plain HTTP.
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) counted: Counted,
}

/// Serves a connection until it ends.
pub(super) async fn serve(worker: Arc<Worker>, accepted: Accepted) {
    let Accepted {
        tcp,
        address,
        tls,
        counted,
    } = accepted;
    // Only latency is lost when it fails.
    let _ = tcp.set_nodelay(true);
    let (stream, h2) = match tls {
        None => (Stream::Plain(tcp), false),
        Some(tls) => match Box::pin(handshake(&worker, tls, tcp)).await {
            Some(tls) => {
                let h2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
                (Stream::Tls(Box::new(tls)), h2)
            }
            None => return,
        },
    };
    let pulse = Arc::new(Pulse::new(worker.clock.now()));
    let peer = Peer {
        address,
        secure: matches!(stream, Stream::Tls(_)),
    };
    let wire = Wire::new(stream, Arc::clone(&pulse), worker.clock, counted);
    let client = Arc::new(Client {
        worker,
        peer,
        pulse,
    });
    if h2 {
        Box::pin(over_http2(client, wire)).await;
    } else {
        over_http1(client, wire).await;
    }
}

async fn handshake(
    worker: &Worker,
    tls: TlsAcceptor,
    tcp: TcpStream,
) -> Option<TlsStream<TcpStream>> {
    let count = |result| worker.metrics.handshake(result, false, None);
    match timeout(worker.timeouts.handshake, tls.accept(tcp)).await {
        Err(_) => count(Handshake::Timeout),
        Ok(Err(error)) => {
            tracing::debug!(%error, "TLS handshake failed");
            count(Handshake::Failed);
        }
        Ok(Ok(stream)) => {
            let agreed = stream.get_ref().1;
            let result = match agreed.handshake_kind() {
                Some(HandshakeKind::Resumed) => Handshake::Resumed,
                _ => Handshake::Full,
            };
            let tls13 = agreed.protocol_version() == Some(ProtocolVersion::TLSv1_3);
            worker
                .metrics
                .handshake(result, tls13, agreed.alpn_protocol());
            return Some(stream);
        }
    }
    None
}

async fn over_http1(client: Arc<Client>, mut wire: Wire) {
    // The first request may already be in the TLS buffers, so the first thing is never to wait for the socket.
    while let Some(quiet) = Box::pin(exchange(&client, wire)).await {
        wire = quiet;
        if !next(&client, &wire).await {
            let _ = timeout(GOODBYE, wire.shutdown()).await;
            return;
        }
    }
}

/// Parked: waits for the next request's first bytes. False: the connection has been kept long enough.
async fn next(client: &Client, wire: &Wire) -> bool {
    let worker = &client.worker;
    let limit = client.pulse.patience(&worker.timeouts);
    let quiet = worker.clock.since(client.pulse.moved());
    tokio::select! {
        biased;
        readable = wire.readable() => readable.is_ok(),
        () = drained(client) => false,
        () = sleep(limit.saturating_sub(quiet)) => false,
    }
}

/// Waits for the drain, and then for the first request if none has come.
async fn drained(client: &Client) {
    client.worker.drain.begun().await;
    if client.pulse.is_fresh() {
        sleep(FIRST_REQUEST).await;
    }
}

/// Serves requests until the connection is over (`None`) or has become quiet.
async fn exchange(client: &Arc<Client>, wire: Wire) -> Option<Wire> {
    let worker = &client.worker;
    let service = service_fn(|request| answer(Arc::clone(client), request));
    let mut connection = worker
        .http1
        .serve_connection(TokioIo::new(wire), service)
        .with_upgrades();
    let verdict = |now| client.pulse.http1(now, &worker.timeouts, PATIENCE);
    let care = Care {
        tick: worker.ticks.http1,
        verdict,
        leave: UpgradeableConnection::graceful_shutdown,
    };
    if !attend(client, Pin::new(&mut connection), care).await {
        return None;
    }
    let parts = connection.into_parts()?;
    let mut wire = parts.io.into_inner();
    wire.unread(parts.read_buf);
    Some(wire)
}

async fn over_http2(client: Arc<Client>, mut wire: Wire) {
    let worker = &client.worker;
    wire.watch_frames();
    let service = service_fn(|request| answer(Arc::clone(&client), request));
    let connection = pin!(worker.http2.serve_connection(TokioIo::new(wire), service));
    let verdict = |now| client.pulse.http2(now, &worker.timeouts);
    attend(
        &client,
        connection,
        Care {
            tick: worker.ticks.http2,
            verdict,
            leave: http2::Connection::graceful_shutdown,
        },
    )
    .await;
}

/// How a connection is looked after.
struct Care<C, V> {
    /// How often to ask for the verdict.
    tick: Duration,
    /// What to do with it, by its pulse.
    verdict: V,
    /// Ends it after what is under way.
    leave: fn(Pin<&mut C>),
}

/// Drives a connection of hyper's. True: it can be parked; false: it is over.
async fn attend<C: Future, V: Fn(u64) -> Verdict>(
    client: &Client,
    mut connection: Pin<&mut C>,
    care: Care<C, V>,
) -> bool {
    let worker = &client.worker;
    let mut timer = pin!(sleep(care.tick));
    let mut drain = pin!(worker.drain.begun());
    let mut listening = false;
    let (mut drained, mut leaving) = (None, None);
    poll_fn(|cx| {
        loop {
            // Polled once, the drain wakes us; to poll it every time would take a lock every time.
            if drained.is_none() && (!listening || worker.drain.has_begun()) {
                listening = true;
                if drain.as_mut().poll(cx).is_ready() {
                    drained = Some(worker.clock.now());
                }
            }
            if let (Some(since), None) = (drained, leaving)
                && (!client.pulse.is_fresh() || worker.clock.since(since) >= FIRST_REQUEST)
            {
                leaving = Some(worker.clock.now());
                (care.leave)(connection.as_mut());
            }
            if connection.as_mut().poll(cx).is_ready() {
                return Poll::Ready(false);
            }
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            let now = worker.clock.now();
            match ((care.verdict)(now), leaving) {
                (Verdict::Wait, _) | (Verdict::Park, Some(_)) => {}
                (Verdict::Park, None) => return Poll::Ready(true),
                (Verdict::Finish, None) => {
                    leaving = Some(now);
                    (care.leave)(connection.as_mut());
                }
                (Verdict::Finish, Some(since))
                    if worker.clock.since(since) < worker.timeouts.keep_alive => {}
                (Verdict::Finish, Some(_)) | (Verdict::Close, _) => return Poll::Ready(false),
            }
            timer.as_mut().reset(Instant::now() + care.tick);
        }
    })
    .await
}
