//! The state that all connections of one worker share: the gateway, the time limits, and hyper's
//! settings.

use super::clock::Clock;
use super::drain::Drain;
use crate::config::{self, Timeouts};
use crate::gateway::Gateway;
use crate::metrics::{Metrics, Refused};
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use limits::conn_limit::LimitReached;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// The interval between activity checks of a busy HTTP/1.1 connection.
const TICK: Duration = Duration::from_millis(100);
/// The same for HTTP/2, whose connections stay in hyper's hands while they are idle.
const TICK_HTTP2: Duration = Duration::from_secs(2);
/// The interval between keep-alive PINGs to an HTTP/2 peer. Our choice.
const PING: Duration = Duration::from_secs(30);
/// An HTTP/2 connection's window, in streams' windows. Our choice: a few uploads at a time at full
/// speed.
const WINDOWS: u32 = 4;
/// The maximum of an HTTP/2 stream's response that is buffered for sending.
const SEND_BUFFER: usize = 64 * 1024;
/// The maximum of an HTTP/1.1 body that is read and sent at once: four records of TLS. A quiet
/// connection keeps none of it.
const BUFFER: usize = 64 * 1024;

/// Header fields of a head that hyper parses without memory of its own for each request: its
/// default limit.
const HEADERS: usize = 100;

/// The intervals between activity checks of connections.
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

/// The state shared by all connections of one worker.
pub(super) struct ConnContext {
    pub(super) gateway: Arc<Gateway>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) timeouts: Timeouts,
    pub(super) ticks: Ticks,
    pub(super) clock: Clock,
    pub(super) drain: Drain,
    pub(super) http1: http1::Builder,
    pub(super) http2: http2::Builder<TokioExecutor>,
}

impl ConnContext {
    pub(super) fn new(gateway: &Arc<Gateway>, metrics: &Arc<Metrics>) -> Self {
        let config = &gateway.config;
        Self {
            gateway: Arc::clone(gateway),
            metrics: Arc::clone(metrics),
            timeouts: config.timeouts.clone(),
            ticks: Ticks::new(&config.timeouts),
            clock: Clock::start(),
            drain: Drain::default(),
            http1: speak_http1(&config.limits),
            http2: speak_http2(&config.limits, &config.timeouts),
        }
    }

    /// Returns whether this is the address of a trusted proxy.
    pub(super) fn trusts(&self, address: IpAddr) -> bool {
        self.gateway.config.server.trusted_proxies.contains(address)
    }
}

/// The metric label for a reached limit.
pub(super) fn refused(full: LimitReached) -> Refused {
    match full {
        LimitReached::Total => Refused::Total,
        LimitReached::Address => Refused::Address,
    }
}

fn speak_http1(limits: &config::Limits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        // The activity is what times out: hyper's limit would also end a connection that only
        // rests.
        .header_read_timeout(None)
        .half_close(false)
        .max_header_size(limits.header_bytes)
        .max_buf_size(limits.header_bytes.max(BUFFER));
    // A lower limit is checked with the request.
    if limits.headers > HEADERS {
        builder.max_headers(limits.headers);
    }
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
        // Streams that a client opens and resets at once (CVE-2023-44487), or makes us reset
        // (CVE-2025-8671).
        .max_pending_accept_reset_streams(limits.h2_resets)
        .max_local_error_reset_streams(limits.h2_resets)
        // The library also bounds CONTINUATION frames by this (CVE-2024-27316).
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX));
    builder
}
