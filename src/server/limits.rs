//! How many connections may be open: in all, and of one address. A permit is held while the connection lives.
//!
//! Knows nothing of sockets.

use crate::metrics::Refused;
use dashmap::DashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the open connections of all workers.
#[derive(Debug)]
pub(super) struct Limits {
    total: usize,
    per_address: usize,
    open: AtomicUsize,
    addresses: DashMap<IpAddr, usize>,
}

/// The right to have one connection open; given back when dropped.
#[derive(Debug)]
pub(super) struct Permit {
    limits: Arc<Limits>,
    address: IpAddr,
}

impl Limits {
    pub(super) fn new(total: usize, per_address: usize) -> Arc<Self> {
        Arc::new(Self {
            total,
            per_address,
            open: AtomicUsize::new(0),
            addresses: DashMap::new(),
        })
    }

    /// Admits a connection, or says which limit it would exceed.
    pub(super) fn admit(self: &Arc<Self>, address: IpAddr) -> Result<Permit, Refused> {
        let address = household(address);
        if self.open.fetch_add(1, Ordering::Relaxed) >= self.total {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return Err(Refused::Total);
        }
        let mut count = self.addresses.entry(address).or_insert(0);
        if *count >= self.per_address {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return Err(Refused::Address);
        }
        *count += 1;
        Ok(Permit {
            limits: Arc::clone(self),
            address,
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.limits.open.fetch_sub(1, Ordering::Relaxed);
        self.limits
            .addresses
            .remove_if_mut(&self.address, |_, count| {
                *count = count.saturating_sub(1);
                *count == 0
            });
    }
}

/// What counts as one address: an IPv4 address, also one written as IPv6, or the /64 that an IPv6 subscriber
/// gets at the least (RFC 6177 §2).
fn household(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_total_is_a_limit_and_a_closed_connection_makes_room() {
        let limits = Limits::new(2, 9);
        let first = limits.admit(ip("10.0.0.1")).unwrap();
        let _second = limits.admit(ip("10.0.0.2")).unwrap();
        assert_eq!(limits.admit(ip("10.0.0.3")).unwrap_err(), Refused::Total);
        drop(first);
        assert!(limits.admit(ip("10.0.0.3")).is_ok());
    }

    #[test]
    fn one_address_cannot_take_the_place_of_others() {
        let limits = Limits::new(9, 1);
        let first = limits.admit(ip("10.0.0.1")).unwrap();
        assert_eq!(limits.admit(ip("10.0.0.1")).unwrap_err(), Refused::Address);
        assert_eq!(
            limits.admit(ip("::ffff:10.0.0.1")).unwrap_err(),
            Refused::Address
        );
        assert!(limits.admit(ip("10.0.0.2")).is_ok());
        drop(first);
        assert!(limits.admit(ip("10.0.0.1")).is_ok());
    }

    #[test]
    fn an_ipv6_subscriber_is_one_address() {
        let limits = Limits::new(9, 1);
        let _first = limits.admit(ip("2001:db8:1:2::1")).unwrap();
        assert_eq!(
            limits.admit(ip("2001:db8:1:2:ffff::9")).unwrap_err(),
            Refused::Address
        );
        assert!(limits.admit(ip("2001:db8:1:3::1")).is_ok());
    }

    #[test]
    fn nothing_is_kept_of_addresses_that_have_left() {
        let limits = Limits::new(9, 1);
        drop(limits.admit(ip("10.0.0.1")).unwrap());
        assert!(limits.addresses.is_empty());
        assert_eq!(limits.open.load(Ordering::Relaxed), 0);
    }
}
