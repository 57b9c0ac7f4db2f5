//! The host that a request is for: which one is named, and that it is one (RFC 9110 §7.2, RFC 9112
//! §3.2).

use hyper::Version;
use hyper::header::{HOST, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;

/// Returns whether the request is for one host: in `Host` (RFC 9112 §3.2), in the target, or the
/// same in both (RFC 9113 §8.3.1).
pub(super) fn is_one(head: &Parts) -> bool {
    let mut hosts = head.headers.get_all(HOST).iter();
    let authority = head.uri.authority().map(Authority::as_str);
    match (hosts.next(), hosts.next(), authority) {
        (Some(host), None, None) => is_host(host),
        (Some(host), None, Some(authority)) => {
            is_host(host) && host.as_bytes().eq_ignore_ascii_case(authority.as_bytes())
        }
        (None, _, Some(authority)) => head.version == Version::HTTP_2 && !authority.contains('@'),
        (None, _, None) => head.version == Version::HTTP_10,
        (Some(_), Some(_), _) => false,
    }
}

/// The host and port of a request as they are written. The authority in the target wins; with
/// HTTP/2 it is the only one. Empty if `Host` is not text.
pub(super) fn authority(head: &Parts) -> Option<&str> {
    match head.uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => head
            .headers
            .get(HOST)
            .map(|host| host.to_str().unwrap_or_default()),
    }
}

/// The host of a request, without its port.
pub(super) fn named(head: &Parts) -> Option<&str> {
    let authority = authority(head)?;
    let name = match authority.find(']') {
        Some(end) => authority.get(..=end)?,
        None => authority.split(':').next()?,
    };
    // A name may end in a dot: that of the root (RFC 3986 §3.2.2).
    Some(name.strip_suffix('.').unwrap_or(name))
}

/// Returns whether this is a host and perhaps a port (RFC 9110 §7.2). No host is empty (RFC 9110
/// §4.2.1).
pub(super) fn is_host(value: &HeaderValue) -> bool {
    Authority::try_from(value.as_bytes()).is_ok_and(|host| !host.as_str().contains('@'))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use hyper::Request;

    fn of(target: &str, host: &str) -> Option<String> {
        let request = Request::get(target).header(HOST, host).body(()).unwrap();
        named(&request.into_parts().0).map(str::to_owned)
    }

    #[test]
    fn a_host_excludes_the_port_and_the_trailing_dot() {
        for (host, name) in [
            ("flows.example.org", "flows.example.org"),
            ("flows.example.org.:8443", "flows.example.org"),
            ("127.0.0.1:8443", "127.0.0.1"),
            ("[::1]:8443", "[::1]"),
            ("[::1]", "[::1]"),
            ("", ""),
        ] {
            assert_eq!(of("/", host).as_deref(), Some(name), "{host}");
        }
    }

    #[test]
    fn the_host_of_the_target_wins() {
        let found = of("http://a.example.org:80/x", "b.example.org");
        assert_eq!(found.as_deref(), Some("a.example.org"));
    }
}
