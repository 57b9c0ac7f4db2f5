//! A user and the address of a sign-in: the key of failures, and of the addresses that a user has
//! signed in from.

use crate::store::{AddressRow, FailureRow};
use crypto::sha256;
use limits::ip_prefix::IpPrefix;
use std::fmt;
use std::net::IpAddr;

/// Half of the SHA-256 of a user's name as sent: of one size however long the name, and no record
/// of the passwords that people type into the wrong field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct UserKey(u128);

/// A user and an address block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Pair {
    pub(super) user: UserKey,
    pub(super) prefix: IpPrefix,
}

impl Pair {
    pub(super) fn new(user: &str, address: IpAddr) -> Self {
        let digest = sha256(user.as_bytes());
        let half = digest.first_chunk();
        Self {
            user: UserKey(half.map_or(0, |half| u128::from_be_bytes(*half))),
            prefix: IpPrefix::of(address),
        }
    }

    /// As the store keeps a failure.
    pub(super) fn failure_row(&self, at: u64) -> FailureRow {
        FailureRow {
            user: self.user.to_string(),
            address: self.prefix.to_string(),
            at,
        }
    }

    /// As the store keeps a known address.
    pub(super) fn address_row(&self, at: u64) -> AddressRow {
        AddressRow {
            user: self.user.to_string(),
            address: self.prefix.to_string(),
            at,
        }
    }

    /// Reads what a row holds.
    pub(super) fn parse(user: &str, address: &str) -> Option<Self> {
        Some(Self {
            user: UserKey(u128::from_str_radix(user, 16).ok()?),
            prefix: IpPrefix::parse(address)?,
        })
    }

    /// The same user anywhere at one subscriber's.
    pub(super) fn of_subscriber(self) -> Self {
        Self {
            prefix: self.prefix.subscriber(),
            ..self
        }
    }
}

impl fmt::Display for UserKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}
