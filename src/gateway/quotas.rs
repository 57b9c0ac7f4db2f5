//! Resources with a share for each client address or user: memory of requests and responses, and
//! `WebSockets` to flows.

use crate::config::Limits;
use limits::conn_limit::ConnLimit;
use limits::quota::Quota;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Bytes for sign-in forms at a time, and of one address (IPv6: of one /64; the /56 and the /48
/// around it have 4 and 8 times as much). Our choice: an attacker needs 32 IPv4 addresses or four
/// /48s to keep new addresses out, and an office of a thousand people signs in at once.
const SIGN_INS: usize = 32 << 20;
const SIGN_INS_PER_ADDRESS: usize = 1 << 20;
/// The same beside it, for addresses from which users have signed in before. Our choice: a quarter.
const KNOWN_SIGN_INS: usize = SIGN_INS / 4;

/// Requests that search or verify the audit log at a time. Our choice: each keeps a core busy for a
/// fraction of a second.
const LOG_SEARCHES: usize = 2;
/// Copies of the audit log that are sent at a time, and to one address. Our choice: each holds a
/// file open.
const LOG_COPIES: usize = 4;
const LOG_COPIES_PER_ADDRESS: usize = 2;

/// Resources with a share for each client address or user.
#[derive(Debug)]
pub struct Shares {
    /// Bytes of sign-in forms; separate, so that other requests cannot exhaust them.
    sign_in: Arc<Quota>,
    /// The same for addresses from which users have signed in before, which other addresses cannot
    /// exhaust.
    known_sign_in: Arc<Quota>,
    /// Bytes of request bodies, responses and frames of unauthenticated callers.
    pub unauthenticated: Arc<Quota>,
    /// Bytes of request bodies and responses of users.
    pub users: Arc<Quota>,
    /// Open `WebSockets` to flows of our own engine, limited like connections: those of a trusted
    /// proxy that does not name its client do not count for an address.
    pub sockets: Arc<ConnLimit>,
    /// Requests that search or verify the audit log at a time.
    pub log_searches: Arc<Semaphore>,
    /// Copies of the audit log that are sent at a time.
    pub log_copies: Arc<Quota>,
}

impl Shares {
    pub(super) fn new(limits: &Limits) -> Self {
        // Whatever the limits of all, one body of the largest size must fit, with its head.
        let least = |body: usize| body + limits.header_bytes;
        let quota = |total: usize, per_address: usize, body: usize| {
            Quota::new(total.max(least(body)), per_address.max(least(body)))
        };
        Self {
            sign_in: quota(SIGN_INS, SIGN_INS_PER_ADDRESS, limits.sign_in_body),
            known_sign_in: quota(KNOWN_SIGN_INS, SIGN_INS_PER_ADDRESS, limits.sign_in_body),
            unauthenticated: quota(
                limits.unauthenticated_bytes,
                limits.unauthenticated_bytes_per_address,
                limits.body,
            ),
            users: quota(limits.user_bytes, limits.bytes_per_user, limits.body),
            sockets: ConnLimit::new(limits.connections, limits.connections_per_address),
            log_searches: Arc::new(Semaphore::new(LOG_SEARCHES)),
            log_copies: Quota::new(LOG_COPIES, LOG_COPIES_PER_ADDRESS),
        }
    }

    /// The quotas for a sign-in form, the first to be tried first; `known`: users have signed in
    /// from there before.
    pub fn sign_in(&self, known: bool) -> impl Iterator<Item = &Arc<Quota>> {
        let reserved = known.then_some(&self.known_sign_in);
        reserved.into_iter().chain([&self.sign_in])
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::config::{Config, DEFAULT};
    use limits::quota::Grant;
    use std::net::IpAddr;
    use std::path::Path;

    fn hold(shares: &Shares, address: &str, known: bool) -> Option<Grant> {
        let address: IpAddr = address.parse().unwrap();
        shares.sign_in(known).find_map(|quota| {
            let mut grant = quota.grant(address);
            grant.try_grow(16 << 10).ok().map(|()| grant)
        })
    }

    fn shares() -> Shares {
        let config = Config::parse(DEFAULT, "gateway.toml", Path::new("")).unwrap();
        Shares::new(&config.limits)
    }

    #[test]
    fn unfinished_sign_ins_of_one_ipv6_subscriber_leave_memory_to_others() {
        let shares = shares();
        let hold_all = |n: u32| {
            let address = format!("2001:db8:0:{n:x}::1");
            std::iter::from_fn(move || Some(address.clone()))
        };
        let held: Vec<_> = (0..32)
            .flat_map(|n| hold_all(n).map_while(|address| hold(&shares, &address, false)))
            .collect();
        assert_eq!(held.len(), 4 * 64, "4 MiB of the /56");
        assert!(hold(&shares, "192.0.2.1", false).is_some());
    }

    #[test]
    fn memory_is_reserved_for_known_addresses() {
        let shares = shares();
        let addresses = (0..32).map(|n| format!("192.0.2.{n}"));
        let held: Vec<_> = addresses
            .flat_map(|address| (0..64).map(move |_| address.clone()))
            .map(|address| hold(&shares, &address, false).unwrap())
            .collect();
        assert_eq!(held.len(), 32 * 64);
        assert!(hold(&shares, "198.51.100.1", false).is_none());
        let known: Vec<_> = (0..100)
            .map_while(|_| hold(&shares, "198.51.100.1", true))
            .collect();
        assert_eq!(known.len(), 64, "its share");
        drop(held);
        assert!(hold(&shares, "198.51.100.1", true).is_some(), "of the rest");
    }
}
