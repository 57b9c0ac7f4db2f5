//! Tracks the activity of one connection, and decides by its age: wait, park, close.
//!
//! The wire and the answers write down what happens; the connection asks for the verdict a few
//! times a second. So a time limit costs a request no timer. Times are milliseconds since the
//! worker started. No clock here.

use crate::config::Timeouts;
use crate::http::FramingError;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The life signs of one connection. Only its own worker writes here; atomics make it `Sync`, not
/// shared.
#[derive(Debug, Default)]
pub(super) struct Activity {
    /// Requests whose answer is not yet handed over.
    in_flight: AtomicU32,
    /// Of these, answers that wait for the peer to take what there is.
    offered: AtomicU32,
    /// True if something written may still be in our buffers.
    unflushed: AtomicBool,
    /// Requests that have come.
    requests: AtomicU32,
    /// The request, counted from 1, that has more than one reading, and why; none comes after it.
    flaw: OnceLock<(u32, FramingError)>,
    /// True if HTTP has ended and another protocol is in use.
    tunnel: AtomicBool,
    /// When the first byte of a request's head came, plus one; 0: none has.
    head: AtomicU64,
    /// When bytes last went in or out.
    moved: AtomicU64,
    /// When the last answer was over, or the connection began.
    quiet: AtomicU64,
    /// When an answer was last asked for more.
    asked: AtomicU64,
}

/// The action for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdleAction {
    /// Nothing.
    Wait,
    /// Nothing has happened for a while and nothing is half-done: its buffers can go.
    Park,
    /// Nothing has happened for longer than a connection may be kept: end it politely.
    Finish,
    /// The peer is too slow: end it.
    Close,
}

impl Activity {
    pub(super) fn new(now: u64) -> Self {
        Self {
            moved: now.into(),
            quiet: now.into(),
            asked: now.into(),
            ..Self::default()
        }
    }

    /// Bytes have come in.
    pub(super) fn received(&self, now: u64) {
        self.moved.store(now, Relaxed);
        if self.in_flight.load(Relaxed) == 0 && self.head.load(Relaxed) == 0 {
            self.head.store(now + 1, Relaxed);
        }
    }

    /// Bytes have been taken over for sending.
    pub(super) fn sent(&self, now: u64) {
        self.moved.store(now, Relaxed);
        self.unflushed.store(true, Relaxed);
    }

    /// All bytes taken over are with the system.
    pub(super) fn flushed(&self) {
        self.unflushed.store(false, Relaxed);
    }

    /// A request's head is complete. Says what is wrong with it.
    pub(super) fn request(&self) -> Option<FramingError> {
        self.head.store(0, Relaxed);
        let before = self.requests.fetch_add(1, Relaxed);
        self.in_flight.fetch_add(1, Relaxed);
        let (number, flaw) = self.flaw.get()?;
        (*number == before.wrapping_add(1)).then_some(*flaw)
    }

    /// A head that has come has this flaw, and will be the last.
    pub(super) fn flawed(&self, number: u32, flaw: FramingError) {
        // There is one last head in a connection's life.
        let _ = self.flaw.set((number, flaw));
    }

    /// The connection changes hands.
    pub(super) fn tunnelled(&self) {
        self.tunnel.store(true, Relaxed);
    }

    /// Returns whether it has.
    pub(super) fn is_tunnel(&self) -> bool {
        self.tunnel.load(Relaxed)
    }

    /// Records the end of a request: answered, or given up.
    pub(super) fn over(&self, now: u64) {
        self.quiet.store(now, Relaxed);
        self.in_flight.fetch_sub(1, Relaxed);
    }

    /// There is something of an answer that the peer has not asked for.
    pub(super) fn offer(&self) {
        self.offered.fetch_add(1, Relaxed);
    }

    /// The peer has room for what was offered.
    pub(super) fn taken(&self) {
        self.offered.fetch_sub(1, Relaxed);
    }

    /// The peer has room for more of an answer.
    pub(super) fn asked(&self, now: u64) {
        self.asked.store(now, Relaxed);
    }

    /// Returns whether no request has come yet.
    pub(super) fn is_fresh(&self) -> bool {
        self.requests.load(Relaxed) == 0
    }

    /// When bytes last went in or out.
    pub(super) fn moved(&self) -> u64 {
        self.moved.load(Relaxed)
    }

    /// The time-out for a connection without a request.
    pub(super) fn idle_timeout(&self, limits: &Timeouts) -> Duration {
        if self.is_fresh() {
            limits.header
        } else {
            limits.keep_alive
        }
    }

    /// The action for an HTTP/1.1 connection; it may be parked `idle_timeout` after its last byte.
    pub(super) fn http1(&self, now: u64, limits: &Timeouts, idle_timeout: Duration) -> IdleAction {
        if self.too_slow(now, limits) {
            return IdleAction::Close;
        }
        let (busy, head) = (self.in_flight.load(Relaxed) > 0, self.head.load(Relaxed));
        if !busy && head > 0 && passed(head - 1, now, limits.header) {
            return IdleAction::Close;
        }
        if !busy
            && head == 0
            && !self.unflushed.load(Relaxed)
            && passed(self.moved(), now, idle_timeout)
        {
            return IdleAction::Park;
        }
        IdleAction::Wait
    }

    /// The action for an HTTP/2 connection. Its peer can keep bytes moving with PINGs, so the idle
    /// time is the time without an open stream.
    pub(super) fn http2(&self, now: u64, limits: &Timeouts) -> IdleAction {
        if self.too_slow(now, limits) {
            return IdleAction::Close;
        }
        let idle = self.in_flight.load(Relaxed) == 0;
        if idle && passed(self.quiet.load(Relaxed), now, self.idle_timeout(limits)) {
            return IdleAction::Finish;
        }
        IdleAction::Wait
    }

    /// Returns whether the peer does not take what is there for it.
    fn too_slow(&self, now: u64, limits: &Timeouts) -> bool {
        let stuck = self.unflushed.load(Relaxed) && passed(self.moved(), now, limits.body_idle);
        let unread = self.offered.load(Relaxed) > 0
            && passed(self.asked.load(Relaxed), now, limits.body_idle);
        stuck || unread
    }
}

fn passed(since: u64, now: u64, limit: Duration) -> bool {
    u128::from(now.saturating_sub(since)) >= limit.as_millis()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Timeouts = Timeouts {
        handshake: Duration::from_secs(1),
        header: Duration::from_secs(2),
        body_idle: Duration::from_secs(3),
        keep_alive: Duration::from_secs(10),
        endpoint: Duration::from_secs(20),
        sign_in_body: Duration::from_secs(5),
        body_grace: Duration::from_secs(5),
    };
    const TIMEOUT: Duration = Duration::from_millis(500);

    fn http1(activity: &Activity, now: u64) -> IdleAction {
        activity.http1(now, &LIMITS, TIMEOUT)
    }

    #[test]
    fn a_quiet_connection_is_parked() {
        let activity = Activity::new(1000);
        assert_eq!(http1(&activity, 1499), IdleAction::Wait);
        assert_eq!(http1(&activity, 1500), IdleAction::Park);
    }

    #[test]
    fn a_slow_head_is_cut_off_however_often_a_byte_comes() {
        let activity = Activity::new(0);
        for now in 0..20 {
            activity.received(now * 100);
        }
        assert_eq!(http1(&activity, 1999), IdleAction::Wait);
        assert_eq!(http1(&activity, 2000), IdleAction::Close);
    }

    #[test]
    fn a_connection_with_an_active_request_is_neither_closed_nor_parked() {
        let activity = Activity::new(0);
        activity.received(0);
        activity.request();
        assert_eq!(http1(&activity, 100_000), IdleAction::Wait);
        assert_eq!(activity.http2(100_000, &LIMITS), IdleAction::Wait);
        activity.over(100_000);
        assert_eq!(http1(&activity, 100_000), IdleAction::Park);
    }

    #[test]
    fn an_unread_response_closes_the_connection() {
        let activity = Activity::new(0);
        activity.request();
        activity.sent(100);
        assert_eq!(http1(&activity, 3099), IdleAction::Wait);
        assert_eq!(http1(&activity, 3100), IdleAction::Close);
        activity.flushed();
        assert_eq!(http1(&activity, 3100), IdleAction::Wait);
    }

    #[test]
    fn a_closed_window_ends_the_connection_but_a_slow_flow_does_not() {
        let activity = Activity::new(0);
        activity.request();
        activity.asked(100);
        activity.offer();
        assert_eq!(activity.http2(3099, &LIMITS), IdleAction::Wait);
        assert_eq!(activity.http2(3100, &LIMITS), IdleAction::Close);
        activity.taken();
        assert_eq!(activity.http2(100_000, &LIMITS), IdleAction::Wait);
    }

    #[test]
    fn pings_do_not_keep_an_http2_connection_without_streams() {
        let activity = Activity::new(0);
        activity.request();
        activity.over(100);
        for now in 1..100 {
            activity.received(now * 100);
        }
        assert_eq!(activity.http2(10_099, &LIMITS), IdleAction::Wait);
        assert_eq!(activity.http2(10_100, &LIMITS), IdleAction::Finish);
    }

    #[test]
    fn an_http2_connection_without_requests_ends_sooner() {
        assert_eq!(Activity::new(0).http2(1999, &LIMITS), IdleAction::Wait);
        assert_eq!(Activity::new(0).http2(2000, &LIMITS), IdleAction::Finish);
    }
}
