//! A quota: a weighted semaphore with a share per client address, and larger shares for the IPv6
//! networks around it, or per user.
//!
//! A unit is a response in progress, or a byte of memory. Units that are not available are refused
//! at once ([`Grant::try_grow`]) or waited for ([`Grant::grow`]); a waiter holds units of its own
//! address and networks only.

use crate::ip_prefix::{IpPrefix, MAX_LEVELS};
use crate::party::Party;
use dashmap::DashMap;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::{Semaphore, SemaphorePermit};

/// A limited number of units, shared by all threads.
#[derive(Debug)]
pub struct Quota {
    total: Semaphore,
    total_units: usize,
    per_party: usize,
    /// The units available to each party that has a grant, and to the networks around it.
    shares: DashMap<Party, Arc<Semaphore>>,
}

/// Not enough units are available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exhausted;

/// Units of one party, given back when dropped. May be empty, and grow.
#[derive(Debug)]
pub struct Grant {
    units: usize,
    // Dropped in this order: an entry is removed when nothing refers to its share.
    /// The smallest level first; IPv4 has one.
    shares: [Option<Arc<Semaphore>>; MAX_LEVELS],
    entry: Entry,
}

/// A party in the map, at every level, removed with the last grant that refers to it.
#[derive(Debug)]
struct Entry {
    quota: Arc<Quota>,
    party: Party,
}

impl Quota {
    /// With `total` units, of which one address (IPv6: one /64) or user may have `per_party`; see
    /// [`IpPrefix::share`] for the /56 and the /48.
    pub fn new(total: usize, per_party: usize) -> Arc<Self> {
        // No more than can be taken at once.
        let most = u32::MAX as usize;
        let total = total.min(Semaphore::MAX_PERMITS);
        Arc::new(Self {
            total: Semaphore::new(total),
            total_units: total,
            per_party: per_party.min(total).min(most),
            shares: DashMap::new(),
        })
    }

    /// A grant without units, for one address.
    pub fn grant(self: &Arc<Self>, address: IpAddr) -> Grant {
        self.grant_to(address.into())
    }

    /// A grant without units, for one address or user.
    pub fn grant_to(self: &Arc<Self>, party: Party) -> Grant {
        let mut shares = [const { None }; MAX_LEVELS];
        for (share, (party, factor)) in shares.iter_mut().zip(party.levels()) {
            *share = Some(self.share(party, factor));
        }
        Grant {
            units: 0,
            shares,
            entry: Entry {
                quota: Arc::clone(self),
                party,
            },
        }
    }

    /// The units available to a party.
    fn share(&self, party: Party, factor: u32) -> Arc<Semaphore> {
        let share = self.shares.entry(party).or_insert_with(|| {
            let units = IpPrefix::share(self.total_units, self.per_party, factor);
            Arc::new(Semaphore::new(units))
        });
        Arc::clone(&share)
    }
}

impl Grant {
    /// Its units.
    pub fn units(&self) -> usize {
        self.units
    }

    /// The units that its party may have.
    pub fn most(&self) -> usize {
        self.entry.quota.per_party
    }

    /// Returns whether it is a user's.
    pub fn is_of_user(&self) -> bool {
        self.entry.party.is_user()
    }

    /// Takes more units, or none if they are not available.
    pub fn try_grow(&mut self, units: usize) -> Result<(), Exhausted> {
        let many = u32::try_from(units).map_err(|_| Exhausted)?;
        // Acquired units are released if a wider level refuses.
        let mut acquired = [const { None }; MAX_LEVELS];
        for (permit, share) in acquired.iter_mut().zip(self.shares.iter().flatten()) {
            *permit = Some(share.try_acquire_many(many).map_err(|_| Exhausted)?);
        }
        let total = self.entry.quota.total.try_acquire_many(many);
        total.map_err(|_| Exhausted)?.forget();
        let acquired = acquired.into_iter().flatten();
        acquired.for_each(SemaphorePermit::forget);
        self.units += units;
        Ok(())
    }

    /// Waits for more units; for more than the share of an address, for the whole share.
    /// Cancel-safe.
    pub async fn grow(&mut self, units: usize) {
        let units = units.min(self.entry.quota.per_party);
        let many = u32::try_from(units).unwrap_or(u32::MAX);
        // The address first: a waiter that has exhausted its share must not block the queue of all
        // addresses. The semaphores are never closed, so there is no error.
        let mut acquired = [const { None }; MAX_LEVELS];
        for (permit, share) in acquired.iter_mut().zip(self.shares.iter().flatten()) {
            *permit = share.acquire_many(many).await.ok();
        }
        if let Ok(total) = self.entry.quota.total.acquire_many(many).await {
            total.forget();
            let acquired = acquired.into_iter().flatten();
            acquired.for_each(SemaphorePermit::forget);
            self.units += units;
        }
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.entry.quota.total.add_permits(self.units);
        for share in self.shares.iter().flatten() {
            share.add_permits(self.units);
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let unused = |_: &Party, share: &Arc<Semaphore>| Arc::strong_count(share) == 1;
        for (party, _) in self.party.levels() {
            self.quota.shares.remove_if(&party, unused);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use smol_str::SmolStr;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn take(quota: &Arc<Quota>, address: &str, units: usize) -> Result<Grant, Exhausted> {
        let mut grant = quota.grant(ip(address));
        grant.try_grow(units).map(|()| grant)
    }

    fn poll(future: std::pin::Pin<&mut impl Future<Output = ()>>) -> Poll<()> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn an_address_has_its_share_and_others_have_the_rest() {
        let quota = Quota::new(10, 6);
        let first = take(&quota, "10.0.0.1", 6).unwrap();
        assert_eq!(take(&quota, "10.0.0.1", 1).unwrap_err(), Exhausted);
        assert_eq!(take(&quota, "10.0.0.2", 5).unwrap_err(), Exhausted);
        let second = take(&quota, "10.0.0.2", 4).unwrap();
        assert_eq!((first.units(), second.units()), (6, 4));
        drop(first);
        assert!(take(&quota, "10.0.0.3", 6).is_ok());
    }

    #[test]
    fn an_ipv6_subscriber_has_one_share() {
        let quota = Quota::new(10, 5);
        let _first = take(&quota, "2001:db8:1:2::1", 5).unwrap();
        assert!(take(&quota, "2001:db8:1:2:ffff::9", 1).is_err());
        assert!(take(&quota, "2001:db8:1:3::1", 1).is_ok());
    }

    #[test]
    fn wider_ipv6_prefixes_have_larger_shares_and_never_all() {
        let quota = Quota::new(32, 1);
        let count = |networks: &mut dyn Iterator<Item = u32>| {
            let one = |n| take(&quota, &format!("2001:db8:0:{n:x}::1"), 1);
            networks.map_while(|n| one(n).ok()).collect::<Vec<_>>()
        };
        let of_56 = count(&mut (0..32));
        assert_eq!(of_56.len(), 4, "a /59 has the share of its /56");
        let of_48 = count(&mut (1..32).map(|n| n << 8));
        assert_eq!(of_56.len() + of_48.len(), 8, "of the /48");
        assert!(take(&quota, "2001:db8:1::1", 1).is_ok());
        drop((of_56, of_48));
        assert!(quota.shares.is_empty());
        assert_eq!(quota.total.available_permits(), 32);

        // Where one address may use half, the networks around it may not use all.
        let quota = Quota::new(8, 4);
        let _half = take(&quota, "2001:db8::1", 4).unwrap();
        let _quarter = take(&quota, "2001:db8:0:1::1", 2).unwrap();
        assert!(take(&quota, "2001:db8:0:2::1", 1).is_err());
        assert!(take(&quota, "2001:db8:0:100::1", 1).is_err());
        assert!(take(&quota, "2001:db8:1::1", 2).is_ok());
    }

    #[test]
    fn a_waiter_of_an_exhausted_network_waits_for_that_network_only() {
        let quota = Quota::new(32, 1);
        let mut taken: Vec<_> = (0..4)
            .map(|n| take(&quota, &format!("2001:db8:0:{n}::1"), 1).unwrap())
            .collect();
        let mut waiting = quota.grant(ip("2001:db8:0:9::1"));
        let mut growing = Box::pin(waiting.grow(1));
        assert!(poll(growing.as_mut()).is_pending());
        assert!(take(&quota, "2001:db8:0:100::1", 1).is_ok());
        taken.pop();
        assert!(poll(growing.as_mut()).is_ready());
    }

    #[test]
    fn a_refused_request_takes_no_units() {
        let quota = Quota::new(10, 10);
        let mut grant = take(&quota, "10.0.0.1", 8).unwrap();
        assert!(grant.try_grow(3).is_err());
        assert!(take(&quota, "10.0.0.2", 3).is_err());
        assert!(grant.try_grow(2).is_ok());
        assert_eq!(grant.units(), 10);
    }

    #[test]
    fn a_waiter_holds_no_units_until_enough_are_released() {
        let quota = Quota::new(4, 3);
        let first = take(&quota, "10.0.0.1", 3).unwrap();
        let mut second = quota.grant(ip("10.0.0.1"));
        let mut growing = Box::pin(second.grow(2));
        assert!(poll(growing.as_mut()).is_pending());
        // One unit is left; the waiter does not hold it.
        drop(take(&quota, "10.0.0.2", 1).unwrap());
        drop(first);
        assert!(poll(growing.as_mut()).is_ready());
        drop(growing);
        assert_eq!(second.units(), 2);
    }

    #[test]
    fn no_state_is_kept_for_addresses_without_grants() {
        let quota = Quota::new(2, 1);
        let first = take(&quota, "10.0.0.1", 1).unwrap();
        let mut waiting = quota.grant(ip("10.0.0.1"));
        {
            let growing = pin!(waiting.grow(1));
            assert!(poll(growing).is_pending());
        }
        drop(first);
        assert_eq!(quota.shares.len(), 1);
        drop(waiting);
        assert!(quota.shares.is_empty());
        assert_eq!(quota.total.available_permits(), 2);
    }

    #[test]
    fn a_user_has_one_share_at_all_addresses() {
        let quota = Quota::new(10, 6);
        let units = |user: &'static str, units: usize| {
            let mut grant = quota.grant_to(Party::User(SmolStr::new_static(user)));
            grant.try_grow(units).map(|()| grant)
        };
        let _first = units("ann", 6).unwrap();
        assert_eq!(units("ann", 1).unwrap_err(), Exhausted);
        assert!(units("bob", 4).is_ok());
    }

    #[test]
    fn a_request_above_the_share_gets_the_whole_share_without_waiting() {
        let quota = Quota::new(10, 4);
        let mut grant = quota.grant(ip("10.0.0.1"));
        assert!(poll(pin!(grant.grow(100))).is_ready());
        assert_eq!(grant.units(), 4);
    }
}
