//! Limits concurrency, in total, per client address and per IPv6 network: each admission holds a
//! permit.
//!
//! Counts connections, requests to an upstream, tunnels, and channels that have not signed in;
//! depends on none of them.

use crate::ip_prefix::IpPrefix;
use dashmap::DashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Limits concurrency, in total and per client address.
#[derive(Debug)]
pub struct ConnLimit {
    total: usize,
    per_address: usize,
    open: AtomicUsize,
    /// An IPv6 address counts with its /64, /56 and /48.
    addresses: DashMap<IpPrefix, usize>,
}

/// The limit that refused an admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitReached {
    /// The total.
    Total,
    /// That of the address.
    Address,
}

/// An admission; released on drop.
#[derive(Debug)]
pub struct Permit {
    owner: Arc<ConnLimit>,
    /// The address that it counts for; `None`: it counts for none, or it is not known yet.
    address: Option<IpPrefix>,
}

impl ConnLimit {
    /// A limit in total, and one for each address; see [`IpPrefix::share`] for IPv6 networks.
    pub fn new(total: usize, per_address: usize) -> Arc<Self> {
        Arc::new(Self {
            total,
            per_address,
            open: AtomicUsize::new(0),
            addresses: DashMap::new(),
        })
    }

    /// Admits one whose address is not known yet, or does not count.
    pub fn admit(self: &Arc<Self>) -> Result<Permit, LimitReached> {
        if self.open.fetch_add(1, Ordering::Relaxed) >= self.total {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return Err(LimitReached::Total);
        }
        Ok(Permit {
            owner: Arc::clone(self),
            address: None,
        })
    }

    /// Counts one of a prefix; false: it has too many.
    fn add(&self, prefix: IpPrefix, limit: usize) -> bool {
        if limit == 0 {
            return false;
        }
        let mut count = self.addresses.entry(prefix).or_insert(0);
        let free = *count < limit;
        *count += usize::from(free);
        free
    }

    fn remove(&self, prefix: IpPrefix) {
        self.addresses.remove_if_mut(&prefix, |_, count| {
            *count = count.saturating_sub(1);
            *count == 0
        });
    }
}

impl Permit {
    /// The same for one of this address, unless it has too many.
    pub fn of(mut self, address: IpAddr) -> Result<Self, LimitReached> {
        let address = IpPrefix::of(address);
        let owner = &self.owner;
        for (level, (prefix, factor)) in address.levels().enumerate() {
            let limit = IpPrefix::share(owner.total, owner.per_address, factor);
            if !owner.add(prefix, limit) {
                let narrower = address.levels().take(level);
                narrower.for_each(|(prefix, _)| owner.remove(prefix));
                return Err(LimitReached::Address);
            }
        }
        self.address = Some(address);
        Ok(self)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.owner.open.fetch_sub(1, Ordering::Relaxed);
        let Some(address) = self.address else { return };
        for (prefix, _) in address.levels() {
            self.owner.remove(prefix);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn admit(owner: &Arc<ConnLimit>, address: &str) -> Result<Permit, LimitReached> {
        owner.admit()?.of(ip(address))
    }

    #[test]
    fn the_total_is_limited_and_a_closed_connection_frees_its_permit() {
        let owner = ConnLimit::new(2, 9);
        let first = admit(&owner, "10.0.0.1").unwrap();
        let _second = admit(&owner, "10.0.0.2").unwrap();
        assert_eq!(admit(&owner, "10.0.0.3").unwrap_err(), LimitReached::Total);
        drop(first);
        assert!(admit(&owner, "10.0.0.3").is_ok());
    }

    #[test]
    fn one_address_cannot_use_up_the_limit_of_others() {
        let owner = ConnLimit::new(9, 1);
        let first = admit(&owner, "10.0.0.1").unwrap();
        assert_eq!(
            admit(&owner, "10.0.0.1").unwrap_err(),
            LimitReached::Address
        );
        assert_eq!(
            admit(&owner, "::ffff:10.0.0.1").unwrap_err(),
            LimitReached::Address
        );
        assert!(admit(&owner, "10.0.0.2").is_ok());
        drop(first);
        assert!(admit(&owner, "10.0.0.1").is_ok());
    }

    #[test]
    fn an_ipv6_subscriber_is_one_address() {
        let owner = ConnLimit::new(9, 1);
        let _first = admit(&owner, "2001:db8:1:2::1").unwrap();
        assert_eq!(
            admit(&owner, "2001:db8:1:2:ffff::9").unwrap_err(),
            LimitReached::Address
        );
        assert!(admit(&owner, "2001:db8:1:3::1").is_ok());
    }

    #[test]
    fn wider_ipv6_prefixes_have_larger_shares_and_never_all() {
        let owner = ConnLimit::new(10_000, 256);
        let open = |networks: std::ops::Range<u32>| {
            let one = |n| admit(&owner, &format!("2001:db8:0:{n:x}::1"));
            let all = networks.flat_map(|n| (0..256).map(move |_| n));
            all.filter_map(|n| one(n).ok()).collect::<Vec<_>>()
        };
        let of_56 = open(0..40);
        assert_eq!(of_56.len(), 1024, "40 /64s have the share of their /56");
        let of_48 = open(0x100..0x120);
        assert_eq!(of_48.len(), 1024, "another /56 has what is left of the /48");
        let beyond = admit(&owner, "2001:db8:0:200::1").unwrap_err();
        assert_eq!(beyond, LimitReached::Address);
        assert!(admit(&owner, "2001:db8:1::1").is_ok());
        drop((of_56, of_48));
        assert!(owner.addresses.is_empty(), "what is refused is not counted");
        assert_eq!(owner.open.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn no_state_is_kept_for_disconnected_addresses() {
        let owner = ConnLimit::new(9, 1);
        drop(admit(&owner, "10.0.0.1").unwrap());
        assert!(owner.addresses.is_empty());
        assert_eq!(owner.open.load(Ordering::Relaxed), 0);
    }
}
