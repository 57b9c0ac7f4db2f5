//! `[comms]`: the channel that reports events to editors.
//!
//! Knows what an origin is and the bounds of the numbers; nothing of frames.

use super::Comms;
use super::error::SpannedError;
use super::raw;
use super::setting::{Source, number};
use hyper::Uri;
use hyper::http::uri::{Authority, Scheme};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The expected form of an origin, for errors.
pub(super) const ORIGIN: &str =
    "an origin: a scheme and a host, such as \"https://flows.example.org\", without a path";

/// The origin of a web page (RFC 6454), as browsers send it in `Origin`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// `https`, else `http`.
    secure: bool,
    host: String,
    port: u16,
}

impl Origin {
    /// Reads `scheme://host[:port]`; `None`: it is none, or one that is opaque (`null`).
    pub fn parse(text: &str) -> Option<Self> {
        let uri: Uri = text.parse().ok()?;
        let secure = match uri.scheme()? {
            scheme if *scheme == Scheme::HTTPS => true,
            scheme if *scheme == Scheme::HTTP => false,
            _ => return None,
        };
        let authority = uri.authority()?;
        let (host, port) = host_and_port(authority)?;
        let bare = text.len() == "http".len() + usize::from(secure) + 3 + authority.as_str().len();
        bare.then(|| Self {
            secure,
            host,
            port: port.unwrap_or(if secure { 443 } else { 80 }),
        })
    }

    /// Returns whether this is the server's own origin: the same host and port, whatever the
    /// scheme, because TLS may end before the gateway. A server that names no port has the default
    /// one.
    pub fn is_of(&self, server: &Authority) -> bool {
        let usual = if self.secure { 443 } else { 80 };
        host_and_port(server)
            .is_some_and(|(host, port)| host == self.host && port.unwrap_or(usual) == self.port)
    }
}

fn host_and_port(authority: &Authority) -> Option<(String, Option<u16>)> {
    let text = authority.as_str();
    let host = authority.host().to_ascii_lowercase();
    let rest = text.get(host.len()..)?;
    let port = match rest.strip_prefix(':') {
        None if rest.is_empty() => None,
        Some(port) if port.bytes().all(|b| b.is_ascii_digit()) => Some(port.parse().ok()?),
        _ => return None,
    };
    (!host.is_empty()).then_some((host, port))
}

/// The whole table.
pub(super) fn comms(raw: raw::Comms, source: &Source<'_>) -> Result<Comms, SpannedError> {
    Ok(Comms {
        origins: source
            .list(raw.origins, ORIGIN, Origin::parse)?
            .unwrap_or_default(),
        sign_in: source.duration(raw.sign_in, 5 * SECOND, MS..=HOUR)?,
        waiting: number(raw.waiting, 1000, 1..=1_000_000)?,
        waiting_per_address: number(raw.waiting_per_address, 50, 1..=1_000_000)?,
        heartbeat: source.duration(raw.heartbeat, 15 * SECOND, 10 * MS..=HOUR)?,
        frame: source.size(raw.frame, 64 << 10, KIB..=16 * MIB)?,
        frames: number(raw.frames, 100, 1..=1_000_000)?,
        queue: source.size(raw.queue, 4 << 20, 64 * KIB..=GIB)?,
        backlog: source.size(raw.backlog, 16 << 20, 64 * KIB..=GIB)?,
        upstream_frame: source.size(raw.upstream_frame, 16 << 20, 64 * KIB..=GIB)?,
        upstream_away: source.duration(raw.upstream_away, 5 * SECOND, MS..=HOUR)?,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn is_of(origin: &str, server: &str) -> bool {
        Origin::parse(origin).is_some_and(|origin| origin.is_of(&server.parse().unwrap()))
    }

    #[test]
    fn an_origin_matches_its_server_despite_scheme_case_and_default_port() {
        for (origin, server) in [
            ("https://a.example", "a.example"),
            ("https://a.example:443", "a.example"),
            ("https://a.example", "a.example:443"),
            ("http://a.example", "a.example"),
            ("http://a.example", "a.example:80"),
            ("HTTPS://A.Example:8443", "a.EXAMPLE:8443"),
            ("https://[::1]:8443", "[::1]:8443"),
            ("http://127.0.0.1:1880", "127.0.0.1:1880"),
        ] {
            assert!(is_of(origin, server), "{origin} {server}");
        }
    }

    #[test]
    fn a_foreign_origin_does_not_match_the_server() {
        for (origin, server) in [
            ("https://b.example", "a.example"),
            ("https://a.example.b.example", "a.example"),
            ("https://a.example:8443", "a.example"),
            ("https://a.example", "a.example:8443"),
            ("http://a.example", "a.example:443"),
            ("null", "null"),
            ("file://", "a.example"),
            ("https://u@a.example", "a.example"),
            ("https://a.example/", "a.example"),
            ("https://a.example?x", "a.example"),
            ("a.example", "a.example"),
            ("", "a.example"),
        ] {
            assert!(!is_of(origin, server), "{origin} {server}");
        }
    }
}
