//! Networks of addresses, as `["10.0.0.0/8", "::1"]`: whose information about clients is trusted,
//! and from where a user, a service token or a route may be used.
//!
//! Knows addresses only. An IPv4 address written as IPv6 (`::ffff:10.0.0.1`) is the IPv4 address,
//! here and everywhere.

use super::error::SpannedError;
use super::raw::List;
use super::setting::Source;
use ipnet::{IpNet, Ipv4Net};
use std::net::IpAddr;
use std::sync::Arc;
use toml::Spanned;

/// The expected form of a network, for errors.
const EXPECTED: &str =
    "an address or a network without host bits, such as \"10.0.0.0/8\" or \"::1\"";

/// Some networks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Networks(Vec<IpNet>);

impl Networks {
    /// Returns whether an address lies in one of them.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Networks that were written down before; one that cannot be read admits no address.
    pub fn stored(texts: &[String]) -> Self {
        Self(texts.iter().filter_map(|text| parse(text)).collect())
    }

    /// The networks as they are written.
    pub fn texts(&self) -> Vec<String> {
        self.0.iter().map(IpNet::to_string).collect()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The network that holds every address of its family, if there is one.
    pub(super) fn everything(&self) -> Option<IpNet> {
        self.0.iter().copied().find(|n| n.prefix_len() == 0)
    }
}

/// Reads a list of networks; none without the key.
pub(super) fn networks(list: List, source: &Source<'_>) -> Result<Networks, SpannedError> {
    let networks = source.list(list, EXPECTED, parse)?;
    Ok(Networks(networks.unwrap_or_default()))
}

/// Reads a list of networks that clients must be in; `None` without the key.
pub(super) fn allowed(
    list: List,
    source: &Source<'_>,
) -> Result<Option<Arc<Networks>>, SpannedError> {
    let span = list.as_ref().map(Spanned::span);
    let found = networks(list, source)?;
    match span {
        Some(span) if found.is_empty() => {
            let sentence =
                "networks has none, so no client could be in one: name one, or leave the key out";
            Err(SpannedError::rule(span, sentence))
        }
        Some(_) => Ok(Some(Arc::new(found))),
        None => Ok(None),
    }
}

/// Returns whether a text is a network.
pub fn is_network(text: &str) -> bool {
    parse(text).is_some()
}

/// Host bits (`10.0.0.1/8`) are refused: either the address or the length is a slip of the pen.
fn parse(text: &str) -> Option<IpNet> {
    let network = match text.parse::<IpAddr>() {
        Ok(address) => address.into(),
        Err(_) => text.parse::<IpNet>().ok()?,
    };
    (network.addr() == network.network()).then(|| as_ipv4(network))
}

fn as_ipv4(network: IpNet) -> IpNet {
    let mapped = match network {
        IpNet::V6(v6) => v6
            .addr()
            .to_ipv4_mapped()
            .zip(v6.prefix_len().checked_sub(96)),
        IpNet::V4(_) => None,
    };
    mapped
        .and_then(|(address, length)| Ipv4Net::new(address, length).ok())
        .map_or(network, IpNet::V4)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn of(networks: &[&str]) -> Networks {
        Networks(networks.iter().map(|n| parse(n).unwrap()).collect())
    }

    #[test]
    fn an_address_is_in_a_network_however_both_are_written() {
        let networks = of(&[
            "10.0.0.0/8",
            "192.0.2.7",
            "2001:db8::/32",
            "::1",
            "::ffff:172.16.0.0/108",
        ]);
        for inside in [
            "10.255.0.1",
            "::ffff:10.1.2.3",
            "192.0.2.7",
            "2001:db8:ffff::1",
            "::1",
            "172.31.0.1",
        ] {
            assert!(networks.contains(inside.parse().unwrap()), "{inside}");
        }
        for outside in [
            "11.0.0.1",
            "192.0.2.8",
            "2001:db9::1",
            "::2",
            "172.32.0.1",
            "::10.0.0.1",
        ] {
            assert!(!networks.contains(outside.parse().unwrap()), "{outside}");
        }
        assert!(!Networks::default().contains("::1".parse().unwrap()));
    }

    #[test]
    fn an_invalid_network_is_refused() {
        for text in [
            "",
            "x",
            "10.0.0.1/8",
            "10.0.0.0/33",
            "10.0.0/8",
            "::1/64",
            "010.0.0.1",
            "fe80::1%eth0",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_network_of_all_addresses_is_detected() {
        assert!(of(&["10.0.0.0/8"]).everything().is_none());
        assert!(of(&["10.0.0.0/8", "0.0.0.0/0"]).everything().is_some());
        assert!(of(&["::/0"]).everything().is_some());
    }
}
