//! Limits concurrency, in total and per client address: each admission holds a permit.
//!
//! Counts connections, requests to an upstream, tunnels, and channels that have not signed in; depends on none of them.

use crate::ip_prefix::IpPrefix;
use dashmap::DashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts who is here, whatever the thread.
#[derive(Debug)]
pub struct Crowd {
    total: usize,
    per_address: usize,
    open: AtomicUsize,
    /// An IPv6 address counts with its /64.
    addresses: DashMap<IpPrefix, usize>,
}

/// There is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// In total.
    Total,
    /// For more of this address.
    Address,
}

/// The right to be here; given back when dropped.
#[derive(Debug)]
pub struct Permit {
    crowd: Arc<Crowd>,
    /// The address that it counts for; `None`: it counts for none, or it is not known yet.
    address: Option<IpPrefix>,
}

impl Crowd {
    /// Has room for so many, and for so many of one address.
    pub fn new(total: usize, per_address: usize) -> Arc<Self> {
        Arc::new(Self {
            total,
            per_address,
            open: AtomicUsize::new(0),
            addresses: DashMap::new(),
        })
    }

    /// Admits one whose address is not known yet, or does not count.
    pub fn admit(self: &Arc<Self>) -> Result<Permit, Full> {
        if self.open.fetch_add(1, Ordering::Relaxed) >= self.total {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return Err(Full::Total);
        }
        Ok(Permit {
            crowd: Arc::clone(self),
            address: None,
        })
    }
}

impl Permit {
    /// The same for one of this address, unless it has too many.
    pub fn of(mut self, address: IpAddr) -> Result<Self, Full> {
        let address = IpPrefix::of(address);
        let mut count = self.crowd.addresses.entry(address).or_insert(0);
        if *count >= self.crowd.per_address {
            return Err(Full::Address);
        }
        *count += 1;
        drop(count);
        self.address = Some(address);
        Ok(self)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.crowd.open.fetch_sub(1, Ordering::Relaxed);
        let Some(address) = self.address else { return };
        self.crowd.addresses.remove_if_mut(&address, |_, count| {
            *count = count.saturating_sub(1);
            *count == 0
        });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn admit(crowd: &Arc<Crowd>, address: &str) -> Result<Permit, Full> {
        crowd.admit()?.of(ip(address))
    }

    #[test]
    fn the_total_is_a_limit_and_who_leaves_makes_room() {
        let crowd = Crowd::new(2, 9);
        let first = admit(&crowd, "10.0.0.1").unwrap();
        let _second = admit(&crowd, "10.0.0.2").unwrap();
        assert_eq!(admit(&crowd, "10.0.0.3").unwrap_err(), Full::Total);
        drop(first);
        assert!(admit(&crowd, "10.0.0.3").is_ok());
    }

    #[test]
    fn one_address_cannot_take_the_place_of_others() {
        let crowd = Crowd::new(9, 1);
        let first = admit(&crowd, "10.0.0.1").unwrap();
        assert_eq!(admit(&crowd, "10.0.0.1").unwrap_err(), Full::Address);
        assert_eq!(admit(&crowd, "::ffff:10.0.0.1").unwrap_err(), Full::Address);
        assert!(admit(&crowd, "10.0.0.2").is_ok());
        drop(first);
        assert!(admit(&crowd, "10.0.0.1").is_ok());
    }

    #[test]
    fn an_ipv6_subscriber_is_one_address() {
        let crowd = Crowd::new(9, 1);
        let _first = admit(&crowd, "2001:db8:1:2::1").unwrap();
        assert_eq!(
            admit(&crowd, "2001:db8:1:2:ffff::9").unwrap_err(),
            Full::Address
        );
        assert!(admit(&crowd, "2001:db8:1:3::1").is_ok());
    }

    #[test]
    fn nothing_is_kept_of_addresses_that_have_left() {
        let crowd = Crowd::new(9, 1);
        drop(admit(&crowd, "10.0.0.1").unwrap());
        assert!(crowd.addresses.is_empty());
        assert_eq!(crowd.open.load(Ordering::Relaxed), 0);
    }
}
