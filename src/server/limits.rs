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
    /// Whose it is; `None`: it counts for nobody, or it is not known yet.
    address: Option<IpAddr>,
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

    /// Admits a connection, or says that there are too many in all.
    pub(super) fn admit(self: &Arc<Self>) -> Result<Permit, Refused> {
        if self.open.fetch_add(1, Ordering::Relaxed) >= self.total {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return Err(Refused::Total);
        }
        Ok(Permit {
            limits: Arc::clone(self),
            address: None,
        })
    }
}

impl Permit {
    /// The same for a connection of this address, unless it has too many.
    pub(super) fn of(mut self, address: IpAddr) -> Result<Self, Refused> {
        let address = household(address);
        let mut count = self.limits.addresses.entry(address).or_insert(0);
        if *count >= self.limits.per_address {
            return Err(Refused::Address);
        }
        *count += 1;
        drop(count);
        self.address = Some(address);
        Ok(self)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.limits.open.fetch_sub(1, Ordering::Relaxed);
        let Some(address) = self.address else { return };
        self.limits.addresses.remove_if_mut(&address, |_, count| {
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

    fn admit(limits: &Arc<Limits>, address: &str) -> Result<Permit, Refused> {
        limits.admit()?.of(ip(address))
    }

    #[test]
    fn the_total_is_a_limit_and_a_closed_connection_makes_room() {
        let limits = Limits::new(2, 9);
        let first = admit(&limits, "10.0.0.1").unwrap();
        let _second = admit(&limits, "10.0.0.2").unwrap();
        assert_eq!(admit(&limits, "10.0.0.3").unwrap_err(), Refused::Total);
        drop(first);
        assert!(admit(&limits, "10.0.0.3").is_ok());
    }

    #[test]
    fn one_address_cannot_take_the_place_of_others() {
        let limits = Limits::new(9, 1);
        let first = admit(&limits, "10.0.0.1").unwrap();
        assert_eq!(admit(&limits, "10.0.0.1").unwrap_err(), Refused::Address);
        assert_eq!(
            admit(&limits, "::ffff:10.0.0.1").unwrap_err(),
            Refused::Address
        );
        assert!(admit(&limits, "10.0.0.2").is_ok());
        drop(first);
        assert!(admit(&limits, "10.0.0.1").is_ok());
    }

    #[test]
    fn an_ipv6_subscriber_is_one_address() {
        let limits = Limits::new(9, 1);
        let _first = admit(&limits, "2001:db8:1:2::1").unwrap();
        assert_eq!(
            admit(&limits, "2001:db8:1:2:ffff::9").unwrap_err(),
            Refused::Address
        );
        assert!(admit(&limits, "2001:db8:1:3::1").is_ok());
    }

    #[test]
    fn nothing_is_kept_of_addresses_that_have_left() {
        let limits = Limits::new(9, 1);
        drop(admit(&limits, "10.0.0.1").unwrap());
        assert!(limits.addresses.is_empty());
        assert_eq!(limits.open.load(Ordering::Relaxed), 0);
    }
}
