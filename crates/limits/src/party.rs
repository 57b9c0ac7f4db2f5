//! The parties that have shares of what is limited: blocks of client addresses, and users.

use crate::ip_prefix::IpPrefix;
use smol_str::SmolStr;
use std::net::IpAddr;

/// A block of addresses for clients that are not known, a user for those that are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Party {
    /// The block of addresses of a client.
    Addresses(IpPrefix),
    /// The name of a user.
    User(SmolStr),
}

impl Party {
    /// Returns whether the party has signed in.
    pub fn is_user(&self) -> bool {
        matches!(self, Self::User(_))
    }

    /// The party and the [networks around it](IpPrefix::levels), each with the factor by which its
    /// share is larger.
    pub(crate) fn levels(&self) -> impl Iterator<Item = (Self, u32)> + use<> {
        let (networks, user) = match self {
            Self::Addresses(prefix) => (Some(prefix.levels()), None),
            user @ Self::User(_) => (None, Some((user.clone(), 1))),
        };
        let networks = networks.into_iter().flatten();
        let networks = networks.map(|(prefix, factor)| (Self::Addresses(prefix), factor));
        networks.chain(user)
    }
}

impl From<IpPrefix> for Party {
    fn from(prefix: IpPrefix) -> Self {
        Self::Addresses(prefix)
    }
}

impl From<IpAddr> for Party {
    fn from(address: IpAddr) -> Self {
        Self::Addresses(IpPrefix::of(address))
    }
}
