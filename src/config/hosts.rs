//! Host names and addresses of requests, and lists of them:
//! `["flows.example.org", "*.example.org:8443", "[::1]"]`.
//!
//! Knows how hosts are written and compared; not which requests are held against which list.

use super::error::SpannedError;
use super::raw::List;
use super::setting::Source;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use toml::Spanned;

/// The expected form of an entry, for errors.
const EXPECTED: &str = r#"a host without scheme, such as "flows.example.org", "*.example.org", "192.0.2.7:8443", "[::1]" or "*" for every host"#;

/// The host and port that a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Host<'a> {
    /// Without the root's dot at its end; an IPv6 address has its brackets.
    name: &'a str,
    port: u16,
}

impl<'a> Host<'a> {
    /// Reads the value of a `Host` header (RFC 9110 §7.2); `default_port` is that of the scheme.
    pub fn parse(text: &'a str, default_port: u16) -> Option<Self> {
        let (name, port) = split(text)?;
        let name = name.strip_suffix('.').unwrap_or(name);
        let port = match port {
            // A colon without a port means the default one (RFC 3986 §3.2.3).
            None | Some("") => default_port,
            Some(port) => port.parse().ok()?,
        };
        (!name.is_empty()).then_some(Self { name, port })
    }

    /// Returns whether it is an IP address or a loopback name (RFC 6761 §6.3). Neither is resolved
    /// by DNS, so a foreign page cannot get such an origin by DNS rebinding.
    pub fn is_local(self) -> bool {
        let loopback = |name: &str| name.eq_ignore_ascii_case("localhost");
        let last_label = self.name.rsplit('.').next();
        last_label.is_some_and(loopback) || address(self.name).is_some()
    }
}

/// Hosts that are named one by one, by their parent, or by a certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hosts(Vec<Pattern>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Pattern {
    name: Name,
    /// `None`: any.
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    Any,
    Address(IpAddr),
    Exact(String),
    /// Every name below this one.
    Below(String),
    /// Every name with one label more than this one, as a certificate's wildcard (RFC 6125 §6.4.3).
    Child(String),
}

impl Hosts {
    /// Hosts of these names, at any port; in a certificate's, `*.` matches one label.
    pub fn named<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        let names = names.into_iter().map(|text| match address(text) {
            Some(address) => Name::Address(address),
            None => match text.strip_prefix("*.") {
                Some(parent) => Name::Child(parent.to_owned()),
                None => Name::Exact(text.to_owned()),
            },
        });
        Self(names.map(|name| Pattern { name, port: None }).collect())
    }

    /// Returns whether the list has this host.
    pub fn contains(&self, host: Host<'_>) -> bool {
        let mut patterns = self.0.iter();
        patterns.any(|pattern| pattern.matches(host))
    }

    /// Returns whether the list has every host.
    pub fn is_everything(&self) -> bool {
        let any = |pattern: &Pattern| pattern.name == Name::Any && pattern.port.is_none();
        self.0.iter().any(any)
    }

    /// These hosts and others.
    #[must_use]
    pub fn and(mut self, others: &Self) -> Self {
        self.0.extend_from_slice(&others.0);
        self
    }
}

impl Pattern {
    fn matches(&self, host: Host<'_>) -> bool {
        self.port.is_none_or(|port| port == host.port) && self.name.matches(host.name)
    }
}

impl Name {
    fn matches(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Address(own) => address(name) == Some(*own),
            Self::Exact(own) => own.eq_ignore_ascii_case(name),
            Self::Below(parent) => labels_above(name, parent).is_some(),
            Self::Child(parent) => {
                labels_above(name, parent).is_some_and(|label| !label.contains('.'))
            }
        }
    }
}

/// Returns the labels of a name before its parent's; `None`: it is not below it.
fn labels_above<'n>(name: &'n str, parent: &str) -> Option<&'n str> {
    let at = name.len().checked_sub(parent.len())?;
    let (above, end) = (name.get(..at)?, name.get(at..)?);
    let above = above.strip_suffix('.')?;
    (!above.is_empty() && end.eq_ignore_ascii_case(parent)).then_some(above)
}

/// An address as it stands in a URL: IPv6 in brackets.
fn address(name: &str) -> Option<IpAddr> {
    let address = match name.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?.parse::<Ipv6Addr>().ok()?.into(),
        None => name.parse::<Ipv4Addr>().ok()?.into(),
    };
    Some(IpAddr::to_canonical(&address))
}

/// The name and the text of the port, if there is a colon.
fn split(text: &str) -> Option<(&str, Option<&str>)> {
    let Some(end) = text.find(']') else {
        return Some(match text.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        });
    };
    let (name, rest) = text.split_at_checked(end + 1)?;
    match rest {
        "" => Some((name, None)),
        rest => Some((name, Some(rest.strip_prefix(':')?))),
    }
}

/// Reads a list of hosts; `None` without the key.
pub(super) fn hosts(list: List, source: &Source<'_>) -> Result<Option<Hosts>, SpannedError> {
    Ok(source.list(list, EXPECTED, pattern)?.map(Hosts))
}

/// The same for a list that must not be empty.
pub(super) fn some_hosts(list: List, source: &Source<'_>) -> Result<Option<Hosts>, SpannedError> {
    let span = list.as_ref().map(Spanned::span).unwrap_or_default();
    let hosts = hosts(list, source)?;
    if hosts.as_ref().is_some_and(|hosts| hosts.0.is_empty()) {
        let sentence = "with an empty list no request would be answered; remove the line to answer under every name";
        return Err(SpannedError::rule(span, sentence));
    }
    Ok(hosts)
}

/// Reads the hosts of endpoints; `others` are those of everything else.
pub(super) fn endpoint_hosts(
    list: List,
    others: Option<&Hosts>,
    source: &Source<'_>,
) -> Result<Option<Hosts>, SpannedError> {
    let span = list.as_ref().map(Spanned::span).unwrap_or_default();
    let Some(hosts) = hosts(list, source)? else {
        return Ok(None);
    };
    let shared = |pattern: &Pattern| others.is_some_and(|others| others.0.contains(pattern));
    let sentence = if hosts.0.is_empty() {
        "with an empty list no endpoint would be answered; remove the line to answer endpoints under every name"
    } else if hosts.0.iter().any(|pattern| pattern.name == Name::Any) {
        "\"*\" would leave no host to the editor, the console and the admin API: name the hosts of endpoints"
    } else if hosts.0.iter().any(shared) {
        "server.hosts has the same host: under hosts of endpoints nothing else is answered, and they are answered without being in server.hosts"
    } else {
        return Ok(Some(hosts));
    };
    Err(SpannedError::rule(span, sentence))
}

fn pattern(text: &str) -> Option<Pattern> {
    if let Ok(bare) = text.parse::<Ipv6Addr>() {
        let name = Name::Address(IpAddr::V6(bare).to_canonical());
        return Some(Pattern { name, port: None });
    }
    let (name, port) = split(text)?;
    let port = match port {
        Some(port) => Some(port.parse().ok().filter(|&port| port != 0)?),
        None => None,
    };
    let name = match (name, address(name)) {
        ("*", _) => Name::Any,
        (_, Some(address)) => Name::Address(address),
        (name, None) => match name.strip_prefix("*.") {
            Some(parent) => Name::Below(host_name(parent)?),
            None => Name::Exact(host_name(name)?),
        },
    };
    Some(Pattern { name, port })
}

/// A name as DNS has it. One that ends in a number is meant as an address (WHATWG URL §3.5), and is
/// none.
fn host_name(text: &str) -> Option<String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
    let label = |label: &str| !label.is_empty() && label.bytes().all(plain);
    let numeric = |label: &str| label.bytes().all(|b| b.is_ascii_digit());
    let fine = text.split('.').all(label) && !text.rsplit('.').next().is_some_and(numeric);
    fine.then(|| text.to_ascii_lowercase())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn contains(list: &[&str], host: &str) -> bool {
        let patterns = list.iter().map(|text| pattern(text).unwrap());
        Hosts(patterns.collect()).contains(Host::parse(host, 443).unwrap())
    }

    #[test]
    fn a_list_contains_exactly_the_hosts_that_it_names() {
        for (entry, inside, outside) in [
            (
                "flows.example",
                &["flows.example", "FLOWS.Example.", "flows.example:1"][..],
                &["a.flows.example", "flows.example.org", "flows"][..],
            ),
            (
                "*.Example.org",
                &["a.example.org", "a.b.EXAMPLE.org:8443"],
                &["example.org", "aexample.org", ".example.org", "a.example"],
            ),
            (
                "flows.example:443",
                &["flows.example", "flows.example:443", "flows.example:"],
                &["flows.example:8443"],
            ),
            (
                "::1",
                &["[::1]", "[0::1]:8443"],
                &["[::2]", "[::1.0.0.0]", "localhost"],
            ),
            ("[::1]:8443", &["[::1]:8443"], &["[::1]"]),
            (
                "192.0.2.7",
                &["192.0.2.7:1", "[::ffff:192.0.2.7]"],
                &["192.0.2.8"],
            ),
            ("*", &["anything.example:1", "[::1]"], &[]),
            ("*:8443", &["anything.example:8443"], &["anything.example"]),
        ] {
            for host in inside {
                assert!(contains(&[entry], host), "{entry} {host}");
            }
            for host in outside {
                assert!(!contains(&[entry], host), "{entry} {host}");
            }
        }
        assert!(contains(&["a.example", "b.example"], "b.example"));
        assert!(!contains(&[], "a.example"));
    }

    #[test]
    fn a_certificates_wildcard_is_one_label() {
        let hosts = Hosts::named(["*.example.org", "one.example", "192.0.2.7"]);
        let contains = |host| hosts.contains(Host::parse(host, 443).unwrap());
        assert!(contains("a.example.org") && contains("one.example") && contains("192.0.2.7"));
        assert!(!contains("a.b.example.org") && !contains("example.org"));
        assert!(!contains("a.one.example"));
    }

    #[test]
    fn addresses_and_loopback_names_are_local() {
        let local = |host: &str| Host::parse(host, 443).is_some_and(Host::is_local);
        for host in [
            "localhost",
            "LOCALHOST.:1",
            "a.b.localhost",
            "10.0.0.7",
            "[fe80::1]:8443",
        ] {
            assert!(local(host), "{host}");
        }
        for host in [
            "localhost.example",
            "xlocalhost",
            "127.1",
            "0x7f.0.0.1",
            "127.0.0.01",
            "::1x",
            "[::1",
            "[x]",
        ] {
            assert!(!local(host), "{host}");
        }
    }

    #[test]
    fn an_invalid_host_is_refused() {
        for text in [
            "",
            ":8443",
            ".",
            "a:b",
            "a:99999",
            "[::1]x",
            "[::1]8443",
            "a:1:2",
        ] {
            assert_eq!(Host::parse(text, 443), None, "{text}");
        }
        for text in [
            "",
            "https://a.example",
            "a.example/",
            "a.example.",
            "a..example",
            "*.",
            "*a.example",
            "a.*.example",
            "a.example:0",
            "a.example:",
            "a b",
            "10.0.0",
            "1.2.3.4.5",
            "*.10",
            "[::1",
            "\u{e9}.example",
        ] {
            assert_eq!(pattern(text), None, "{text}");
        }
    }
}
