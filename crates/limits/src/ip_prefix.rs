//! The blocks of addresses that count as one client when failures, places in a queue and the like
//! are limited.
//!
//! An IPv4 address counts by itself. IPv6 is counted three times: providers give one subscriber a
//! /64, a /56 or a /48, 256 or 65,536 networks that cost nothing (RFC 6177 §2, RIPE-690), but a /48
//! may also be a mobile network with as many subscribers. So each limit holds for the /64, and
//! larger ones hold for the /56 and the /48 around it.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// The lengths by which IPv6 is counted, and how many times a /64's limit each may use. Our choice:
/// four busy /64s in a /56, and two such /56s in a /48, are still taken for different subscribers.
const LEVELS: [(u8, u32); 3] = [(64, 1), (56, 4), (48, 8)];

/// The largest number of [`levels`](IpPrefix::levels) of an address.
pub const MAX_LEVELS: usize = LEVELS.len();

/// An IPv4 address, or an IPv6 /64, /56 or /48.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IpPrefix {
    address: IpAddr,
    /// Of an IPv6 prefix; 32 with an IPv4 address.
    length: u8,
}

impl IpPrefix {
    /// The smallest block that an address belongs to. An IPv4 address written as IPv6 is the IPv4
    /// address.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(v6) => Self::v6(v6, LEVELS[0].0),
            v4 @ IpAddr::V4(_) => Self {
                address: v4,
                length: 32,
            },
        }
    }

    /// Reads what [`Display`](fmt::Display) writes.
    pub fn parse(text: &str) -> Option<Self> {
        let Some((address, length)) = text.split_once('/') else {
            return text.parse().ok().map(Self::of);
        };
        let (address, length) = (address.parse().ok()?, length.parse().ok()?);
        let known = LEVELS.iter().any(|(level, _)| *level == length);
        known.then(|| Self::v6(address, length))
    }

    /// This block and those around it, each with the factor by which its limit is larger; the
    /// smallest comes first.
    pub fn levels(self) -> impl DoubleEndedIterator<Item = (Self, u32)> {
        let (v6, v4) = match self.address {
            IpAddr::V6(v6) => (Some(v6), None),
            IpAddr::V4(_) => (None, Some((self, 1))),
        };
        let around = v6.into_iter().flat_map(move |v6| {
            let wider = LEVELS.into_iter().filter(move |(l, _)| *l <= self.length);
            wider.map(move |(length, factor)| (Self::v6(v6, length), factor))
        });
        v4.into_iter().chain(around)
    }

    /// The share of a level in a pool of `total`, of which one address may have `per_address`:
    /// multiplied by the level's factor, but with at most three quarters of the pool, so that a
    /// network with several large shares leaves room.
    pub fn share(total: usize, per_address: usize, factor: u32) -> usize {
        let factor = usize::try_from(factor).unwrap_or(usize::MAX);
        let wider = per_address.saturating_mul(factor).min(total - total / 4);
        wider.max(per_address)
    }

    /// The prefix that one subscriber surely has: the IPv4 address, or the /56.
    #[must_use]
    pub fn subscriber(self) -> Self {
        match self.address {
            IpAddr::V6(v6) => Self::v6(v6, self.length.min(LEVELS[1].0)),
            IpAddr::V4(_) => self,
        }
    }

    fn v6(address: Ipv6Addr, length: u8) -> Self {
        let host = u128::MAX.checked_shr(length.into()).unwrap_or(0);
        Self {
            address: Ipv6Addr::from_bits(address.to_bits() & !host).into(),
            length,
        }
    }
}

impl fmt::Display for IpPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            IpAddr::V4(v4) => write!(f, "{v4}"),
            IpAddr::V6(v6) => write!(f, "{v6}/{}", self.length),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str) -> IpPrefix {
        IpPrefix::of(text.parse().unwrap())
    }

    fn levels(text: &str) -> Vec<(String, u32)> {
        let levels = of(text).levels();
        levels.map(|(p, factor)| (p.to_string(), factor)).collect()
    }

    #[test]
    fn ipv4_counts_by_address_and_ipv6_by_three_prefixes() {
        assert_eq!(levels("192.0.2.1"), [("192.0.2.1".to_owned(), 1)]);
        assert_eq!(levels("::ffff:192.0.2.1"), levels("192.0.2.1"));
        assert_eq!(
            levels("2001:db8:1:abcd::5"),
            [
                ("2001:db8:1:abcd::/64".to_owned(), 1),
                ("2001:db8:1:ab00::/56".to_owned(), 4),
                ("2001:db8:1::/48".to_owned(), 8),
            ]
        );
        assert_eq!(
            of("2001:db8:1:abcd::5").subscriber(),
            of("2001:db8:1:abff::").subscriber()
        );
    }

    #[test]
    fn text_that_is_no_prefix_is_refused() {
        for text in [
            "",
            "nowhere",
            "192.0.2.1/32",
            "2001:db8::/63",
            "2001:db8::/",
            "/64",
        ] {
            assert_eq!(IpPrefix::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_prefix_contains_its_address_and_reads_back(bits: u128, other: u128) {
            let (address, other) = (Ipv6Addr::from_bits(bits), Ipv6Addr::from_bits(other));
            for (prefix, factor) in IpPrefix::of(address.into()).levels() {
                prop_assert_eq!(IpPrefix::parse(&prefix.to_string()), Some(prefix));
                if address.to_ipv4_mapped().is_some() {
                    continue;
                }
                let same = (bits ^ other.to_bits()).leading_zeros() >= u32::from(prefix.length);
                let shared = IpPrefix::of(other.into()).levels().any(|(p, f)| p == prefix && f == factor);
                prop_assert_eq!(same, shared);
                // Any host of the prefix has it.
                let host = u128::MAX >> prefix.length;
                let neighbour = Ipv6Addr::from_bits((bits & !host) | (other.to_bits() & host));
                prop_assert!(IpPrefix::of(neighbour.into()).levels().any(|(p, _)| p == prefix));
            }
        }

        #[test]
        fn ipv4_addresses_are_never_counted_together(one: u32, other: u32) {
            let of = |bits: u32| IpPrefix::of(IpAddr::V4(bits.into()));
            prop_assert_eq!(of(one) == of(other), one == other);
            prop_assert_eq!(IpPrefix::parse(&of(one).to_string()), Some(of(one)));
        }
    }
}
