//! The client as a trusted proxy reports it: `X-Forwarded-For`, `-Proto` and `-Host`. Not read from
//! other peers.
//!
//! `Forwarded` (RFC 7239) is not read: the proxies that people use write the older headers by
//! default, and two sources could contradict each other.

use super::Peer;
use super::host::is_host;
use super::request_context::RequestContext;
use crate::config::Networks;
use crate::gateway::Gateway;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use std::net::{IpAddr, SocketAddr};

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// The client of a trusted proxy.
pub(super) fn client(gateway: &Gateway, proxy: &Peer, headers: &HeaderMap) -> Peer {
    let found = address(headers, &gateway.config.server.trusted_proxies);
    let secure = last(headers, &PROTO).map(|proto| proto.eq_ignore_ascii_case("https"));
    Peer {
        address: found.map_or(proxy.address, |ip| SocketAddr::new(ip, 0)),
        secure: secure.unwrap_or(proxy.secure),
        trusted: true,
        is_gateway: proxy.is_gateway,
        certificate: None,
    }
}

/// The host that the client requested from a trusted proxy. It is passed on, and identifies
/// same-origin pages; the runtime is chosen by `Host`.
pub(super) fn host<'c>(ctx: &RequestContext<'c>) -> Option<&'c HeaderValue> {
    let headers = ctx.peer.trusted.then_some(&ctx.head.headers)?;
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => Some(host).filter(|host| is_host(host)),
        _ => None,
    }
}

/// Every host in every `X-Forwarded-Host` of a trusted proxy, in order; empty: one is no text.
pub(super) fn hosts<'c>(ctx: &RequestContext<'c>) -> impl Iterator<Item = &'c str> + use<'c> {
    let headers = ctx.peer.trusted.then_some(&ctx.head.headers);
    let lines = headers
        .into_iter()
        .flat_map(|headers| headers.get_all(HOST));
    let hosts = lines.flat_map(|line| line.to_str().unwrap_or_default().split(','));
    hosts.map(str::trim)
}

/// The last address that is not itself a trusted proxy's. Each proxy adds the address that it saw
/// at the end, so what stands before an untrusted address, or before something that is no address,
/// can be forged.
fn address(headers: &HeaderMap, trusted: &Networks) -> Option<IpAddr> {
    let lines = headers.get_all(FOR).iter().rev();
    let entries = lines.flat_map(|line| line.as_bytes().rsplit(|&b| b == b','));
    let mut found = None;
    for entry in entries {
        let Some(address) = parse(entry) else { break };
        found = Some(address);
        if !trusted.contains(address) {
            break;
        }
    }
    found
}

/// An address, perhaps with a port: `192.0.2.1`, `192.0.2.1:1234`, `2001:db8::1`, `[2001:db8::1]`,
/// `[2001:db8::1]:1234`.
fn parse(entry: &[u8]) -> Option<IpAddr> {
    let entry = std::str::from_utf8(entry.trim_ascii()).ok()?;
    let bare = entry.strip_prefix('[').and_then(|e| e.strip_suffix(']'));
    let address = match bare {
        Some(bare) => bare.parse::<std::net::Ipv6Addr>().ok().map(IpAddr::V6),
        None => entry.parse().ok(),
    };
    let address = address.or_else(|| {
        entry
            .parse::<SocketAddr>()
            .ok()
            .map(|with_port| with_port.ip())
    });
    address.map(|address| address.to_canonical())
}

/// The last element of a list: the nearest proxy's.
fn last<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let line = headers.get_all(name).iter().next_back()?.to_str().ok()?;
    line.rsplit(',').next().map(str::trim)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::config::Config;

    fn found(lines: &[&str]) -> Option<String> {
        let text = "[server]\ntrusted_proxies = [\"10.0.0.0/8\", \"2001:db8::/32\"]";
        let config = Config::parse(text, "test.toml", std::path::Path::new("")).unwrap();
        let headers: HeaderMap = lines
            .iter()
            .map(|line| (FOR, HeaderValue::from_bytes(line.as_bytes()).unwrap()))
            .collect();
        address(&headers, &config.server.trusted_proxies).map(|address| address.to_string())
    }

    #[test]
    fn the_client_is_the_last_address_that_is_no_trusted_proxy() {
        for (lines, client) in [
            (&["192.0.2.1"][..], Some("192.0.2.1")),
            (&["203.0.113.9, 192.0.2.1"], Some("192.0.2.1")),
            (
                &["203.0.113.9, 192.0.2.1,10.1.2.3 ,\t10.0.0.1"],
                Some("192.0.2.1"),
            ),
            (
                &["203.0.113.9", "192.0.2.1, 10.0.0.1", "10.0.0.2"],
                Some("192.0.2.1"),
            ),
            (&["10.0.0.3, 10.0.0.2"], Some("10.0.0.3")),
            (&["2001:db8::1, ::ffff:10.0.0.1"], Some("2001:db8::1")),
            (&["192.0.2.1:4711, [2001:db8::1]:80"], Some("192.0.2.1")),
            (&["[2001:db9::1]"], Some("2001:db9::1")),
            (&["::ffff:192.0.2.1"], Some("192.0.2.1")),
            (&[], None),
            (&[""], None),
        ] {
            assert_eq!(found(lines).as_deref(), client, "{lines:?}");
        }
    }

    #[test]
    fn an_invalid_address_ends_the_search_at_the_last_valid_one() {
        for (line, client) in [
            ("192.0.2.1, unknown, 10.0.0.1", Some("10.0.0.1")),
            ("192.0.2.1, , 10.0.0.1", Some("10.0.0.1")),
            ("192.0.2.1, 10.0.0.1,", None),
            ("192.0.2.1, x", None),
            ("192.0.2.1 10.0.0.1", None),
            ("\u{e9}", None),
            ("[192.0.2.1]", None),
            ("192.0.2.1:99999", None),
        ] {
            assert_eq!(found(&[line]).as_deref(), client, "{line}");
        }
    }

    #[test]
    fn of_several_protocols_the_nearest_proxys_is_used() {
        let headers = |line| HeaderMap::from_iter([(PROTO, HeaderValue::from_static(line))]);
        assert_eq!(last(&headers("http, https"), &PROTO), Some("https"));
        assert_eq!(last(&headers("https"), &PROTO), Some("https"));
        assert_eq!(last(&HeaderMap::new(), &PROTO), None);
    }
}
