//! A worker: one thread, its own runtime, its own sockets, its own connections.

use super::clock::Clock;
use super::conn_io::Counted;
use super::connection::{self, Accepted};
use super::drain::Drain;
use super::tls::Tls;
use crate::config::{self, Timeouts};
use crate::gateway::Gateway;
use crate::http::Peer;
use crate::metrics::{Metrics, Refused};
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use limits::conn_limit::{ConnLimit, LimitReached, Permit};
use std::convert::Infallible;
use std::io;
use std::net::{self, IpAddr, SocketAddr};
use std::pin::pin;
use std::process;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Sender, channel};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// How often the activity of a busy HTTP/1.1 connection is checked.
const TICK: Duration = Duration::from_millis(100);
/// The same for HTTP/2, whose connections stay in hyper's hands while they are idle.
const TICK_HTTP2: Duration = Duration::from_secs(2);
/// How often an HTTP/2 peer is asked whether it is still there. Our choice.
const PING: Duration = Duration::from_secs(30);
/// An HTTP/2 connection's window, in streams' windows. Our choice: a few uploads at a time at full speed.
const WINDOWS: u32 = 4;
/// How much of an HTTP/2 stream's answer is buffered for sending.
const SEND_BUFFER: usize = 64 * 1024;
/// How much of an HTTP/1.1 body is read and sent at once: four records of TLS. A quiet connection keeps none of it.
const BUFFER: usize = 64 * 1024;
/// Before the next try when the system has no descriptors or memory for a connection.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// How often the activity of connections is checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ticks {
    pub(super) http1: Duration,
    pub(super) http2: Duration,
}

impl Ticks {
    /// Often enough to keep every time limit by a quarter.
    fn new(timeouts: &Timeouts) -> Self {
        let shortest = timeouts
            .header
            .min(timeouts.body_idle)
            .min(timeouts.keep_alive)
            / 4;
        let tick = |usual: Duration| usual.min(shortest).max(Duration::from_millis(10));
        Self {
            http1: tick(TICK),
            http2: tick(TICK_HTTP2),
        }
    }
}

/// What all connections of one worker share.
pub(super) struct Worker {
    pub(super) gateway: Arc<Gateway>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) timeouts: Timeouts,
    pub(super) ticks: Ticks,
    pub(super) clock: Clock,
    pub(super) drain: Drain,
    pub(super) http1: http1::Builder,
    pub(super) http2: http2::Builder<TokioExecutor>,
    conn_limit: Arc<ConnLimit>,
    tls: Option<Arc<Tls>>,
    runtime: OnceLock<Handle>,
}

impl Worker {
    pub(super) fn new(
        gateway: &Arc<Gateway>,
        metrics: &Arc<Metrics>,
        conn_limit: &Arc<ConnLimit>,
        tls: Option<&Arc<Tls>>,
    ) -> Arc<Self> {
        let config = &gateway.config;
        Arc::new(Self {
            gateway: Arc::clone(gateway),
            metrics: Arc::clone(metrics),
            timeouts: config.timeouts.clone(),
            ticks: Ticks::new(&config.timeouts),
            clock: Clock::start(),
            drain: Drain::default(),
            http1: speak_http1(&config.limits),
            http2: speak_http2(&config.limits, &config.timeouts),
            conn_limit: Arc::clone(conn_limit),
            tls: tls.cloned(),
            runtime: OnceLock::new(),
        })
    }

    /// Where its tasks run, once it has started.
    pub(super) fn runtime(&self) -> Option<Handle> {
        self.runtime.get().cloned()
    }

    /// Starts the thread; `alive` is dropped when it has ended. A worker that dies takes the process with it:
    /// half a gateway would be worse than one that is started again.
    pub(super) fn start(
        self: &Arc<Self>,
        secure: Vec<net::TcpListener>,
        plain: Option<net::TcpListener>,
        alive: Sender<Infallible>,
    ) -> io::Result<()> {
        let worker = Arc::clone(self);
        let body = move || {
            let fuse = AbortOnDrop;
            if let Err(error) = worker.run(secure, plain) {
                tracing::error!(%error, "a worker has died");
                return;
            }
            std::mem::forget(fuse);
            drop(alive);
        };
        thread::Builder::new()
            .name("worker".to_owned())
            .spawn(body)
            .map(|_| ())
    }

    fn run(
        self: Arc<Self>,
        secure: Vec<net::TcpListener>,
        plain: Option<net::TcpListener>,
    ) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let _ = self.runtime.set(runtime.handle().clone());
        runtime.block_on(async {
            let (alive, mut gone) = channel(1);
            let mut accepting = JoinSet::new();
            let secure = secure
                .into_iter()
                .map(|listener| (listener, self.tls.clone()));
            for (listener, tls) in secure.chain(plain.map(|listener| (listener, None))) {
                let listener = TcpListener::from_std(listener)?;
                accepting.spawn(Arc::clone(&self).accept(listener, tls, alive.clone()));
            }
            drop(alive);
            while let Some(ended) = accepting.join_next().await {
                ended?;
            }
            let patience = self.drain.begun().await;
            if timeout(patience, gone.recv()).await.is_err() {
                tracing::warn!("some connections were not finished in time and are cut off");
            }
            Ok(())
        })
    }

    /// Accepts until the drain. What waits in the system's queue by then is still served.
    async fn accept(
        self: Arc<Self>,
        listener: TcpListener,
        tls: Option<Arc<Tls>>,
        alive: Sender<Infallible>,
    ) {
        let mut drain = pin!(self.drain.begun());
        let mut complained = false;
        loop {
            let accepted = tokio::select! {
                biased;
                accepted = listener.accept() => accepted,
                _ = &mut drain => return,
            };
            match accepted {
                Ok((tcp, address)) => {
                    complained = false;
                    let tls = tls.as_ref().map(|tls| tls.acceptor());
                    self.welcome((tcp, address), tls, &alive);
                }
                Err(error) if left_already(&error) => {}
                Err(error) => {
                    if !complained {
                        tracing::error!(%error, "cannot accept connections for now; see `ulimit -n` and [limits] connections");
                    }
                    complained = true;
                    sleep(RETRY_DELAY).await;
                }
            }
        }
    }

    fn welcome(
        self: &Arc<Self>,
        (tcp, address): (TcpStream, SocketAddr),
        tls: Option<TlsAcceptor>,
        alive: &Sender<Infallible>,
    ) {
        let trusted = self.trusts(address.ip());
        let permit = match self.admit(address.ip(), trusted) {
            Ok(permit) => permit,
            Err(reason) => return self.metrics.refused(reason),
        };
        let counted = Counted {
            permit,
            _open: self.metrics.connection(),
            _alive: alive.clone(),
        };
        let peer = Peer {
            address,
            secure: tls.is_some(),
            trusted,
            certificate: None,
        };
        let accepted = Accepted {
            tcp,
            peer,
            tls,
            counted,
        };
        tokio::spawn(connection::serve(Arc::clone(self), accepted));
    }

    /// Whether this is a proxy that is believed what it says of its clients.
    pub(super) fn trusts(&self, address: IpAddr) -> bool {
        self.gateway.config.server.trusted_proxies.contains(address)
    }

    /// Admits a connection. A proxy's counts for no address: it brings many clients.
    fn admit(&self, address: IpAddr, trusted: bool) -> Result<Permit, Refused> {
        match (trusted, self.gateway.config.server.proxy_protocol) {
            (true, _) => self.conn_limit.admit().map_err(refused),
            (false, false) => {
                let permit = self
                    .conn_limit
                    .admit()
                    .and_then(|permit| permit.of(address));
                permit.map_err(refused)
            }
            // What it says of itself could be anything.
            (false, true) => Err(Refused::Untrusted),
        }
    }
}

/// How metrics call a lack of room.
pub(super) fn refused(full: LimitReached) -> Refused {
    match full {
        LimitReached::Total => Refused::Total,
        LimitReached::Address => Refused::Address,
    }
}

/// Ends the process when it is dropped: the worker it belongs to has not ended as it should.
struct AbortOnDrop;

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        process::exit(1);
    }
}

/// Whether only this one connection is lost (accept(2): the peer was gone before it was accepted).
fn left_already(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    )
}

fn speak_http1(limits: &config::Limits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        // The activity is what times out: hyper's limit would also end a connection that only rests.
        .header_read_timeout(None)
        .half_close(false)
        .max_headers(limits.headers)
        .max_header_size(limits.header_bytes)
        .max_buf_size(limits.header_bytes.max(BUFFER));
    builder
}

fn speak_http2(limits: &config::Limits, timeouts: &Timeouts) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(timeouts.header)
        .max_concurrent_streams(limits.h2_streams)
        .initial_stream_window_size(limits.h2_window)
        .initial_connection_window_size(
            limits
                .h2_window
                .saturating_mul(WINDOWS)
                .min(i32::MAX.unsigned_abs()),
        )
        .max_send_buf_size(SEND_BUFFER)
        // Streams that a client opens and resets at once (CVE-2023-44487), or makes us reset (CVE-2025-8671).
        .max_pending_accept_reset_streams(limits.h2_resets)
        .max_local_error_reset_streams(limits.h2_resets)
        // The library also bounds CONTINUATION frames by this (CVE-2024-27316).
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX));
    builder
}
