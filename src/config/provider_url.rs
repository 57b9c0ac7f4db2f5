//! URLs of identity providers: `https`, or `http` on this machine.

use hyper::Uri;
use std::fmt;
use std::net::IpAddr;

/// The expected form, for errors.
pub(super) const EXPECTED: &str = "an https URL without a user and a fragment; http only for localhost and loopback addresses, such as \"http://127.0.0.1:9000\"";

/// Where an identity provider is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderUrl(Uri);

impl ProviderUrl {
    /// Reads a URL, of the configuration or of a provider's own metadata: both must be safe to send
    /// secrets to.
    pub fn parse(text: &str) -> Option<Self> {
        let uri: Uri = text.parse().ok()?;
        let authority = uri.authority()?.as_str();
        let is_plain = !text.contains('#') && !authority.contains('@');
        let is_safe = match uri.scheme_str()? {
            "https" => true,
            "http" => is_loopback(uri.host()?),
            _ => false,
        };
        (is_plain && is_safe).then_some(Self(uri))
    }

    /// Returns whether it has no TLS, so that it is on this machine.
    pub fn is_loopback(&self) -> bool {
        self.0.scheme_str() == Some("http")
    }

    /// As HTTP has it.
    pub fn uri(&self) -> &Uri {
        &self.0
    }
}

impl fmt::Display for ProviderUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

pub(super) fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let address = address.parse::<IpAddr>();
    address.map_or(host == "localhost", |address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_and_loopback_addresses_are_safe() {
        for text in [
            "https://id.example.org",
            "https://id.example.org/realms/a?b=c",
            "http://127.0.0.1:9000/jwks",
            "http://[::1]:9000",
            "http://localhost/keys",
        ] {
            assert!(ProviderUrl::parse(text).is_some(), "{text}");
        }
        for text in [
            "",
            "/jwks",
            "http://id.example.org",
            "http://127.0.0.1.example.org",
            "http://localhost.example.org",
            "http://169.254.169.254/latest",
            "https://user@id.example.org",
            "https://id.example.org/#a",
            "ftp://id.example.org",
            "file:///etc/passwd",
        ] {
            assert!(ProviderUrl::parse(text).is_none(), "{text}");
        }
    }
}
